"""What operators count, in Prometheus' form. Labels are bounded: never an id, a model or a path."""

import os

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    generate_latest,
    multiprocess,
    values,
)

from reasoning_replay import __version__
from reasoning_replay.adapters.resilience.circuit_breaker import State
from reasoning_replay.adapters.telemetry.counter_buffer import Tally
from reasoning_replay.adapters.telemetry.labels import (
    ASKED,
    BREAKERS,
    CACHE_RESULTS,
    CAPTURED,
    ENDED,
    PHASES,
    ROUTES,
    TOKENS,
    usual_status,
)
from reasoning_replay.adapters.telemetry.log import Log
from reasoning_replay.core.dialects.responses.events import CONTEXTS, REMOVALS
from reasoning_replay.core.dialects.responses.heal.diagnosis import RefusalKind
from reasoning_replay.core.dialects.responses.heal.repair import Repair
from reasoning_replay.core.history.plan import Outcome

__all__ = ["Metrics", "WorkerMetrics", "share_metrics"]

_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1)
_OVERHEAD_SECONDS = (0.0001, 0.00025, *_SECONDS, 2.5)
_LONG_SECONDS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 900, 1800)


def share_metrics(folder: str, number: int) -> None:
    """
    Let the metrics that this process makes from now on be files, for one exposition of them all.

    Args:
        folder: Empty at the start, and theirs alone.
        number: Of this process, among those that run. One that comes after another of the same
            number counts on from where that one ended, so that no counter ever goes back.
    """
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder  # prometheus_client has no other way in
    values.ValueClass = values.MultiProcessValue(lambda: number)  # type: ignore[no-untyped-call]


