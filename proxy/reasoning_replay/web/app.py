"""App: one running proxy, from settings to two listening ports."""

import asyncio
import contextlib
import ssl
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import NamedTuple, Self

from aiohttp import web

from reasoning_replay.adapters.runtime.background import keep_doing
from reasoning_replay.adapters.runtime.offload import Offloader
from reasoning_replay.adapters.telemetry.log import Log
from reasoning_replay.adapters.telemetry.metrics import Metrics
from reasoning_replay.adapters.upstream.egress import trust
from reasoning_replay.build import build_version
from reasoning_replay.core.dialects.registry import BASE_PATHS, HANDLED_ROUTES, REPLAYED_PATHS
from reasoning_replay.core.tenancy.scope import (
    FINGERPRINT_BYTES,
    fingerprint_of,
    read_secrets,
)
from reasoning_replay.core.wire.forwarded import read_networks
from reasoning_replay.settings.model import Settings
from reasoning_replay.settings.urls import host_and_port, redacted
from reasoning_replay.web.admin.app import admin_app, look_after, wrong_port
from reasoning_replay.web.admin.conversations import Access, Conversations
from reasoning_replay.web.admin.inspector.events import Watchers
from reasoning_replay.web.admin.inspector.recorder import Recorder
from reasoning_replay.web.doubtful_settings import doubts
from reasoning_replay.web.exchange_log import ExchangeLog
from reasoning_replay.web.handler import ProxyHandler
from reasoning_replay.web.http.listener import Listener
from reasoning_replay.web.http.server import Server, silent
from reasoning_replay.web.http.tls import Certificate
from reasoning_replay.web.pipeline.upstream_request import UpstreamAddress
from reasoning_replay.web.wiring import (
    base_urls,
    certificate,
    codec,
    connection_limits,
    limits,
    profile,
    safe_store,
    scopings,
    tracer,
    upstream,
    upstreams,
)

# How long aiohttp waits for handlers when a port is closed; the drain is over by then.
CUT_OFF_S = 0.1
# How long the last spans have to reach their collector: the rest of the drain, in these bounds.
TRACES_S = 2.0
TRACES_LEAST_S = 0.1
# How often processes that share a store compare their secrets.
COMPARED_S = 1800.0
# Settings that a reload changes. A new `scope_secret` would hide every stored conversation, and
# every other setting is part of connections and limits that exist already.
RELOADABLE = ("admin_token", "encryption_keys", "mode")
# How often a drain checks whether the clients have read their responses.
LOOK_S = 0.02


class Reloaded(NamedTuple):
    """The new settings: those in use now, and those that wait for a restart."""

    changed: list[str]
    waiting: list[str]


