"""A series exists before it counts, and no label has an unlimited number of values."""

import resource
import sys
import time
from collections.abc import Iterable
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families
from reasoning_replay.adapters.telemetry.label_values import status_label, usual_status
from reasoning_replay.adapters.telemetry.metrics import (
    CACHE_RESULTS,
    PHASES,
    Metrics,
    process_exposition,
)
from reasoning_replay.core.dialects.cache_diagnoses import REASONS, RESULTS
from reasoning_replay.core.dialects.captures import REMOVALS
from reasoning_replay.core.dialects.registry import DIALECTS
from reasoning_replay.core.dialects.responses.events import CONTEXTS
from reasoning_replay.core.dialects.states import (
    CaptureState,
    ExchangeOutcome,
    RequestKind,
    RequestState,
    Route,
)
from reasoning_replay.core.dialects.usages import TOKENS
from reasoning_replay.core.history.plan import LACKING, ItemForm, Outcome

from tests.begun_metrics import begun_metrics
from tests.fast_lane import examples

Labels = frozenset[tuple[str, str]]


def samples(metrics: Metrics) -> dict[str, dict[Labels, float]]:
    """Return the samples that Prometheus would read: name -> labels -> value."""
    found: dict[str, dict[Labels, float]] = {}
    for family in text_string_to_metric_families(metrics.exposition().decode()):
        for sample in family.samples:
            labels = frozenset(sample.labels.items())
            found.setdefault(sample.name, {})[labels] = sample.value
    return found


def each(**values: Iterable[str]) -> list[dict[str, str]]:
    """Return the labels of each combination of values."""
    return [dict(zip(values, one, strict=True)) for one in product(*values.values())]


def _labels(one: dict[str, str]) -> Labels:
    return frozenset(one.items())


NAMES = [dialect.name for dialect in DIALECTS]
ROUTES = ("responses", "chat", "compact", "input_tokens", "retrieve", "create", "other")
USUAL = {"ok": "200", "refused": "400", "upstream_error": "500", "client_gone": "none"}
# All series of a name once each dialect has had an exchange.
ALL_SERIES = {
    "removed_items_total": each(reason=REMOVALS),
    "reasoning_contexts_total": each(context=CONTEXTS),
    "cache_lookups_total": each(result=CACHE_RESULTS),
    "items_total": [
        {"dialect": name, "outcome": "lacking" if what in LACKING else what, "reason": reason}
        for name in NAMES
        for what in Outcome
        for reason in [what if what in LACKING else ""]
    ],
    "item_forms_total": each(dialect=NAMES, form=ItemForm),
    "requests_total": each(dialect=NAMES, result=RequestState),
    "captures_total": each(dialect=NAMES, result=CaptureState),
    "tokens_total": each(dialect=NAMES, kind=TOKENS, request=RequestKind),
    "cache_diagnoses_total": each(dialect=NAMES, result=RESULTS),
    "cache_missed_tokens_total": each(reason=REASONS, request=RequestKind),
    "captured_items_total": each(dialect=NAMES),
    "captured_bytes_total": each(dialect=NAMES),
    "injected_bytes_total": each(dialect=NAMES),
    "repairs_total": [
        one for entry in DIALECTS for one in each(dialect=[entry.name], repair=entry.repairs)
    ],
    "heals_total": [
        one
        for entry in DIALECTS
        for one in each(dialect=[entry.name], diagnosis=entry.refusals, result=("cured", "refused"))
    ],
    "overhead_seconds_count": each(phase=PHASES),
    "in_flight": each(),
}
# Some of the series of a name.
SOME_SERIES = {
    "store_operations_total": each(
        operation=("recall", "save"), outcome=("ok", "error", "timeout", "skipped")
    ),
    "exchanges_total": [
        one
        for outcome, status in [*USUAL.items(), ("cut_off", "200")]
        for one in each(route=ROUTES, status=[status], outcome=[outcome])
    ],
}


@pytest.mark.parametrize("name", [*ALL_SERIES, *SOME_SERIES])
def test_every_series_exists_once_its_dialect_has_an_exchange(name: str) -> None:
    """Each is 0 at first: `rate` and alerts miss the event with which a series appears."""
    found = samples(begun_metrics()).get(f"reasoning_replay_{name}", {})
    want = {frozenset(one.items()): 0.0 for one in ALL_SERIES.get(name) or SOME_SERIES[name]}
    assert found.items() >= want.items()
    assert name in SOME_SERIES or found == want


@pytest.mark.parametrize("name", ["items_total", "requests_total", "tokens_total"])
def test_each_listed_model_has_its_series(name: str) -> None:
    """As above; a model that is not listed has no series of its own."""
    found = samples(begun_metrics(["gpt-5", "glm-5"]))[f"reasoning_replay_{name}"]
    models = {"gpt-5", "glm-5", "other"}
    wanted = [one | {"model": model} for one in ALL_SERIES[name] for model in models]
    assert found.keys() == {frozenset(one.items()) for one in wanted}


def test_an_idle_proxy_has_only_what_is_there_and_what_one_event_makes_an_alert_of() -> None:
    """Most proxies serve one dialect of one upstream: the others add no series."""
    idle = samples(Metrics(upstreams=["a", "b"]))
    failed = each(dialect=NAMES, result=["failed"], upstream=["a", "b"])
    assert idle["reasoning_replay_requests_total"].keys() == {*map(_labels, failed)}
    metrics = Metrics(upstreams=["a", "b"])
    metrics.begin("chat", ("b",))
    for name, series in samples(metrics).items():
        more = series.keys() - idle.get(name, {}).keys()
        assert all({("upstream", "b")} <= labels for labels in more), name
        assert all(dict(labels).get("dialect", "chat") == "chat" for labels in more), name
    once = metrics.exposition()
    metrics.begin("chat", ("b",))
    assert metrics.exposition() == once


def test_a_store_is_up_and_its_breakers_are_closed_until_it_fails() -> None:
    """An alert on 0 does not fire at the start, and a graph has a line for each state."""
    found = samples(Metrics())
    assert found["reasoning_replay_store_up"] == {frozenset(): 1.0}
    assert found["reasoning_replay_store_breakers"] == {
        frozenset(one.items()): float(one["state"] == "closed")
        for one in each(operation=("recall", "save"), state=("closed", "half_open", "open"))
    }


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


@examples(20)
@given(steps=st.lists(st.tuples(names, st.integers(0, 3), seconds)))
def test_a_series_is_counted_under_its_labels(steps: list[tuple[str, int, float]]) -> None:
    """A series is found by one label or by a tuple of them, and is always the same one."""
    metrics = Metrics()
    for name, by, took_s in steps:
        metrics.captured_items[name].inc()
        metrics.inc(metrics.captured_items, name)
        metrics.requests["chat", name].inc(by)
        metrics.observe(metrics.first_byte_seconds, took_s)
        metrics.store_seconds[name].observe(took_s)
    value, of = metrics.registry.get_sample_value, "reasoning_replay_"
    for name in {step[0] for step in steps}:
        these = [step for step in steps if step[0] == name]
        labels = {"dialect": name}
        assert value(of + "captured_items_total", labels) == 2 * len(these)
        labels = {"dialect": "chat", "result": name}
        assert value(of + "requests_total", labels) == sum(by for _, by, _ in these)
        labels = {"operation": name}
        assert value(of + "store_seconds_sum", labels) == sum(took_s for *_, took_s in these)
        assert value(of + "store_seconds_count", labels) == len(these)
    assert value(of + "first_byte_seconds_count") == len(steps)
