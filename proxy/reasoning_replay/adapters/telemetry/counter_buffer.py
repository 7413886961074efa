"""
Counting on a hot path: into a dictionary, and from there into the metrics when somebody looks.

prometheus_client takes a lock and five calls for each count, which for a small exchange comes to as
much as reading its request.
"""

from bisect import bisect_left
from collections.abc import Iterable

from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector, CollectorRegistry

__all__ = ["Tally"]

Labels = tuple[str, ...]


class Tally(Collector):
    """What was counted since somebody looked; to be used by one thread."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Begin with nothing; whoever asks that registry, asks this one first."""
        self._counts: dict[tuple[Counter, Labels], float] = {}
        self._levels: dict[Gauge, float] = {}
        self._times: dict[tuple[Histogram, Labels], _Times] = {}
        registry.register(self)

    def count(self, counter: Counter, *labels: str, by: float = 1) -> None:
        """Add to the series of a counter with these labels."""
        key = counter, labels
        self._counts[key] = self._counts.get(key, 0) + by

    def level(self, gauge: Gauge, value: float) -> None:
        """Say what a gauge stands at."""
        self._levels[gauge] = value

    def time(self, histogram: Histogram, seconds: float, *labels: str) -> None:
        """Add to the series of a histogram with these labels."""
        key = histogram, labels
        times = self._times.get(key)
        if times is None:
            times = self._times[key] = _Times(histogram.labels(*labels) if labels else histogram)
        times.counts[bisect_left(times.bounds, seconds)] += 1
        times.sum_s += seconds

    def flush(self) -> None:
        """
        Put everything where it belongs.

        Raises:
            OSError: Metrics that are files cannot be written; what is left is put there next time.
        """
        for key, value in [*self._counts.items()]:
            counter, labels = key
            (counter.labels(*labels) if labels else counter).inc(value)
            del self._counts[key]
        for gauge, value in [*self._levels.items()]:
            gauge.set(value)
            del self._levels[gauge]
        for times in self._times.values():
            times.flush()

    def collect(self) -> Iterable[Metric]:
        """Return no metric: those that it counts for follow in the registry, and are right now."""
        self.flush()
        return ()


class _Times:
    """One series of a histogram, of which prometheus_client keeps the parts to itself."""

    def __init__(self, series: Histogram) -> None:
        self._series = series
        self.bounds: list[float] = list(series._upper_bounds)  # noqa: SLF001 (see above)
        self.counts = [0] * len(self.bounds)
        self.sum_s = 0.0

    def flush(self) -> None:
        for bucket, count in zip(self._series._buckets, self.counts, strict=True):  # noqa: SLF001
            if count:
                bucket.inc(count)
        self._series._sum.inc(self.sum_s)  # noqa: SLF001
        self.counts = [0] * len(self.counts)
        self.sum_s = 0.0
