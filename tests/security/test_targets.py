"""Targets: whatever a client sends, the proxy connects only to its upstream."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.web.line import line_to, request
from tests.web.scripted import Upstream, scripted
from tests.web.sockets import HANDSHAKE
from tests.web.wire import as_json, whole
from tests.web.world import World, world

KEY = "Authorization: Bearer sk-a"

# (target, target at upstream); %s is the host and port of the foreign server.
PATHS = [
    ("/v1/models", "/api/v2/models"),
    ("/v1", "/api/v2"),
    ("/v1?x=http://%s/", "/api/v2?x=http://%s/"),
    ("/v1/http://%s/x", "/api/v2/http://%s/x"),
    ("/v1@%s/x", "/v1@%s/x"),
    ("/v1:80@%s/x", "/v1:80@%s/x"),
    ("/v1/@%s/x", "/api/v2/@%s/x"),
    ("/@%s/x", "/@%s/x"),
    ("/:@%s", "/:@%s"),
    ("//%s/x", "//%s/x"),
    ("///%s/x", "///%s/x"),
    ("/\\%s/x", "/\\%s/x"),
    ("/v1//%s/x", "/api/v2//%s/x"),
    ("/v1\\@%s/x", "/v1\\@%s/x"),
    ("/v1.%s/x", "/v1.%s/x"),
    ("/v1/../../%s", "/api/v2/../../%s"),
    ("/v1/%2e%2e/%2e%2e/x", "/api/v2/%2e%2e/%2e%2e/x"),
    ("/../../x", "/../../x"),
    ("/%2f%2f%s/x", "/%2f%2f%s/x"),
    ("/%40%s", "/%40%s"),
    ("/v1%2f@%s", "/v1%2f@%s"),
    ("/v1?@%s/", "/api/v2?@%s/"),
    ("/v1/?url=//%s&host=%s", "/api/v2/?url=//%s&host=%s"),
    ("/http:/%s", "/http:/%s"),
    ("/v1/x;@%s", "/api/v2/x;@%s"),
    ("/v1/%%", "/api/v2/%%"),
    ("/v1/%E2%80%AE%EF%BC%8F%s", "/api/v2/%E2%80%AE%EF%BC%8F%s"),
    ("/v1/[::1]:80/x", "/api/v2/[::1]:80/x"),
]
# Targets that are not paths.
REFUSED = [
    "http://%s/v1/models",
    "https://%s/v1/models",
    "http://%s",
    "HTTP://%s/",
    "http://upstream@%s/v1",
    "ws://%s/v1/responses",
    "%s",
    "@%s/x",
    "\\\\%s\\x",
    "*",
    "v1/models",
    "?x",
    "#@%s/",
    "/v1#@%s/",
    "/#@%s/",
    "file:///etc/passwd",
]
HEADERS = [
    "Forwarded: for=1.2.3.4;host=%s;proto=http",
    "X-Forwarded-Host: %s",
    "X-Forwarded-For: %s",
    "X-Forwarded-Proto: ftp",
    "X-Forwarded-Server: %s",
    "X-Forwarded-Prefix: //%s",
    "X-Host: %s",
    "X-Original-URL: http://%s/",
    "X-Rewrite-URL: //%s/",
    "X-HTTP-Host-Override: %s",
    "Referer: http://%s/",
    "Origin: http://%s",
    "Destination: http://%s/",
    "Proxy: http://%s",
    "Alt-Used: %s",
]


class Elsewhere:
    """
    A foreign server.

    Attributes:
        address: Its host and port.
        connections: Number of connections so far.
    """

    def __init__(self) -> None:
        self.address = ""
        self.connections = 0

    def accept(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Count the connection, and close it."""
        self.connections += 1
        writer.close()


