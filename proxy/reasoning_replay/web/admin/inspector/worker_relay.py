"""
Exchanges of several processes, for one inspector: over the line between parent and workers.

While somebody watches, each worker says in batches what passes through it; else it says nothing.
"""

import asyncio
import contextlib
import json
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from reasoning_replay.web.admin.inspector.recorder import Heard, Source

__all__ = ["Gathered", "Reporting"]

# A batch is late by so much.
BATCH_S: Final = 0.2
# Of a line on the socket, and of all that waits to be sent: what comes beyond is lost, and counted.
BATCH_BYTES: Final = 256 << 10
WAITING_BYTES: Final = 2 << 20
# What the parent keeps for further ones who begin to watch.
KEPT: Final = 200
KEPT_BYTES: Final = 4 << 20
# What became of an exchange whose worker is gone.
WORKER_ENDED: Final = "worker_ended"


class Reporting:
    """A worker's end: says what its recorder tells, as long as it shall."""

    def __init__(self, source: Source, writer: asyncio.StreamWriter) -> None:
        """Say nothing yet."""
        self._source = source
        self._writer = writer
        self._waiting: deque[bytes] = deque()
        self._bytes = self._lost = 0
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, *, is_watched: bool) -> None:
        """Begin with what is kept, or end; if it cannot, what else the parent says is heard."""
        self._source.listen(self._put if is_watched else None)
        self._waiting.clear()
        self._bytes = self._lost = 0
        with contextlib.suppress(Exception):
            for told in self._source.recent() if is_watched else ():
                self._put(told)

    def _put(self, told: bytes) -> None:
        self._waiting.append(told)
        self._bytes += len(told)
        while self._bytes > WAITING_BYTES:
            self._bytes -= len(self._waiting.popleft())
            self._lost += 1
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(BATCH_S, self._send)

    def _send(self) -> None:
        """Send a batch, unless the last one is still on its way: what else is said goes first."""
        self._timer = None
        transport = self._writer.transport
        if transport.is_closing():
            return
        batch: list[bytes] = []
        if not transport.get_write_buffer_size():
            if self._lost:
                batch.append(b'{"lost":%d}' % self._lost)
                self._lost = 0
            size = 0
            while self._waiting and size < BATCH_BYTES:
                batch.append(self._waiting.popleft())
                size += len(batch[-1])
            self._bytes -= size
        if batch:
            self._writer.write(b'{"seen":[' + b",".join(batch) + b"]}\n")
        if self._waiting:
            self._timer = asyncio.get_running_loop().call_later(BATCH_S, self._send)


class Gathered:
    """The parent's end: what its workers say, as one source."""

    def __init__(self, tell: Callable[[bool], None]) -> None:
        """
        Begin with nothing.

        Args:
            tell: Lets all workers know whether somebody watches.
        """
        self._tell = tell
        self._heard: Heard | None = None
        self._kept: dict[str, bytes] = {}
        self._bytes = 0

    def recent(self) -> list[bytes]:
        """Return what workers have said since somebody watches, oldest first."""
        return list(self._kept.values())

    def listen(self, heard: Heard | None) -> None:
        """Let workers say what passes; None: let them be silent, and forget what they said."""
        self._heard = heard
        self._tell(heard is not None)
        if heard is None:
            self._kept.clear()
            self._bytes = 0

    def hear(self, batch: Sequence[Any]) -> None:
        """Take a batch of a worker's."""
        if self._heard is None:
            return  # it was under way when the last one left
        for told in batch:
            with contextlib.suppress(Exception):  # whoever looks on costs no worker
                self._pass_on(told)

    def end(self, pid: int | None) -> None:
        """Note that a worker is gone: what was under way in it is over, and nobody else says so."""
        if self._heard is None or pid is None:
            return
        prefix = f"{pid:x}."
        for name, line in list(self._kept.items()):
            if name.startswith(prefix):
                exchange = json.loads(line)["exchange"]
                if exchange["open"]:
                    ended = {"open": False, "outcome": WORKER_ENDED}
                    self.hear([{"exchange": exchange | ended}])

    def _pass_on(self, told: dict[str, Any]) -> None:
        line = json.dumps(told, separators=(",", ":")).encode()
        exchange = told.get("exchange")
        if exchange is not None:
            self._keep(exchange["id"], line)
        if self._heard is not None:
            self._heard(line)

    def _keep(self, name: str, line: bytes) -> None:
        self._bytes += len(line) - len(self._kept.pop(name, b""))
        self._kept[name] = line
        while len(self._kept) > KEPT or self._bytes > KEPT_BYTES:
            self._bytes -= len(self._kept.pop(next(iter(self._kept))))
