"""
Metrics: the Prometheus metrics of the proxy, and the values of their labels.

Cardinality is bounded: label values come from fixed lists, and none is an id or a path. A model is
one only if the settings list it.
"""

from collections.abc import Iterable, Mapping
from itertools import product
from typing import TypeVar

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)

from reasoning_replay.adapters.stores.base import BreakerState, StoreUsage
from reasoning_replay.adapters.telemetry.label_values import Labels, outcome_labels, usual_status
from reasoning_replay.adapters.telemetry.usage_metrics import PREFIX, RoomMetrics, StoreUsageMetrics
from reasoning_replay.build import build_version
from reasoning_replay.core.dialects.cache_diagnoses import REASONS, RESULTS
from reasoning_replay.core.dialects.captures import REMOVALS
from reasoning_replay.core.dialects.registry import (
    DIALECTS,
    FINDING_CARRIERS,
    HANDLED_ROUTES,
    dialect_of,
)
from reasoning_replay.core.dialects.responses.events import CONTEXTS
from reasoning_replay.core.dialects.states import (
    CaptureState,
    ExchangeOutcome,
    RequestKind,
    RequestState,
    Route,
    Way,
)
from reasoning_replay.core.dialects.usages import TOKENS
from reasoning_replay.core.history.model_names import family
from reasoning_replay.core.history.plan import ItemForm, Outcome
from reasoning_replay.core.history.room import Room

# Source of the conversations that a lookup found.
CACHE_RESULTS = (
    "valid",  # local copies, all at the version that the store has
    "loaded",  # at least one was loaded from the store
    "stale",  # local copies, because the store failed
)
# When the proxy adds time: before a request is forwarded, during its response, and after it.
PHASES = ("before", "between", "after")
# Label of a model that is not listed, or not known.
OTHER_MODEL = "other"
# Store operations that have a circuit breaker.
BREAKERS = ("recall", "save")
STORE_OUTCOMES = ("ok", "error", "timeout", "skipped", "late")
_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1)
_OVERHEAD_SECONDS = (0.0001, 0.00025, *_SECONDS, 2.5)
_LONG_SECONDS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 900, 1800)

_NAMES = [entry.name for entry in DIALECTS]

_Metric = TypeVar("_Metric", Counter, Histogram)
_Made = TypeVar("_Made", Counter, Gauge, Histogram)


def process_exposition() -> bytes:
    """
    Return the `process_*` metrics of this process in Prometheus' text format; empty without /proc.

    Cost: the kernel lists all open files, 1 ms for each thousand of them.
    """
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    return generate_latest(registry)


class Series(dict[str | Labels, _Metric]):
    """
    The series of one metric, by their labels; one is created when it is first used.

    `labels` of prometheus_client takes as long as `inc`.
    """

    __slots__ = ("_metric",)

    def __init__(self, metric: _Metric) -> None:
        super().__init__()
        self._metric: _Metric = metric

    def __missing__(self, labels: str | Labels) -> _Metric:
        values = (labels,) if isinstance(labels, str) else labels
        series: _Metric = self._metric.labels(*values) if values else self._metric
        self[labels] = series
        return series


