"""Loopback server: the life of a stand-in on a port of this machine, and its queued refusals."""

from abc import ABC, abstractmethod
from collections import deque
from types import TracebackType
from typing import Generic, Self, TypeVar

from aiohttp import web

from tests.standin.exchange import BODY_BYTES_MAX

__all__ = ["Loopback"]

HOST = "127.0.0.1"
RefusalT = TypeVar("RefusalT")


class Loopback(ABC, Generic[RefusalT]):
    """
    A server on loopback, while its context is open; one port, everything in memory.

    Args:
        path: The path of its base URL.
        port: TCP port; 0 takes a free one.

    Raises:
        OSError: On entering, if the port is in use.
    """

    def __init__(self, path: str, port: int) -> None:
        self._path = path
        self._port = port
        self._refusals: deque[RefusalT] = deque()
        self._runner: web.AppRunner | None = None

    @property
    def base_url(self) -> str:
        """The base URL for a client."""
        return f"http://{HOST}:{self._port}{self._path}"

    def refuse_next(self, refused: RefusalT) -> None:
        """Answer the next request with this refusal, whatever it is; several calls queue up."""
        self._refusals.append(refused)

    async def __aenter__(self) -> Self:
        application = web.Application(client_max_size=BODY_BYTES_MAX)
        self.add_routes(application.router)
        # Bodies keep their content encoding: `received` must show the bytes that the proxy sent.
        self._runner = web.AppRunner(
            application,
            access_log=None,
            auto_decompress=False,
            handler_cancellation=True,
            shutdown_timeout=1.0,
        )
        await self._runner.setup()
        await web.TCPSite(self._runner, HOST, self._port).start()
        self._port = self._runner.addresses[0][1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    @abstractmethod
    def add_routes(self, router: web.UrlDispatcher) -> None:
        """Add what it serves."""
