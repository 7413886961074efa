"""Begun metrics: those of a proxy that has had an exchange of each dialect, and of none."""

from collections.abc import Iterator, Mapping, Sequence

from prometheus_client.parser import text_string_to_metric_families
from reasoning_replay.adapters.stores.base import StoreUsage
from reasoning_replay.adapters.telemetry.metrics import Metrics, process_exposition
from reasoning_replay.core.dialects.registry import DIALECTS
from reasoning_replay.core.history.room import Room


def begun_metrics(models: Sequence[str] = (), upstreams: Sequence[str] = ()) -> Metrics:
    """Return metrics with all series that are known, for these models and upstreams."""
    metrics = Metrics(models, upstreams)
    for dialect in [*(entry.name for entry in DIALECTS), ""]:
        for name in upstreams or [""]:
            metrics.begin(dialect, metrics.upstream_label(name))
    return metrics


def every_metric() -> Iterator[tuple[str, list[Mapping[str, str]]]]:
    """Yield the name of each metric of `/metrics`, and the labels of its samples without `le`."""
    made = begun_metrics()
    _ = made.exchange_seconds["responses"]  # not every histogram series exists yet
    _ = made.store_seconds["recall"]
    made.show_usage(StoreUsage(0, 0, 0, 0))  # there is none before it was read
    made.watch(Room(1))
    ends = {"counter": "_total", "info": "_info"}
    text = (made.exposition() + process_exposition()).decode()
    for family in text_string_to_metric_families(text):
        labels = [dict(sample.labels) for sample in family.samples]
        yield (
            family.name + ends.get(family.type, ""),
            [{key: value for key, value in one.items() if key != "le"} for one in labels],
        )
