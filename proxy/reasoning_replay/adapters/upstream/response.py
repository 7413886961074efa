"""Upstream response: its head, and its body as it arrives."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from reasoning_replay.core.wire.headers import Headers, without

# Bytes of a body that are buffered for its reader before reading is paused.
READ_BUFFER_BYTES = 64 * 1024
# Reasons of an UpstreamError.
CLOSED = "it closed the connection"
LOST = "the connection was lost: its machine, or the network on the way, no longer answers"

OnChunk = Callable[[bytes], bool]
# Called with the status, the reason and the headers of an interim response; it must not raise.
OnInterim = Callable[[int, bytes, Headers], None]


class ResponseOwner(Protocol):
    """The connection that a response is read from."""

    def resume_reading(self) -> None:
        """Resume reading: the buffered data has been taken."""

    def abandon(self, response: "UpstreamResponse") -> None:
        """Stop reading: the rest of that response is not needed."""

    async def until_sent(self, response: "UpstreamResponse") -> None:
        """Wait for the end of the request that the response belongs to."""


class UpstreamError(Exception):
    """
    Failure to get a response, or the rest of one.

    Attributes:
        source: `connect`, `proxy` (the HTTP proxy), `read` (the upstream itself) or `timeout`.
        setting: The timeout setting that expired; "" for other failures.
        is_untouched: Whether a reused connection closed without a byte of a response. The upstream
            may have closed it before the request arrived.
    """

    def __init__(
        self, source: str, reason: str, setting: str = "", *, is_untouched: bool = False
    ) -> None:
        super().__init__(reason)
        self.source = source
        self.setting = setting
        self.is_untouched = is_untouched

    def anew(self) -> "UpstreamError":
        """
        Return an equal error to raise.

        An error that is kept must not be raised itself: it would hold the frames that it passed,
        they hold what keeps it, and only the cyclic collector would free them with their bodies.
        """
        same = UpstreamError(self.source, str(self), self.setting, is_untouched=self.is_untouched)
        same.__cause__ = self.__cause__
        return same


class UpstreamResponse:
    """
    A response that may still be arriving; the caller closes it.

    Attributes:
        head: Done when the head is complete, or the response has failed before.
        status: Status of the final response, as interim ones are skipped; 0 before the head.
        reason: Reason phrase as received.
        headers: Headers as received, with their order and spelling.
        length: Length of the body in bytes, by the head; None if the head does not contain it.
    """

    __slots__ = (
        "_by_name",
        "_content_type",
        "_error",
        "_is_whole",
        "_on_chunk",
        "_on_interim",
        "_owner",
        "_pieces",
        "_size",
        "_waiter",
        "head",
        "headers",
        "length",
        "reason",
        "status",
    )

    def __init__(
        self,
        owner: ResponseOwner | None,
        head: asyncio.Future[None],
        on_interim: OnInterim | None = None,
    ) -> None:
        self._owner = owner
        self._on_interim = on_interim
        self.head = head
        self._pieces: list[bytes] = []  # an empty deque would hold 700 bytes
        self._size = 0
        self._on_chunk: OnChunk | None = None
        self._waiter: asyncio.Future[bytes] | None = None
        self._is_whole = False
        self._error: UpstreamError | None = None
        self.status = 0
        self.reason = b""
        self.headers: Headers = []
        self._by_name: dict[bytes, bytes] = {}
        self._content_type: str | None = None
        self.length: int | None = None

    def value(self, name: bytes) -> str:
        """Return the values of a header, joined by commas, or ""; `name` is in lower case."""
        if not self._by_name:
            self._by_name = _by_name(self.headers)
        return self._by_name.get(name, b"").decode("latin-1")

    def drop(self, name: bytes) -> None:
        """Remove a header, and with `content-length` the length; `name` is in lower case."""
        self.headers = without(self.headers, name)
        self._by_name = {}
        if name == b"content-length":
            self.length = None

    def note_interim(self, status: int) -> None:
        """Report an interim response, whose reason and headers were read."""
        if self._on_interim is not None:
            self._on_interim(status, self.reason, self.headers)

    async def until_sent(self) -> None:
        """
        Wait until the request is sent as far as the upstream reads it.

        An upstream may answer before it has read all of a request, and still read the rest.
        """
        if self._owner is not None:
            await self._owner.until_sent(self)

    @property
    def content_type(self) -> str:
        """Media type in lower case, without parameters, or ""."""
        if self._content_type is None:
            self._content_type = self.value(b"content-type").partition(";")[0].strip().lower()
        return self._content_type

    async def read(self, on_chunk: OnChunk | None = None) -> bytes:
        """
        Return the next piece of the body; b"" at its end.

        Args:
            on_chunk: Called first with each piece, in order, within the event loop's own callback,
                so it must be fast. True: the piece is consumed; False: `read` returns it.

        Raises:
            UpstreamError: The response ended early. All data that had arrived was returned before.
        """
        while True:
            if self._pieces:
                data = self._taken()
                if self._owner is not None and not self.is_over:  # else it may be reused
                    self._owner.resume_reading()
                if on_chunk is None or not on_chunk(data):
                    return data
            elif self._is_whole:
                return b""
            elif self._error is not None:
                raise self._error.anew()
            else:
                self._on_chunk = on_chunk
                self._waiter = asyncio.get_running_loop().create_future()
                try:
                    refused = await self._waiter
                finally:
                    self._on_chunk = self._waiter = None
                if refused:
                    return refused

    @property
    def is_ready(self) -> bool:
        """Whether `read` would return at once."""
        return bool(self._pieces) or self.is_over

    def check_head(self) -> None:
        """
        Check the head once `head` is done.

        Raises:
            UpstreamError: The response failed before its end.
        """
        if not self.status and self._error is not None:
            raise self._error.anew()

    def close(self) -> None:
        """Release the response; its connection is closed if the exchange is not over."""
        owner, self._owner = self._owner, None
        self._pieces.clear()
        if owner is not None:
            owner.abandon(self)

    # --- called by its owner ---

    def take(self, data: bytes) -> None:
        """Buffer a piece of the body."""
        self._pieces.append(data)
        self._size += len(data)

    def offer(self) -> bool:
        """Pass buffered data to a waiting reader; return whether the buffer has room for more."""
        waiter = self._waiter
        if waiter is None or waiter.done() or not self._pieces:
            return self._size < READ_BUFFER_BYTES
        if self._on_chunk is None:
            waiter.set_result(b"")
            return self._size < READ_BUFFER_BYTES
        data = self._taken()
        try:
            if not self._on_chunk(data):
                waiter.set_result(data)
        except Exception as error:  # noqa: BLE001 (it is raised in the reader)
            waiter.set_exception(error)
        return True

    def begin(self, status: int) -> None:
        """Mark the head as complete."""
        self.status = status
        if not self.head.done():
            self.head.set_result(None)

    def end(self, error: UpstreamError | None = None) -> None:
        """Mark the end of the response, or its failure."""
        self._is_whole, self._error = error is None, error
        if error is not None and not self.head.done():
            self.head.set_result(None)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(b"")

    @property
    def is_over(self) -> bool:
        """Whether the response is complete or has failed."""
        return self._is_whole or self._error is not None

    def _taken(self) -> bytes:
        data = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces.clear()
        self._size = 0
        return data


def _by_name(headers: Headers) -> dict[bytes, bytes]:
    """Return the values of each header, joined by commas, by its name in lower case."""
    values: dict[bytes, bytes] = {}
    for given, value in headers:
        name = given.lower()
        values[name] = b"%b, %b" % (values[name], value) if name in values else value
    return values
