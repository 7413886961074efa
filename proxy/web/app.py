"""One running proxy: settings in, two listening ports out."""

import asyncio
import contextlib
import socket
import ssl
import time
from collections.abc import AsyncIterator
from typing import Self

from aiohttp import web

from proxy import __version__
from proxy.adapters.logs import Log
from proxy.adapters.memory_store import MemoryStore
from proxy.adapters.metrics import Metrics
from proxy.addresses import host_and_port, redacted
from proxy.settings import Settings
from proxy.web.account import Account
from proxy.web.admin import admin_app
from proxy.web.forward import Forward
from proxy.web.parts import connection_limits, guarded_store, limits, profile, replay, tls, upstream
from proxy.web.server import Server, silent

__all__ = ["App", "running"]


class App:
    """
    One running proxy.

    Attributes:
        url: Where clients connect, without `/v1`.
        admin_url: Where operators look.
    """

    def __init__(self, settings: Settings) -> None:
        """Put the parts together; needs a running loop, opens no port yet."""
        self.settings = settings
        self.url = self.admin_url = ""
        self.metrics = Metrics()
        self.log = Log(settings.log_level, settings.log_format)
        self.store = guarded_store(settings, self.metrics, self.log)
        self._upstream = upstream(settings)
        self.forward = Forward(
            settings.upstream_url,
            self._upstream,
            None if settings.mode == "off" else replay(settings, self.store),
            limits(settings),
            Account(self.metrics, self.log, time.monotonic),
        )
        self._runners: list[web.ServerRunner | web.AppRunner] = []
        self._sites: list[web.SockSite] = []

    async def start(self) -> Self:
        """
        Listen.

        Raises:
            OSError: A port cannot be had; its text names the address.
        """
        settings = self.settings
        admin = admin_app(self.metrics, self.store, lambda: self.forward.is_draining)
        server = Server(self.forward, connection_limits(settings, self.log), self.log)
        self.url = await self._listen(
            web.ServerRunner(server, shutdown_timeout=0.1),
            settings.listen,
            tls(settings, self.log),
        )
        admin_runner = web.AppRunner(admin, access_log=None, logger=silent, shutdown_timeout=0.1)
        self.admin_url = await self._listen(admin_runner, settings.admin_listen)
        self.log.info(
            "started",
            version=__version__,
            listen=self.url,
            admin=self.admin_url,
            upstream=redacted(settings.upstream_url),
            profile=profile(settings).name,
            store=redacted(settings.store_url),
            mode=settings.mode,
        )
        if not settings.scope_secret.get_secret_value() and not isinstance(
            self.store.inner, MemoryStore
        ):
            self.log.warning(
                "no_scope_secret",
                hint="credentials are hashed without a secret; set REPLAY_SCOPE_SECRET, "
                "the same on all replicas",
            )
        return self

    async def _listen(
        self,
        runner: web.ServerRunner | web.AppRunner,
        address: str,
        context: ssl.SSLContext | None = None,
    ) -> str:
        await runner.setup()
        self._runners.append(runner)
        host, port = host_and_port(address)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family, backlog=1024)
        site = web.SockSite(runner, listening, ssl_context=context)
        await site.start()
        self._sites.append(site)
        bound = listening.getsockname()
        host = f"[{bound[0]}]" if ":" in bound[0] else bound[0]
        return f"{'https' if context else 'http'}://{host}:{bound[1]}"

    async def stop(self, drain_s: float = 0.0) -> None:
        """Take nothing new, let what runs finish for `drain_s` seconds at most, then close."""
        self.forward.drain()
        if self.forward.in_flight:
            self.log.info("draining", in_flight=self.forward.in_flight, drain_s=drain_s)
        for site in self._sites[:1]:  # clients' port first; operators may watch the drain
            await site.stop()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(drain_s):
                await self.forward.idle.wait()
        self.log.info("stopped", cut_off=self.forward.in_flight)
        for runner in self._runners:
            await runner.cleanup()
        await self._upstream.close()
        await self.store.close()


@contextlib.asynccontextmanager
async def running(settings: Settings) -> AsyncIterator[App]:
    """Run a proxy for as long as the block lasts; for tests and the demo."""
    app = await App(settings).start()
    try:
        yield app
    finally:
        await app.stop()