class App:
    """
    One running proxy.

    Attributes:
        url: URL of the clients' port, without `/v1`; "" until it is open.
        admin_url: URL of the admin port; "" until it is open.
        server: Server of the client connections.
        upstreams: The connection pool of each upstream, by its name.
        recorder: The newest exchanges, for the inspector.
        agents: Tenants of the playground's agents, which the inspector can leave out.
    """

    def __init__(self, settings: Settings) -> None:
        """
        Create the parts; needs a running event loop, opens no port yet.

        Raises:
            OSError: `upstream_ca_file`, the environment's proxy or an OTEL_ variable is invalid;
                the text names the cause.
        """
        self.settings = settings
        self.url = self.admin_url = ""
        self.agents: list[str] = []
        models = filter(None, settings.metrics_models.split(","))
        self.metrics = Metrics(models, settings.upstreams)
        self.log = Log(settings.log_level, settings.log_format, fields=settings.log_fields)
        self._offloader = Offloader()
        self.store = safe_store(settings, self.metrics, self.log, self._offloader)
        self.recorder = Recorder(time.monotonic, lambda: time.time_ns() // 1_000_000)
        self._tracer = tracer(settings, self.log)
        proxies = read_networks(settings.trusted_proxies)
        exchange_log = ExchangeLog(self.metrics, self.log, self.recorder, self._tracer, proxies)
        each = settings.by_upstream.items()
        self.upstreams = {name: upstream(own) for name, own in each}
        self.handler = ProxyHandler(
            upstreams(settings, self.upstreams, self.store, self._offloader),
            settings.upstream_hosts,
            limits(settings),
            exchange_log,
            tracer=self._tracer,
            log=self.log,
            tells_overhead=settings.overhead_header == "on",
        )
        admission, budget = self.handler.admission, self.handler.budget
        self.metrics.max_exchanges.set(settings.max_exchanges)
        self.metrics.in_flight.set_function(lambda: admission.count)
        self.metrics.memory_budget_max.set(budget.units)
        self.metrics.memory_budget_used.set_function(lambda: budget.used)
        self._loops: tuple[asyncio.Task[None], ...] = ()
        admin_host, _ = host_and_port(settings.admin_listen)
        self._access = Access(settings.admin_token.get_secret_value(), admin_host)
        self._certificate: Certificate | None = None
        bounds = connection_limits(settings, self.log)
        self.server = server = Server(exchange_log, self.handler.handle, bounds, self.log)
        self.metrics.max_connections.set(bounds.max_connections)
        self.metrics.connections.set_function(lambda: len(server.connections))
        self._clients = Listener(web.ServerRunner(server, shutdown_timeout=CUT_OFF_S), "listen")
        self._operators: Listener | None = None
        self._has_started = False

    async def start(self) -> Self:
        """
        Open both ports.

        Raises:
            OSError: A port cannot be opened or the TLS files are invalid; the text names the cause.
        """
        settings = self.settings
        self._certificate = certificate(settings, self.log)
        await self._clients.open(
            settings.listen,
            None if self._certificate is None else self._certificate.context,
            handshake_s=settings.idle_timeout_s,
            reuse_port=settings.reuse_port,
        )
        self.url = self._clients.url
        self._loops = (
            keep_doing("look_after", partial(look_after, self.store), self.log),
            keep_doing("give_back", self.handler.budget.give_back, self.log),
            keep_doing("compare_secrets", self._compare_secrets, self.log),
        )
        conversations = Conversations(self.store, self._access, scopings(settings))
        watchers = Watchers(
            self.recorder,
            self._access,
            lambda: facts_of(self.settings, self.url) | _ROUTES | self._of_clients(),
            self._state,
            self.metrics.registry.collect,
        )
        each = settings.by_upstream.values()
        origins = ", ".join(UpstreamAddress(one.upstream_url).origin for one in each)
        about = f"reasoning-replay {build_version()} for {origins}"
        admin = admin_app(
            self.metrics.exposition, self.store, self._state, conversations, watchers, about
        )
        admin.add_routes([wrong_port(self.url + ("/<name>" if settings.upstreams else ""))])
        self._operators = Listener(admin_runner(admin), "admin_listen")
        await self._operators.open(settings.admin_listen)
        self.admin_url = self.handler.own_paths.admin_url = self._operators.url
        self.handler.own_paths.base_urls = [*base_urls(self.url, settings)]
        self._has_started = True
        self.announce()
        return self

    def announce(self) -> None:
        """Log the start, and settings that may be a mistake."""
        facts = facts_of(self.settings, self.url) | {"store_state": self._state()["store"]}
        self.log.info("started", **facts, admin=self.admin_url)
        for hint in doubts(self.settings):
            self.log.warning("doubtful_setting", hint=hint)

    async def _compare_secrets(self) -> None:
        """
        Warn if another process on the store has another `scope_secret`; this is repeated.

        Two processes of which one names the other's secret are in a rotation.
        """
        secrets = read_secrets(self.settings.scope_secret.get_secret_value())
        own = [fingerprint_of(one) for one in secrets]
        met = await self.store.meet(b"".join(own))
        size = FINGERPRINT_BYTES
        others = [{mark[at : at + size] for at in range(0, len(mark), size)} for mark in met]
        if any(other.isdisjoint(own) for other in others):
            self.log.warning("scope_secrets_differ", hint=_SECRETS_DIFFER)
        await asyncio.sleep(COMPARED_S)

    def _of_clients(self) -> dict[str, object]:
        """Return the variables of the clients with the ends of their base URLs, and the agents."""
        return {"clients": [*base_urls("", self.settings)], "agents": self.agents}

    def _state(self) -> dict[str, str]:
        """Return the current state in words, for `/readyz` and the inspector."""
        return {
            "status": "draining" if self.handler.is_leaving else "ready",
            "store": "degraded" if self.store.is_degraded else "ok",
        }

    def reload(self, settings: Settings) -> Reloaded:
        """
        Use new secrets, a new mode, a new certificate and new authorities.

        Exchanges in flight, and open WebSockets, go on as they began.
        Authorities that are no longer in their file are trusted until a restart.

        Args:
            settings: The settings as they are now; most of them need a restart.

        Raises:
            OSError: A TLS file is invalid, and nothing is changed; the text names the way out.
            Exception: A fault of the proxy; nothing is changed, either.
        """
        names = [
            name
            for name in Settings.model_fields
            if getattr(settings, name) != getattr(self.settings, name)
        ]
        changed = [name for name in names if name in RELOADABLE]
        # First all that may fail.
        update = {name: getattr(settings, name) for name in changed}
        now = self.settings.model_copy(update=update)
        new_codec = codec(now)
        uses = upstreams(now, self.upstreams, self.store, self._offloader)
        trusting = [
            (tls, own.upstream_ca_file)
            for name, own in self.settings.by_upstream.items()
            if (tls := self.upstreams[name].tls) is not True
        ]
        for _, ca_file in trusting:
            trust(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), ca_file)  # so that an error is early
        if self._certificate is not None and self._certificate.reload():
            changed.append("tls_cert_file")
        if sum(trust(tls, ca_file) for tls, ca_file in trusting):
            changed.append("upstream_ca_file")
        if "admin_token" in changed:
            self._access.use(settings.admin_token.get_secret_value())
        if "encryption_keys" in changed and self.store.inner is not None:
            self.store.inner.codec = new_codec
        self.settings = now
        if "mode" in changed:
            self.handler.use(uses)
            self.store.room.drop_decisions()  # the parts that used them are replaced
        return Reloaded(changed, [name for name in names if name not in RELOADABLE])

    async def stop(self, drain_s: float = 0.0, grace_s: float = 0.0) -> None:
        """
        Accept no new connections, wait for the exchanges in flight, then close.

        A connection with an exchange in flight was promised another request. That request is
        served, too, if it arrives before the end of the drain, and its response closes the
        connection.

        Args:
            drain_s: Time for the exchanges in flight, from now on; the rest is cut off.
            grace_s: The part of `drain_s` in which new connections are still accepted, because load
                balancers need time to notice that this process is no longer ready.
        """
        ends_at = asyncio.get_running_loop().time() + drain_s
        self.handler.leave()
        in_flight = self.handler.admission.count
        if drain_s:
            self.log.info("draining", in_flight=in_flight, drain_s=drain_s, grace_s=grace_s)
        await asyncio.sleep(min(grace_s, drain_s))
        self._clients.stop_listening()
        self.handler.drain()
        self.server.close_idle()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(ends_at):
                # An exchange ends before a slow client has read the end of its response.
                while self.handler.admission.count or self.server.unsent:
                    await self.handler.admission.idle.wait()
                    await asyncio.sleep(LOOK_S)  # write buffers have no event
        cut_off = max(self.handler.admission.count, self.server.unsent)
        await self._clients.close()
        for client in self.upstreams.values():
            await client.close()
        for loop in self._loops:
            loop.cancel()
        await self.store.close()
        if self._operators is not None:
            await self._operators.close()
        left_s = ends_at - asyncio.get_running_loop().time()
        await self._tracer.close(max(TRACES_LEAST_S, min(TRACES_S, left_s)))
        if self._has_started:
            (self.log.warning if cut_off else self.log.info)("stopped", cut_off=cut_off)
        self.log.close()


