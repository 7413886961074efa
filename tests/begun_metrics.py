"""Begun metrics: those of a proxy that has had an exchange of each dialect, and of none."""

from collections.abc import Sequence

from reasoning_replay.adapters.telemetry.metrics import Metrics
from reasoning_replay.core.dialects.registry import DIALECTS


def begun_metrics(models: Sequence[str] = (), upstreams: Sequence[str] = ()) -> Metrics:
    """Return metrics with all series that are known, for these models and upstreams."""
    metrics = Metrics(models, upstreams)
    for dialect in [*(entry.name for entry in DIALECTS), ""]:
        for name in upstreams or [""]:
            metrics.begin(dialect, metrics.upstream_label(name))
    return metrics
