"""
Recorder: the newest exchanges for the inspector, as types, ids, sizes, counts and times only.

Every exchange is recorded, even without a watcher, so recording copies a few fields only. They are
encoded as JSON only for watchers.
"""

import contextlib
import os
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final, Protocol

import msgspec

from reasoning_replay.core.history.item_summary import ItemSummary
from reasoning_replay.core.history.plan import Outcome
from reasoning_replay.web.exchange import Exchange

__all__ = ["ExchangeFeed", "Heard", "Recorder"]

# Most finished exchanges that are kept, and the largest total size of their strips.
KEPT: Final = 100
KEPT_BYTES: Final = 2 << 20
# The same for exchanges in flight. A new watcher gets the newest of them; above this size of all
# strips, a further strip is reduced to its counts.
OPEN_SHOWN: Final = 100
OPEN_BYTES: Final = 2 << 20
# Above this number, the oldest open exchange is dropped: one that never ends would leak.
OPEN_MAX: Final = 20_000
# Shown characters of a hash, enough to tell two apart, and of a model's name, set by the client.
HASH_CHARS: Final = 12
NAME_CHARS: Final = 64

# Receives an exchange, once it is decided and at its end, as JSON: `{"exchange": {…}}`.
Heard = Callable[[bytes], None]

_NO_STRIP = ItemSummary(0, b"").counted()
_ENCODE = msgspec.json.Encoder().encode


class ExchangeFeed(Protocol):
    """The source of the exchanges that the inspector shows."""

    def recent(self) -> list[bytes]:
        """Return the recorded exchanges as JSON, oldest first."""
        ...

    def listen(self, heard: Heard | None) -> None:
        """Call `heard` for every exchange from now on; None ends that."""
        ...


class _Seen(msgspec.Struct, gc=False):
    """A copy of a few fields of an exchange; took_s is None while it is in flight."""

    number: int
    started_s: float
    took_s: float | None
    route: str
    dialect: str
    status: int
    outcome: str
    asked: str
    outcomes: Mapping[Outcome, int]
    repairs: Mapping[str, int]
    healed: str
    captured: str
    captured_items: int
    overhead_ms: float
    first_byte_ms: float
    sent_bytes: int
    scope: bytes | None
    conversation: bytes
    strip: ItemSummary
    model: str
    injected_bytes: int
    request_id: str


def _seen(number: int, exchange: Exchange, took_s: float | None) -> _Seen:
    return _Seen(
        number,
        exchange.times.started_s,
        took_s,
        exchange.route,
        exchange.dialect,
        exchange.status,
        exchange.outcome,
        exchange.request.state,
        exchange.request.outcomes,
        exchange.request.repairs,
        exchange.request.healed,
        exchange.answer.state,
        exchange.answer.reasoning_items,
        exchange.times.before_ms + exchange.times.between_ms + exchange.times.after_ms,
        exchange.times.first_byte_ms,
        exchange.sent_bytes,
        exchange.tenant,
        exchange.conversation,
        exchange.request.summary or _NO_STRIP,
        exchange.request.model[:NAME_CHARS],
        exchange.request.injected_bytes,
        exchange.id,
    )