@contextlib.asynccontextmanager
async def two_places(**settings: Any) -> AsyncIterator[tuple[World, Elsewhere]]:
    """Run a proxy, its upstream, and a foreign server."""
    elsewhere = Elsewhere()
    server = await asyncio.start_server(elsewhere.accept, "127.0.0.1", 0)
    elsewhere.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        async with world("/api/v2", store_budget_ms=5000, **settings) as w:
            yield w, elsewhere
    finally:
        server.close()


def own_name(upstream: Upstream) -> str:
    """Return the host and port of upstream."""
    return upstream.url.removeprefix("http://")


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_path_leads_to_the_upstream_whatever_it_says(method: str) -> None:
    """`/v1` maps to upstream_url, other paths to its origin; dots, slashes and escapes stay."""
    async with two_places() as (w, elsewhere):
        for target, want in PATHS:
            w.upstream.answers(whole(b"{}"))
            got = await w.ask(
                request(method, target.replace("%s", elsewhere.address), KEY, body=b"{}")
            )
            received = w.upstream.received[-1]
            assert (got.status, received.target) == (
                200,
                want.replace("%s", elsewhere.address),
            )
            assert received.values("host") == [own_name(w.upstream)]
        assert elsewhere.connections == 0


@pytest.mark.parametrize("method", ["GET", "POST", "CONNECT", "OPTIONS"])
async def test_a_target_that_is_no_path_leads_nowhere(method: str) -> None:
    """A target that is not a path gets a 400, and the connection is closed."""
    async with two_places() as (w, elsewhere):
        for target in REFUSED:
            async with line_to(w.app.url) as line:
                got = await line.ask(request(method, target.replace("%s", elsewhere.address), KEY))
                assert got.status == 400, target
                assert await line.is_closed(), target
        assert (elsewhere.connections, w.upstream.received) == (0, [])


async def test_no_header_leads_anywhere() -> None:
    """No header changes the destination; `Host` is replaced by upstream's."""
    async with two_places() as (w, elsewhere):
        for given in ("Host: %s", *HEADERS):
            header = given.replace("%s", elsewhere.address)
            data = request("GET", "/v1/models", KEY, *([] if given[:5] == "Host:" else [header]))
            if given[:5] == "Host:":
                data = data.replace(b"Host: proxy.test", header.encode())
            w.upstream.answers(whole(b"{}"))
            assert (await w.ask(data)).status == 200
            assert w.upstream.received[-1].values("host") == [own_name(w.upstream)]
        assert elsewhere.connections == 0


async def test_no_body_leads_anywhere() -> None:
    """The proxy never fetches a URL in a body."""
    async with two_places() as (w, elsewhere):
        url = f"http://{elsewhere.address}/"
        image = {"role": "user", "content": [{"type": "input_image", "image_url": url}]}
        tool = {"type": "mcp", "server_url": url}
        w.upstream.answers(whole(b"{}"))
        await w.post(as_json({"model": "gpt-5.4", "input": [image], "tools": [tool]}))
        assert (len(w.upstream.received), elsewhere.connections) == (1, 0)


async def test_a_websocket_leads_to_the_upstream_alone() -> None:
    """The same rules hold for WebSockets."""
    async with two_places() as (w, elsewhere):
        w.upstream.answers(whole(b"{}"))
        origin = f"Origin: http://{elsewhere.address}"
        for target in (f"//{elsewhere.address}/v1/responses", f"ws://{elsewhere.address}/"):
            await w.ask(request("GET", target, KEY, origin, *HANDSHAKE))
        assert [one.target for one in w.upstream.received] == [
            f"//{elsewhere.address}/v1/responses"
        ]
        assert elsewhere.connections == 0


async def test_the_environments_proxies_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Proxies of the environment are ignored unless `upstream_proxy` is `env`."""
    async with scripted() as other:
        for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, other.url)
        async with two_places() as (w, _):
            w.upstream.answers(whole(b"{}"))
            assert (await w.get("/v1/models")).status == 200
        assert other.connections == 0
