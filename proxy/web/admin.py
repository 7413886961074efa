"""The operators' port: am I alive, may I get traffic, and what happened so far."""

import json
from collections.abc import Callable

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST

from proxy.adapters.metrics import Metrics
from proxy.adapters.safe_store import SafeStore

__all__ = ["admin_app"]


def admin_app(
    metrics: Metrics, store: SafeStore, is_draining: Callable[[], bool]
) -> web.Application:
    """
    Return the admin port's application.

    Readiness does not depend on the store: the proxy works without it, only not as well, and a
    store that is down must not take every replica out of service (README, Decisions D5).
    """

    async def livez(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(_: web.Request) -> web.Response:
        await store.check()
        ready = not is_draining()
        state = {
            "status": "ready" if ready else "draining",
            "store": "degraded" if store.is_degraded else "ok",
        }
        return web.json_response(state, status=200 if ready else 503)

    async def exposition(_: web.Request) -> web.Response:
        return web.Response(
            body=metrics.exposition(), headers={"Content-Type": CONTENT_TYPE_LATEST}
        )

    async def index(_: web.Request) -> web.Response:
        paths = ["/livez", "/readyz", "/metrics"]
        return web.Response(text=json.dumps({"paths": paths}), content_type="application/json")

    app = web.Application()
    app.add_routes(
        [
            web.get("/", index),
            web.get("/livez", livez),
            web.get("/readyz", readyz),
            web.get("/metrics", exposition),
        ]
    )
    return app
