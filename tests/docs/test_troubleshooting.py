"""The reference of words lists every header word, error code and log event, and no other."""

import json
import re
from typing import get_args

import pytest
from reasoning_replay.adapters.telemetry.log import FIELD_NAMES
from reasoning_replay.core.dialects.path_faults import (
    PathFault,
    fault_in_refusal,
    lacking_apis,
    path_fault,
)
from reasoning_replay.core.dialects.responses.heal.diagnosis import RefusalKind, diagnose
from reasoning_replay.core.dialects.responses.heal.repair import Repair
from reasoning_replay.core.dialects.states import ErrorCause, RequestState, Route
from reasoning_replay.core.history.plan import ItemForm, Outcome
from reasoning_replay.settings.model import Settings
from reasoning_replay.web.errors import BUG, as_response
from reasoning_replay.web.exchange import Exchange, Times
from reasoning_replay.web.exchange_log import summary_header

from tests.docs.page_tables import first_names, names_in, rows_of, section_of
from tests.docs.public_names import REFUSALS
from tests.docs.source_words import error_codes, events

PAGE = "troubleshooting.md"
WORDS = "words.md"
PORTS = ("### On the clients' port", "### On the admin port")
LOG = "## Log events"
COLLECTORS = "### Field names for collectors"
# The sets of fields in ECS 8.11: each of these names is an object.
ECS_OBJECTS = frozenset(
    {
        *("agent", "client", "cloud", "container", "data_stream", "destination", "device", "dll"),
        *("dns", "ecs", "email", "error", "event", "faas", "file", "group", "host", "http", "log"),
        *("network", "observer", "orchestrator", "organization", "package", "process", "registry"),
        *("related", "rule", "server", "service", "source", "threat", "tls", "trace"),
        *("transaction", "url", "user", "user_agent", "vulnerability"),
    }
)
WRONG_PATH = "### Words of `wrong_path`"
REFUSED = "## The upstream refuses the request"


# --- the header ---


def test_every_header_word_is_in_the_table() -> None:
    """The table has the members that the header can have, and no other."""
    exchange = Exchange(Route.RESPONSES, Times(0.0))
    exchange.request.outcomes = dict.fromkeys(Outcome, 1)
    exchange.request.forms = dict.fromkeys(ItemForm, 1)
    exchange.request.repairs = dict.fromkeys(Repair, 1)
    exchange.request.healed = exchange.request.unhealed = RefusalKind.BLOB
    exchange.request.state = RequestState.BUSY
    exchange.wrong_path = PathFault.LACKS_V1
    summary = summary_header(exchange, is_shadow=True)
    error = as_response(BUG).headers["x-reasoning-replay"]
    members = {member.partition("=")[0] for member in [*summary.split(", "), error]}
    named = [row for row in rows_of(WORDS, "## Header words") if len(row) == 3]
    words = [name for row in named for name in names_in(row[0])]
    asked = first_names(WORDS, "### asked")

    assert sorted(set(words) - set(asked)) == sorted(members)
    assert {*Outcome} <= set(words)


def test_every_value_of_asked_is_in_the_table() -> None:
    """The table has every state of a request except `planned`."""
    assert sorted(first_names(WORDS, "### asked")) == sorted({*RequestState} - {"planned"})


def test_every_value_of_healed_is_explained() -> None:
    """Each reason of a refusal has one row, with its message or with its meaning."""
    messages = [name for row in rows_of(PAGE, REFUSED) for name in names_in(row[1])]
    others = first_names(WORDS, "### healed")

    assert sorted({*messages, *others}) == sorted(REFUSALS)
    assert len(messages) == len(set(messages))
    listed = section_of(WORDS, "### healed").partition("|")[0]
    assert set(names_in(listed)) == REFUSALS - set(others)


@pytest.mark.parametrize("row", rows_of(PAGE, REFUSED), ids=lambda row: str(row[1]))
def test_the_message_of_a_row_has_the_diagnosis_of_the_row(row: list[str]) -> None:
    """The page quotes messages of upstreams that the proxy recognises."""
    message = row[0].strip("`")
    body = json.dumps({"error": {"message": message}}).encode()

    assert [diagnose(400, body).kind] == names_in(row[1])


