"""
Capture tee: captures a response while it is relayed, and saves each completed item.

Of an error, the error tee reads the code and the type.
"""

import contextlib
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus

from typing_extensions import override

from reasoning_replay.adapters.runtime.fail_open import FailOpen
from reasoning_replay.adapters.runtime.offload import Busy
from reasoning_replay.core.dialects.captures import Capture
from reasoning_replay.core.dialects.error_texts import error_names
from reasoning_replay.core.dialects.states import CaptureState
from reasoning_replay.core.wire.content_coding import (
    NO_CODING,
    STEP_BYTES,
    Decoder,
    TooLarge,
    Undecodable,
    decoder_for,
    is_encoded,
    next_step,
)
from reasoning_replay.web.exchange import Exchange
from reasoning_replay.web.exchange_log import ExchangeLog
from reasoning_replay.web.memory_budget import MemoryLease
from reasoning_replay.web.pipeline.healing_retry import CheckedResponse
from reasoning_replay.web.pipeline.replay import Replay

# A larger encoded chunk is decoded in a thread: its decoded size may be a thousand times as large.
ON_LOOP_ENCODED_BYTES = 4096
# A response is held once as it arrives, and once more as the items and records made of it.
COPIES = 2
# The memory of a streamed capture is counted again after this much of the stream.
COUNTED_BYTES = 64 * 1024
# A longer error body, encoded or decoded, is not read.
ERROR_MAX_BYTES = 16 * 1024
_SUCCESS = range(200, 300)
_CODING = b"content-encoding"
# Why a response is not captured after these errors; all others are bugs.
_STATE_AFTER: dict[type[Exception], CaptureState] = {
    TooLarge: CaptureState.TOO_LARGE,
    Undecodable: CaptureState.UNREADABLE,
    Busy: CaptureState.BUSY,
}


class Tee:
    """Reader of a response while it is relayed; this base class reads nothing."""

    __slots__ = ()

    def take(self, chunk: bytes) -> bool:  # noqa: ARG002 (of those that read)
        """Read the next chunk; False: `settle` must finish before it is written. Never raises."""
        return True

    async def settle(self) -> None:
        """Save the items that the last chunk completed. Never raises."""

    async def close(self) -> None:
        """Process the end of the response. Never raises."""

    def release(self) -> None:
        """Release the memory that it holds, also if the response was not relayed to its end."""


@dataclass(slots=True)
class CaptureTee(Tee):
    """
    Capture of one response; it delays a chunk only to save its turn or to decode it in a thread.

    Attributes:
        decoder: Decoder of the captured copy; it returns at most `max_bytes`.
        max_bytes: Largest response that is captured, unless it is an unencoded stream.
        left: Bytes of the body still to come; None if its length is unknown.
        step: Context of everything that it does; a failure ends the capture.
        lease: Memory that it holds.
        learn: Called before the client gets the chunk that completes the response: after it, the
            client may send its next request, or close the connection.
    """

    replay: Replay
    exchange: Exchange
    capture: Capture
    decoder: Decoder
    max_bytes: int
    left: int | None
    is_stream: bool
    is_encoded: bool
    step: FailOpen
    lease: MemoryLease
    learn: Callable[[Exchange], Awaitable[None]]
    _kept: list[bytes] = field(default_factory=list)
    _undecoded: bytes = b""
    _size: int = 0
    _counted: int = 0  # size of the stream when the memory of the capture was counted
    _is_done: bool = False

    @override
    def take(self, chunk: bytes) -> bool:
        if self._is_done:
            return True
        try:  # not as a context, which costs two calls for each chunk
            return self._take(chunk)
        except Exception as error:  # noqa: BLE001 (fail open: the client's stream goes on)
            self.step.fail(error)
            self._stop()
            return True

    @override
    async def settle(self) -> None:
        if self._is_done:
            return
        with self.step:
            await self._settle()
        if self.step.has_failed:
            self._stop()

    @override
    async def close(self) -> None:
        if self._is_done:
            return
        with self.step:
            await self._end()
        if self.step.has_failed:
            self._stop()

    @override
    def release(self) -> None:
        self._kept.clear()
        self._undecoded = b""
        if self.lease.held:
            self.lease.resize(0)

    def _take(self, chunk: bytes) -> bool:
        if self.left is not None:
            self.left -= len(chunk)
        if self.is_encoded and len(chunk) > ON_LOOP_ENCODED_BYTES:
            self._undecoded = chunk
            return False
        return self._feed(self.decoder.feed(chunk))

    def _feed(self, decoded: bytes) -> bool:
        """Process decoded bytes; return False if they completed something that must be saved."""
        if not self._size and not self.is_stream:
            # The Content-Type is not enough: some gateways stream under another one.
            self.is_stream = decoded.startswith((b"event:", b"data:", b":"))
        self._size += len(decoded)
        if self.is_stream:
            self.capture.feed(decoded)
            if self.capture.gave_up:
                raise TooLarge
            if self._size >= self._counted + COUNTED_BYTES:
                self._counted = self._size
                held_bytes = COPIES * self.capture.held_bytes + self.decoder.held_bytes
                if not self.lease.resize(held_bytes):
                    raise Busy
            return not self.capture.dirty
        if self._size > self.max_bytes:
            raise TooLarge
        held_bytes = COPIES * self._size + self.decoder.held_bytes
        if held_bytes > self.lease.held and not self.lease.resize(held_bytes):
            raise Busy
        self._kept.append(decoded)
        return self.left != 0  # the last chunk waits: after it, the client may continue

    async def _settle(self) -> None:
        if self._undecoded:
            chunk, self._undecoded = self._undecoded, b""
            await self._decode(self.decoder.pieces(chunk))
            del chunk
        if self._is_done:
            return
        if not self.is_stream and self.left == 0:
            await self._end()
        elif self.capture.dirty:
            await self._save()
        if self.capture.is_complete:
            await self.learn(self.exchange)

    async def _decode(self, pieces: Iterator[bytes]) -> None:
        """Decode a chunk in steps, each of which is counted before the next."""
        step = partial(next_step, pieces)
        size = STEP_BYTES
        while size >= STEP_BYTES and not self._is_done:
            decoded = await self.replay.offloader.run(step, self.exchange.scope)
            size = len(decoded)
            self._feed(decoded)
            del decoded
            if self.is_stream and self.capture.dirty:
                await self._save()

    async def _end(self) -> None:
        self._is_done = True
        if self.is_stream:
            self.capture.close()
        else:
            answer = b"".join(self._kept)
            self._kept.clear()
            self.capture.read(answer)
            del answer
        await self._save(is_over=True)
        self._free()
        self.exchange.response.state = self.exchange.response.state or CaptureState.NOTHING

    async def _save(self, *, is_over: bool = False) -> None:
        await self.replay.save(self.exchange, is_over=is_over)
        if self.capture.gave_up:
            raise TooLarge

    def _stop(self) -> None:
        self._is_done = True
        self._free()

    def _free(self) -> None:
        """Free all that the capture took: the client may read the rest for minutes."""
        self.capture.free()
        self.decoder = NO_CODING
        self.release()


