"""The log line of an exchange names why the upstream failed, and the client's address."""

import asyncio
import contextlib
import json
import ssl
from pathlib import Path
from typing import Any

import pytest
from reasoning_replay.adapters.upstream import connection
from reasoning_replay.core.dialects.states import ErrorCause

from tests.certificates import certificates
from tests.ports import closed_port
from tests.web.http.test_timeouts import deaf
from tests.web.http_proxy import http_proxy
from tests.web.line import line_to, request
from tests.web.scripted import Script, Step, close, send, wait
from tests.web.sockets import UPGRADE
from tests.web.wire import ASK, chunk, stream_head, whole
from tests.web.world import MODEL, Logged, eventually, logged, post, world

SECRET = "sk-secret"
REQUEST = post({"model": MODEL, "input": [ASK]}, f"Authorization: Bearer {SECRET}")
NOWHERE = "nowhere.invalid"  # never resolves (RFC 6761)
# What the client is told to look at, by the cause.
LOOK_AT = {
    "dns": "is upstream_url spelt right",
    "refused": "is it running, and is the port in upstream_url right?",
    "unreachable": "can this machine reach it?",
    "tls": "upstream_url must begin with http://",
    "certificate": "upstream_ca_file",
    "proxy": "is upstream_proxy right",
}


def line_of(capsys: Logged) -> dict[str, Any]:
    """Return the one line of an exchange that was logged."""
    lines = logged(capsys)
    assert SECRET not in str(lines)
    (line,) = (line for line in lines if line["event"] == "exchange")
    return line


async def logged_with(capsys: Logged, **settings: Any) -> tuple[str, str, str]:
    """Send a request; return the outcome, the cause and the detail in its log line."""
    async with world(**settings) as w:
        got = await w.ask(REQUEST)
        assert got.status in (502, 504)
    line = line_of(capsys)
    # The client is told the same reason, without words of a library, and a way out.
    message = json.loads(got.body)["error"]["message"]
    assert line["error_detail"].partition(": ")[2] in message
    assert LOOK_AT.get(line["error"], "") in message
    return line["outcome"], line["error"], line["error_detail"]


async def test_an_unknown_name(capsys: Logged) -> None:
    """The detail has the host and what the resolver said."""
    outcome, cause, detail = await logged_with(capsys, upstream_url=f"https://{NOWHERE}/v1")
    assert (outcome, cause) == ("upstream_unreachable", "dns")
    assert detail.startswith(f"https://{NOWHERE}: ")
    assert "Cannot connect" not in detail
    assert "/v1" not in detail


async def test_a_closed_port(capsys: Logged) -> None:
    """Nothing listens there."""
    url = f"http://127.0.0.1:{closed_port()}"
    assert await logged_with(capsys, upstream_url=url + "/v1") == (
        "upstream_unreachable",
        "refused",
        f"{url}: the connection was refused",
    )


async def test_an_address_that_cannot_be_reached(capsys: Logged) -> None:
    """The system refuses to connect to a broadcast address."""
    url = "http://255.255.255.255:9/v1"
    outcome, cause, _ = await logged_with(capsys, upstream_url=url)
    assert (outcome, cause) == ("upstream_unreachable", "unreachable")


async def test_a_port_without_tls(capsys: Logged) -> None:
    """A wrong scheme."""

    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(greet, "127.0.0.1", 0) as server:
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        outcome, cause, _ = await logged_with(capsys, upstream_url=url)
    assert (outcome, cause) == ("upstream_unreachable", "tls")


async def test_an_unknown_certificate(capsys: Logged) -> None:
    """The detail says what OpenSSL found."""

    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    with certificates() as one:
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(one.server_pem)
        server = await asyncio.start_server(greet, "127.0.0.1", 0, ssl=tls)
        async with server:
            url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
            outcome, cause, detail = await logged_with(capsys, upstream_url=url)
    assert (outcome, cause) == ("upstream_unreachable", "certificate")
    assert "its certificate is not accepted" in detail


async def test_a_connection_that_is_never_accepted(capsys: Logged) -> None:
    """The cause says where the time was spent."""
    with deaf() as url:
        given = {"upstream_url": url + "/v1", "connect_timeout_s": 0.1}
        outcome, cause, detail = await logged_with(capsys, **given)
    assert (outcome, cause) == ("upstream_timeout", "connect_timeout")
    assert detail == f"{url}: no connection within 0.1 s"


@pytest.mark.parametrize("is_there", [True, False])
async def test_a_proxy_on_the_way(is_there: bool, capsys: Logged) -> None:
    """It refuses, or cannot be reached; its password is in no line."""
    async with contextlib.AsyncExitStack() as stack:
        proxy = await stack.enter_async_context(http_proxy(user=f"me:{SECRET}"))
        proxy.refusal = b"HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n"
        if not is_there:
            await stack.aclose()
        way = f"http://me:{SECRET}@{proxy.address}"
        got = await logged_with(capsys, upstream_url=f"https://{NOWHERE}/v1", upstream_proxy=way)
    assert got[:2] == ("upstream_unreachable", "proxy")
    assert f"through the proxy {proxy.address}" in got[2]


