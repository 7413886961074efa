"""
Request body: read with limits on its size, on memory and on pauses of the client.

A body that is inspected is held whole. Any other body is streamed in chunks.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable

from aiohttp import web

from reasoning_replay.core.dialects.states import RequestState
from reasoning_replay.web.errors import ErrorResponse, ProxyError, body_stalled, body_too_large
from reasoning_replay.web.http.client_connection import Unreadable
from reasoning_replay.web.memory_budget import MemoryBudget, MemoryLease

__all__ = ["RequestBody"]


class RequestBody:
    """
    The body of one request.

    Attributes:
        fault: Error of the body, once one is found.
        on_fault: Called at that time, because a streamed body is read in another task than the
            one that relays the response.
        lease: The memory that it holds; the caller releases it.
        size: Bytes read so far.
        why: RequestState that tells why it is not held whole; "" if it may be held.
    """

    def __init__(
        self, request: web.BaseRequest, max_bytes: int, timeout_s: float, budget: MemoryBudget
    ) -> None:
        """
        Read nothing yet.

        Args:
            request: The client's request.
            max_bytes: Largest allowed size; 0 for no limit.
            timeout_s: Longest pause of the client within the body.
            budget: Budget that the memory of a held body is reserved from.
        """
        self._request = request
        self._max_bytes = max_bytes
        self._timeout_s = timeout_s
        self.lease = MemoryLease(budget)
        self.size = 0
        self._pieces: list[bytes] = []  # an empty deque would hold 700 bytes
        self.fault: ErrorResponse | None = None
        self.on_fault: Callable[[], None] | None = None
        self.why = ""

    def check(self) -> None:
        """
        Check the announced length, before the request is processed.

        Raises:
            ProxyError: The body is too large.
        """
        size = self._request.content_length or 0
        if self._max_bytes and size > self._max_bytes:
            raise self._failing(body_too_large(size, self._max_bytes))

    async def whole(self, max_bytes: int) -> bytes | None:
        """
        Read the whole body, if it fits in `max_bytes` and in the memory budget.

        Returns:
            The body. None if it is not held whole: `why` has the reason, and `rest` starts with
            the bytes that are already read.

        Raises:
            ProxyError: The body exceeds `body_max_bytes` or is malformed, or the client paused for
                too long.
        """
        if (self._request.content_length or 0) > max_bytes:
            self.why = RequestState.TOO_LARGE
            return None
        content = self._request.content
        while not content.at_eof():
            chunk = await self._next()
            self._pieces.append(chunk)
            # Memory is reserved for received bytes only: a client can announce any length for free.
            if not self._may_hold(len(chunk), max_bytes):
                return None
        body = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces.clear()
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

    def _may_hold(self, size: int, max_bytes: int) -> bool:
        if self.size > max_bytes:
            self.why = RequestState.TOO_LARGE
        elif not self.lease.reserve(size):
            self.why = RequestState.BUSY
        return not self.why

    async def _next(self) -> bytes:
        content = self._request.content
        try:
            # A timer is set only if no bytes are available.
            chunk = content.read_nowait()
            if not chunk and not content.at_eof():
                async with asyncio.timeout(self._timeout_s):
                    chunk = await content.readany()
        except TimeoutError:
            content.set_exception(TimeoutError())  # so that aiohttp does not wait for the rest
            raise self._failing(body_stalled(self._timeout_s)) from None
        except Unreadable as error:
            raise self._failing(error.fault) from None
        self.size += len(chunk)
        if self._max_bytes and self.size > self._max_bytes:
            raise self._failing(body_too_large(self.size, self._max_bytes))
        return chunk

    def _failing(self, fault: ErrorResponse) -> ProxyError:
        self.fault = fault
        if self.on_fault is not None:
            self.on_fault()
        return ProxyError(fault)