class Recorder:
    """The newest exchanges of one process; its caller ignores errors, so none ends an exchange."""

    def __init__(self, clock: Callable[[], float], epoch_ms: Callable[[], int]) -> None:
        """
        Start without exchanges.

        Args:
            clock: Monotonic clock in seconds, the same as that of the exchanges.
            epoch_ms: Clock in milliseconds since the epoch, for the times shown.
        """
        self._clock = clock
        self._epoch_ms = epoch_ms
        # Prefix of ids: other processes, and this one before a restart, use the same numbers.
        self._name = f"{os.getpid():x}.{epoch_ms():x}"
        self._last = 0
        # `id()` of an exchange -> its number, the exchange, and the size of its strip.
        self._open: dict[int, tuple[int, Exchange, int]] = {}
        self._over: deque[_Seen] = deque()
        self._bytes = self._open_bytes = 0
        self._heard: Heard | None = None
        self._epoch_less_clock_ms = 0.0
        self._look_at_the_time()

    def begin(self, exchange: Exchange) -> None:
        """Record an exchange that is decided, before its request is sent."""
        self._last += 1
        strip, size = exchange.request.summary, 0
        if strip is not None:
            if self._open_bytes + len(strip.shown) > OPEN_BYTES:
                exchange.request.summary = strip = strip.counted()
            size = len(strip.shown)
            self._open_bytes += size
        self._open[id(exchange)] = self._last, exchange, size
        if len(self._open) > OPEN_MAX:
            self._open_bytes -= self._open.pop(next(iter(self._open)))[2]
        if self._heard is not None:
            self._tell(_seen(self._last, exchange, None))

    def end(self, exchange: Exchange, took_s: float) -> None:
        """Record a finished exchange."""
        begun = self._open.pop(id(exchange), None)
        if begun is None:  # it ended before `begin`
            self._last += 1
        else:
            self._open_bytes -= begun[2]
        seen = _seen(begun[0] if begun else self._last, exchange, took_s)
        self._over.append(seen)
        self._bytes += len(seen.strip.shown)
        while len(self._over) > KEPT or self._bytes > KEPT_BYTES:
            self._bytes -= len(self._over.popleft().strip.shown)
        if self._heard is not None:
            self._tell(seen)

    def recent(self) -> list[bytes]:
        """Return finished exchanges as JSON, oldest first, followed by those in flight."""
        self._look_at_the_time()
        newest = list(self._open.values())[-OPEN_SHOWN:]
        under_way = [_seen(number, exchange, None) for number, exchange, _ in newest]
        told: list[bytes] = []
        for seen in (*self._over, *under_way):
            with contextlib.suppress(Exception):  # one that cannot be encoded must not hide others
                told.append(self._json(seen))
        return told

    def listen(self, heard: Heard | None) -> None:
        """Call `heard` for every exchange from now on; None ends that."""
        self._look_at_the_time()
        self._heard = heard

    def _look_at_the_time(self) -> None:
        """Set the offset from the clock to wall time; set for each exchange, it would jitter."""
        self._epoch_less_clock_ms = self._epoch_ms() - self._clock() * 1000

    def _tell(self, seen: _Seen) -> None:
        if self._heard is not None:
            with contextlib.suppress(Exception):  # a watcher must not fail an exchange
                self._heard(self._json(seen))

    def _json(self, seen: _Seen) -> bytes:
        is_open = seen.took_s is None
        told = {
            "id": f"{self._name}.{seen.number}",
            "at_ms": round(self._epoch_less_clock_ms + seen.started_s * 1000),
            "open": is_open,
            "request_id": seen.request_id,
            "route": seen.route,
            "dialect": seen.dialect,
            "status": seen.status,
            "outcome": "" if is_open else seen.outcome,
            "asked": seen.asked,
            "outcomes": {what.value: count for what, count in seen.outcomes.items() if count},
            "repaired": sum(seen.repairs.values()),
            "healed": seen.healed,
            "captured": seen.captured,
            "captured_items": seen.captured_items,
            "took_ms": None if seen.took_s is None else round(seen.took_s * 1000, 1),
            "overhead_ms": round(seen.overhead_ms, 2),
            "first_byte_ms": round(seen.first_byte_ms, 1),
            "sent_bytes": seen.sent_bytes,
            "scope": seen.scope.hex()[:HASH_CHARS] if seen.scope else "",
            "conversation": seen.conversation.hex()[:HASH_CHARS],
            "model": seen.model,
            "injected_bytes": seen.injected_bytes,
            "items": seen.strip.total,
            "strip": msgspec.Raw(seen.strip.shown),
        }
        try:
            return _ENCODE({"exchange": told})
        except UnicodeEncodeError:  # a lone surrogate in the model's name
            return _ENCODE({"exchange": told | {"model": ""}})