@dataclass(slots=True)
class ErrorTee(Tee):
    """Reader of one error response, in content coding `coding`; it never delays the client."""

    exchange: Exchange
    coding: str
    _read: bytes = b""

    @override
    def take(self, chunk: bytes) -> bool:
        if len(self._read) <= ERROR_MAX_BYTES:
            self._read += chunk
        return True

    @override
    async def close(self) -> None:
        if len(self._read) <= ERROR_MAX_BYTES:
            with contextlib.suppress(Exception):  # fail open: the client has the error
                plain = decoder_for(self.coding, ERROR_MAX_BYTES).feed(self._read)
                self.exchange.response.refusal = error_names(plain)


def tee_for(
    checked: CheckedResponse,
    replay: Replay,
    exchange: Exchange,
    max_bytes: int,
    exchange_log: ExchangeLog,
) -> Tee:
    """Return the tee of a response. Never raises."""
    response, report = checked.response, exchange.response
    if response.status not in _SUCCESS:
        if report.capture is not None:
            report.state = CaptureState.REFUSED
        is_error = response.status >= HTTPStatus.BAD_REQUEST
        return ErrorTee(exchange, response.value(_CODING)) if is_error else Tee()
    if report.capture is None:
        return Tee()
    step = _fail_open(exchange, exchange_log)
    with step:
        return _capture_tee(checked, report.capture, replay, exchange, max_bytes, step)
    return Tee()


def _capture_tee(  # noqa: PLR0913, PLR0917 (all parts of one capture)
    checked: CheckedResponse,
    capture: Capture,
    replay: Replay,
    exchange: Exchange,
    max_bytes: int,
    step: FailOpen,
) -> CaptureTee:
    """
    Return the tee of a response that is captured.

    Raises:
        Undecodable: Its content coding is not known.
        Busy: There is no memory for it.
    """
    response = checked.response
    coding = response.value(_CODING)
    decoder = decoder_for(coding, max_bytes)
    is_stream = response.content_type == "text/event-stream"
    lease = MemoryLease(exchange.lease.budget)
    lease.tenant = exchange.lease.tenant
    # All at once, so that responses do not take the room from each other before one is complete.
    if not is_stream and not lease.reserve(COPIES * min(response.length or 0, max_bytes)):
        raise Busy
    return CaptureTee(
        replay,
        exchange,
        capture,
        decoder,
        max_bytes,
        response.length,
        is_stream,
        is_encoded(coding),
        step,
        lease,
        checked.learn,
    )


def _fail_open(exchange: Exchange, exchange_log: ExchangeLog) -> FailOpen:
    """Return the context of a step without which a response is not captured; a bug is logged."""

    def tell(event: str, error: Exception) -> None:
        state = exchange.response.state = _STATE_AFTER.get(type(error), CaptureState.FAILED)
        if state is CaptureState.FAILED:
            exchange_log.warn(event, exchange, error)

    return FailOpen("capture_failed", tell)
