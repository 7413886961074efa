"""
Arriving messages of one WebSocket peer: their memory is reserved while they arrive.

aiohttp holds each message whole before it returns it. So this reads the frame headers first: a
long message has its room before the rest of it is read, as a long HTTP body has. Meanwhile, its
bytes wait in the kernel, and the peer feels it as a slow network. No message is refused for that.
"""

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from typing_extensions import override

from reasoning_replay.adapters.runtime.frames import clear_frames
from reasoning_replay.web.memory_budget import MemoryLease
from reasoning_replay.web.pipeline.request_body import SHORT_BYTES

# A message that is relayed is held as received, and once more as edited or in the write buffer.
COPIES = 2
# A longer message is counted while it arrives.
COUNTED_BYTES = SHORT_BYTES // COPIES
# Deflate shrinks by this factor at most (zlib's documentation), so this is known of a compressed
# message before it is complete.
INFLATES_MAX = 1032

# While others wait for room, a peer must send an eighth of a long message in its timeout.
LEAST_PART = 8

_FIN, _COMPRESSED, _OPCODE, _CONTROL = 0x80, 0x40, 0x0F, 0x8
_MASKED, _LENGTH, _LENGTH_16, _LENGTH_64 = 0x80, 0x7F, 126, 127
_MASK_BYTES = 4


@dataclass(slots=True, eq=False)
class _Message:
    """
    A message of which at least a part has arrived.

    Attributes:
        size: Bytes that it takes, as far as its frames tell.
        reserved: How many of these are reserved.
        is_compressed: Whether its size before decompression is not known.
        is_relayed: Whether it has been forwarded.
    """

    size: int = 0
    reserved: int = 0
    is_compressed: bool = False
    is_relayed: bool = False


@dataclass(slots=True, eq=False)
class _Frames:
    """
    Reader of frame headers (RFC 6455, section 5.2), over pieces of any size.

    Attributes:
        left: Payload bytes of the current frame that have not arrived yet.
    """

    left: int = 0
    is_last: bool = False
    _head: bytearray = field(default_factory=bytearray)

    def skip(self, data: bytes | bytearray | memoryview, at: int) -> int:
        """Skip the payload of the current frame; return where it ends, or the data."""
        step = min(self.left, len(data) - at)
        self.left -= step
        return at + step

    def header(self, data: bytes | bytearray | memoryview, at: int) -> tuple[int, int | None]:
        """Read a header; return where the payload begins, and the first byte if it is complete."""
        head = self._head
        while at < len(data):
            missing = _header_size(head) - len(head)
            if not missing:
                break
            piece = data[at : at + missing]
            head += piece
            at += len(piece)
        if len(head) < _header_size(head):
            return at, None
        first, length = head[0], head[1] & _LENGTH
        if length == _LENGTH_16:
            length = int.from_bytes(head[2:4])
        elif length == _LENGTH_64:
            length = int.from_bytes(head[2:10])
        head.clear()
        self.left = length
        return at, first


def _header_size(head: bytearray) -> int:
    """Return the size of a header, as far as its first bytes tell."""
    if len(head) < 2:  # noqa: PLR2004 (the two bytes that every frame has)
        return 2
    length = head[1] & _LENGTH
    more = 2 if length == _LENGTH_16 else 8 if length == _LENGTH_64 else 0
    return 2 + more + (_MASK_BYTES if head[1] & _MASKED else 0)


