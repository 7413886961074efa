"""Every series exists from the start, and no label has an unlimited number of values."""

import resource
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families
from reasoning_replay.adapters.telemetry.metrics import (
    CACHE_RESULTS,
    PHASES,
    TOKENS,
    Metrics,
    process_exposition,
    status_label,
    usual_status,
)
from reasoning_replay.core.dialects.registry import DIALECTS
from reasoning_replay.core.dialects.responses.events import CONTEXTS, REMOVALS
from reasoning_replay.core.dialects.states import CaptureState, ExchangeOutcome, RequestState, Route
from reasoning_replay.core.history.plan import Outcome

Labels = frozenset[tuple[str, str]]


def samples(metrics: Metrics) -> dict[str, dict[Labels, float]]:
    """Return the samples that Prometheus would read: name -> labels -> value."""
    found: dict[str, dict[Labels, float]] = {}
    for family in text_string_to_metric_families(metrics.exposition().decode()):
        for sample in family.samples:
            labels = frozenset(sample.labels.items())
            found.setdefault(sample.name, {})[labels] = sample.value
    return found


@pytest.mark.parametrize(
    ("name", "label", "values"),
    [
        ("removed_items", "reason", REMOVALS),
        ("reasoning_contexts", "context", CONTEXTS),
        ("cache_lookups", "result", CACHE_RESULTS),
    ],
)
def test_every_outcome_exists_from_the_start(name: str, label: str, values: Sequence[str]) -> None:
    """Every counter starts at 0: `rate` misses the event with which a series first appears."""
    found = samples(Metrics())[f"reasoning_replay_{name}_total"]
    assert found == {frozenset({(label, value)}): 0.0 for value in values}


@pytest.mark.parametrize(
    ("name", "label", "values"),
    [
        ("items", "outcome", [outcome.value for outcome in Outcome]),
        ("requests", "result", list(RequestState)),
        ("captures", "result", list(CaptureState)),
        ("tokens", "kind", TOKENS),
    ],
)
def test_every_outcome_of_each_dialect_exists(name: str, label: str, values: Sequence[str]) -> None:
    """A dialect has the same series as every other."""
    found = samples(Metrics())[f"reasoning_replay_{name}_total"]
    assert found == {
        frozenset({("dialect", dialect), (label, value)}): 0.0
        for dialect in ("responses", "chat", "messages")
        for value in values
    }


@pytest.mark.parametrize("name", ["captured_items", "captured_bytes", "injected_bytes"])
def test_every_sum_of_each_dialect_exists(name: str) -> None:
    """Each dialect has its own sum."""
    found = samples(Metrics())[f"reasoning_replay_{name}_total"]
    assert found == {
        frozenset({("dialect", one)}): 0.0 for one in ("responses", "chat", "messages")
    }


def test_repairs_exist_from_the_start() -> None:
    """A dialect has series for its own repairs only."""
    found = samples(Metrics()).get("reasoning_replay_repairs_total", {})
    assert found == {
        frozenset({("dialect", entry.name), ("repair", repair)}): 0.0
        for entry in DIALECTS
        for repair in entry.repairs
    }


def test_heals_exist_from_the_start() -> None:
    """Each diagnosis of a dialect exists with each result."""
    found = samples(Metrics())["reasoning_replay_heals_total"]
    assert found == {
        frozenset({("dialect", entry.name), ("diagnosis", diagnosis), ("result", result)}): 0.0
        for entry in DIALECTS
        for diagnosis in entry.refusals
        for result in ("cured", "refused")
    }
    assert not any(dict(labels)["diagnosis"] == "other" for labels in found)


def test_store_operations_exist_from_the_start() -> None:
    """An alert needs the first failure, so its series exists before it."""
    found = samples(Metrics()).get("reasoning_replay_store_operations_total", {})
    assert found.items() >= {
        (frozenset({("operation", operation), ("outcome", outcome)}), 0.0)
        for operation in ("recall", "save")
        for outcome in ("ok", "error", "timeout", "skipped")
    }


def test_exchanges_exist_from_the_start() -> None:
    """Each route and outcome exists with its usual status."""
    found = samples(Metrics()).get("reasoning_replay_exchanges_total", {})
    assert found.items() >= {
        (frozenset({("route", route), ("status", status), ("outcome", outcome)}), 0.0)
        for route in ("responses", "chat", "compact", "input_tokens", "retrieve", "create", "other")
        for outcome, status in (
            ("ok", "200"),
            ("refused", "400"),
            ("upstream_error", "500"),
            ("cut_off", "200"),
            ("client_gone", "none"),
        )
    }