@pytest.mark.parametrize(
    ("steps", "settings", "cause"),
    [
        pytest.param([close()], {}, "closed", id="closed"),
        pytest.param([send(b"SSH-2.0\r\n\r\n"), wait()], {}, "protocol", id="protocol"),
        pytest.param([wait()], {"first_byte_timeout_s": 0.1}, "first_byte_timeout", id="first"),
        pytest.param([wait()], {"total_timeout_s": 0.1}, "total_timeout", id="total"),
    ],
)
async def test_no_response(
    steps: list[Step], settings: dict[str, Any], cause: str, capsys: Logged
) -> None:
    """The connection is there, but no head arrives."""
    async with world(**settings) as w:
        w.upstream.plays(Script(steps))
        assert (await w.ask(REQUEST)).status in (502, 504)
        origin = w.upstream.url
    line = line_of(capsys)
    assert line["error"] == cause
    assert line["error_detail"].startswith(f"{origin}: ")


@pytest.mark.parametrize(
    ("end", "settings", "cause"),
    [
        pytest.param([close()], {}, "closed", id="closed"),
        pytest.param([send(b"zz\r\n"), wait()], {}, "protocol", id="protocol"),
        pytest.param([wait()], {"read_timeout_s": 0.1}, "read_timeout", id="read"),
        pytest.param([wait()], {"total_timeout_s": 0.2}, "total_timeout", id="total"),
    ],
)
async def test_half_a_response(
    end: list[Step], settings: dict[str, Any], cause: str, capsys: Logged
) -> None:
    """A response that breaks off has a cause, too."""
    async with world(**settings) as w, line_to(w.app.url) as line:
        w.upstream.plays(Script([send(stream_head() + chunk(b"data: 1\n\n")), *end]))
        await line.send(REQUEST)
        await line.head()
        assert (await line.until_it_ends())[1] is False
        await eventually(lambda: w.counted("exchanges_total", outcome="cut_off") == 1)
    assert line_of(capsys)["error"] == cause


async def test_a_bug(capsys: Logged, monkeypatch: pytest.MonkeyPatch) -> None:
    """The line names the exception, as the line `bug` does."""

    def fails(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("reasoning_replay.web.pipeline.request_phase.RequestPhase.prepare", fails)
    async with world() as w:
        assert (await w.ask(REQUEST)).status == 500
    line = line_of(capsys)
    assert (line["error"], line["error_detail"]) == ("bug", "ZeroDivisionError")


async def test_a_handshake_without_a_response(capsys: Logged) -> None:
    """A WebSocket fails for the same causes."""
    url = f"http://127.0.0.1:{closed_port()}"
    async with world(upstream_url=url) as w:
        assert (await w.ask(request("GET", "/v1/responses", *UPGRADE))).status == 502
    line = line_of(capsys)
    assert (line["route"], line["error"]) == ("websocket", "refused")


@pytest.mark.parametrize("status", ["200 OK", "400 No", "500 Oops"])
async def test_a_response_of_the_upstream_has_none(status: str, capsys: Logged) -> None:
    """Its own errors say why themselves."""
    async with world() as w:
        w.upstream.answers(whole(b"{}", status=status))
        await w.ask(REQUEST)
    assert not line_of(capsys).keys() & {"error", "error_detail"}


async def test_the_text_is_bounded(capsys: Logged) -> None:
    """A long reason is cut, and every character is printable."""
    async with world(upstream_url=f"http://{'x' * 60}.{'y' * 60}.{'z' * 60}.{NOWHERE}") as w:
        await w.ask(REQUEST)
    detail = line_of(capsys)["error_detail"]
    assert len(detail) <= 240
    assert detail.isascii()
    assert detail.isprintable()


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(
            request(
                "GET", "/v1/models", "X-Forwarded-For: 203.0.113.7", "Forwarded: for=192.0.2.1"
            ),
            id="readable",
        ),
        pytest.param(b"GET / HTTP/1.1\r\nno header\r\n\r\n", id="malformed"),
        pytest.param(b"GET / HTTP/1.1\r\nX: " + b"y" * 70_000, id="long-head"),
    ],
)
async def test_the_address_is_that_of_the_peer(data: bytes, capsys: Logged) -> None:
    """No header changes it, and a request that cannot be read has it, too."""
    async with world() as w:
        w.upstream.answers(whole(b"{}"))
        await w.ask(data)
    assert line_of(capsys)["client"] == "127.0.0.1"


async def test_behind_a_trusted_proxy_it_is_the_address_before_it(capsys: Logged) -> None:
    """The upstream gets the headers as they came."""
    sent = ["X-Forwarded-For: 6.6.6.6, 203.0.113.7", "X-Forwarded-For: 10.0.0.3"]
    async with world(trusted_proxies="127.0.0.0/8,10.0.0.0/8") as w:
        w.upstream.answers(whole(b"{}"))
        await w.ask(request("GET", "/v1/models", *sent))
        (seen,) = w.upstream.received
        passed = [f"{name}: {value}" for name, value in seen.headers if "Forwarded" in name]
        assert passed == sent
    assert line_of(capsys)["client"] == "203.0.113.7"


async def test_a_lost_connection(capsys: Logged, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing arrives from the upstream; tests/faults/test_lossy_network.py drops its packets."""
    monkeypatch.setattr(connection, "is_gone", lambda _: True)
    async with world(first_byte_timeout_s=0.1) as w:
        w.upstream.plays(Script([wait()]))
        assert (await w.ask(REQUEST)).status == 502
    line = line_of(capsys)
    assert (line["outcome"], line["error"]) == ("upstream_failed", "lost")
    assert "no longer answers" in line["error_detail"]


def test_every_cause_is_tested_here() -> None:
    """A new cause needs a test."""
    text = Path(__file__).read_text()
    assert [cause.value for cause in ErrorCause if f'"{cause}"' not in text] == []