class Metrics:
    """
    Metrics of one proxy, in a registry of their own.

    The series of a dialect exist from its first exchange with an upstream on, all others from the
    start, and so does what one event of makes an alert fire.

    Requests, items and tokens are counted by the given models; without any, that label is absent.
    So is the label of what an exchange did, if upstreams have no names.
    """

    def __init__(  # noqa: PLR0915 (one statement for each metric)
        self, models: Iterable[str] = (), upstreams: Iterable[str] = ()
    ) -> None:
        self._models = {family(model): model for model in models}
        counted = (*self._models.values(), OTHER_MODEL) if self._models else ()
        by_model: dict[str, Iterable[str]] = {"model": counted} if counted else {}
        self._model_labels: tuple[Labels, ...] = tuple((name,) for name in counted) or ((),)
        names = tuple(upstreams)
        by_upstream: dict[str, Iterable[str]] = {"upstream": names} if names else {}
        self._has_upstreams = bool(names)
        # They are a third of all series, and tell only when this process started.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self._of_dialects: list[tuple[Counter, Mapping[str, Iterable[str]]]] = []
        self._seen: set[tuple[str, Labels]] = set()

        # Each label has its known values; (): unknown, or not in any combination.
        def counter(name: str, text: str, **labels: Iterable[str]) -> Series[Counter]:
            made = Counter(PREFIX + name, text, [*labels], registry=self.registry)
            if "dialect" in labels:
                self._of_dialects.append((made, labels))
                return Series(made)
            return Series(_begun(made, labels))

        def gauge(name: str, text: str, **labels: Iterable[str]) -> Gauge:
            return _begun(Gauge(PREFIX + name, text, [*labels], registry=self.registry), labels)

        def histogram(
            name: str, text: str, buckets: tuple[float, ...], **labels: Iterable[str]
        ) -> Series[Histogram]:
            made = Histogram(
                PREFIX + name, text, [*labels], buckets=buckets, registry=self.registry
            )
            return Series(_begun(made, labels))

        # Exchanges.
        self.exchanges = counter(
            "exchanges",
            "Finished exchanges, by route, status and outcome.",
            route=(),
            status=(),
            outcome=(),
            **by_upstream,
        )
        self.exchange_seconds = histogram(
            "exchange_seconds", "Duration of exchanges.", _LONG_SECONDS, route=(), **by_upstream
        )
        self.first_byte_seconds = histogram(
            "first_byte_seconds",
            "Time from forwarding a request to the head of its response.",
            _LONG_SECONDS,
            **by_upstream,
        )
        self.overhead_seconds = histogram(
            "overhead_seconds",
            "Time that the proxy added to exchanges on routes where reasoning is injected.",
            _OVERHEAD_SECONDS,
            phase=PHASES,
            **by_upstream,
        )
        # Requests.
        self.requests = counter(
            "requests",
            "Requests on routes where reasoning is injected, by result.",
            dialect=_NAMES,
            result=RequestState,
            **by_model,
            **by_upstream,
        )
        self.decisions = counter(
            "decisions",
            "Requests that were decided on, by the way: short, or why not.",
            dialect=_NAMES,
            way=Way,
            **by_upstream,
        )
        self.items = counter(
            "items",
            "Reasoning items that are due in requests, by outcome; lacking ones also by reason.",
            dialect=(),
            outcome=(),
            reason=(),
            **by_model,
            **by_upstream,
        )
        self.item_forms = counter(
            "item_forms",
            "Items that were sent in another form than the client sent them, by form.",
            dialect=_NAMES,
            form=ItemForm,
            **by_upstream,
        )
        self.injected_bytes = counter(
            "injected_bytes",
            "Bytes of reasoning items injected into requests.",
            dialect=_NAMES,
            **by_upstream,
        )
        self.repairs = counter(
            "repairs",
            "Items repaired before the first attempt, by repair.",
            dialect=(),
            repair=(),
            **by_upstream,
        )
        self.heals = counter(
            "heals",
            "Retries of refused requests, by diagnosis and result.",
            dialect=(),
            diagnosis=(),
            result=(),
            **by_upstream,
        )
        # Responses.
        self.captures = counter(
            "captures",
            "Responses considered for capture, by result.",
            dialect=_NAMES,
            result=CaptureState,
            **by_upstream,
        )
        self.captured_items = counter(
            "captured_items", "Reasoning items saved in the store.", dialect=_NAMES, **by_upstream
        )
        self.captured_bytes = counter(
            "captured_bytes",
            "Bytes of reasoning items saved in the store.",
            dialect=_NAMES,
            **by_upstream,
        )
        self.tokens = counter(
            "tokens",
            "Tokens as reported by the upstream, by kind and by what the request got.",
            dialect=_NAMES,
            kind=TOKENS,
            request=RequestKind,
            **by_model,
            **by_upstream,
        )
        self.cache_diagnoses = counter(
            "cache_diagnoses",
            "Requests that asked why the prompt cache missed, by what the upstream told.",
            dialect=_NAMES,
            result=RESULTS,
            **by_upstream,
        )
        self.cache_missed_tokens = counter(
            "cache_missed_tokens",
            "Input tokens that the prompt cache missed, by reason and by what the request got.",
            reason=REASONS,
            request=RequestKind,
            **by_upstream,
        )
        self.removed_items = counter(
            "removed_items",
            "Reasoning items that the upstream reports as left out of its input, by reason.",
            reason=REMOVALS,
            **by_upstream,
        )
        self.unknown_carriers = counter(
            "unknown_carriers",
            "Responses with encrypted or signed content in a place that is not known.",
            dialect=FINDING_CARRIERS,
            **by_upstream,
        )
        self.reasoning_contexts = counter(
            "reasoning_contexts",
            "Responses, by the reasoning context that the upstream reports.",
            context=CONTEXTS,
            **by_upstream,
        )
        # The store.
        self.store_operations = counter(
            "store_operations",
            "Store operations, by outcome.",
            operation=(*BREAKERS, "check"),
            outcome=STORE_OUTCOMES,
        )
        self.store_seconds = histogram(
            "store_seconds", "Duration of store operations.", _SECONDS, operation=()
        )
        self.cache_lookups = counter(
            "cache_lookups",
            "Lookups that found conversations, by source of the conversations.",
            result=CACHE_RESULTS,
        )
        self.store_up = gauge("store_up", "1 while the store works; 0 from a failure on.")
        self.store_breakers = gauge(
            "store_breakers",
            "1 for the current state of an operation's circuit breaker, else 0.",
            operation=BREAKERS,
            state=BreakerState,
        )
        # Limits, and what is used of them.
        self.in_flight = gauge("in_flight", "Exchanges in flight.")
        self.max_exchanges = gauge("max_exchanges", "Limit on exchanges in flight.")
        self.connections = gauge("connections", "Open client connections.")
        self.max_connections = gauge("max_connections", "Limit on open client connections.")
        self.memory_budget_used = gauge(
            "memory_budget_used_bytes", "Bytes of requests and responses that are held now."
        )
        self.memory_budget_max = gauge(
            "memory_budget_max_bytes", "Limit on the bytes of requests and responses that are held."
        )
        usage = StoreUsageMetrics(self.registry), RoomMetrics(self.registry)
        self._store_usage, self._room_usage = usage
        self._begin(names or [""])

    def _begin(self, upstreams: Iterable[str]) -> None:
        """Begin what is known at once, and the series of which one event makes an alert fire."""
        version = Info(PREFIX + "build", "Version of this program.", registry=self.registry)
        version.info({"version": build_version()})
        for entry, model, name in product(DIALECTS, self._model_labels, upstreams):
            _ = self.requests[entry.name, RequestState.FAILED, *model, *self.upstream_label(name)]
        self.store_up.set(1)
        for operation in BREAKERS:
            self.store_breakers.labels(operation, BreakerState.CLOSED).set(1)

    def begin(self, dialect: str, at: Labels) -> None:
        """
        Create the known series of a dialect, unless they exist; "" stands for all other exchanges.

        Args:
            dialect: Name of the dialect.
            at: Result of `upstream_label`.
        """
        if (dialect, at) in self._seen:
            return
        self._seen.add((dialect, at))
        # Of the routes that are passed through, only OTHER: else a hundred empty series.
        handled = (one for one in Route if one in HANDLED_ROUTES or one is Route.OTHER)
        routes = [route for route in handled if dialect_of(route) == dialect]
        for route, outcome in product(routes, ExchangeOutcome):
            _ = self.exchanges[route, usual_status(route, outcome), outcome, *at]
        own = {"dialect": (dialect,)} | ({"upstream": at} if at else {})
        for metric, labels in self._of_dialects:
            if dialect in labels["dialect"]:
                _begun(metric, {**labels, **own})
        for entry in (one for one in DIALECTS if one.name == dialect):
            for of_item, model in product(Outcome, self._model_labels):
                _ = self.items[dialect, *outcome_labels(of_item), *model, *at]
            for refusal, result in product(entry.refusals, ("cured", "refused")):
                _ = self.heals[dialect, refusal, result, *at]
            for repair in entry.repairs:
                _ = self.repairs[dialect, repair, *at]

    def model_label(self, model: str) -> Labels:
        """Return the label of a requested model: none if they are not counted by model."""
        return (self._models.get(family(model), OTHER_MODEL),) if self._models else ()

    def upstream_label(self, name: str) -> Labels:
        """Return the label of an upstream: none if there is only one."""
        return (name,) if self._has_upstreams else ()

    def show_usage(self, usage: StoreUsage | None) -> None:
        """Set the use of the store; None: it is unknown, so its metrics are absent."""
        self._store_usage.usage = usage

    def watch(self, room: Room) -> None:
        """Show the use of the memory for conversations from now on."""
        self._room_usage.room = room

    def inc(self, counter: "Series[Counter]", *labels: str, by: float = 1) -> None:
        """Add to one series of a counter."""
        counter[labels].inc(by)

    def observe(self, histogram: "Series[Histogram]", seconds: float, *labels: str) -> None:
        """Record a duration in one series of a histogram."""
        histogram[labels].observe(seconds)

    def exposition(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self.registry)


def _begun(metric: _Made, labels: Mapping[str, Iterable[str]]) -> _Made:
    """Create all known series at 0: `rate` misses the event with which a series first appears."""
    for values in product(*labels.values()) if labels else ():
        metric.labels(*values)
    return metric
