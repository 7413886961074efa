"""Every outcome exists from the start, and no label grows without end."""

import errno
import io
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from prometheus_client import values
from prometheus_client.parser import text_string_to_metric_families
from reasoning_replay.adapters.telemetry.labels import (
    ASKED,
    CACHE_RESULTS,
    CAPTURED,
    PHASES,
    TOKENS,
)
from reasoning_replay.adapters.telemetry.log import Log
from reasoning_replay.adapters.telemetry.metrics import Metrics, WorkerMetrics, share_metrics
from reasoning_replay.core.dialects.responses.events import CONTEXTS, REMOVALS
from reasoning_replay.core.dialects.responses.heal.diagnosis import RefusalKind
from reasoning_replay.core.dialects.responses.heal.repair import Repair
from reasoning_replay.core.history.plan import Outcome

Labels = frozenset[tuple[str, str]]


def samples(metrics: Metrics | WorkerMetrics) -> dict[str, dict[Labels, float]]:
    """Return what Prometheus would read: name -> labels -> value."""
    found: dict[str, dict[Labels, float]] = {}
    for family in text_string_to_metric_families(metrics.exposition().decode()):
        for sample in family.samples:
            labels = frozenset(sample.labels.items())
            found.setdefault(sample.name, {})[labels] = sample.value
    return found


@pytest.mark.parametrize(
    ("name", "label", "values"),
    [
        ("items", "outcome", [outcome.value for outcome in Outcome]),
        ("requests", "result", ASKED),
        ("captures", "result", CAPTURED),
        ("repairs", "repair", [repair.value for repair in Repair]),
        ("removed_items", "reason", REMOVALS),
        ("reasoning_contexts", "context", CONTEXTS),
        ("cache_lookups", "result", CACHE_RESULTS),
        ("tokens", "kind", TOKENS),
    ],
)
def test_every_outcome_exists_from_the_start(name: str, label: str, values: Sequence[str]) -> None:
    """At 0: a rate over a series that appears with its first event misses that event."""
    found = samples(Metrics())[f"reasoning_replay_{name}_total"]
    assert found == {frozenset({(label, value)}): 0.0 for value in values}


def test_heals_exist_from_the_start() -> None:
    """Each diagnosis with each result."""
    found = samples(Metrics())["reasoning_replay_heals_total"]
    assert found == {
        frozenset({("diagnosis", diagnosis), ("result", result)}): 0.0
        for diagnosis in set(RefusalKind) - {RefusalKind.OTHER}
        for result in ("cured", "refused")
    }


def test_store_operations_exist_from_the_start() -> None:
    """The first failure is the one that an alert waits for."""
    found = samples(Metrics()).get("reasoning_replay_store_operations_total", {})
    assert found.items() >= {
        (frozenset({("operation", operation), ("outcome", outcome)}), 0.0)
        for operation in ("recall", "save")
        for outcome in ("ok", "error", "timeout", "skipped")
    }


def test_exchanges_exist_from_the_start() -> None:
    """By route and by how they ended, each with the status that it has as a rule."""
    found = samples(Metrics()).get("reasoning_replay_exchanges_total", {})
    assert found.items() >= {
        (frozenset({("route", route), ("status", status), ("outcome", outcome)}), 0.0)
        for route in ("responses", "compact", "input_tokens", "retrieve", "create", "other")
        for outcome, status in (
            ("ok", "200"),
            ("refused", "400"),
            ("upstream_error", "500"),
            ("cut_off", "200"),
            ("client_gone", "none"),
        )
    }


def test_a_store_is_up_until_it_fails() -> None:
    """An alert on 0 does not fire at the start."""
    found = samples(Metrics())
    assert found["reasoning_replay_store_up"] == {frozenset(): 1.0}
    assert found["reasoning_replay_in_flight"] == {frozenset(): 0.0}


def test_breakers_are_closed_until_a_store_fails() -> None:
    """Each state of each is there, so that a graph has a line for it."""
    assert samples(Metrics())["reasoning_replay_store_breakers"] == {
        frozenset({("operation", operation), ("state", state)}): float(state == "closed")
        for operation in ("recall", "save")
        for state in ("closed", "half_open", "open")
    }


def test_overhead_exists_from_the_start() -> None:
    """Each phase, whether an exchange has come to it or not."""
    found = samples(Metrics())
    phases = {frozenset({("phase", phase)}): 0.0 for phase in PHASES}
    assert found["reasoning_replay_overhead_seconds_count"] == phases


