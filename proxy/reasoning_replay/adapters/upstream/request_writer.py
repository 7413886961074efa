"""What is long of a request goes out in pieces, and no faster than it is taken."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable

__all__ = ["Body", "RequestWriter"]

PIECE_BYTES = 64 * 1024

Body = bytes | AsyncGenerator[bytes, None] | None


class RequestWriter:
    """
    The requests on one connection, one after the other.

    Attributes:
        is_on: Whether some of one is still to be written, or to be taken.
        is_held_up: Whether what is written now would wait in this process.
    """

    def __init__(
        self,
        transport: asyncio.WriteTransport,
        on_sent: Callable[[], None],
        on_broken: Callable[[BaseException], None],
    ) -> None:
        """
        Begin with nothing to send.

        Args:
            transport: Who reads from it passes `pause_writing` and `resume_writing` on.
            on_sent: Called when it is upstream's turn.
            on_broken: Called with what the body raised in place of its rest.
        """
        self._transport = transport
        self._on_sent = on_sent
        self._on_broken = on_broken
        self._task: asyncio.Task[None] | None = None
        self._may_write: asyncio.Future[None] | None = None
        self.is_on = self.is_held_up = False

    def begin(self, body: Body) -> None:
        """Write a body behind its head; None: see off what is written already."""
        self.is_on = True
        self._task = asyncio.get_running_loop().create_task(self._send(body))

    def cancel(self) -> None:
        """Write no more; a body that is streamed is closed."""
        if self._task is not None:
            self._task.cancel()

    def pause(self) -> None:
        """Let the rest of a body wait."""
        self.is_held_up = True

    def resume(self) -> None:
        """Let it go on."""
        self.is_held_up = False
        if self._may_write is not None and not self._may_write.done():
            self._may_write.set_result(None)

    async def _send(self, body: Body) -> None:
        try:
            if isinstance(body, bytes):
                for at in range(0, len(body), PIECE_BYTES):
                    await self._write(body[at : at + PIECE_BYTES])
                    await asyncio.sleep(0)  # others have their turn
            elif body is not None:
                async with contextlib.aclosing(body) as pieces:
                    async for piece in pieces:
                        await self._write(piece)
            await self._room()
        except BaseException as error:
            self._on_broken(error)
            if not isinstance(error, Exception):
                raise
        else:
            self.is_on = False
            self._task = None
            self._on_sent()

    async def _write(self, piece: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(piece)
        await self._room()

    async def _room(self) -> None:
        if self.is_held_up and not self._transport.is_closing():
            self._may_write = asyncio.get_running_loop().create_future()
            await self._may_write
