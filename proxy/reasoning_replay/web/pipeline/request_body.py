"""
Request body: read and decoded, with limits on its size, on memory and on pauses of the client.

A body that is inspected is held whole. Any other body is streamed in chunks.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from functools import partial

from aiohttp import web

from reasoning_replay.adapters.runtime.offload import Busy, Offloader
from reasoning_replay.adapters.runtime.tcp import unread_poll
from reasoning_replay.core.dialects.states import RequestState
from reasoning_replay.core.wire.content_coding import (
    TooLarge,
    Undecodable,
    decode,
    decoded_size,
    is_encoded,
)
from reasoning_replay.web.errors import (
    BODY_TIMEOUT,
    BODY_TOO_LARGE,
    ErrorResponse,
    ProxyError,
    amount,
)
from reasoning_replay.web.http.client_connection import Unreadable
from reasoning_replay.web.memory_budget import MemoryLease

# A longer body waits for room; others take it at once, or pass unread.
SHORT_BYTES = 256 * 1024
# While other requests wait for room, a body that holds some gives the rest of it back after this
# silence of the client, or if it is not complete after this time.
QUIET_S = 2.0
COMPLETE_S = 8.0
# Received pieces are joined to blocks of this size. Of their own mapping in memory, they leave no
# holes between other objects when they are freed.
BLOCK_BYTES = 1024 * 1024
# Bodies up to these sizes are decoded on the event loop, in 1 to 2 ms; larger ones in a thread.
ON_LOOP_ENCODED_BYTES = 64 * 1024
ON_LOOP_DECODED_BYTES = 1024 * 1024
# Repetitive text may shrink a hundred times; a decompression bomb, a thousand times. A body may
# grow by this ratio, or to this size.
DECODED_RATIO = 100
DECODED_FREE_BYTES = 8 * 1024 * 1024


class RequestBody:
    """
    The body of one request.

    Attributes:
        fault: Error of the body, once one is found.
        on_fault: Called at that time, because a streamed body is read in another task than the
            one that relays the response.
        lease: The memory that it holds; the caller releases what is left at the end.
        size: Bytes read so far.
        why: RequestState that tells why it is not held whole; "" if it may be held.
    """

    def __init__(
        self, request: web.BaseRequest, max_bytes: int, timeout_s: float, lease: MemoryLease
    ) -> None:
        """Read nothing yet; no limit on the size if `max_bytes` is 0."""
        self._request = request
        self._max_bytes = max_bytes
        self._timeout_s = timeout_s
        self.lease = lease
        self.size = 0
        self._pieces: list[bytes] = []  # an empty deque would hold 700 bytes
        self._blocks = 0  # number of pieces that are blocks
        self._loose_bytes = 0  # size of the pieces after them
        self.fault: ErrorResponse | None = None
        self.on_fault: Callable[[], None] | None = None
        self.why = ""

    @property
    def known_size(self) -> str:
        """What is known of its size, for people."""
        length = self._request.content_length
        return f"more than {amount(self.size)}" if length is None else amount(length)

    def check(self) -> None:
        """
        Check the announced length, before the request is processed.

        Raises:
            ProxyError: The body is too large.
        """
        size = self._request.content_length or 0
        if self._max_bytes and size > self._max_bytes:
            raise self._too_large(size)

    async def whole(self, max_bytes: int) -> bytes | None:
        """
        Read the whole body, if it fits in `max_bytes` and in the memory budget.

        A long body with a stated length has its room before it is read. Meanwhile, the client's
        bytes wait in the kernel, and no timeout of the client runs.

        Returns:
            The body; the lease holds its size. None if it is not held whole: `why` has the reason,
            and `rest` starts with the bytes that are already read.

        Raises:
            ProxyError: The body exceeds `body_max_bytes` or is malformed, or the client paused for
                too long.
        """
        length = self._request.content_length or 0
        if length > max_bytes:
            self.why = RequestState.TOO_LARGE
            return None
        if length > SHORT_BYTES and not await self.lease.reserve_in_turn(length):
            self.why = RequestState.BUSY
            return None
        content, began_s = self._request.content, asyncio.get_running_loop().time()
        while not content.at_eof():
            chunk = await self._next(may_give_up=self.lease.held > SHORT_BYTES)
            self._keep(chunk)
            if self.size > max_bytes:
                self.why = RequestState.TOO_LARGE
            elif not await self._has_room() or self._is_too_slow(chunk, began_s):
                self.why = RequestState.BUSY
            if self.why:
                self.lease.shrink(self.size)
                return None
        body = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces.clear()
        self.lease.shrink(self.size)
        return body

    async def rest(self) -> AsyncGenerator[bytes, None]:
        """
        Stream the body in chunks, starting with the bytes that are already read.

        Raises:
            ProxyError: As for `whole`; the error is also in `fault`.
        """
        while self._pieces:
            size = len(self._pieces[0])
            yield self._pieces.pop(0)
            self.lease.release(size)  # nothing was reserved for the last one
        while chunk := await self._next():
            yield chunk

    def _keep(self, chunk: bytes) -> None:
        if chunk:
            self._pieces.append(chunk)
        self._loose_bytes += len(chunk)
        if self._loose_bytes >= BLOCK_BYTES:
            self._pieces[self._blocks :] = [b"".join(self._pieces[self._blocks :])]
            self._blocks += 1
            self._loose_bytes = 0

    async def _has_room(self) -> bool:
        """Return whether memory is reserved for what is received, after reserving it."""
        lease = self.lease
        if self.size <= lease.held:
            return True
        if self.size > SHORT_BYTES and lease.held < lease.budget.waitable:
            # In few steps, because each one may have to wait.
            await lease.reserve_in_turn(self.size)
        return lease.held >= self.size or lease.reserve(self.size - lease.held)

    def _is_too_slow(self, chunk: bytes, began_s: float) -> bool:
        """Return whether the body must make room for those that wait."""
        if self.lease.held <= SHORT_BYTES or not self.lease.budget.is_contended:
            return False
        if self._request.content.at_eof():
            return False
        if chunk and asyncio.get_running_loop().time() - began_s <= COMPLETE_S:
            return False
        # If the client's bytes wait in the kernel, this process is slow, not the client.
        transport = self._request.transport
        unread = None if transport is None else unread_poll(transport)
        return unread is None or not unread.poll(0)

    async def _next(self, *, may_give_up: bool = False) -> bytes:
        """Return the next bytes; b"" at the end, or after QUIET_S if it `may_give_up`."""
        content = self._request.content
        chunk, quiet_s = b"", 0.0
        try:
            # A timer is set only if no bytes are available.
            while not (chunk := content.read_nowait()) and not content.at_eof():
                step_s = min(QUIET_S, self._timeout_s) if may_give_up else self._timeout_s
                try:
                    async with asyncio.timeout(step_s):
                        chunk = await content.readany()
                    break
                except TimeoutError:
                    quiet_s += step_s
                    if quiet_s >= self._timeout_s:
                        raise
                    if self.lease.budget.is_contended:
                        break
        except TimeoutError:
            content.set_exception(TimeoutError())  # so that aiohttp does not wait for the rest
            raise self._failing(BODY_TIMEOUT.filled(most_s=self._timeout_s)) from None
        except Exception as error:  # noqa: BLE001 (aiohttp's, when the client has left)
            # The stream keeps it. With its frames, it would keep the body, too.
            error.__traceback__ = None
            if isinstance(error, Unreadable):
                raise self._failing(error.fault) from None
            raise ConnectionResetError from None
        self.size += len(chunk)
        if self._max_bytes and self.size > self._max_bytes:
            raise self._too_large(self.size)
        return chunk

    def _too_large(self, size: int) -> ProxyError:
        """Return the error of `body_max_bytes`; `size` is the part of the size that is known."""
        most = amount(self._max_bytes)
        return self._failing(BODY_TOO_LARGE.filled(size=amount(size), most=most))

    def _failing(self, fault: ErrorResponse) -> ProxyError:
        self.fault = fault
        if self.on_fault is not None:
            self.on_fault()
        return ProxyError(fault)


class NotDecoded(Exception):
    """A body is forwarded unread; `state` tells why, and whether a setting's limit is the cause."""

    def __init__(self, state: RequestState, *, is_over_limit: bool = False) -> None:
        """Keep the reason."""
        super().__init__(state)
        self.state = state
        self.is_over_limit = is_over_limit


