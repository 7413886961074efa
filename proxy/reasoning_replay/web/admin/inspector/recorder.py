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
from msgspec.structs import asdict

from reasoning_replay.adapters.telemetry.log import called
from reasoning_replay.core.dialects.captures import ErrorNames, Usage
from reasoning_replay.core.history.item_changes import ItemChange
from reasoning_replay.core.history.item_summary import ItemSummary
from reasoning_replay.core.history.plan import Outcome
from reasoning_replay.core.history.sent_items import words
from reasoning_replay.web.admin.inspector.minutes import MINUTE_MS, Minutes
from reasoning_replay.web.admin.inspector.prefixes import Prefix, Prefixes
from reasoning_replay.web.exchange import DETAIL_MAX, Exchange

__all__ = ["ExchangeFeed", "Heard", "Recorder"]

# Most finished exchanges that are kept, and the largest total size of their strips.
KEPT: Final = 200
KEPT_BYTES: Final = 2 << 20
# The same for exchanges in flight. A new watcher gets the newest of them; above this size of all
# strips, a further strip is reduced to its counts.
OPEN_SHOWN: Final = 100
OPEN_BYTES: Final = 2 << 20
# Above this number, the oldest open exchange is dropped: one that never ends would leak.
OPEN_MAX: Final = 20_000
# Shown characters of the hash of a turn, enough to tell two apart, and of a name that a client or
# the upstream sets.
HASH_CHARS: Final = 12
NAME_CHARS: Final = 64
# Different injected items are counted up to this number: the count needs 64 bytes for each.
DIFFERENT_MAX: Final = 8192

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

    def sums(self, minutes: int) -> dict[str, object]:
        """Return the sums of the newest minutes, and how many different items were injected."""
        ...


class _Seen(msgspec.Struct, gc=False):
    """A copy of a few fields of an exchange; took_s is None while it is in flight."""

    number: int
    started_s: float
    took_s: float | None
    request_id: str
    wrong_path: str
    upstream_request_id: str
    trace_id: str
    method: str
    route: str
    dialect: str
    status: int
    outcome: str
    error: ErrorNames
    cause: str
    cause_detail: str
    asked: str
    outcomes: Mapping[Outcome, int]
    repairs: Mapping[str, int]
    healed: str
    changes: tuple[ItemChange, ...]
    captured: str
    captured_items: int
    usage: Usage | None
    before_ms: float
    first_byte_ms: float
    between_ms: float
    after_ms: float
    received_bytes: int
    sent_bytes: int
    scope: bytes | None
    conversation: bytes
    turn: bytes
    parent: bytes
    prefix: Prefix | None
    items: int
    sent_items: int
    strip: bytes
    model: str
    injected_bytes: int


