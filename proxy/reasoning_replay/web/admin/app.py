"""Admin port: liveness, readiness, metrics, the inspector, and the stored conversations."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from aiohttp import hdrs, web
from prometheus_client import CONTENT_TYPE_LATEST

from reasoning_replay.adapters.resilience.safe_store import SafeStore
from reasoning_replay.adapters.telemetry.metrics import process_exposition
from reasoning_replay.core.dialects.registry import (
    ENDPOINTS,
    base_url_at,
    dialect_of,
    route_of,
)
from reasoning_replay.web.admin.conversations import Conversations
from reasoning_replay.web.admin.inspector.events import Watchers
from reasoning_replay.web.admin.inspector.page import page
from reasoning_replay.web.errors import ADMIN_PORT, as_response, shaped

_OF_CLIENTS: Final = f"/{{path:.*({'|'.join(ENDPOINTS)})}}"
# A probe has its own timeout, by default 1 s in Kubernetes.
STORE_WAIT_S: Final = 0.2
# How often a store is checked that has failed, or did not take everything.
LOOK_S: Final = 5.0


def admin_app(  # noqa: PLR0913, PLR0917 - each is another part of the port
    exposition: Callable[[], bytes],
    store: SafeStore,
    state: Callable[[], Mapping[str, str]],
    conversations: Conversations,
    watchers: Watchers,
    about: str = "ok",
) -> web.Application:
    """
    Return the admin port's application; `state` is the body of `/readyz`, `about` that of `/livez`.

    Readiness does not depend on the store. The proxy forwards requests without it, and a store that
    is down must not take every replica out of service (docs/internals/decisions.md).
    """
    check, measurement = _SharedCall(store.check), _SharedCall(store.measure)

    async def livez(_: web.Request) -> web.Response:
        return web.Response(text=f"{about}\n")

    async def readyz(_: web.Request) -> web.Response:
        late = {} if await check.within(STORE_WAIT_S) else {"store": "degraded"}
        now = {**state(), **late}
        return web.json_response(now, status=200 if now["status"] == "ready" else 503)

    async def metrics(_: web.Request) -> web.Response:
        process = await asyncio.to_thread(process_exposition)
        await measurement.within(STORE_WAIT_S)  # a late result is shown by the next scrape
        body = exposition() + process
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def index(request: web.Request) -> web.Response:
        if "text/html" not in request.headers.get(hdrs.ACCEPT, ""):
            return web.json_response({"paths": paths}, headers={hdrs.VARY: hdrs.ACCEPT})
        return page()

    handlers: Mapping[str, Callable[[web.Request], Awaitable[web.StreamResponse]]] = {
        "/": index,
        "/livez": livez,
        "/readyz": readyz,
        "/metrics": metrics,
    }
    app = web.Application()
    app.add_routes([web.get(path, handler) for path, handler in handlers.items()])
    app.add_routes(conversations.routes())
    app.add_routes(watchers.routes())
    paths = _paths_of(app)

    async def shut(_: web.Application) -> None:
        watchers.close()

    async def leave(_: web.Application) -> None:
        await check.close()
        await measurement.close()

    app.on_shutdown.append(shut)
    app.on_cleanup.append(leave)
    return app


def wrong_port(clients_url: str) -> web.RouteDef:
    """Return the route of requests that belong to the clients' port, which is at this URL."""

    async def refuse(request: web.Request) -> web.Response:
        dialect = dialect_of(route_of(request.method, request.path))
        base_url = base_url_at(clients_url, dialect)
        return as_response(shaped(ADMIN_PORT.filled(base_url=base_url), dialect))

    return web.post(_OF_CLIENTS, refuse)


def _paths_of(app: web.Application) -> list[str]:
    """Return the path of every route, after its method unless that is GET."""
    paths = []
    for route in app.router.routes():
        if route.resource is not None and route.method != hdrs.METH_HEAD:
            method = "" if route.method == hdrs.METH_GET else f"{route.method} "
            paths.append(f"{method}{route.resource.canonical}")
    return paths


class _SharedCall:
    """One call of a store for all concurrent requests, each with a bounded wait."""

    def __init__(self, act: Callable[[], Awaitable[object]]) -> None:
        self._act = act
        self._acting: asyncio.Task[None] | None = None

    async def within(self, wait_s: float) -> bool:
        """Make the call; return False if it has not ended in time, whatever its result."""
        if self._acting is None or self._acting.done():
            self._acting = asyncio.create_task(self._run())
        done, _ = await asyncio.wait([self._acting], timeout=wait_s)
        return bool(done)

    async def close(self) -> None:
        """Cancel a running call."""
        if self._acting is not None:
            self._acting.cancel()
            await asyncio.wait([self._acting])

    async def _run(self) -> None:
        await self._act()


async def look_after(store: SafeStore) -> None:
    """
    Check the store after LOOK_S if it needs that; this is repeated.

    So its recovery is detected without a request, and it gets what it did not take before.
    """
    await asyncio.sleep(LOOK_S)
    if store.needs_check:
        await store.check()
