"""Usage metrics: how full the store and the memory for conversations are, when they are asked."""

from collections.abc import Iterator
from typing import Final

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric as MetricFamily
from prometheus_client.registry import Collector, CollectorRegistry

from reasoning_replay.adapters.stores.base import StoreUsage
from reasoning_replay.core.history.room import Room

PREFIX: Final = "reasoning_replay_"


class StoreUsageMetrics(Collector):
    """Metrics of the use of a store, as it was last read; without a use there are none."""

    usage: StoreUsage | None = None

    def __init__(self, registry: CollectorRegistry) -> None:
        """Start without a use."""
        registry.register(self)

    def collect(self) -> Iterator[MetricFamily]:
        """Yield them, for a scrape."""
        if self.usage is None:
            return
        size_bytes, max_bytes, conversations, evicted = self.usage
        for name, text, value in (
            ("store_bytes", "Size of the embedded store.", size_bytes),
            ("store_max_bytes", "Limit on the size of the embedded store.", max_bytes),
            ("store_conversations", "Conversations in the embedded store.", conversations),
        ):
            yield GaugeMetricFamily(PREFIX + name, text, value=value)
        yield CounterMetricFamily(
            PREFIX + "store_evicted",
            "Conversations evicted from the embedded store for lack of room.",
            value=evicted,
        )


class RoomMetrics(Collector):
    """Metrics of the memory for conversations; without a room there are none."""

    room: Room | None = None

    def __init__(self, registry: CollectorRegistry) -> None:
        """Start without a room."""
        registry.register(self)

    def collect(self) -> Iterator[MetricFamily]:
        """Yield them, for a scrape."""
        if self.room is None:
            return
        for name, text, value in (
            (
                "local_bytes",
                "Memory of what this process keeps of conversations.",
                self.room.size_bytes,
            ),
            (
                "local_max_bytes",
                "Limit on the memory of what this process keeps of conversations.",
                self.room.max_bytes,
            ),
        ):
            yield GaugeMetricFamily(PREFIX + name, text, value=value)
        yield CounterMetricFamily(
            PREFIX + "local_evicted",
            "Conversations of which this process dropped what it kept, for lack of room.",
            value=self.room.evictions,
        )
        yield CounterMetricFamily(
            PREFIX + "local_evicted_unsaved",
            "Conversations among those of which the store lacks something: that is lost.",
            value=self.room.unsaved_evictions,
        )