_SECRETS_DIFFER = (
    "another process on this store has another scope_secret, now or within the last two hours: "
    "each finds only what it stored itself; set the same on all, in a rotation as new,old"
)


def admin_runner(app: web.Application) -> web.AppRunner:
    """Return the runner of the admin port."""
    return web.AppRunner(app, access_log=None, logger=silent, shutdown_timeout=CUT_OFF_S)


# For the inspector: routes on which the proxy acts, with the ends of their base URLs, and the paths
# on which it injects.
_ROUTES: dict[str, object] = {
    "handled": sorted(HANDLED_ROUTES),
    "bases": BASE_PATHS,
    "replayed": REPLAYED_PATHS,
}


def facts_of(settings: Settings, url: str) -> dict[str, str]:
    """Return the facts of a proxy for the log and the inspector, without secrets."""
    return {
        "version": build_version(),
        "listen": url,
        "upstream": _by_name(settings, lambda own: redacted(own.upstream_url)),
        "profile": _by_name(settings, lambda own: profile(own).name),
        "store": redacted(settings.store_url),
        "mode": _by_name(settings, lambda own: own.mode),
    }


def _by_name(settings: Settings, fact_of: Callable[[Settings], str]) -> str:
    """Return a fact of each upstream after its name; one that all of them share as it is."""
    facts = {name: fact_of(own) for name, own in settings.by_upstream.items()}
    if len({*facts.values()}) == 1:
        return next(iter(facts.values()))
    return ", ".join(f"{name}={fact}" for name, fact in facts.items())


@contextlib.asynccontextmanager
async def running(settings: Settings) -> AsyncIterator[App]:
    """Run a proxy for the duration of the block; used by tests and the demo."""
    app = await App(settings).start()
    try:
        yield app
    finally:
        await app.stop()
