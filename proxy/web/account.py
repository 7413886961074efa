"""What is written down of an exchange when it is over: metrics, and one line of log. Always."""

from collections.abc import Callable
from dataclasses import dataclass

from proxy.adapters.logs import Log
from proxy.adapters.metrics import Metrics
from proxy.web.exchange import Exchange
from proxy.web.inspector.recorder import Recorder
from proxy.web.routes import Route

__all__ = ["Account", "mark"]


@dataclass(frozen=True, slots=True)
class Account:
    """
    Where everything is written down.

    Attributes:
        clock: Seconds, never going backwards.
        recorder: Keeps the newest for people who look; None: nobody can.
    """

    metrics: Metrics
    log: Log
    clock: Callable[[], float]
    recorder: Recorder | None = None

    def begin(self, exchange: Exchange) -> None:
        """Note that it is decided what becomes of a request; each one is settled in the end."""
        if self.recorder is not None:
            try:
                self.recorder.begin(exchange)
            except Exception as error:  # noqa: BLE001 (fail open: nobody need see it)
                self.log.warning("inspector_failed", reason=type(error).__name__)

    def settle(self, exchange: Exchange) -> None:
        """Count an exchange that is over, and log it."""
        took_s = self.clock() - exchange.started_s
        self.count(exchange, took_s)
        if self.recorder is not None:
            try:
                self.recorder.end(exchange, took_s)
            except Exception as error:  # noqa: BLE001 (as above)
                self.log.warning("inspector_failed", reason=type(error).__name__)
        self.log.info(
            "exchange",
            route=exchange.route,
            status=exchange.status,
            outcome=exchange.outcome,
            asked=exchange.asked or None,
            captured=exchange.captured or None,
            scope=exchange.scope.hex() if exchange.scope else None,
            conversation=exchange.conversation.hex() or None,
            healed=exchange.healed or None,
            repaired=sum(exchange.repairs.values()) or None,
            **_counts(exchange),
            captured_items=exchange.captured_items,
            before_ms=round(exchange.before_ms, 2),
            first_byte_ms=round(exchange.first_byte_ms, 1),
            total_ms=round(took_s * 1000, 1),
            sent_bytes=exchange.sent_bytes,
        )

    def count(self, exchange: Exchange, took_s: float = 0.0) -> None:
        """Count an exchange that is over."""
        metrics, tally = self.metrics, self.metrics.tally
        tally.count(metrics.exchanges, exchange.route, exchange.outcome)
        tally.time(metrics.exchange_seconds, took_s, exchange.route)
        if exchange.first_byte_ms:
            tally.time(metrics.first_byte_seconds, exchange.first_byte_ms / 1000)
        if exchange.route in Route.REPLAYED:
            if exchange.asked:
                tally.count(metrics.requests, exchange.asked)
            tally.time(metrics.before_seconds, exchange.before_ms / 1000)
            for outcome, count in exchange.outcomes.items():
                tally.count(metrics.items, outcome.value, by=count)
            for repair, count in exchange.repairs.items():
                tally.count(metrics.repairs, repair.value, by=count)
        if exchange.captured:
            tally.count(metrics.captures, exchange.captured)
            tally.count(metrics.captured_items, by=exchange.captured_items)
        capture = exchange.capture
        if capture is not None:
            for reason, count in capture.removed.items():
                tally.count(metrics.removed_items, reason, by=count)
            if capture.reasoning_context:
                tally.count(metrics.reasoning_contexts, capture.reasoning_context)


def mark(exchange: Exchange, *, is_shadow: bool) -> str:
    """Say what was done, as a structured field (RFC 9651): a dictionary of counts."""
    members = [f"{name}={count}" for name, count in {"injected": 0, **_counts(exchange)}.items()]
    if is_shadow:
        members.append("shadow")
    if exchange.repairs:
        members.append(f"repaired={sum(exchange.repairs.values())}")
    if exchange.healed:
        members.append(f"healed={exchange.healed}")
    if exchange.asked not in ("", "planned"):
        members.append(f"asked={exchange.asked}")
    return ", ".join(members)


def _counts(exchange: Exchange) -> dict[str, int]:
    return {outcome.value: count for outcome, count in exchange.outcomes.items() if count}
