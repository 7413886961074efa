"""
Recorder: the newest exchanges for the inspector, as types, ids, sizes, counts and times only.

Every exchange is recorded, even without a watcher, so the newest ones are kept as they are. What
the page shows of them is collected for watchers only.
"""

import contextlib
import os
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from operator import attrgetter
from typing import Final, NamedTuple

import msgspec

from reasoning_replay.core.history.item_summary import ItemSummary
from reasoning_replay.web.admin.inspector.minutes import MINUTE_MS, Minutes
from reasoning_replay.web.exchange import Exchange
from reasoning_replay.web.exchange_facts import Reader, facts_of

# Finished exchanges that a new watcher gets; older ones are sent when they are asked for.
PAGE: Final = 200
# Largest total size of the finished exchanges that are kept, and the size of one without its strip,
# which was measured.
KEPT_BYTES: Final = 8 << 20
EXCHANGE_BYTES: Final = 2 << 10
# The same for exchanges in flight. A new watcher gets the newest of them; above this size of all
# strips, a further strip is reduced to its counts.
OPEN_SHOWN: Final = 100
OPEN_BYTES: Final = 4 << 20
# Above this number, the oldest open exchange is dropped: one that never ends would leak.
OPEN_MAX: Final = 20_000

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
        size_bytes: Size of its strip.
    """

    number: int
    exchange: Exchange
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
        self._minutes = Minutes()
        self._epoch_less_clock_ms = 0.0
        self._look_at_the_time()

    def begin(self, exchange: Exchange) -> None:
        """Record an exchange that is decided, before its request is sent."""
        self._last += 1
        size = 0
        if (strip := exchange.request.summary) is not None:
            if self._open_bytes + strip.size_bytes > OPEN_BYTES:
                exchange.request.summary = strip = strip.counted()
            size = strip.size_bytes
        self._open[id(exchange)] = seen = _Seen(self._last, exchange, size)
        self._open_bytes += size
        if len(self._open) > OPEN_MAX:
            self._open_bytes -= self._open.pop(next(iter(self._open))).size_bytes
        self._tell(seen)

    def end(self, exchange: Exchange) -> None:
        """Record a finished exchange."""
        begun = self._open.pop(id(exchange), None)
        if begun is None:  # it ended before `begin`
            self._last += 1
            number = self._last
        else:
            number = begun.number
            self._open_bytes -= begun.size_bytes
        self._minutes.add(exchange, self._epoch_ms())
        strip = exchange.request.summary
        size = strip.size_bytes if strip is not None else 0
        seen = _Seen(number, exchange, size)
        self._over.append(seen)
        self._bytes += EXCHANGE_BYTES + size
        while self._bytes > KEPT_BYTES:
            self._bytes -= EXCHANGE_BYTES + self._over.popleft().size_bytes
        self._tell(seen)

    def recent(self) -> list[bytes]:
        """Return the newest finished exchanges as JSON, oldest first, then those in flight."""
        self._look_at_the_time()
        newest = [*islice(reversed(self._over), PAGE)][::-1]
        return self._told([*newest, *[*self._open.values()][-OPEN_SHOWN:]])

    def older(self, before: str) -> list[bytes]:
        """Return up to PAGE finished exchanges that began before the one with this id."""
        process, _, number = before.rpartition(".")
        if process != self._name or not number.isdecimal():
            return []
        older = [seen for seen in self._over if seen.number < int(number)]
        return self._told(sorted(older, key=attrgetter("number"))[-PAGE:])

    def _told(self, exchanges: Sequence[_Seen]) -> list[bytes]:
        told: list[bytes] = []
        for seen in exchanges:
            with contextlib.suppress(Exception):  # one that cannot be encoded must not hide others
                told.append(self._json(seen))
        return told

    def listen(self, heard: Heard | None) -> None:
        """Call `heard` for every exchange from now on; None ends that."""
        self._look_at_the_time()
        self._heard = heard

    def sums(self, minutes: int) -> dict[str, object]:
        """Return the sums of the newest minutes, and the number of the current one."""
        now = self._epoch_ms() // MINUTE_MS
        return {"minutes": self._minutes.newest(minutes), "minute": now}

    def _look_at_the_time(self) -> None:
        """Set the offset from the clock to wall time; set for each exchange, it would jitter."""
        self._epoch_less_clock_ms = self._epoch_ms() - self._clock() * 1000

    def _tell(self, seen: _Seen) -> None:
        if self._heard is not None:
            with contextlib.suppress(Exception):  # a watcher must not fail an exchange
                self._heard(self._json(seen))

    def _json(self, seen: _Seen) -> bytes:
        number, exchange, _ = seen
        strip = exchange.request.summary or _NO_STRIP
        own = {
            "id": f"{self._name}.{number}",
            "at_ms": round(self._epoch_less_clock_ms + exchange.times.started_s * 1000),
            "strip": msgspec.Raw(strip.shown),
            "open": exchange.is_open,
            "items": strip.total,
        }
        return _ENCODE({"exchange": own | facts_of(exchange, Reader.INSPECTOR)})
