"""
Request body: read with a bound on its size, on memory and on the client's silence.

It is held whole where it is to be inspected, and streamed piece by piece otherwise.
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
        fault: What was wrong with it, once that is known.
        on_fault: Called then: a streamed body is read by another task than the one that answers.
        lease: The memory that it holds; the caller releases it.
        size: Bytes read of it so far.
        why: Why it is not held whole, a RequestState; "" if it may be.
    """

    def __init__(
        self, request: web.BaseRequest, max_bytes: int, timeout_s: float, budget: MemoryBudget
    ) -> None:
        """
        Read nothing yet.

        Args:
            request: The client's.
            max_bytes: The largest size allowed; 0 for no limit.
            timeout_s: How long the client may be silent within it.
            budget: Where the memory for what is held is reserved.
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
        Check the announced length, before anything is done about the request.

        Raises:
            ProxyError: It is too large.
        """
        size = self._request.content_length or 0
        if self._max_bytes and size > self._max_bytes:
            raise self._failing(body_too_large(size, self._max_bytes))

    async def whole(self, max_bytes: int) -> bytes | None:
        """
        Read all of it, if it is no larger than `max_bytes` and the budget has room.

        Returns:
            None when it is not held whole: `why` says the reason; `rest` begins with what was read.

        Raises:
            ProxyError: It is over every limit, or malformed, or the client fell silent.
        """
        if (self._request.content_length or 0) > max_bytes:
            self.why = RequestState.TOO_LARGE
            return None
        content = self._request.content
        while not content.at_eof():
            chunk = await self._next()
            self._pieces.append(chunk)
            # Memory is reserved for what has arrived: a length costs nothing to announce.
            if not self._may_hold(len(chunk), max_bytes):
                return None
        body = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces.clear()
        return body

    async def rest(self) -> AsyncGenerator[bytes, None]:
        """
        Stream it piece by piece, beginning with what was read already.

        Raises:
            ProxyError: It is too large, or malformed, or the client fell silent; also in `fault`.
        """
        while self._pieces:
            size = len(self._pieces[0])
            yield self._pieces.pop(0)
            self.lease.release(size)  # for the last one, nothing was reserved
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
            # A timer is set only where there is something to wait for.
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
