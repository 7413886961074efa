"""
Recorder: the newest exchanges for the inspector, by types, ids, sizes, counts and times alone.

Every exchange is recorded, watched or not, so recording copies a few fields only. They become
JSON when the inspector is watched.
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

# Exchanges that are over, and what their strips may take up together.
KEPT: Final = 100
KEPT_BYTES: Final = 2 << 20
# The same for those that are under way. Of more than these, the newest are shown to who begins to
# watch; and beside so many bytes of strips, further ones are counted alone.
OPEN_SHOWN: Final = 100
OPEN_BYTES: Final = 2 << 20
# Whatever is not ended is forgotten one day: this keeps hold of exchanges.
OPEN_MAX: Final = 20_000
# Of a hash, as much as tells one from another on a page; of a model's name, which a client writes.
HASH_CHARS: Final = 12
NAME_CHARS: Final = 64

# Told of an exchange, when it was decided and when it is over: JSON, `{"exchange": {…}}`.
Heard = Callable[[bytes], None]

_NO_STRIP = ItemSummary(0, b"").counted()
_ENCODE = msgspec.json.Encoder().encode


class ExchangeFeed(Protocol):
    """What the inspector reads exchanges from."""

    def recent(self) -> list[bytes]:
        """Return the JSON of what is kept, oldest first."""
        ...

    def listen(self, heard: Heard | None) -> None:
        """Tell of every exchange from now on; None: of none."""
        ...


class _Seen(msgspec.Struct, gc=False):
    """A few fields of an exchange, as they are; took_s is None while it is under way."""

    number: int
    started_s: float
    took_s: float | None
    route: str
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


def _seen(number: int, exchange: Exchange, took_s: float | None) -> _Seen:
    return _Seen(
        number,
        exchange.times.started_s,
        took_s,
        exchange.route,
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
        exchange.scope,
        exchange.conversation,
        exchange.request.summary or _NO_STRIP,
        exchange.request.model[:NAME_CHARS],
        exchange.request.injected_bytes,
    )


class Recorder:
    """Keeps the newest exchanges of one process. What goes wrong in here costs no exchange."""

    def __init__(self, clock: Callable[[], float], epoch_ms: Callable[[], int]) -> None:
        """
        Begin with nothing.

        Args:
            clock: Seconds, never going backwards: the one that exchanges are begun by.
            epoch_ms: Milliseconds since the epoch, for people.
        """
        self._clock = clock
        self._epoch_ms = epoch_ms
        # Tells this process from the one before it, and from others: their numbers are the same.
        self._name = f"{os.getpid():x}.{epoch_ms():x}"
        self._last = 0
        # By the exchange's own address: its number, itself, and how large its strip is.
        self._open: dict[int, tuple[int, Exchange, int]] = {}
        self._over: deque[_Seen] = deque()
        self._bytes = self._open_bytes = 0
        self._heard: Heard | None = None
        self._epoch_less_clock_ms = 0.0
        self._look_at_the_time()

    def begin(self, exchange: Exchange) -> None:
        """Note that it is known what becomes of a request, which is now sent on."""
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
        """Note that an exchange is over."""
        begun = self._open.pop(id(exchange), None)
        if begun is None:  # it never got so far
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
        """Return the JSON of what is kept, oldest first, and behind it of what is under way."""
        self._look_at_the_time()
        newest = list(self._open.values())[-OPEN_SHOWN:]
        under_way = [_seen(number, exchange, None) for number, exchange, _ in newest]
        told: list[bytes] = []
        for seen in (*self._over, *under_way):
            with contextlib.suppress(Exception):  # one that cannot be told hides no other
                told.append(self._json(seen))
        return told

    def listen(self, heard: Heard | None) -> None:
        """Tell of every exchange from now on; None: of none."""
        self._look_at_the_time()
        self._heard = heard

    def _look_at_the_time(self) -> None:
        """Note what the clock is in people's time: once, or what is told would go to and fro."""
        self._epoch_less_clock_ms = self._epoch_ms() - self._clock() * 1000

    def _tell(self, seen: _Seen) -> None:
        if self._heard is not None:
            with contextlib.suppress(Exception):  # whoever looks on costs no exchange
                self._heard(self._json(seen))

    def _json(self, seen: _Seen) -> bytes:
        is_open = seen.took_s is None
        told = {
            "id": f"{self._name}.{seen.number}",
            "at_ms": round(self._epoch_less_clock_ms + seen.started_s * 1000),
            "open": is_open,
            "route": seen.route,
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
        except UnicodeEncodeError:  # half a surrogate in the model's name
            return _ENCODE({"exchange": told | {"model": ""}})
