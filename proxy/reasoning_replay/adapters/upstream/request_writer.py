"""Request writer: a long body goes out in pieces, and no faster than the upstream takes them."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable

__all__ = ["Body", "RequestWriter"]

PIECE_BYTES = 64 * 1024

Body = bytes | AsyncGenerator[bytes, None] | None


class RequestWriter:
    """
    Writer of the request bodies on one connection, one after the other.

    Attributes:
        is_busy: Whether some of a request is still to be written, or waits in the transport.
        is_paused: Whether the transport's write buffer is full.
    """

    def __init__(
        self,
        transport: asyncio.WriteTransport,
        on_sent: Callable[[], None],
        on_failed: Callable[[BaseException], None],
    ) -> None:
        """
        Begin with nothing to send.

        Args:
            transport: Its protocol passes `pause_writing` and `resume_writing` on to this.
            on_sent: Called when a request is sent.
            on_failed: Called with what the iterator of a body raised.
        """
        self._transport = transport
        self._on_sent = on_sent
        self._on_failed = on_failed
        self._task: asyncio.Task[None] | None = None
        self._may_write: asyncio.Future[None] | None = None
        self.is_busy = self.is_paused = False

    def begin(self, body: Body) -> None:
        """Write a body after its head; None waits until what is written already has left."""
        self.is_busy = True
        self._task = asyncio.get_running_loop().create_task(self._send(body))

    def cancel(self) -> None:
        """Write no more; the iterator of a body is closed."""
        if self._task is not None:
            self._task.cancel()

    def pause(self) -> None:
        """Stop writing: the transport's buffer is full."""
        self.is_paused = True

    def resume(self) -> None:
        """Write on."""
        self.is_paused = False
        if self._may_write is not None and not self._may_write.done():
            self._may_write.set_result(None)

    async def _send(self, body: Body) -> None:
        try:
            if isinstance(body, bytes):
                for at in range(0, len(body), PIECE_BYTES):
                    await self._write(body[at : at + PIECE_BYTES])
                    await asyncio.sleep(0)  # let others run
            elif body is not None:
                async with contextlib.aclosing(body) as pieces:
                    async for piece in pieces:
                        await self._write(piece)
            await self._drain()
        except BaseException as error:
            self._on_failed(error)
            if not isinstance(error, Exception):
                raise
        else:
            self.is_busy = False
            self._task = None
            self._on_sent()

    async def _write(self, piece: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(piece)
        await self._drain()

    async def _drain(self) -> None:
        if self.is_paused and not self._transport.is_closing():
            self._may_write = asyncio.get_running_loop().create_future()
            await self._may_write
