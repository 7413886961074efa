"""Totals of the inspector: the numbers that Prometheus scrapes."""

from reasoning_replay.adapters.telemetry.metrics import Metrics
from reasoning_replay.web.admin.inspector.totals import read_totals


def test_series_differ_by_one_label_or_are_summed() -> None:
    """Series differ by one label or are summed, over dialects as well; zeros are left out."""
    metrics = Metrics()
    metrics.items.labels("responses", "injected").inc(2)
    metrics.items.labels("chat", "injected").inc()
    metrics.items.labels("chat", "missed").inc()
    metrics.heals.labels("responses", "order", "cured").inc(2)
    metrics.heals.labels("chat", "duplicate", "cured").inc(2)
    metrics.captured_items.labels("chat").inc(1e6)
    metrics.in_flight.set(4)
    totals = read_totals(metrics.exposition())
    assert totals["items_total"] == {"injected": 3, "missed": 1}
    assert totals["heals_total"] == {"cured": 4}
    assert totals["captured_items_total"] == 1e6
    assert (totals["in_flight"], totals["requests_total"]) == (4, {})
    assert "store_seconds_bucket" not in totals


def test_breakers_are_counted_by_operation_and_state() -> None:
    """Breakers are counted by operation and state."""
    text = b"""
# HELP reasoning_replay_store_breakers Breakers.
# TYPE reasoning_replay_store_breakers gauge
reasoning_replay_store_breakers{operation="recall",state="open"} 1.0
reasoning_replay_store_breakers{state="closed",operation="recall"} 2.0
something_else 7.0
"""
    assert read_totals(text)["breakers"] == {"recall": {"open": 1, "closed": 2}}
    assert read_totals(b"")["breakers"] == {}
