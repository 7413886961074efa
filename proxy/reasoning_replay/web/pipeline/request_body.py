"""A request's body as it comes: bounded, and whole where it is to be read."""

from collections.abc import AsyncGenerator, Callable

from aiohttp import web

from reasoning_replay.core.dialects.states import RequestState
from reasoning_replay.web.errors import ErrorResponse, ProxyError
from reasoning_replay.web.http.client_connection import Stalled, Unreadable
from reasoning_replay.web.limit_errors import body_stalled, body_too_large

__all__ = ["MemoryBudget", "MemoryLease", "RequestBody"]


class MemoryBudget:
    """How many bytes of requests may still be held, of all exchanges together."""

    def __init__(self, most: int) -> None:
        """Begin with all of it."""
        self._left = most

    def take(self, size: int) -> bool:
        """Take so much, if there is as much."""
        if size > self._left:
            return False
        self._left -= size
        return True

    def take_most(self, size: int) -> int:
        """Take so much, or all that there is; return how much that was."""
        taken = min(size, self._left)
        self._left -= taken
        return taken

    def give(self, size: int) -> None:
        """Give so much back."""
        self._left += size


class MemoryLease:
    """How much of the room one holder has."""

    def __init__(self, room: MemoryBudget) -> None:
        """Begin with nothing."""
        self._room = room
        self._held = 0

    def take(self, size: int) -> bool:
        """Have so much more, if there is as much."""
        if not self._room.take(size):
            return False
        self._held += size
        return True

    def take_most(self, size: int) -> int:
        """Have so much more, or as much as there is; return how much that was."""
        taken = self._room.take_most(size)
        self._held += taken
        return taken

    def give(self, size: int) -> None:
        """Have so much less, but no less than nothing."""
        size = min(size, self._held)
        self._held -= size
        self._room.give(size)

    def hold(self, size: int) -> bool:
        """Have so much, if there is as much; else, what there was before."""
        if size > self._held:
            return self.take(size - self._held)
        self.give(self._held - size)
        return True


class RequestBody:
    """
    One request's body.

    Attributes:
        fault: What was wrong with it, once that is known.
        on_fault: Called then; whoever reads a streamed body is not who answers for it.
        share: What is held of it; who is done with it gives it back.
        size: Bytes that were read of it so far.
        why: Why it is not held whole, one of `labels.ASKED`; "" if nothing is known against it.
    """

    def __init__(
        self, request: web.BaseRequest, most: int, patience_s: float, room: MemoryBudget
    ) -> None:
        """
        Read nothing yet.

        Args:
            request: Whose.
            most: Bytes that it may have; 0 for any number.
            patience_s: How long a client may be silent amid it, as the connection has it.
            room: Where what is held is taken from.
        """
        self._request = request
        self._most = most
        self._patience_s = patience_s
        self.share = MemoryLease(room)
        self.size = 0
        self._pieces: list[bytes] = []  # a deque would hold 700 bytes for nothing
        self.fault: ErrorResponse | None = None
        self.on_fault: Callable[[], None] | None = None
        self.why = ""

    def check(self) -> None:
        """
        Look at the length that the request gives, before anything is done about it.

        Raises:
            ProxyError: That is too much.
        """
        size = self._request.content_length or 0
        if self._most and size > self._most:
            raise self._failing(body_too_large(size, self._most))

    async def whole(self, most: int) -> bytes | None:
        """
        Read all of it, if it has no more bytes than `most` and there is room for them.

        Returns:
            None when it is not held whole, and `why` says so; `rest` begins with what was read.

        Raises:
            ProxyError: It is too large for anything, or no HTTP, or the client fell silent.
        """
        if (self._request.content_length or 0) > most:
            self.why = RequestState.TOO_LARGE
            return None
        content = self._request.content
        while not content.at_eof():
            chunk = await self._next()
            self._pieces.append(chunk)
            # MemoryBudget is taken for what has come: announced is quickly, and by anybody.
            if not self._may_hold(len(chunk), most):
                return None
        body = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces.clear()
        return body

    async def rest(self) -> AsyncGenerator[bytes, None]:
        """
        Pass it on piece by piece, beginning with what was read of it already.

        Raises:
            ProxyError: It is too large, or no HTTP, or the client fell silent; `fault` keeps what
                it says.
        """
        while self._pieces:
            size = len(self._pieces[0])
            yield self._pieces.pop(0)
            self.share.give(size)  # of the last one, nothing was held
        while chunk := await self._next():
            yield chunk

    def _may_hold(self, more: int, most: int) -> bool:
        if self.size > most:
            self.why = RequestState.TOO_LARGE
        elif not self.share.take(more):
            self.why = RequestState.BUSY
        return not self.why

    async def _next(self) -> bytes:
        try:
            chunk = await self._request.content.readany()
        except Stalled:
            raise self._failing(body_stalled(self._patience_s)) from None
        except Unreadable as error:
            raise self._failing(error.fault) from None
        self.size += len(chunk)
        if self._most and self.size > self._most:
            raise self._failing(body_too_large(self.size, self._most))
        return chunk

    def _failing(self, fault: ErrorResponse) -> ProxyError:
        self.fault = fault
        if self.on_fault is not None:
            self.on_fault()
        return ProxyError(fault)