def _seen(number: int, exchange: Exchange, took_s: float | None, prefix: Prefix | None) -> _Seen:
    request, answer, times = exchange.request, exchange.answer, exchange.times
    strip = request.summary or _NO_STRIP
    return _Seen(
        number=number,
        started_s=times.started_s,
        took_s=took_s,
        request_id=exchange.id,
        wrong_path=exchange.wrong_path,
        upstream_request_id=exchange.upstream_request_id[:NAME_CHARS],
        trace_id=exchange.trace_id,
        method=exchange.method[:NAME_CHARS],
        route=exchange.route,
        dialect=exchange.dialect,
        status=exchange.status,
        outcome=exchange.outcome,
        error=answer.error,
        cause=exchange.error,
        cause_detail=exchange.error_detail[:DETAIL_MAX],
        asked=request.state,
        outcomes=request.outcomes,
        repairs=request.repairs,
        healed=request.healed,
        changes=request.changes,
        captured=answer.state,
        captured_items=answer.reasoning_items,
        usage=answer.capture.usage if answer.capture is not None else None,
        before_ms=times.before_ms,
        first_byte_ms=times.first_byte_ms,
        between_ms=times.between_ms,
        after_ms=times.after_ms,
        received_bytes=exchange.received_bytes,
        sent_bytes=exchange.sent_bytes,
        scope=exchange.tenant,
        conversation=exchange.conversation,
        turn=answer.turn,
        parent=request.parent,
        prefix=prefix,
        items=strip.total,
        sent_items=strip.sent.total,
        strip=strip.shown,
        model=request.model[:NAME_CHARS],
        injected_bytes=request.injected_bytes,
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
        # `id()` of an exchange -> its number, the exchange, its prefix, and the size of its strip.
        self._open: dict[int, tuple[int, Exchange, Prefix | None, int]] = {}
        self._over: deque[_Seen] = deque()
        self._bytes = self._open_bytes = 0
        self._heard: Heard | None = None
        self._prefixes = Prefixes()
        self._minutes = Minutes()
        self._different: set[int] = set()
        self._epoch_less_clock_ms = 0.0
        self._look_at_the_time()

    def begin(self, exchange: Exchange) -> None:
        """Record an exchange that is decided, before its request is sent."""
        self._last += 1
        prefix = self._prefixes.compare(exchange)
        strip, size = exchange.request.summary, 0
        if strip is not None:
            if self._open_bytes + strip.size_bytes > OPEN_BYTES:
                exchange.request.summary = strip = strip.counted()
            size = strip.size_bytes
            self._open_bytes += size
        self._open[id(exchange)] = self._last, exchange, prefix, size
        if len(self._open) > OPEN_MAX:
            self._open_bytes -= self._open.pop(next(iter(self._open)))[-1]
        if self._heard is not None:
            self._tell(_seen(self._last, exchange, None, prefix))

    def end(self, exchange: Exchange, took_s: float) -> None:
        """Record a finished exchange."""
        begun = self._open.pop(id(exchange), None)
        if begun is None:  # it ended before `begin`
            self._last += 1
            number, prefix = self._last, None
        else:
            number, _, prefix, size = begun
            self._open_bytes -= size
        if exchange.request.healed:  # upstream accepted another request than the first one
            prefix = self._prefixes.compare(exchange)
        self._prefixes.keep(exchange)
        self._minutes.add(exchange, self._epoch_ms())
        self._note_injected(exchange)
        seen = _seen(number, exchange, took_s, prefix)
        self._over.append(seen)
        self._bytes += len(seen.strip)
        while len(self._over) > KEPT or self._bytes > KEPT_BYTES:
            self._bytes -= len(self._over.popleft().strip)
        if self._heard is not None:
            self._tell(seen)

    def recent(self) -> list[bytes]:
        """Return finished exchanges as JSON, oldest first, followed by those in flight."""
        self._look_at_the_time()
        newest = list(self._open.values())[-OPEN_SHOWN:]
        under_way = [_seen(number, one, None, prefix) for number, one, prefix, _ in newest]
        told: list[bytes] = []
        for seen in (*self._over, *under_way):
            with contextlib.suppress(Exception):  # one that cannot be encoded must not hide others
                told.append(self._json(seen))
        return told

    def listen(self, heard: Heard | None) -> None:
        """Call `heard` for every exchange from now on; None ends that."""
        self._look_at_the_time()
        self._heard = heard

    def sums(self, minutes: int) -> dict[str, object]:
        """Return the sums of the newest minutes, and how many different items were injected."""
        different = len(self._different)
        return {
            "minutes": self._minutes.newest(minutes),
            "minute": self._epoch_ms() // MINUTE_MS,
            "different": different,
            "different_is_more": different >= DIFFERENT_MAX,
        }

    def _note_injected(self, exchange: Exchange) -> None:
        summary = exchange.request.summary
        if summary is None or not summary.sent.injected or len(self._different) >= DIFFERENT_MAX:
            return
        self._different.update(words(summary.sent.injected))

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
            "upstream_request_id": called(seen.upstream_request_id) or "",
            "trace_id": seen.trace_id,
            "method": called(seen.method) or "",
            "route": seen.route,
            "wrong_path": seen.wrong_path,
            "dialect": seen.dialect,
            "status": seen.status,
            "outcome": "" if is_open else seen.outcome,
            "error_code": seen.error.code,
            "error_type": seen.error.type,
            "cause": seen.cause,
            "cause_detail": called(seen.cause_detail, DETAIL_MAX) or "",
            "asked": seen.asked,
            "outcomes": {what.value: count for what, count in seen.outcomes.items() if count},
            "repairs": seen.repairs,
            "healed": seen.healed,
            "changes": seen.changes,
            "captured": seen.captured,
            "captured_items": seen.captured_items,
            "took_ms": None if seen.took_s is None else round(seen.took_s * 1000, 1),
            "before_ms": round(seen.before_ms, 2),
            "first_byte_ms": round(seen.first_byte_ms, 1),
            "between_ms": round(seen.between_ms, 2),
            "after_ms": round(seen.after_ms, 2),
            "received_bytes": seen.received_bytes,
            "sent_bytes": seen.sent_bytes,
            "tokens": {} if seen.usage is None else asdict(seen.usage),
            "scope": seen.scope.hex() if seen.scope else "",
            "conversation": seen.conversation.hex(),
            "turn": seen.turn.hex()[:HASH_CHARS],
            "parent": seen.parent.hex()[:HASH_CHARS],
            "prefix": None if seen.prefix is None else seen.prefix._asdict(),
            "model": seen.model,
            "injected_bytes": seen.injected_bytes,
            "items": seen.items,
            "sent_items": seen.sent_items,
            "strip": msgspec.Raw(seen.strip),
        }
        try:
            return _ENCODE({"exchange": told})
        except UnicodeEncodeError:  # a lone surrogate in the model's name
            return _ENCODE({"exchange": told | {"model": ""}})
