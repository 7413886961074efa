"""
Recorder: the newest exchanges for the inspector, as types, ids, sizes, counts and times only.

Every exchange is recorded, even without a watcher, so the newest ones are kept as they are. What
the page shows of them is collected for watchers only, and prefixes are compared only while a page
is open.
"""

import contextlib
import os
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec

from reasoning_replay.core.history.item_summary import ItemSummary
from reasoning_replay.core.history.sent_items import NOT_SENT, SentItems, words
from reasoning_replay.web.admin.inspector.minutes import MINUTE_MS, Minutes
from reasoning_replay.web.admin.inspector.prefixes import Prefix, Prefixes
from reasoning_replay.web.exchange import Exchange
from reasoning_replay.web.exchange_facts import Reader, facts_of

# Most finished exchanges that are kept, and the largest total size of their strips.
KEPT: Final = 200
KEPT_BYTES: Final = 4 << 20
# The same for exchanges in flight. A new watcher gets the newest of them; above this size of all
# strips, a further strip is reduced to its counts.
OPEN_SHOWN: Final = 100
OPEN_BYTES: Final = 4 << 20
# Above this number, the oldest open exchange is dropped: one that never ends would leak.
OPEN_MAX: Final = 20_000
# Prefixes are compared for this long after the last watcher has left: a reload or a look at another
# page must not interrupt that.
WATCHED_S: Final = 300.0
# Different injected items are counted up to this number: the count needs 64 bytes for each.
DIFFERENT_MAX: Final = 8192

# Receives an exchange, once it is decided and at its end, as JSON: `{"exchange": {…}}`.
Heard = Callable[[bytes], None]

_NO_STRIP = ItemSummary(0)
_ENCODE = msgspec.json.Encoder().encode


class _Seen(NamedTuple):
    """
    An exchange, as the page sees it.

    Attributes:
        number: Its number in this process.
        exchange: Itself; at its end, it holds nothing of its bodies.
        prefix: Its request, compared with the one before.
        sent_items: Number of items that were sent.
        size_bytes: Size of its strip.
    """

    number: int
    exchange: Exchange
    prefix: Prefix | None
    sent_items: int
    size_bytes: int


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
        self._open: dict[int, _Seen] = {}  # by `id()` of the exchange
        self._over: deque[_Seen] = deque()
        self._bytes = self._open_bytes = 0
        self._heard: Heard | None = None
        self._watched_s = -WATCHED_S
        self._prefixes = Prefixes()
        self._minutes = Minutes()
        self._different: set[int] = set()
        self._epoch_less_clock_ms = 0.0
        self._look_at_the_time()

    def begin(self, exchange: Exchange) -> None:
        """Record an exchange that is decided, before its request is sent."""
        self._last += 1
        # Only a watched request has the digests of its items.
        prefix = self._prefixes.compare(exchange) if exchange.is_watched else None
        items = size = 0
        if (strip := exchange.request.summary) is not None:
            items, size = strip.sent.total, strip.size_bytes
            if self._open_bytes + size > OPEN_BYTES:
                exchange.request.summary = strip = strip.counted()
                items, size = strip.sent.total, strip.size_bytes
        self._open[id(exchange)] = seen = _Seen(self._last, exchange, prefix, items, size)
        self._open_bytes += size
        if len(self._open) > OPEN_MAX:
            self._open_bytes -= self._open.pop(next(iter(self._open))).size_bytes
        self._tell(seen)

    def end(self, exchange: Exchange) -> None:
        """Record a finished exchange."""
        begun = self._open.pop(id(exchange), None)
        if begun is None:  # it ended before `begin`
            self._last += 1
            number, prefix = self._last, None
        else:
            number, prefix = begun.number, begun.prefix
            self._open_bytes -= begun.size_bytes
        if exchange.is_watched:
            if exchange.request.healed:  # upstream accepted another request than the first one
                prefix = self._prefixes.compare(exchange)
            self._prefixes.keep(exchange)
        self._minutes.add(exchange, self._epoch_ms())
        items = size = 0
        if (strip := exchange.request.summary) is not None:
            self._note_injected(strip.sent)
            items = strip.sent.total
            exchange.request.summary = strip = strip._replace(sent=NOT_SENT)
            size = strip.size_bytes
        seen = _Seen(number, exchange, prefix, items, size)
        self._over.append(seen)
        self._bytes += size
        while len(self._over) > KEPT or self._bytes > KEPT_BYTES:
            self._bytes -= self._over.popleft().size_bytes
        self._tell(seen)

    @property
    def is_watched(self) -> bool:
        """Whether there is a listener, or was one within the last WATCHED_S."""
        return self._heard is not None or self._clock() - self._watched_s < WATCHED_S

    def recent(self) -> list[bytes]:
        """Return finished exchanges as JSON, oldest first, followed by those in flight."""
        self._look_at_the_time()
        told: list[bytes] = []
        for seen in (*self._over, *[*self._open.values()][-OPEN_SHOWN:]):
            with contextlib.suppress(Exception):  # one that cannot be encoded must not hide others
                told.append(self._json(seen))
        return told

    def listen(self, heard: Heard | None) -> None:
        """Call `heard` for every exchange from now on; None ends that."""
        self._look_at_the_time()
        self._heard, self._watched_s = heard, self._clock()

    def sums(self, minutes: int) -> dict[str, object]:
        """Return the sums of the newest minutes, and how many different items were injected."""
        different = len(self._different)
        return {
            "minutes": self._minutes.newest(minutes),
            "minute": self._epoch_ms() // MINUTE_MS,
            "different": different,
            "different_is_more": different >= DIFFERENT_MAX,
        }

    def _note_injected(self, sent: SentItems) -> None:
        if sent.injected and len(self._different) < DIFFERENT_MAX:
            self._different.update(words(sent.injected))

    def _look_at_the_time(self) -> None:
        """Set the offset from the clock to wall time; set for each exchange, it would jitter."""
        self._epoch_less_clock_ms = self._epoch_ms() - self._clock() * 1000

    def _tell(self, seen: _Seen) -> None:
        if self._heard is not None:
            with contextlib.suppress(Exception):  # a watcher must not fail an exchange
                self._heard(self._json(seen))

    def _json(self, seen: _Seen) -> bytes:
        number, exchange, prefix, sent_items, _ = seen
        strip = exchange.request.summary or _NO_STRIP
        own = {
            "id": f"{self._name}.{number}",
            "at_ms": round(self._epoch_less_clock_ms + exchange.times.started_s * 1000),
            "strip": msgspec.Raw(strip.shown),
            "open": exchange.is_open,
            "prefix": None if prefix is None else prefix._asdict(),
            "items": strip.total,
            "sent_items": sent_items,
        }
        return _ENCODE({"exchange": own | facts_of(exchange, Reader.INSPECTOR)})