def test_every_mistake_in_a_base_url_is_explained() -> None:
    """The table has each word of `wrong_path`, and an example that shows this mistake."""
    rows = {
        row[0].strip("`"): row for row in rows_of(WORDS, WRONG_PATH) if row[0][1:-1] in [*PathFault]
    }

    assert sorted(rows) == sorted(PathFault)
    refused = rows.pop(PathFault.NEEDS_RESPONSES)[1].strip("`")
    assert fault_in_refusal(refused.encode()) is PathFault.NEEDS_RESPONSES
    lacks = rows.pop(PathFault.LACKS_API)[1].split("`")[1]
    lacking = lacking_apis("https://api.openai.com/v1")
    assert path_fault(lacks, "/v1", lacking) is PathFault.LACKS_API
    for word, row in rows.items():
        example = row[1].split("`")[1]
        assert path_fault(example, "" if "no path" in row[1] else "/v1") == word


def test_every_cause_of_an_error_is_explained() -> None:
    """The field `error` of the log has these values and no others."""
    assert sorted(first_names(WORDS, "### Causes")) == sorted(ErrorCause)


# --- error codes ---


def test_every_error_code_is_in_a_table() -> None:
    """The page has each error code in the source, and no other."""
    told = [name for port in PORTS for name in first_names(WORDS, port)]
    assert len(error_codes()) > len(told)  # some codes occur twice
    assert sorted(told) == sorted({one.code for one in error_codes()})


def test_every_error_code_has_its_status() -> None:
    """The status of a row is that of the response, if the source fixes it."""
    told = {row[0].strip("`"): int(row[1]) for port in PORTS for row in rows_of(WORDS, port)}
    for code, status in error_codes():
        assert status in (told[code], None), code


# --- log events ---


def event_rows() -> dict[str, list[str]]:
    """Return the row of each log event by its name."""
    others = rows_of(WORDS, COLLECTORS)
    rows = [row for row in rows_of(WORDS, LOG) if row not in others]
    assert len(rows) == len({row[0] for row in rows})
    return {row[0].strip("`"): row for row in rows}


def test_every_log_event_is_in_a_table() -> None:
    """The page has each event that the source logs, and no other."""
    assert event_rows().keys() == {one.name for one in events()}


def test_every_log_event_has_its_levels_and_fields() -> None:
    """A row names the levels of the event and, except for `exchange`, all of its fields."""
    for name, row in event_rows().items():
        places = [one for one in events() if one.name == name]
        levels = {level for one in places for level in one.levels}
        fields = {field for one in places for field in one.fields}
        assert set(row[1].split(", ")) == levels, name
        told = set(names_in(row[2]))
        if name == "started":  # these fields are not in the call
            fields |= {"version", "listen", "upstream", "profile", "store", "mode"}
        assert fields <= told, name


def test_every_name_of_a_collector_is_in_the_table() -> None:
    """The table has each renamed field, under the names that each collector expects."""
    rows = rows_of(WORDS, COLLECTORS)
    told = {
        naming: {row[0].strip("`"): row[at].split("`")[1] for row in rows}
        for at, naming in enumerate(("gcp", "ecs"), 1)
    }
    renamed = {"gcp": FIELD_NAMES["gcp"], "ecs": FIELD_NAMES["ecs"]}

    assert set(FIELD_NAMES) == {"default", *told}
    assert set(FIELD_NAMES) == set(get_args(Settings.model_fields["log_fields"].annotation))
    for naming, names in told.items():
        assert {key: name for key, name in names.items() if key != name} == renamed[naming]


def test_no_text_has_the_name_of_an_object() -> None:
    """Elasticsearch rejects a line that has text where ECS has an object."""
    page = [name for row in rows_of("observability.md", "## The log") for name in names_in(row[0])]
    fields = {field for one in events() for field in one.fields} | {"upstream", "admin", *page}
    names = {FIELD_NAMES["ecs"].get(field, field) for field in fields}

    assert names & ECS_OBJECTS == set()
    assert fields & ECS_OBJECTS == {"client", "error", "event"}


# --- all pages ---


@pytest.mark.parametrize("page", [PAGE, WORDS])
def test_every_row_has_a_cause_and_an_action(page: str) -> None:
    """No cell of the tables is empty."""
    assert [row for row in rows_of(page) if not all(row)] == []


@pytest.mark.parametrize("page", [PAGE, WORDS, "alerts.md"])
def test_every_setting_in_the_text_exists(page: str) -> None:
    """A word that ends in a unit, like a setting, is the name of a setting, a field or a code."""
    units = re.compile(r"\w+_(?:s|ms|bytes|turns|exchanges|connections|file|url)")
    text = section_of(page)
    words = {word for word in names_in(text) if units.fullmatch(word)}
    known = set(Settings.model_fields)
    logged = {"total_ms", "before_ms", "between_ms", "after_ms", "first_byte_ms", "received_bytes"}
    counted = {
        "cert_file",
        *first_names(WORDS),
        *(f for e in events() for f in e.fields),
    }

    assert words - known - logged - counted == set()
