"""An answer of the upstream's, as it comes."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from reasoning_replay.core.wire.headers import Headers

__all__ = ["READ_BUFFER_BYTES", "ResponseOwner", "UpstreamError", "UpstreamResponse"]

# So much is read ahead of whoever takes it.
READ_BUFFER_BYTES = 64 * 1024

Quick = Callable[[bytes], bool]


class ResponseOwner(Protocol):
    """What an answer comes from."""

    def go_on(self) -> None:
        """Read on: what was read ahead has been taken."""

    def leave(self, response: "UpstreamResponse") -> None:
        """Learn that nobody wants more of that answer."""


class UpstreamError(Exception):
    """
    No answer could be had, or no more of it.

    Attributes:
        source: `connect`, `proxy` (between us and it) or `read` (the upstream's side), `timeout`.
        setting: Which one's time was up.
        is_untouched: Whether a connection that was kept for it closed without a byte: the request
            may have come too late for it.
    """

    def __init__(
        self, source: str, reason: str, setting: str = "", *, is_untouched: bool = False
    ) -> None:
        """Say at which point it failed, and how."""
        super().__init__(reason)
        self.source = source
        self.setting = setting
        self.is_untouched = is_untouched


class UpstreamResponse:
    """
    An answer, from its head on; whoever has it closes it.

    Attributes:
        head: Done once the head is there, or will not be.
        status: Of the answer proper: interim ones are read over.
        reason: As it was spelled.
        headers: As they came.
        length: Of the body, as the head tells it; None when it does not.
    """

    __slots__ = (
        "_by_name",
        "_error",
        "_is_whole",
        "_pieces",
        "_quick",
        "_size",
        "_source",
        "_waiter",
        "head",
        "headers",
        "length",
        "reason",
        "status",
    )

    def __init__(self, source: ResponseOwner | None, head: asyncio.Future[None]) -> None:
        """Begin before the head is there."""
        self._source = source
        self.head = head
        self._pieces: list[bytes] = []  # a deque would hold 700 bytes for nothing
        self._size = 0
        self._quick: Quick | None = None
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

    async def read(self, quick: Quick | None = None) -> bytes:
        """
        Return what comes next of the body; b"" at its end.

        Args:
            quick: Offered everything first, at once and in order. What it takes, by returning True,
                is done with; what it does not take is returned. It is asked within the loop's own
                call, so it must not take long.

        Raises:
            UpstreamError: There is no more, though there should be; all that came was returned.
        """
        while True:
            if self._pieces:
                data = self._taken()
                if self._source is not None and not self.is_over:  # else it has others to carry
                    self._source.go_on()
                if quick is None or not quick(data):
                    return data
            elif self._is_whole:
                return b""
            elif self._error is not None:
                raise self._error
            else:
                self._quick = quick
                self._waiter = asyncio.get_running_loop().create_future()
                try:
                    refused = await self._waiter
                finally:
                    self._quick = self._waiter = None
                if refused:
                    return refused

    @property
    def is_ready(self) -> bool:
        """Whether `read` has something to say at once."""
        return bool(self._pieces) or self.is_over

    def close(self) -> None:
        """Give the connection up if it is not over with; one that is has gone back already."""
        source, self._source = self._source, None
        self._pieces.clear()
        if source is not None:
            source.leave(self)

    # What the source calls...

    def take(self, data: bytes) -> None:
        """Keep a piece of the body until it is taken."""
        self._pieces.append(data)
        self._size += len(data)

    def offer(self) -> bool:
        """Offer what has come to whoever waits for it; tell whether more may be read ahead."""
        waiter = self._waiter
        if waiter is None or waiter.done() or not self._pieces:
            return self._size < READ_BUFFER_BYTES
        if self._quick is None:
            waiter.set_result(b"")
            return self._size < READ_BUFFER_BYTES
        data = self._taken()
        try:
            if not self._quick(data):
                waiter.set_result(data)
        except Exception as error:  # noqa: BLE001 (it is for whoever waits)
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
            self.head.exception()  # nobody may wait for it any more, and asyncio would say so
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