def test_the_version_is_told() -> None:
    """So that a graph shows when it changed."""
    (labels,) = samples(Metrics())["reasoning_replay_build_info"]
    assert [name for name, _ in labels] == ["version"]


def test_each_process_part_has_a_registry_of_its_own() -> None:
    """Two proxies in one process do not add up."""
    one, other = Metrics(), Metrics()
    one.captured_items.inc()
    assert samples(one)["reasoning_replay_captured_items_total"] == {frozenset(): 1.0}
    assert samples(other)["reasoning_replay_captured_items_total"] == {frozenset(): 0.0}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A folder to count in; afterwards this process counts for itself again."""
    monkeypatch.setattr(values, "ValueClass", values.ValueClass)
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", "")
    yield str(tmp_path)
    values.close_all_multiprocess_files()  # type: ignore[no-untyped-call]


def shared_by(folder: str, number: int) -> Metrics:
    """Return what a process of this number counts."""
    share_metrics(folder, number)
    return Metrics()


def test_several_processes_have_one_exposition(folder: str) -> None:
    """Counts are added up, what is under way too, and the store is up where all say so."""
    share_metrics(folder, 0)
    together = WorkerMetrics(folder)
    together.serving.set(2)
    for number, count in ((1, 2), (2, 5)):
        one = shared_by(folder, number)
        one.exchanges.labels("responses", "200", "ok").inc(count)
        one.overhead_seconds.labels("before").observe(0.002)
        one.in_flight.set(count)
        one.store_up.set(number - 1)
        if number == 1:
            one.store_breakers.labels("recall", "closed").set(0)
            one.store_breakers.labels("recall", "open").set(1)
    found = samples(together)
    ok = frozenset({("route", "responses"), ("status", "200"), ("outcome", "ok")})
    before = frozenset({("phase", "before")})
    assert found["reasoning_replay_exchanges_total"][ok] == 7
    assert found["reasoning_replay_overhead_seconds_count"][before] == 2
    assert found["reasoning_replay_in_flight"] == {frozenset(): 7}
    assert found["reasoning_replay_store_up"] == {frozenset(): 0}
    recall = {("operation", "recall")}
    breakers = found["reasoning_replay_store_breakers"]
    assert breakers[frozenset(recall | {("state", "closed")})] == 1
    assert breakers[frozenset(recall | {("state", "open")})] == 1
    assert found["reasoning_replay_workers_serving"] == {frozenset(): 2}
    assert found["reasoning_replay_worker_restarts_total"] == {frozenset(): 0}
    assert len(found["reasoning_replay_build_info"]) == 1


def test_every_series_of_one_process_is_one_of_several(folder: str) -> None:
    """Dashboards need not know how many there are."""
    alone = samples(Metrics())
    shared_by(folder, 1)
    found = samples(WorkerMetrics(folder))
    missing = {
        name
        for name, series in alone.items()
        if not name.endswith("_created") and not series.keys() <= found.get(name, {}).keys()
    }
    assert missing == set()


def test_no_counter_goes_back_when_a_process_is_replaced(folder: str) -> None:
    """Its successor counts on; what it said of its present state is gone with it."""
    label = frozenset({("route", "responses"), ("status", "200"), ("outcome", "ok")})
    first = shared_by(folder, 1)
    first.exchanges.labels("responses", "200", "ok").inc(3)
    first.in_flight.set(3)
    together = WorkerMetrics(folder)
    together.forget_gauges(1)
    assert samples(together)["reasoning_replay_exchanges_total"][label] == 3
    assert samples(together).get("reasoning_replay_in_flight", {}) == {}
    second = shared_by(folder, 1)
    second.exchanges.labels("responses", "200", "ok").inc()
    found = samples(together)
    assert found["reasoning_replay_exchanges_total"][label] == 4
    assert found["reasoning_replay_in_flight"] == {frozenset(): 0}
    assert len(list(Path(folder).glob("counter_*.db"))) == 1


def test_a_folder_that_is_full_costs_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Told when it begins, however often it is tried, and again the next time."""
    metrics, written = Metrics(), io.StringIO()
    log = Log("info", "json", written)

    def fails() -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    for _ in range(2):
        with monkeypatch.context() as full:
            full.setattr(metrics.tally, "flush", fails)
            metrics.flush(log)
            metrics.flush(log)
        metrics.flush(log)
    assert written.getvalue().count('"metrics_failed"') == 2
