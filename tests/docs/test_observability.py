"""docs/observability.md has every metric, label value and log field, and no other."""

import io
import json
import re

import pytest
from reasoning_replay.adapters.telemetry.log import Log
from reasoning_replay.adapters.telemetry.metrics import Metrics
from reasoning_replay.core.dialects.cache_diagnoses import CacheDiagnosis
from reasoning_replay.core.dialects.captures import Origin
from reasoning_replay.core.dialects.registry import DIALECTS, HANDLED_ROUTES, KNOWN
from reasoning_replay.core.dialects.responses.capture import ResponsesCapture
from reasoning_replay.core.dialects.responses.heal.repair import Repair
from reasoning_replay.core.dialects.states import ExchangeOutcome, Route
from reasoning_replay.core.dialects.usages import Usage
from reasoning_replay.core.history.plan import ItemForm, Outcome
from reasoning_replay.core.history.turns import Context
from reasoning_replay.web.exchange import Exchange, Times
from reasoning_replay.web.exchange_facts import FACTS, Reader
from reasoning_replay.web.exchange_log import ExchangeLog

from tests.begun_metrics import every_metric
from tests.docs.page_tables import first_names, names_in, rows_of, section_of
from tests.monitoring.promql import selectors_of
from tests.web.reports import describe

PAGE = "observability.md"
# Labels with values that the page does not list one by one.
OPEN = {"status", "version", "reason", "context", "diagnosis", "dialect"}
# Metrics with label values that the rows of other metrics list.
AS_OTHERS = {"exchange_seconds", "store_seconds"}


def metric_rows() -> dict[str, list[str]]:
    """Return the row of each metric by its name."""
    tables = ("Exchanges and time", "Connections and process", "Requests and reasoning")
    rows = [row for name in (*tables, "Capture and store") for row in rows_of(PAGE, f"### {name}")]
    return {name: row for row in rows for name in names_in(row[0])}


def test_every_metric_is_in_a_table() -> None:
    """Each metric has a row with its labels and their values, and each row has a metric."""
    labels: dict[str, set[str]] = {}
    words: dict[str, set[str]] = {}
    for metric, samples in every_metric():
        name = metric.removeprefix("reasoning_replay_")
        labels[name] = {label for one in samples for label in one}
        words[name] = {value for one in samples for key, value in one.items() if key not in OPEN}
    rows = metric_rows()
    routes = names_in(section_of(PAGE, "### Routes and outcomes"))

    assert rows.keys() == labels.keys()
    for name, (_, told, meaning) in rows.items():
        assert set(names_in(told)) == labels[name], name
        if name == "exchanges_total":
            assert words[name] <= set(routes)
        elif name not in AS_OTHERS:
            assert words[name] <= set(names_in(meaning)), name


def test_every_route_and_outcome_of_an_exchange_has_a_row() -> None:
    """The tables have the values of both enums, and no other; some routes are on another page."""
    named = first_names(PAGE, "### Routes and outcomes")
    passed = first_names("clients.md", "### Well-known paths")

    assert len(named) == len(set(named))
    assert len(passed) == len(set(passed))
    assert set(named) - {"upstream_timeout"} - set(passed) == HANDLED_ROUTES | {*ExchangeOutcome}
    assert set(passed) == {*KNOWN.values(), Route.OTHER}


def test_the_label_dialect_is_explained_with_its_values() -> None:
    """The section that has the metrics with this label names each dialect."""
    words = section_of(PAGE, "### Requests and reasoning").partition("\n|")[0]
    assert {"dialect", *(entry.name for entry in DIALECTS)} <= set(names_in(words))


@pytest.mark.parametrize("word", [*Outcome, *Repair])
def test_every_outcome_and_repair_is_named(word: str) -> None:
    """The page has each outcome of a reasoning item, and each repair."""
    assert f"`{word}`" in section_of(PAGE)


def test_every_field_of_an_exchange_is_in_the_table() -> None:
    """The table has each field that the log line of an exchange can have, and no other."""
    stream = io.StringIO()
    exchange = Exchange(
        Route.RESPONSES, Times(0.0), tenant=b"s" * 16, conversation=b"c" * 16, method="POST"
    )
    exchange.response.capture = ResponsesCapture(Origin(Context(), "gpt-5.4"), 1 << 20)
    exchange.response.capture.cache_diagnosis = CacheDiagnosis("miss", "other", 1)
    exchange.response.capture.usage = Usage(1, 1, 1, 1, 1, 1)
    exchange.request.outcomes = dict.fromkeys(Outcome, 1)
    exchange.request.forms = dict.fromkeys(ItemForm, 1)
    exchange.request.repairs = dict.fromkeys(Repair, 1)
    for name in ("asked", "way", "captured", "healed", "model", "upstream_request_id", "trace_id"):
        describe(exchange, **{name: "x"})
    exchange.error = exchange.error_detail = exchange.client = exchange.wrong_path = "x"
    exchange.upstream = "x"
    exchange.request.hint = exchange.request.unhealed = "x"
    for name in ("status", "injected_bytes", "captured_bytes"):
        describe(exchange, **{name: 1})
    recorder = ExchangeLog(Metrics(), Log("info", "json", stream))
    for route in (Route.RESPONSES, Route.OTHER):
        exchange.route = route
        recorder.settle(exchange)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    rows = [row for row in rows_of(PAGE, "## The log") if row[0] not in ("`error`", "`warning`")]
    named = [name for row in rows for name in names_in(row[0])]

    assert len(named) == len(set(named))
    facts = {fact.name for fact in FACTS if Reader.LOG in fact.readers and not fact.is_mapping}
    assert set(named) - {"info"} == lines[0].keys() | lines[1].keys() | facts


@pytest.mark.parametrize("page", ["observability.md", "alerts.md", "troubleshooting.md"])
def test_every_series_in_the_text_exists(page: str) -> None:
    """Each metric in the text or a query of these pages is in `/metrics`."""
    text = section_of(page)
    known = {f"reasoning_replay_{name}" for name in metric_rows()}
    queries = re.findall(r"```promql\n(.+?)```", text, re.DOTALL)
    named = {one.name for query in queries for one in selectors_of(query)}

    assert named <= known
    assert set(re.findall(r"reasoning_replay_[a-z_]+[a-z]", text)) <= known