class ArrivingMessages(asyncio.Protocol):
    """Protocol between a peer's transport and aiohttp's: it counts what aiohttp holds."""

    def __init__(self, transport: asyncio.Transport, lease: MemoryLease, max_bytes: int) -> None:
        """
        Stand between a transport and its protocol, from the next bytes on.

        Args:
            transport: Its protocol is aiohttp's.
            lease: Only for messages of this peer.
            max_bytes: Largest message, decompressed; aiohttp refuses a longer one.
        """
        self._transport = transport
        self._inner: Any = transport.get_protocol()
        self._lease = lease
        self._max_bytes = max_bytes
        self._frames = _Frames()
        self._message = _Message()
        self._complete: deque[_Message] = deque()
        self._waiting: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._arrived = self._since_bytes = 0
        self._since_s = self._loop.time()
        transport.set_protocol(self)

    def must_yield(self, within_s: float) -> bool:
        """
        Return whether the peer is too slow with a long message, while others wait for room.

        It must send a part of it, LEAST_PART, in each `within_s`, as seen by earlier calls.
        """
        is_ours = self._waiting is not None or self._is_paused
        message, now_s = self._message, self._loop.time()
        if is_ours or not (message.reserved and self._lease.budget.is_contended):
            self._since_s, self._since_bytes = now_s, self._arrived
            return False
        if now_s - self._since_s < within_s:
            return False
        arrived = self._arrived - self._since_bytes
        self._since_s, self._since_bytes = now_s, self._arrived
        return arrived * COPIES * LEAST_PART < message.size

    def relayed(self) -> None:
        """Free the oldest complete message, which has been forwarded."""
        if self._complete:
            message = self._complete.popleft()
            message.is_relayed = True
            self._free(message)

    def taken(self, size: int) -> None:
        """Count the oldest complete message by its real size, which aiohttp has returned."""
        if not self._complete or not self._complete[0].is_compressed:
            return
        message = self._complete[0]
        message.size = COPIES * size
        if message.reserved > message.size:
            self._lease.release(message.reserved - message.size)
            message.reserved = message.size

    def end(self) -> None:
        """Free all messages, and leave the transport to aiohttp."""
        if self._waiting is not None:
            self._waiting.cancel()
        self._complete.clear()
        self._message = _Message()
        self._lease.resize(0)

    def _free(self, message: _Message) -> None:
        self._lease.release(message.reserved)
        message.reserved = 0

    # --- what the transport calls ---

    @override
    def data_received(self, data: bytes) -> None:
        self._arrived += len(data)
        self._count(data)
        self._inner.data_received(data)
        if self._waiting is not None:
            self._transport.pause_reading()  # aiohttp may have resumed

    @override
    def eof_received(self) -> bool | None:
        keeps_open: bool | None = self._inner.eof_received()
        return keeps_open

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self.end()
        self._inner.connection_lost(exc)

    @override
    def pause_writing(self) -> None:
        self._inner.pause_writing()

    @override
    def resume_writing(self) -> None:
        self._inner.resume_writing()

    # --- counting ---

    def _count(self, data: bytes) -> None:
        frames, at = self._frames, 0
        while at < len(data):
            if frames.left:
                at = frames.skip(data, at)
            else:
                at, first = frames.header(data, at)
                if first is None:
                    return
                self._begin(first, frames.left)
            if not frames.left and frames.is_last:
                frames.is_last = False
                self._complete.append(self._message)
                self._message = _Message()

    def _begin(self, first: int, length: int) -> None:
        """Count a frame whose header has arrived."""
        opcode = first & _OPCODE
        if opcode & _CONTROL:
            return
        message = self._message
        self._frames.is_last = bool(first & _FIN)
        message.is_compressed = message.is_compressed or bool(first & _COMPRESSED)
        size = COPIES * length
        if message.is_compressed:
            size = max(size, INFLATES_MAX * length)
        message.size = min(message.size + size, COPIES * self._max_bytes)
        missing = message.size - message.reserved
        if message.size <= COPIES * COUNTED_BYTES or not missing or self._waiting is not None:
            return
        if not self._lease.budget.is_contended and self._lease.reserve(missing):
            message.reserved = message.size
            return
        self._waiting = asyncio.ensure_future(self._wait(message))

    async def _wait(self, message: _Message) -> None:
        """Wait for the room of a message, and for that of those that arrived meanwhile."""
        self._transport.pause_reading()
        try:
            while (size := self._missing(message)) > 0:
                if not await self._lease.reserve_in_turn(size):
                    continue
                message.reserved += size
                if message.is_relayed:
                    self._free(message)
        except asyncio.CancelledError as error:
            clear_frames(error)
            raise
        finally:
            self._waiting = None
            if not (self._is_paused or self._transport.is_closing()):
                self._transport.resume_reading()

    def _missing(self, message: _Message) -> int:
        """Return how many bytes a message lacks, as far as they can ever be reserved."""
        if message.is_relayed:
            return 0
        room = self._lease.budget.waitable - self._lease.held
        return min(message.size - message.reserved, room)

    @property
    def _is_paused(self) -> bool:
        """Whether aiohttp has paused the transport, because messages wait to be relayed."""
        return bool(getattr(self._inner, "_reading_paused", False))
