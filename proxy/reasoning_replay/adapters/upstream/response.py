"""Upstream response: its head, and its body as it arrives."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from reasoning_replay.core.wire.headers import Headers

__all__ = ["READ_BUFFER_BYTES", "ResponseOwner", "UpstreamError", "UpstreamResponse"]

# How much of a body is read ahead of its reader.
READ_BUFFER_BYTES = 64 * 1024

OnChunk = Callable[[bytes], bool]


class ResponseOwner(Protocol):
    """The connection that a response is read from."""

    def resume_reading(self) -> None:
        """Read on: what was read ahead has been taken."""

    def abandon(self, response: "UpstreamResponse") -> None:
        """Stop: no more of that response is wanted."""


class UpstreamError(Exception):
    """
    There is no response, or no more of it.

    Attributes:
        source: `connect`, `proxy` (the one on the way), `read` (the upstream itself) or `timeout`.
        setting: The setting whose time was up; "" if none was.
        is_untouched: Whether a kept connection closed without a byte: the request may have come
            too late for it.
    """

    def __init__(
        self, source: str, reason: str, setting: str = "", *, is_untouched: bool = False
    ) -> None:
        """Say where it failed, and how."""
        super().__init__(reason)
        self.source = source
        self.setting = setting
        self.is_untouched = is_untouched


class UpstreamResponse:
    """
    A response, from its head on; the caller closes it.

    Attributes:
        head: Done once the head is there, or will not be.
        status: Of the final response: interim ones are skipped.
        reason: As it was spelled on the wire.
        headers: In their order and spelling.
        length: Of the body, by the head; None when it does not say.
    """

    __slots__ = (
        "_by_name",
        "_error",
        "_is_whole",
        "_on_chunk",
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

    def __init__(self, owner: ResponseOwner | None, head: asyncio.Future[None]) -> None:
        """Begin before the head is there."""
        self._owner = owner
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
        self._by_name: dict[bytes, list[bytes]] = {}
        self.length: int | None = None

    def value(self, name: bytes) -> str:
        """Return the values of a header as one, "" if there is none; `name` in lower case."""
        if not self._by_name:
            for given, value in self.headers:
                self._by_name.setdefault(given.lower(), []).append(value)
        values = self._by_name.get(name)
        return b", ".join(values).decode("latin-1") if values is not None else ""

    @property
    def content_type(self) -> str:
        """Its media type, in lower case and without parameters; "" if it has none."""
        return self.value(b"content-type").partition(";")[0].strip().lower()

    async def read(self, on_chunk: OnChunk | None = None) -> bytes:
        """
        Return the next piece of the body; b"" at its end.

        Args:
            on_chunk: Called with each piece first, in order, within the event loop's own read, so
                it must be quick. True: the piece is dealt with; False: it is returned here.

        Raises:
            UpstreamError: It broke off; all that had arrived was returned before.
        """
        while True:
            if self._pieces:
                data = self._taken()
                if self._owner is not None and not self.is_over:  # else it carries another one
                    self._owner.resume_reading()
                if on_chunk is None or not on_chunk(data):
                    return data
            elif self._is_whole:
                return b""
            elif self._error is not None:
                raise self._error
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

    def close(self) -> None:
        """Give it up if it is not over; the connection of one that is over is back in the pool."""
        owner, self._owner = self._owner, None
        self._pieces.clear()
        if owner is not None:
            owner.abandon(self)

    # --- called by its owner ---

    def take(self, data: bytes) -> None:
        """Keep a piece of the body until it is read."""
        self._pieces.append(data)
        self._size += len(data)

    def offer(self) -> bool:
        """Hand what has arrived to the reader that waits; tell whether more may be read ahead."""
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
        """Note that the head is there."""
        self.status = status
        if not self.head.done():
            self.head.set_result(None)

    def end(self, error: UpstreamError | None = None) -> None:
        """Note that nothing more will come."""
        self._is_whole, self._error = error is None, error
        if error is not None and not self.head.done():
            self.head.set_exception(error)
            self.head.exception()  # retrieved here, as the caller may have been cancelled
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(b"")

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come."""
        return self._is_whole or self._error is not None

    def _taken(self) -> bytes:
        data = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces.clear()
        self._size = 0
        return data
