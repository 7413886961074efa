"""Capture tee: captures a response while it is relayed, and saves each completed item."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial

from reasoning_replay.adapters.runtime.offload import Busy
from reasoning_replay.adapters.upstream.client import UpstreamResponse
from reasoning_replay.core.dialects.captures import Capture
from reasoning_replay.core.dialects.states import CaptureState
from reasoning_replay.core.wire.content_coding import (
    Decoder,
    TooLarge,
    Undecodable,
    decoder_for,
    is_encoded,
)
from reasoning_replay.web.exchange import Exchange
from reasoning_replay.web.exchange_log import ExchangeLog
from reasoning_replay.web.memory_budget import MemoryLease
from reasoning_replay.web.pipeline.replay import Replay

__all__ = ["CaptureTee", "capture_tee_for"]

# A larger encoded chunk is decoded in a thread: its decoded size may be a thousand times as large.
ON_LOOP_ENCODED_BYTES = 4096
# The memory of a streamed capture is counted again after this much of the stream.
COUNTED_BYTES = 64 * 1024
_SUCCESS = range(200, 300)
# Why a response is not captured after these errors; all others are bugs.
_STATE_AFTER: dict[type[Exception], CaptureState] = {
    TooLarge: CaptureState.TOO_LARGE,
    Undecodable: CaptureState.UNREADABLE,
    Busy: CaptureState.BUSY,
}


@dataclass(slots=True)
class CaptureTee:
    """
    Capture of one response; it delays a chunk only to save its turn or to decode it in a thread.

    Attributes:
        decoder: Decoder of the captured copy; it returns at most `max_bytes`.
        max_bytes: Largest response that is captured, unless it is an unencoded stream.
        left: Bytes of the body still to come; None if its length is unknown.
        lease: Memory that it holds; the caller releases what is left at the end.
        on_complete: Called before the client gets the chunk that completes the response: after it,
            the client may send its next request, or close the connection.
    """

    replay: Replay
    exchange: Exchange
    capture: Capture
    decoder: Decoder
    max_bytes: int
    left: int | None
    is_stream: bool
    is_encoded: bool
    exchange_log: ExchangeLog
    lease: MemoryLease
    on_complete: Callable[[], Awaitable[None]] | None = None
    _kept: list[bytes] = field(default_factory=list)
    _undecoded: bytes = b""
    _size: int = 0
    _counted: int = 0  # size of the stream when the memory of the capture was counted
    _is_done: bool = False

    def take(self, chunk: bytes) -> bool:
        """Read the next chunk; False: `settle` must finish before it is written. Never raises."""
        if self._is_done:
            return True
        try:
            return self._take(chunk)
        except Exception as error:  # noqa: BLE001 (fail open: the client's stream goes on)
            self._failed(error)
        return True

    async def settle(self) -> None:
        """Save the items that the last chunk completed. Never raises."""
        if self._is_done:
            return
        try:
            await self._settle()
        except Exception as error:  # noqa: BLE001 (as above)
            self._failed(error)

    async def close(self) -> None:
        """Process the end of the response. Never raises."""
        if self._is_done:
            return
        try:
            await self._end()
        except Exception as error:  # noqa: BLE001 (as above)
            self._failed(error)

    def _take(self, chunk: bytes) -> bool:
        if self.left is not None:
            self.left -= len(chunk)
        if self.is_encoded and len(chunk) > ON_LOOP_ENCODED_BYTES:
            self._undecoded = chunk
            return False
        return self._learn(self.decoder.feed(chunk))

    def _learn(self, decoded: bytes) -> bool:
        """Process decoded bytes; return False if they completed something that must be saved."""
        if not self._size and not self.is_stream:
            # The Content-Type is not enough: some gateways stream under another one.
            self.is_stream = decoded.startswith((b"event:", b"data:", b":"))
        self._size += len(decoded)
        if self.is_stream:
            self.capture.feed(decoded)
            if self.capture.gave_up:
                self._give_up(CaptureState.TOO_LARGE)
                return True
            if self._size >= self._counted + COUNTED_BYTES:
                self._counted = self._size
                if not self.lease.resize(self.capture.held_bytes):
                    self._give_up(CaptureState.BUSY)
                    return True
            return not self.capture.dirty
        if self._size > self.max_bytes:
            self._give_up(CaptureState.TOO_LARGE)
            return True
        if self._size > self.lease.held and not self.lease.resize(self._size):
            self._give_up(CaptureState.BUSY)
            return True
        self._kept.append(decoded)
        return self.left != 0  # the last chunk waits: after it, the client may continue

    async def _settle(self) -> None:
        if self._undecoded:
            chunk, self._undecoded = self._undecoded, b""
            feed = partial(self.decoder.feed, chunk)
            self._learn(await self.replay.offloader.run(feed, self.exchange.scope))
        if self._is_done:
            return
        if not self.is_stream and self.left == 0:
            await self._end()
        elif self.capture.dirty:
            await self.replay.save(self.exchange)
            if self.capture.gave_up:
                self._give_up(CaptureState.TOO_LARGE)
        if self.on_complete is not None and self.capture.is_complete:
            await self.on_complete()

    async def _end(self) -> None:
        self._is_done = True
        if self.is_stream:
            self.capture.close()
        else:
            answer = b"".join(self._kept)
            self._kept.clear()
            self.capture.read(answer)
            del answer
        await self.replay.save(self.exchange, is_last=True)
        if self.capture.gave_up:
            self._give_up(CaptureState.TOO_LARGE)
        self.lease.resize(0)
        self.exchange.response.state = self.exchange.response.state or CaptureState.NOTHING

    def _failed(self, error: Exception) -> None:
        state = _STATE_AFTER.get(type(error), CaptureState.FAILED)
        if state is CaptureState.FAILED:
            self.exchange_log.warn("capture_failed", self.exchange, error)
        self._give_up(state)

    def _give_up(self, why: str) -> None:
        self.exchange.response.state = why
        self._is_done = True
        self._kept.clear()
        self.lease.resize(0)


def capture_tee_for(
    response: UpstreamResponse,
    replay: Replay,
    exchange: Exchange,
    max_bytes: int,
    exchange_log: ExchangeLog,
) -> CaptureTee | None:
    """Return the capture tee of a response; None if there is nothing to capture."""
    if exchange.response.capture is None:
        return None
    if response.status not in _SUCCESS:
        exchange.response.state = CaptureState.REFUSED
        return None
    try:
        coding = response.value(b"content-encoding")
        decoder = decoder_for(coding, max_bytes)
    except Undecodable:
        exchange.response.state = CaptureState.UNREADABLE
        return None
    is_stream = response.content_type == "text/event-stream"
    lease = MemoryLease(exchange.lease.budget)
    lease.tenant = exchange.lease.tenant
    # All at once, so that responses do not take the room from each other before one is complete.
    if not is_stream and not lease.reserve(min(response.length or 0, max_bytes)):
        exchange.response.state = CaptureState.BUSY
        return None
    return CaptureTee(
        replay=replay,
        exchange=exchange,
        capture=exchange.response.capture,
        decoder=decoder,
        max_bytes=max_bytes,
        left=response.length,
        is_stream=is_stream,
        is_encoded=is_encoded(coding),
        exchange_log=exchange_log,
        lease=lease,
    )
