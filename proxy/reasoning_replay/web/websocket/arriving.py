"""
Arriving messages of one WebSocket peer: their memory is reserved while they arrive.

aiohttp holds each message whole before it returns it. So this reads the frame headers first: a
long message has its room before aiohttp sees a byte of it, as a long HTTP body has. Meanwhile, its
bytes wait in the kernel, and the peer feels it as a slow network. No message is refused for that.

Room may stay taken for minutes, and a message in several frames holds some while it waits for more.
So a message that finds none in time goes over the budget, one at a time. Those of upstreams do not
wait for those of clients: an upstream may read only after it has written.
"""

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Any

from typing_extensions import override

from reasoning_replay.adapters.runtime.frames import clear_frames
from reasoning_replay.adapters.runtime.tcp import unread_poll
from reasoning_replay.web.memory_budget import MemoryLease
from reasoning_replay.web.pipeline.request_body import COMPLETE_S, QUIET_S, SHORT_BYTES
from reasoning_replay.web.websocket.frame_headers import FrameHeader, Frames

# A message that is relayed is held as received, and once more as edited or in the write buffer.
COPIES = 2
# A longer message is counted while it arrives.
COUNTED_BYTES = SHORT_BYTES // COPIES
# Deflate shrinks by this factor at most (zlib's documentation), so this is known of a compressed
# message before it is complete.
INFLATES_MAX = 1032

# While others wait for room, a peer must send an eighth of a long message in its timeout.
LEAST_PART = 8

# Longest wait for room of a message that may be what others wait for.
STUCK_S = 2.0


@dataclass(slots=True, eq=False)
class _Message:
    """
    A message of which at least a part has arrived.

    Attributes:
        announced: Payload bytes on the wire, as far as its frames tell.
        arrived: How many of these have arrived.
        size: Bytes of memory that it takes, as far as its frames tell.
        reserved: How many of these are reserved.
        reserved_s: When they were.
        is_compressed: Whether its size before decompression is not known.
        is_last: Whether its newest frame is the last one.
        is_over: Whether it went over the budget.
    """

    announced: int = 0
    arrived: int = 0
    size: int = 0
    reserved: int = 0
    reserved_s: float = 0.0
    is_compressed: bool = False
    is_last: bool = False
    is_over: bool = False

    @property
    def taken(self) -> int:
        """Bytes of memory that the arrived part takes."""
        return COPIES * self.arrived

    @property
    def lacks_room(self) -> bool:
        """Whether more is about to arrive than is reserved; a short message needs no room."""
        is_long = self.size > COPIES * COUNTED_BYTES
        return is_long and self.reserved < self.size and self.reserved <= self.taken


