"""Own paths: what the clients' port says of the proxy, and what stays the upstream's."""

import asyncio

import pytest
from reasoning_replay.settings.model import Settings
from reasoning_replay.web.app import App, running
from reasoning_replay.web.own_paths import OWN_PATHS

from tests.web.line import Answer, line_to, request
from tests.web.wire import whole
from tests.web.world import Logged, logged, world

LOCAL = "http://127.0.0.1:9/v1"
VENDOR = "https://api.openai.com/v1"
OPEN = {"listen": "127.0.0.1:0", "admin_listen": "127.0.0.1:0", "log_format": "json"}


async def ask(app: App, *line: str) -> Answer:
    """Return the answer to one request on a connection of its own."""
    async with line_to(app.url) as connection:
        return await connection.ask(request(*line))


@pytest.mark.parametrize(
    "upstream",
    [{"upstream_url": VENDOR}, {"upstreams": {"openai": {"url": VENDOR}, "own": {"url": LOCAL}}}],
    ids=["one", "several"],
)
async def test_the_proxy_answers_for_itself(upstream: dict[str, object], capsys: Logged) -> None:
    """Probes are 200, `/` says what the port is, and `/metrics` where the metrics are."""
    async with running(Settings.model_validate({**OPEN, **upstream})) as app:
        for path in ("/livez", "/readyz?verbose", "/healthz"):
            got = await ask(app, "GET", path)
            assert (got.status, got.body, got.mark) == (200, b"ready\n", None)
        page = await ask(app, "GET", "/")
        assert page.status == 200
        assert app.admin_url.encode() in page.body
        assert f"OPENAI_BASE_URL={app.url}".encode() in page.body
        metrics = await ask(app, "GET", "/metrics")
        assert (metrics.status, metrics.mark) == (404, "error=clients_port")
        assert app.admin_url.encode() in metrics.body
        if "upstreams" in upstream:
            assert (await ask(app, "GET", "/openai/")).body == page.body
            assert (await ask(app, "POST", "/livez")).mark == "error=unknown_upstream"
            assert (await ask(app, "GET", "/own/livez")).mark == "error=upstream_unreachable"
        app.handler.leave()
        for path, status in (("/livez", 200), ("/readyz", 503), ("/", 503)):
            got = await ask(app, "GET", path)
            assert (got.status, got.head.values("connection")) == (status, ["close"])
    told = [line["outcome"] for line in logged(capsys, "exchange")]
    assert set(told) <= {"unknown_upstream", "upstream_unreachable"}


async def test_a_head_request_gets_no_body() -> None:
    """The connection stays in step."""
    settings = Settings.model_validate({**OPEN, "upstream_url": VENDOR})
    async with running(settings) as app, line_to(app.url) as line:
        await line.send(request("HEAD", "/healthz"))
        assert (await line.head()).values("content-length") == ["6"]
        assert (await line.ask(request("GET", "/livez"))).body == b"ready\n"


async def test_a_server_of_ones_own_keeps_its_paths() -> None:
    """It may have a page, metrics and probes, and its clients may use them."""
    async with world() as w:
        w.upstream.otherwise = whole(b"its own")
        for path in sorted(OWN_PATHS):
            assert (await w.get(path)).body == b"its own"
        await asyncio.sleep(0)
        assert len(w.upstream.received) == len(OWN_PATHS)


async def test_every_other_request_goes_to_the_vendor() -> None:
    """Other methods, and paths that only begin alike, are forwarded."""
    settings = {**OPEN, "upstream_url": VENDOR, "upstream_proxy": "http://127.0.0.1:9"}
    async with running(Settings.model_validate(settings)) as app:
        for line in (("POST", "/livez"), ("GET", "/health"), ("GET", "/metrics/x"), ("GET", "//")):
            assert (await ask(app, *line)).mark == "error=upstream_unreachable"
