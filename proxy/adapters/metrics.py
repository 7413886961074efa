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

from proxy import __version__
from proxy.adapters.tally import Tally
from proxy.core.capture import CONTEXTS, REMOVALS
from proxy.core.heal.diagnosis import Fault
from proxy.core.heal.repair import Repair
from proxy.core.inject import Outcome

__all__ = [
    "ASKED",
    "CAPTURED",
    "ENDED",
    "NEAR",
    "ROUTES",
    "Metrics",
    "WorkerMetrics",
    "share_metrics",
]

ROUTES = (
    "responses",  # POST …/responses
    "compact",  # POST …/responses/compact
    "input_tokens",  # POST …/responses/input_tokens
    "retrieve",  # GET …/responses/{id}
    "websocket",  # a whole WebSocket, from its handshake to its end
    "create",  # one response.create on a WebSocket, and its answer
    "other",
)
# How an exchange ended; errors of ours have their own code instead.
ENDED = ("ok", "refused", "upstream_error", "cut_off", "client_gone", "client_stalled")
# What became of a request on a replayed route, before it was sent.
ASKED = (
    "planned",  # read, looked up and decided; what came of it is in items_total
    "stateful",  # upstream holds the history itself
    "no_scope",  # no credential, so nobody to keep things for
    "unreadable",  # not JSON, or JSON that readers could disagree on
    "encoded",  # a Content-Encoding that cannot be undone: not known here, or damaged
    "too_large",  # over inspect_max_bytes, decoded_max_bytes, or what is followed of a WebSocket
    "busy",  # inspect_total_max_bytes was used up: sent on unread
    "store_failed",  # the store did not answer: sent as it came
    "failed",  # a fault of ours: sent as it came
    "off",
)
# What became of an answer on a captured route.
CAPTURED = (
    "saved",
    "late",  # the store had not said yet that it has it: it was still trying
    "nothing",  # no item to recognise a turn by
    "store_failed",
    "too_large",
    "unreadable",
    "failed",
    "refused",  # not a 2xx answer
)
# Why a recall was answered from what this process has just served.
NEAR = (
    "certain",  # the store would have said the same
    "store_failed",
)
_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1)
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
        prefix = "reasoning_replay_"

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(prefix + name, text, labels, registry=self.registry)

        self.exchanges = counter(
            "exchanges", "Exchanges by route and by how they ended.", "route", "outcome"
        )
        self.requests = counter(
            "requests", "Requests on replayed routes, by what we did.", "result"
        )
        self.items = counter("items", "Reasoning items by what became of them.", "outcome")
        self.captures = counter("captures", "Answers on captured routes, by result.", "result")
        self.captured_items = counter("captured_items", "Reasoning items kept.")
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
        self.near_recalls = counter(
            "near_recalls", "Recalls answered by this process, by reason.", "reason"
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
        self.before_seconds = Histogram(
            prefix + "before_upstream_seconds",
            "Time that we took between a request's last byte and sending it on.",
            buckets=_SECONDS,
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
                self.exchanges.labels(route, outcome)
        for operation in ("recall", "save", "check"):
            for outcome in ("ok", "error", "timeout", "skipped", "late"):
                self.store_operations.labels(operation, outcome)
        for counter, words in (
            (self.near_recalls, NEAR),
            (self.items, [fate.value for fate in Outcome]),
            (self.requests, ASKED),
            (self.captures, CAPTURED),
            (self.repairs, [repair.value for repair in Repair]),
            (self.removed_items, REMOVALS),
            (self.reasoning_contexts, CONTEXTS),
        ):
            for word in words:
                counter.labels(word)
        for fault in set(Fault) - {Fault.OTHER}:
            for result in ("cured", "refused"):
                self.heals.labels(fault.value, result)
        self.store_up.set(1)

    def exposition(self) -> bytes:
        """Return everything in the text format that Prometheus scrapes."""
        return generate_latest(self.registry)


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
