"""The operators' port: am I alive, may I get traffic, what happened so far, and what is kept."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple, Protocol

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST

from proxy.web.conversations import Conversations

__all__ = ["Readiness", "admin_app"]

# A probe has a deadline of its own, 1 s where Kubernetes is not told otherwise.
STORE_WAIT_S: Final = 0.2


class Readiness(NamedTuple):
    """
    Whether traffic may come, and why.

    Attributes:
        status: A word: `ready`, or what it is instead.
        workers: How many serve, where there are several; None otherwise.
    """

    is_ready: bool
    status: str
    workers: str | None = None


class Probed(Protocol):
    """As much of a store as probes ask."""

    @property
    def is_degraded(self) -> bool:
        """Whether it does not work as it should."""
        ...

    async def check(self) -> bool:
        """Ask it for a sign of life."""
        ...


def admin_app(
    exposition: Callable[[], bytes],
    store: Probed,
    readiness: Callable[[], Readiness],
    conversations: Conversations,
) -> web.Application:
    """
    Return the admin port's application.

    Readiness does not depend on the store: the proxy works without it, only not as well, and a
    store that is down must not take every replica out of service (README, Decisions D5).
    """
    signs = _SignsOfLife(store.check)

    async def livez(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(_: web.Request) -> web.Response:
        has_answered = await signs.within(STORE_WAIT_S)
        ready = readiness()
        is_well = has_answered and not store.is_degraded
        state = {"status": ready.status, "store": "ok" if is_well else "degraded"}
        if ready.workers is not None:
            state["workers"] = ready.workers
        return web.json_response(state, status=200 if ready.is_ready else 503)

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=exposition(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def index(_: web.Request) -> web.Response:
        paths = ["/livez", "/readyz", "/metrics", "/conversations"]
        return web.Response(text=json.dumps({"paths": paths}), content_type="application/json")

    handlers: Mapping[str, Callable[[web.Request], Awaitable[web.StreamResponse]]] = {
        "/": index,
        "/livez": livez,
        "/readyz": readyz,
        "/metrics": metrics,
    }
    app = web.Application()
    app.add_routes([web.get(path, handler) for path, handler in handlers.items()])
    app.add_routes(conversations.routes())

    async def leave(_: web.Application) -> None:
        await signs.close()

    app.on_cleanup.append(leave)
    return app


class _SignsOfLife:
    """Asks once for all probes that come meanwhile, and lets none of them wait for long."""

    def __init__(self, check: Callable[[], Awaitable[bool]]) -> None:
        self._check = check
        self._asking: asyncio.Task[None] | None = None

    async def within(self, wait_s: float) -> bool:
        """Ask; False when there was no answer in time, be it good or bad."""
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask())
        done, _ = await asyncio.wait([self._asking], timeout=wait_s)
        return bool(done)

    async def close(self) -> None:
        """Ask no longer."""
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.wait([self._asking])

    async def _ask(self) -> None:
        await self._check()