class Metrics:
    """
    Every metric of one process, in a registry of its own; each outcome exists from the start.

    Attributes:
        tally: Where exchanges are counted.
    """

    def __init__(self) -> None:
        """Register everything."""
        self.registry = CollectorRegistry()
        self.tally = Tally(self.registry)
        self._has_failed = False
        prefix = "reasoning_replay_"

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(prefix + name, text, labels, registry=self.registry)

        self.exchanges = counter(
            "exchanges",
            "Exchanges by route, status and how they ended.",
            "route",
            "status",
            "outcome",
        )
        self.requests = counter(
            "requests", "Requests on replayed routes, by what we did.", "result"
        )
        self.items = counter("items", "Reasoning items by what became of them.", "outcome")
        self.captures = counter("captures", "Answers on captured routes, by result.", "result")
        self.captured_items = counter("captured_items", "Reasoning items kept.")
        self.captured_bytes = counter("captured_bytes", "Bytes of reasoning items kept.")
        self.injected_bytes = counter(
            "injected_bytes", "Bytes of reasoning items put into requests."
        )
        self.tokens = counter("tokens", "Tokens as upstream reports them.", "kind")
        self.heals = counter("heals", "Refused requests sent once more.", "diagnosis", "result")
        self.repairs = counter("repairs", "Items mended before the first try.", "repair")
        self.removed_items = counter(
            "removed_items", "Reasoning that upstream says it left out of its input.", "reason"
        )
        self.reasoning_contexts = counter(
            "reasoning_contexts", "Answers by how much reasoning upstream went by.", "context"
        )
        self.store_operations = counter(
            "store_operations", "Store operations by outcome.", "operation", "outcome"
        )
        self.cache_lookups = counter(
            "cache_lookups", "Lookups that found conversations, by where they were.", "result"
        )
        self.store_seconds = Histogram(
            prefix + "store_seconds",
            "Duration of store operations.",
            ["operation"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.store_up = Gauge(
            prefix + "store_up",
            "Whether the store answered last time.",
            registry=self.registry,
            multiprocess_mode="livemin",
        )
        self.in_flight = Gauge(
            prefix + "in_flight",
            "Exchanges under way.",
            registry=self.registry,
            multiprocess_mode="livesum",
        )
        self.max_exchanges = Gauge(
            prefix + "max_exchanges",
            "Exchanges that may be under way at once.",
            registry=self.registry,
            multiprocess_mode="livesum",
        )
        self.store_breakers = Gauge(
            prefix + "store_breakers",
            "Processes whose breaker of an operation is in a state.",
            ["operation", "state"],
            registry=self.registry,
            multiprocess_mode="livesum",
        )
        self.overhead_seconds = Histogram(
            prefix + "overhead_seconds",
            "Time that we added to exchanges on replayed routes.",
            ["phase"],
            buckets=_OVERHEAD_SECONDS,
            registry=self.registry,
        )
        self.first_byte_seconds = Histogram(
            prefix + "first_byte_seconds",
            "Time from sending a request on to the head of its answer.",
            buckets=_LONG_SECONDS,
            registry=self.registry,
        )
        self.exchange_seconds = Histogram(
            prefix + "exchange_seconds",
            "Duration of exchanges.",
            ["route"],
            buckets=_LONG_SECONDS,
            registry=self.registry,
        )
        _tell_build(self.registry)
        self._begin_at_zero()

    def _begin_at_zero(self) -> None:
        """Let every series exist: a rate over one that appears with its first event misses it."""
        for route in ROUTES:
            for outcome in ENDED:
                self.exchanges.labels(route, usual_status(route, outcome), outcome)
        for phase in PHASES:
            self.overhead_seconds.labels(phase)
        for counter, words in (
            (self.cache_lookups, CACHE_RESULTS),
            (self.items, [fate.value for fate in Outcome]),
            (self.requests, ASKED),
            (self.captures, CAPTURED),
            (self.tokens, TOKENS),
            (self.repairs, [repair.value for repair in Repair]),
            (self.removed_items, REMOVALS),
            (self.reasoning_contexts, CONTEXTS),
        ):
            for word in words:
                counter.labels(word)
        for fault in set(RefusalKind) - {RefusalKind.OTHER}:
            for result in ("cured", "refused"):
                self.heals.labels(fault.value, result)
        self._begin_with_a_store()

    def _begin_with_a_store(self) -> None:
        """Let it be well until it is known better."""
        self.store_up.set(1)
        for operation in BREAKERS:
            for state in State:
                self.store_breakers.labels(operation, state.value).set(state is State.CLOSED)
        for operation in (*BREAKERS, "check"):
            for outcome in ("ok", "error", "timeout", "skipped", "late"):
                self.store_operations.labels(operation, outcome)

    def exposition(self) -> bytes:
        """Return everything in the text format that Prometheus scrapes."""
        return generate_latest(self.registry)

    def flush(self, log: Log) -> None:
        """Let others who share the folder see what was counted. Never raises."""
        try:
            self.tally.flush()
        except Exception as error:  # noqa: BLE001 (fail open: the folder may be full, or gone)
            if not self._has_failed:
                log.warning("metrics_failed", reason=type(error).__name__)
            self._has_failed = True
        else:
            self._has_failed = False


class WorkerMetrics:
    """What several processes that share a folder have counted together, and how they fare."""

    def __init__(self, folder: str) -> None:
        """
        Register what the folder holds, whenever it is asked for.

        Args:
            folder: As in `share_metrics`, which this process has called too: its own are in it.
        """
        self._folder = folder
        self.registry = CollectorRegistry()
        multiprocess.MultiProcessCollector(self.registry, folder)  # type: ignore[no-untyped-call]
        self.serving = Gauge(
            "reasoning_replay_workers_serving",
            "Worker processes that take requests.",
            registry=None,
            multiprocess_mode="livesum",
        )
        self.restarts = Counter(
            "reasoning_replay_worker_restarts",
            "Worker processes started in place of one that ended.",
            registry=None,
        )
        _tell_build(self.registry)

    def forget_gauges(self, number: int) -> None:
        """Leave out what a process that has ended said of its present state."""
        multiprocess.mark_process_dead(number, self._folder)  # type: ignore[no-untyped-call]

    def exposition(self) -> bytes:
        """Return everything in the text format that Prometheus scrapes."""
        return generate_latest(self.registry)


def _tell_build(registry: CollectorRegistry) -> None:
    Info("reasoning_replay_build", "This program.", registry=registry).info(
        {"version": __version__}
    )
