"""The numbers of the page: those that Prometheus scrapes."""

from reasoning_replay.adapters.telemetry.metrics import Metrics
from reasoning_replay.web.admin.inspector.totals import read_totals


def test_series_are_told_apart_by_one_label_or_added_up() -> None:
    """What is 0 is left out, and what is not shown."""
    metrics = Metrics()
    metrics.items.labels("injected").inc(3)
    metrics.items.labels("missed").inc()
    metrics.heals.labels("order", "cured").inc(2)
    metrics.heals.labels("duplicate", "cured").inc(2)
    metrics.captured_items.inc(1e6)
    metrics.in_flight.set(4)
    totals = read_totals(metrics.exposition())
    assert totals["items_total"] == {"injected": 3, "missed": 1}
    assert totals["heals_total"] == {"cured": 4}
    assert totals["captured_items_total"] == 1e6
    assert (totals["in_flight"], totals["requests_total"]) == (4, {})
    assert "store_seconds_bucket" not in totals


def test_breakers_are_told_by_operation_and_state() -> None:
    """Each as a number, as Prometheus has them."""
    text = b"""
# HELP reasoning_replay_store_breakers Breakers.
# TYPE reasoning_replay_store_breakers gauge
reasoning_replay_store_breakers{operation="recall",state="open"} 1.0
reasoning_replay_store_breakers{state="closed",operation="recall"} 2.0
something_else 7.0
"""
    assert read_totals(text)["breakers"] == {"recall": {"open": 1, "closed": 2}}
    assert read_totals(b"")["breakers"] == {}
