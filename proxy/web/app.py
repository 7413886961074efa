"""The composition root: settings in, two listening ports out."""

import asyncio
import contextlib
import signal
import socket
import time
from collections.abc import AsyncIterator
from typing import Self

from aiohttp import web

from proxy import __version__
from proxy.adapters.guarded_store import GuardedStore
from proxy.adapters.logs import Log
from proxy.adapters.memory_store import MemoryStore
from proxy.adapters.metrics import Metrics
from proxy.adapters.redis_store import RedisStore
from proxy.adapters.store import Bounds, Store
from proxy.adapters.upstream import Upstream
from proxy.addresses import host_and_port, redacted
from proxy.core.heal.repair import Repair
from proxy.core.inject import Anchors
from proxy.core.profiles import profile_of
from proxy.settings import Settings
from proxy.web.account import Account
from proxy.web.admin import admin_app
from proxy.web.exchange import Limits
from proxy.web.forward import Forward
from proxy.web.replay import Replay, ReplaySettings
from proxy.web.server import Server, silent

__all__ = ["App", "run", "running"]

REDIS_MAX_CONNECTIONS = 64
INTERRUPTED = 130  # what a shell says of a program that Ctrl-C ended


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
        self._profile = profile_of(settings.upstream_profile, settings.upstream_url)
        self.url = self.admin_url = ""
        self.metrics = Metrics()
        self.log = Log(settings.log_level, settings.log_format)
        self.store = GuardedStore(
            _store(settings),
            settings.store_timeout_ms / 1000,
            self.metrics,
            self.log,
            time.monotonic,
        )
        self._upstream = Upstream(settings.connect_timeout_s, settings.read_timeout_s)
        self.forward = Forward(
            settings.upstream_url,
            self._upstream,
            None if settings.mode == "off" else self._replay(),
            Limits(
                settings.inspect_max_bytes,
                settings.decoded_max_bytes,
                settings.capture_max_bytes,
            ),
            Account(self.metrics, self.log, time.monotonic),
        )
        self._runners: list[web.ServerRunner | web.AppRunner] = []
        self._sites: list[web.SockSite] = []

    def _replay(self) -> Replay:
        settings = self.settings
        plain = ReplaySettings(
            upstream_url=settings.upstream_url,
            scope_secret=settings.scope_secret.get_secret_value(),
            is_shadow=settings.mode == "shadow",
            anchors=Anchors(settings.anchors),
            profile=self._profile,
            include=settings.include,
            heals=settings.heal == "on",
            repairs=frozenset(r for r in Repair if r.value in settings.repairs.split(",")),
            frame_max_bytes=settings.capture_max_bytes,
        )
        return Replay(plain, self.store, time.monotonic, lambda: time.time_ns() // 1_000_000)

    async def start(self) -> Self:
        """
        Listen.

        Raises:
            OSError: A port cannot be had; its text names the address.
        """
        admin = admin_app(self.metrics, self.store, lambda: self.forward.is_draining)
        self.url = await self._listen(
            web.ServerRunner(Server(self.forward), shutdown_timeout=0.1), self.settings.listen
        )
        admin_runner = web.AppRunner(admin, access_log=None, logger=silent, shutdown_timeout=0.1)
        self.admin_url = await self._listen(admin_runner, self.settings.admin_listen)
        self.log.info(
            "started",
            version=__version__,
            listen=self.url,
            admin=self.admin_url,
            upstream=redacted(self.settings.upstream_url),
            profile=self._profile.name,
            store=redacted(self.settings.store_url),
            mode=self.settings.mode,
        )
        if not self.settings.scope_secret.get_secret_value() and not isinstance(
            self.store.inner, MemoryStore
        ):
            self.log.warning(
                "no_scope_secret",
                hint="credentials are hashed without a secret; set REPLAY_SCOPE_SECRET, "
                "the same on all replicas",
            )
        return self

    async def _listen(self, runner: web.ServerRunner | web.AppRunner, address: str) -> str:
        await runner.setup()
        self._runners.append(runner)
        host, port = host_and_port(address)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family, backlog=1024)
        site = web.SockSite(runner, listening)
        await site.start()
        self._sites.append(site)
        bound = listening.getsockname()
        return (
            f"http://[{bound[0]}]:{bound[1]}"
            if ":" in bound[0]
            else f"http://{bound[0]}:{bound[1]}"
        )

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


def run(settings: Settings) -> int:
    """
    Serve until told to stop; SIGTERM and SIGINT drain, a second one ends at once.

    Returns:
        The exit code: 0 after a drain, 1 when a port could not be had, 130 when interrupted.
    """
    try:
        import uvloop  # noqa: PLC0415 (not on Windows)
    except ImportError:
        serve = asyncio.run
    else:
        serve = uvloop.run
    try:
        return serve(_serve(settings))
    except KeyboardInterrupt:
        return INTERRUPTED


async def _serve(settings: Settings) -> int:
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.set)
    app = App(settings)
    try:
        await app.start()
    except OSError as error:
        app.log.error("cannot_listen", reason=str(error))  # noqa: TRY400 (our own Log)
        await app.stop()
        return 1
    await app.store.check()  # so that a store that is not there is said at once
    await told.wait()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.remove_signal_handler(number)  # the second one gets the system's own treatment
    await app.stop(settings.drain_s)
    return 0


def _store(settings: Settings) -> Store:
    bounds = Bounds(
        settings.ttl_s, settings.conversation_max_turns, settings.conversation_max_bytes
    )
    if settings.store_url == "memory://":
        return MemoryStore(bounds, settings.memory_max_bytes, time.monotonic)
    timeout_s = settings.store_timeout_ms / 1000
    return RedisStore.from_url(settings.store_url, bounds, timeout_s, REDIS_MAX_CONNECTIONS)