async def decode_body(
    body: bytes, coding: str, max_bytes: int, lease: MemoryLease, offloader: Offloader
) -> bytes:
    """
    Return a body without its content coding; the same object if it has none.

    Args:
        body: Complete body.
        coding: Value of Content-Encoding.
        max_bytes: Limit on the decoded size.
        lease: It is extended by the decoded size.
        offloader: Decodes large bodies.

    Raises:
        NotDecoded: The body is damaged, too large or in an unknown coding, or the memory budget
            or the threads are used up.
    """
    if not is_encoded(coding):
        return body
    limit = min(max_bytes, max(DECODED_FREE_BYTES, DECODED_RATIO * len(body)))
    try:
        if len(body) <= ON_LOOP_ENCODED_BYTES:
            with contextlib.suppress(TooLarge):
                plain = decode(body, coding, min(limit, ON_LOOP_DECODED_BYTES))
                if lease.reserve(len(plain)):
                    return plain
                raise NotDecoded(RequestState.BUSY)
        return await _decode_in_thread(body, coding, limit, lease, offloader)
    except TooLarge:
        raise NotDecoded(RequestState.TOO_LARGE, is_over_limit=limit == max_bytes) from None
    except Undecodable:
        raise NotDecoded(RequestState.ENCODED) from None
    except Busy:
        raise NotDecoded(RequestState.BUSY) from None


async def _decode_in_thread(
    body: bytes, coding: str, limit: int, lease: MemoryLease, offloader: Offloader
) -> bytes:
    """
    Decode in a thread, twice: first to learn its size, so that a bomb takes no room.

    To reserve the limit instead would make others wait for room that nothing fills.
    """
    size = await offloader.run(partial(decoded_size, body, coding, limit), lease.tenant)
    before = lease.held
    has_room = not size or await lease.reserve_in_turn(size)
    if not has_room or lease.held < before + size:
        lease.shrink(before)
        raise Busy
    try:
        return await offloader.run(partial(decode, body, coding, size), lease.tenant)
    except BaseException:
        lease.shrink(before)
        raise