class ArrivingMessages(asyncio.Protocol):
    """Protocol between a peer's transport and aiohttp's: it counts what aiohttp holds."""

    def __init__(
        self,
        transport: asyncio.Transport,
        lease: MemoryLease,
        max_bytes: int,
        *,
        is_upstream: bool = False,
    ) -> None:
        """
        Stand between a transport and its protocol, from the next bytes on.

        Args:
            transport: Its protocol is aiohttp's.
            lease: Only for messages of this peer.
            max_bytes: Largest message, decompressed; aiohttp refuses a longer one.
            is_upstream: Whether the peer is the upstream.
        """
        self._transport = transport
        self._inner: Any = transport.get_protocol()
        self._lease = lease
        self._max_bytes = max_bytes
        self._is_upstream = is_upstream
        self._frames = Frames()
        self._in_message = False  # whether the current frame is part of a message
        self._message = _Message()
        self._complete: deque[_Message] = deque()
        self._waiting: asyncio.Task[None] | None = None
        self._held = b""  # what arrived after the point at which a message waits
        self._has_ended = False
        self._loop = asyncio.get_running_loop()
        self._heard_s = self._since_s = self._loop.time()
        self._look: asyncio.TimerHandle | None = None
        self._since_bytes = 0
        self._scan(_early(self._inner), waits=False)
        transport.set_protocol(self)

    def must_yield(self, within_s: float) -> bool:
        """
        Return whether a client is too slow with a long message, while others wait for room.

        It must send a part of it, LEAST_PART, in each `within_s`, as seen by earlier calls.
        """
        message, now_s = self._message, self._loop.time()
        is_needed = bool(message.reserved) and self._lease.budget.is_contended
        if self._is_upstream or self._is_paused or not is_needed:
            self._since_s, self._since_bytes = now_s, message.arrived
            return False
        if now_s - self._since_s < within_s:
            return False
        arrived = message.arrived - self._since_bytes
        self._since_s, self._since_bytes = now_s, message.arrived
        return arrived * LEAST_PART < message.announced

    def relayed(self) -> None:
        """Free the oldest complete message, which has been forwarded."""
        if self._complete:
            self._shrink(self._complete.popleft(), 0)

    def received(self, size: int) -> None:
        """Count the oldest complete message by its real size, which aiohttp has returned."""
        if self._complete and self._complete[0].is_compressed:
            self._shrink(self._complete[0], COPIES * size)

    def end(self) -> None:
        """Free all messages and count no further ones."""
        self._has_ended = True
        if self._waiting is not None:
            self._waiting.cancel()
        if self._look is not None:
            self._look.cancel()
        self._complete.clear()
        self._message, self._held = _Message(), b""
        self._lease.resize(0)

    def _shrink(self, message: _Message, size: int) -> None:
        """Let a message hold at most `size` bytes."""
        more = max(0, message.reserved - size)
        message.reserved -= more
        self._lease.release(more)

    # --- what the transport calls ---

    @override
    def data_received(self, data: bytes) -> None:
        self._heard_s = self._loop.time()
        if self._waiting is None:
            self._pass(data)
        else:
            self._held += data
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

    def _pass(self, data: bytes) -> None:
        """Give aiohttp what arrived, up to the payload for which there is no room yet."""
        at = len(data) if self._has_ended else self._scan(data)
        if at < len(data):
            self._held = data[at:]
            self._transport.pause_reading()
            self._waiting = asyncio.ensure_future(self._wait(self._message))
        if at:
            self._inner.data_received(data[:at])

    def _scan(self, data: bytes, *, waits: bool = True) -> int:
        """Count what arrived; return the size of the part for which there is room."""
        frames, at = self._frames, 0
        while at < len(data):
            message = self._message
            if frames.left:
                if waits and self._in_message and not self._has_room(message):
                    return at
                end = frames.skip(data, at)
                if self._in_message:
                    message.arrived += end - at
                at = end
            else:
                at, header = frames.header(data, at)
                if header is None:
                    return at
                self._in_message = not header.is_control
                if self._in_message:
                    self._begin(message, header)
            if message.is_last and self._in_message and not frames.left:
                if not message.is_compressed:
                    self._shrink(message, message.size)
                self._complete.append(message)
                self._message, self._since_bytes = _Message(), 0
        return at

    def _begin(self, message: _Message, header: FrameHeader) -> None:
        """Count a frame of a message whose header has arrived."""
        message.is_last = header.is_last
        message.is_compressed = message.is_compressed or header.is_compressed
        message.announced += header.length
        size = INFLATES_MAX if message.is_compressed else COPIES
        message.size = min(message.size + size * header.length, self._most)

    def _has_room(self, message: _Message) -> bool:
        """Return whether a message has room for its next bytes; reserve it if it need not wait."""
        if not message.lacks_room:
            return True
        is_short = message.announced <= COUNTED_BYTES  # when compressed; it arrives in a moment
        if self._lease.budget.is_contended and not is_short:
            return False
        if not self._lease.reserve(message.size - message.reserved):
            return False
        self._reserved(message, message.size)
        return True

    def _reserved(self, message: _Message, size: int) -> None:
        message.reserved, message.reserved_s = size, self._loop.time()
        if self._look is None:
            self._look = self._loop.call_later(QUIET_S, self._give_back)

    async def _wait(self, message: _Message) -> None:
        """Wait for the room of a message, then give aiohttp what arrived meanwhile."""
        try:
            await self._get_room(message)
        except asyncio.CancelledError as error:
            clear_frames(error)
            raise
        finally:
            self._waiting = None
        held, self._held = self._held, b""
        self._pass(held)
        if not (self._is_paused or self._transport.is_closing()):
            self._transport.resume_reading()

    async def _get_room(self, message: _Message) -> None:
        lease, held, size = self._lease, message.reserved, message.size
        within_s, moving_s = STUCK_S if self._is_upstream else None, None
        if not message.is_last:
            # In few steps, because each one may have to wait. What others free may be but steps of
            # theirs, so the queue may move while no message gets whole.
            size, within_s, moving_s = min(size + held, self._most), STUCK_S, STUCK_S
        size = min(size - held, lease.budget.waitable - lease.held)
        if await lease.reserve_in_turn(size, within_s, moving_s):
            self._reserved(message, held + size)
        else:
            # Once for all of it: what goes over the budget never waits for more.
            most = message.size if message.is_last else self._most
            await lease.overdraw(most - held, self._most if self._is_upstream else 0)
            message.is_over = True
            self._reserved(message, most)

    def _give_back(self) -> None:
        """While others wait for room, free what is reserved for the rest of a slow message."""
        self._look = None
        message, now_s = self._message, self._loop.time()
        more, budget = message.reserved - message.taken, self._lease.budget
        if more <= 0 or self._transport.is_closing():
            return
        is_quiet = now_s - self._heard_s >= QUIET_S or now_s - message.reserved_s >= COMPLETE_S
        # What is still over the budget afterwards must not wait for more.
        may = not message.is_over or budget.used - more <= budget.units
        if is_quiet and may and budget.is_contended and not self._is_paused:
            unread = unread_poll(self._transport)
            if unread is None or not unread.poll(0):
                self._shrink(message, message.taken)
                return
        self._look = self._loop.call_later(QUIET_S, self._give_back)

    @property
    def _most(self) -> int:
        """Bytes of memory that a message takes at most."""
        return COPIES * self._max_bytes

    @property
    def _is_paused(self) -> bool:
        """Whether it is not the peer that is slow: a message waits for room, or to be relayed."""
        return self._waiting is not None or bool(getattr(self._inner, "_reading_paused", False))


def _early(inner: object) -> bytes:
    """Return what a peer has sent with the handshake; aiohttp holds it already."""
    # Of its server and of its client.
    found = getattr(inner, "_message_tail", b"") or getattr(inner, "_tail", b"")
    return found if isinstance(found, bytes) else b""
