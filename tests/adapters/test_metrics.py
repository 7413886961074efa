"""Every outcome exists from the start, and no label grows without end."""

from collections.abc import Sequence

import pytest
from prometheus_client.parser import text_string_to_metric_families

from proxy.adapters.metrics import ASKED, CAPTURED, Metrics
from proxy.core.capture import CONTEXTS, REMOVALS
from proxy.core.heal.diagnosis import Fault
from proxy.core.heal.repair import Repair
from proxy.core.inject import Outcome

Labels = frozenset[tuple[str, str]]


def samples(metrics: Metrics) -> dict[str, dict[Labels, float]]:
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
        for diagnosis in set(Fault) - {Fault.OTHER}
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
    """By route and by how they ended."""
    found = samples(Metrics()).get("reasoning_replay_exchanges_total", {})
    assert found.items() >= {
        (frozenset({("route", route), ("outcome", outcome)}), 0.0)
        for route in ("responses", "retrieve", "websocket", "create", "other")
        for outcome in ("ok", "refused", "upstream_error", "cut_off", "client_gone")
    }


def test_a_store_is_up_until_it_fails() -> None:
    """An alert on 0 does not fire at the start."""
    found = samples(Metrics())
    assert found["reasoning_replay_store_up"] == {frozenset(): 1.0}
    assert found["reasoning_replay_in_flight"] == {frozenset(): 0.0}


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