def test_a_store_is_up_until_it_fails() -> None:
    """The gauge starts at 1, so that an alert on 0 does not fire at the start."""
    found = samples(Metrics())
    assert found["reasoning_replay_store_up"] == {frozenset(): 1.0}
    assert found["reasoning_replay_in_flight"] == {frozenset(): 0.0}


def test_breakers_are_closed_until_a_store_fails() -> None:
    """Each state of each breaker exists, so that a graph has a line for it."""
    assert samples(Metrics())["reasoning_replay_store_breakers"] == {
        frozenset({("operation", operation), ("state", state)}): float(state == "closed")
        for operation in ("recall", "save")
        for state in ("closed", "half_open", "open")
    }


def test_overhead_exists_from_the_start() -> None:
    """Each phase exists before any exchange has reached it."""
    found = samples(Metrics())
    phases = {frozenset({("phase", phase)}): 0.0 for phase in PHASES}
    assert found["reasoning_replay_overhead_seconds_count"] == phases


def test_the_version_is_a_label() -> None:
    """A graph of the version shows when it changed."""
    (labels,) = samples(Metrics())["reasoning_replay_build_info"]
    assert [name for name, _ in labels] == ["version"]


def test_each_instance_has_its_own_registry() -> None:
    """Two proxies in one process count separately."""
    one, other = Metrics(), Metrics()
    one.in_flight.inc()
    assert samples(one)["reasoning_replay_in_flight"] == {frozenset(): 1.0}
    assert samples(other)["reasoning_replay_in_flight"] == {frozenset(): 0.0}


def test_no_series_tells_when_another_began() -> None:
    """Counters and histograms have no `_created` series: Prometheus would store each of them."""
    metrics = Metrics()
    metrics.observe(metrics.store_seconds, 0.1, "recall")
    assert {name for name in samples(metrics) if name.endswith("_created")} == set()


@pytest.mark.skipif(sys.platform != "linux", reason="read from /proc")
def test_the_process_is_measured() -> None:
    """The `process_*` metrics of every Prometheus client are there, and are those of now."""
    files = len(list(Path("/proc/self/fd").iterdir()))
    families = text_string_to_metric_families(process_exposition().decode())
    found = {family.name: family.samples[0].value for family in families}

    assert found["process_open_fds"] == pytest.approx(files, abs=2)
    assert found["process_max_fds"] == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert found["process_resident_memory_bytes"] > 10e6
    assert found["process_cpu_seconds"] == pytest.approx(time.process_time(), abs=1)
    assert found["process_start_time_seconds"] < time.time()


@pytest.mark.parametrize(
    ("status", "label"),
    [
        (200, "200"),
        (429, "429"),
        (503, "503"),
        (299, "2xx"),
        (418, "4xx"),
        (599, "5xx"),
        (799, "other"),
        (99, "other"),
        (0, "none"),
    ],
)
def test_usual_statuses_have_their_own_label(status: int, label: str) -> None:
    """Any other status counts as its class."""
    assert status_label(status) == label


@given(st.integers())
def test_there_are_fewer_than_fifty_status_labels(status: int) -> None:
    """Any number as a status has one of a few dozen labels, so that each can be a series."""
    known = {status_label(number) for number in range(1000)}
    assert status_label(status) in known
    assert len(known) < 50


def test_a_usual_status_is_a_status_label() -> None:
    """A series that exists from the start is one that exchanges count on."""
    known = {status_label(number) for number in range(1000)}
    assert {usual_status(route, outcome) for route in Route for outcome in ExchangeOutcome} <= known


names = st.sampled_from(["a", "b"])
seconds = st.sampled_from([0.0, 0.1875, 0.25, 0.75, 2.0, 1024.0])  # sums are exact in any order


@settings(max_examples=20, deadline=None)
@given(steps=st.lists(st.tuples(names, st.integers(0, 3), seconds)))
def test_cached_series_count_as_those_of_prometheus(steps: list[tuple[str, int, float]]) -> None:
    """A count on a cached series is a count on the series with these labels."""
    ours, theirs = Metrics(), Metrics()
    for name, by, took_s in steps:
        ours.inc(ours.captured_items, name)
        theirs.captured_items.labels(name).inc()
        ours.inc(ours.requests, "chat", name, by=by)
        theirs.requests.labels("chat", name).inc(by)
        ours.observe(ours.first_byte_seconds, took_s)
        theirs.first_byte_seconds.observe(took_s)
        ours.observe(ours.store_seconds, took_s, name)
        theirs.store_seconds.labels(name).observe(took_s)
    assert samples(ours) == samples(theirs)
