"""The README names what there is."""

import io
import json
import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from pydantic import SecretStr
from reasoning_replay.adapters.telemetry.log import Log
from reasoning_replay.adapters.telemetry.metrics import Metrics
from reasoning_replay.core.dialects.base import Origin, Usage
from reasoning_replay.core.dialects.responses.capture import ResponsesCapture
from reasoning_replay.core.dialects.responses.heal.diagnosis import RefusalKind
from reasoning_replay.core.dialects.responses.heal.repair import Repair
from reasoning_replay.core.dialects.responses.profiles import PROFILES, Profile
from reasoning_replay.core.dialects.states import Route
from reasoning_replay.core.history.plan import Outcome
from reasoning_replay.core.history.turns import Context
from reasoning_replay.settings.loader import default_of, env_of
from reasoning_replay.settings.model import Settings
from reasoning_replay.web.exchange import Exchange, Times
from reasoning_replay.web.exchange_log import ExchangeRecorder

from tests.web.reports import describe

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


@pytest.mark.parametrize("name", Settings.model_fields)
def test_every_setting_is_in_the_table(name: str) -> None:
    """With its variable and its default."""
    (row,) = [line for line in README.splitlines() if line.startswith(f"| `{name}` |")]
    default = Settings.model_fields[name].default
    shown = f"`{default:g}`" if isinstance(default, float) else f"`{default_of(name)}`"

    assert f"`{env_of(name)}`" in row
    is_empty = default == "" or isinstance(default, SecretStr)
    assert ("| empty |" if is_empty else shown) in row


def table(heading: str) -> dict[str, str]:
    """Return a section's table: each name in the first column -> what its row says."""
    section = README.split(f"\n### {heading}\n")[1].split("\n### ")[0]
    rows = [line.split("|", 2) for line in section.splitlines() if line.startswith("| `")]
    return {name: row for _, names, row in rows for name in re.findall(r"`(\w+)`", names)}


def test_every_metric_is_in_the_table() -> None:
    """With its labels and their words; and the table has none that is not there."""
    metrics = Metrics()
    metrics.exchange_seconds.labels("responses")  # what has buckets is not all there yet
    metrics.store_seconds.labels("recall")
    text = metrics.exposition().decode()
    told: dict[str, set[str]] = {}
    words: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(text):
        if family.name.endswith("_created"):  # when a series began; each counter has one
            continue
        ends = {"counter": "_total", "info": "_info"}
        name = family.name.removeprefix("reasoning_replay_") + ends.get(family.type, "")
        labels = [sample.labels for sample in family.samples]
        told[name] = {label for one in labels for label in one} - {"le"}
        few = {"status", "le", "version", "reason", "context", "diagnosis"}
        words[name] = {value for one in labels for key, value in one.items() if key not in few}
    rows = table("Metrics")

    assert rows.keys() == told.keys()
    for name, row in rows.items():
        labels_told, _, meaning = row.partition("|")
        assert set(re.findall(r"`(\w+)`", labels_told)) == told[name], name
        if name not in ("exchange_seconds", "store_seconds"):  # as others above them
            assert words[name] <= set(re.findall(r"`(\w+)`", meaning)), name


def test_every_field_of_an_exchange_is_in_the_table() -> None:
    """Each that can be there, and no other."""
    stream = io.StringIO()
    exchange = Exchange(
        Route.RESPONSES, Times(0.0), scope=b"s" * 16, conversation=b"c" * 16, method="POST"
    )
    exchange.answer.capture = ResponsesCapture(Origin(Context(), "gpt-5.4"), 1 << 20)
    exchange.answer.capture.usage = Usage(1, 1, 1, 1)
    exchange.request.outcomes = dict.fromkeys(Outcome, 1)
    exchange.request.repairs = dict.fromkeys(Repair, 1)
    for name in ("asked", "captured", "healed", "model", "upstream_request_id", "trace_id"):
        describe(exchange, **{name: "x"})
    for name in ("status", "injected_bytes", "captured_bytes"):
        describe(exchange, **{name: 1})
    account = ExchangeRecorder(Metrics(), Log("info", "json", stream), lambda: 1.0)
    for route in (Route.RESPONSES, Route.OTHER):
        exchange.route = route
        account.settle(exchange)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]

    assert table("The log").keys() == lines[0].keys() | lines[1].keys()


@pytest.mark.parametrize("outcome", Outcome)
def test_every_outcome_is_named(outcome: Outcome) -> None:
    """Operators find each word of the metrics explained."""
    assert f"`{outcome.value}`" in README


@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
def test_every_profile_is_in_the_table(profile: Profile) -> None:
    """With how its ids travel, and what it is known by."""
    (row,) = [line for line in README.splitlines() if line.startswith(f"| `{profile.name}` |")]
    _, _, hosts, ids, besides, source, _ = (cell.strip() for cell in row.split("|"))

    assert ids == profile.ids
    assert bool(hosts) == bool(profile.hosts or profile.name == "generic")
    assert ("keeps nothing" in besides) is not profile.keeps_items
    assert source


@pytest.mark.parametrize(
    "word", [*Repair, *(fault for fault in RefusalKind if fault is not RefusalKind.OTHER)]
)
def test_every_cure_and_repair_is_named(word: Repair | RefusalKind) -> None:
    """What the header says is explained."""
    assert f"`{word.value}`" in README or f"`healed={word.value}`" in README


def test_every_package_is_in_the_tree() -> None:
    """And the tree has no folder of the package that is not there."""
    tree = README.split("\nproxy/reasoning_replay/\n")[1].split("\nconfig/")[0]
    shown: list[tuple[int, str]] = []
    paths: set[str] = set()
    for line in tree.splitlines():
        if folder := re.match(r"( +)(\w+)/", line):
            depth = len(folder[1])
            shown = [*(one for one in shown if one[0] < depth), (depth, folder[2])]
            paths.add("/".join(name for _, name in shown))
    package = ROOT / "proxy/reasoning_replay"
    there = {str(file.parent.relative_to(package)) for file in package.rglob("*.py")}

    inner = {"core/dialects/responses/heal", "adapters/stores/redis", "web/admin/inspector"}
    assert paths == there - inner - {"."}
