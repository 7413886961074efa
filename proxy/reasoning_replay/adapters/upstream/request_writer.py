"""Request writer: sends a long body in pieces, no faster than the upstream reads them."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence

PIECE_BYTES = 64 * 1024
# Turns of the event loop in which it may read input before the next piece is written. One is enough
# for input that has arrived.
READ_TURNS = 4

# Whole, in pieces, or as it arrives.
Body = bytes | list[bytes | memoryview] | AsyncGenerator[bytes, None] | None


class RequestWriter:
    """
    Writer of the request bodies on one connection, one at a time.

    The protocol of the transport must call `pause` and `resume`. The writer calls `on_sent` when a
    request is completely written, or `on_failed` with the exception that ended its body. Before
    each piece, the event loop reads the input that `has_input` reports.

    Attributes:
        is_busy: Whether a request is still being written, or waits for a full write buffer.
        is_paused: Whether the transport's write buffer is full.
    """

    def __init__(
        self,
        transport: asyncio.WriteTransport,
        on_sent: Callable[[], None],
        on_failed: Callable[[BaseException], None],
        has_input: Callable[[], bool],
    ) -> None:
        self._transport = transport
        self._on_sent = on_sent
        self._on_failed = on_failed
        self._has_input = has_input
        self._task: asyncio.Task[None] | None = None
        self._may_write: asyncio.Future[None] | None = None
        self.is_busy = self.is_paused = False

    def begin(self, body: Body) -> None:
        """Write a body after its head; None: only wait until the write buffer has room."""
        self.is_busy = True
        self._task = asyncio.get_running_loop().create_task(self._send(body))

    def cancel(self) -> None:
        """Stop writing, and close the iterator of the body."""
        if self._task is not None:
            self._task.cancel()

    def pause(self) -> None:
        """Stop writing: the transport's buffer is full."""
        self.is_paused = True

    def resume(self) -> None:
        """Resume writing: the transport's buffer has room."""
        self.is_paused = False
        if self._may_write is not None and not self._may_write.done():
            self._may_write.set_result(None)

    async def _send(self, body: Body) -> None:
        try:
            if isinstance(body, (bytes, list)):
                for piece in _in_pieces((body,) if isinstance(body, bytes) else body):
                    await self._write(piece)
                    await asyncio.sleep(0)  # let others run
            elif body is not None:
                async with contextlib.aclosing(body) as pieces:
                    async for piece in pieces:
                        await self._write(piece)
            await self._drain()
        except BaseException as error:
            self._task = None  # it keeps its exception, and so this frame, with the body
            self._on_failed(error)
            if not isinstance(error, Exception):
                raise
        else:
            self.is_busy = False
            self._task = None
            self._on_sent()

    async def wait(self) -> None:
        """Wait until the body is written, or its writing has failed."""
        if self._task is not None:
            await asyncio.wait([self._task])

    async def _write(self, piece: bytes) -> None:
        # An upstream that refuses a request may answer it and reset the connection. A write after
        # that ends the connection with the answer unread.
        turns = 0
        while turns < READ_TURNS and self._has_input():
            await asyncio.sleep(0)
            turns += 1
        if not self._transport.is_closing():
            self._transport.write(piece)
        await self._drain()

    async def _drain(self) -> None:
        if self.is_paused and not self._transport.is_closing():
            self._may_write = asyncio.get_running_loop().create_future()
            await self._may_write


def _in_pieces(parts: Sequence[bytes | memoryview]) -> Iterator[bytes]:
    """Yield pieces of PIECE_BYTES, and a shorter one at the end."""
    held: list[bytes | memoryview] = []
    size = 0
    for part in parts:
        if size + len(part) < PIECE_BYTES:  # the usual case, of hundreds of short parts
            held.append(part)
            size += len(part)
            continue
        view = memoryview(part)
        while view:
            taken = view[: PIECE_BYTES - size]
            held.append(taken)
            size += len(taken)
            view = view[len(taken) :]
            if size == PIECE_BYTES:
                yield b"".join(held)
                held.clear()
                size = 0
    if size:
        yield b"".join(held)
