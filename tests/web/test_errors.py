"""Errors of the proxy: they differ from upstream's, and name the way out."""

import asyncio
import json

import pytest

from tests.ports import closed_port
from tests.web.line import Answer, Line, line_to, request
from tests.web.scripted import Script, close, scripted, send
from tests.web.served import served
from tests.web.wire import ASK, chunk, head
from tests.web.world import MODEL, post, world

KEY = "Authorization: Bearer sk-a"
REQUEST = post({"model": MODEL, "input": [ASK]})


def assert_ours(got: Answer, status: int, code: str) -> str:
    """Check for the error shape that SDKs read, and return the message."""
    body = json.loads(got.body)
    assert list(body) == ["error"]
    message: str = body["error"].pop("message")
    assert body["error"] == {"type": "proxy_error", "param": None, "code": code}
    assert (got.status, got.mark) == (status, f"error={code}")
    assert got.head.values("content-type")[0].startswith("application/json")
    return message


@pytest.mark.parametrize("data", [REQUEST, request("GET", "/v1/models", KEY)])
async def test_an_unreachable_upstream_is_a_502(data: bytes) -> None:
    """The error names the unreachable upstream and the setting to check."""
    url = f"http://127.0.0.1:{closed_port()}"
    async with world(upstream_url=url + "/v1") as w:
        message = assert_ours(await w.ask(data), 502, "upstream_unreachable")
        assert url in message
        assert "upstream_url" in message


async def slow_reader(line: Line) -> tuple[int, bool]:
    """Read only after data has piled up; return its size and whether it is complete."""
    await line.send(REQUEST)
    await line.head()
    await asyncio.sleep(0.05)
    read, is_whole = await line.until_it_ends()
    return len(read), is_whole


async def test_a_slow_client_too_sees_the_break() -> None:
    """A slow client sees the break too, after all pending bytes."""
    size = 8 << 20
    steps = [send(head("Transfer-Encoding: chunked") + chunk(b"x" * size)), close()]
    async with scripted() as upstream:
        upstream.plays(Script(steps), Script(steps))
        async with (
            served(upstream_url=upstream.url + "/v1") as proxy,  # in its own process: on uvloop
            world(upstream_url=upstream.url + "/v1") as w,
        ):
            await proxy.started()
            for url in (proxy.url, w.app.url):
                async with line_to(url) as line:
                    assert await slow_reader(line) == (size, False)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"GET /v1/models HTTP/one\r\n\r\n", id="no-version"),
        pytest.param(b"GET /v1/models HTTP/1.1\r\nno colon\r\n\r\n", id="no-header"),
        pytest.param(request("GET", "/v1/models", "X: " + "x" * 70_000), id="too-long-a-header"),
        pytest.param(
            request("POST", "/v1/files", "Content-Length: 2", "Transfer-Encoding: chunked"),
            id="two-lengths",
        ),
        *(
            pytest.param(
                request("POST", target, KEY, "Transfer-Encoding: chunked") + b"zz\r\n{}",
                id=f"no-chunks-to-{target}",
            )
            for target in ("/v1/responses", "/v1/files")
        ),
    ],
)
async def test_a_request_that_is_no_http_is_refused_in_our_shape(data: bytes) -> None:
    """Malformed HTTP gets a 4xx in the shape of the proxy's errors, whichever part refuses it."""
    async with world() as w:
        got = await w.ask(data)
        assert 400 <= got.status < 500
        assert json.loads(got.body)["error"]["type"] == "proxy_error"
        assert w.counted("exchanges_total", outcome="proxy_failed") == 0


async def test_a_malformed_request_is_not_quoted_in_a_log(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """A malformed request is not quoted in the log: it may contain a key."""
    async with world() as w:
        got = await w.ask(request("GET", "/v1/models", "Authorization: Bearer sk-secret-\x01"))
        assert got.status == 400
    assert "sk-secret" not in caplog.text + "".join(capfd.readouterr())
