"""The request id is in each response of the clients' port, in the log, and in the inspector."""

import json
import re
from http import HTTPStatus

import pytest

from tests.web.line import line_to, request
from tests.web.scripted import Script, cut
from tests.web.sockets import said, tunnelled
from tests.web.wire import ASK, as_json, response, whole
from tests.web.world import Logged, World, eventually, logged, post, world

ID = re.compile(r"[0-9a-f]{16}")
REQUEST = post({"model": "gpt-5.4", "input": [ASK]})


def ids_in_the_log(capsys: Logged) -> list[str]:
    """Return the request ids of the exchanges that were logged since the last call."""
    return [line["request_id"] for line in logged(capsys, "exchange")]


async def in_the_inspector(w: World) -> list[str]:
    """Return the request ids of the exchanges that the inspector has."""
    return [json.loads(told)["exchange"]["request_id"] for told in w.app.recorder.recent()]


@pytest.mark.parametrize("mode", ["on", "off"])
@pytest.mark.parametrize(
    "asked",
    [
        pytest.param(REQUEST, id="replayed"),
        pytest.param(request("GET", "/v1/models"), id="passed-through"),
        pytest.param(request("HEAD", "/v1/models"), id="without-a-body"),
    ],
)
async def test_a_response_carries_the_id_of_its_log_line(
    asked: bytes, mode: str, capsys: Logged
) -> None:
    """Replayed and passed-through routes have it, in each mode."""
    async with world(mode=mode) as w:
        w.upstream.answers(whole(as_json(response())))
        got = await w.ask(asked)
        assert got.head.request_id is not None
        assert ID.fullmatch(got.head.request_id)
        assert await in_the_inspector(w) == [got.head.request_id]
    assert ids_in_the_log(capsys) == [got.head.request_id]


@pytest.mark.parametrize("status", [HTTPStatus.UNAUTHORIZED, HTTPStatus.BAD_GATEWAY])
async def test_an_error_of_the_upstream_carries_it(status: HTTPStatus, capsys: Logged) -> None:
    """A 401 as well: the id is random and tells nothing."""
    async with world() as w:
        w.upstream.answers(whole(b"{}", status=f"{status} x"))
        got = await w.ask(REQUEST)
    assert (got.status, [got.head.request_id]) == (status, ids_in_the_log(capsys))


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        pytest.param(REQUEST, 502, id="in-the-pipeline"),
        pytest.param(b"GET http://x/ HTTP/1.1\r\nHost: x\r\n\r\n", 400, id="bad-target"),
        pytest.param(b"GET / HTTP/1.1\r\nno header\r\n\r\n", 400, id="malformed"),
        pytest.param(b"GET / HTTP/1.1\r\nX: " + b"y" * 70_000, 431, id="long-head"),
        pytest.param(
            b"GET / HTTP/1.1\r\nHost: x\r\nX: "
            + b"y" * 40_000
            + b"\r\nZ: "
            + b"y" * 30_000
            + b"\r\n\r\n",
            431,
            id="long-lines",
        ),
    ],
)
async def test_an_error_of_the_proxy_carries_it(asked: bytes, status: int, capsys: Logged) -> None:
    """Requests that cannot be read have an id, too."""
    async with world() as w:
        w.upstream.plays(Script([cut()]))
        got = await w.ask(asked)
    assert (got.status, [got.head.request_id]) == (status, ids_in_the_log(capsys))


async def test_two_requests_on_a_connection_have_two_ids() -> None:
    """The id is that of the exchange, not of the connection."""
    async with world() as w, line_to(w.app.url) as line:
        w.upstream.otherwise = whole(b"{}")
        first, second = [await line.ask(request("GET", "/v1/models")) for _ in range(2)]
        assert first.head.request_id != second.head.request_id


async def test_the_id_of_another_proxy_is_replaced() -> None:
    """Of two proxies in a row, the client is told the id of the one that it asked."""
    async with world() as w:
        w.upstream.answers(whole(b"{}", "X-Reasoning-Replay-Request-Id: theirs"))
        got = await w.get("/v1/models")
        assert got.head.values("x-reasoning-replay-request-id") == []
        assert ID.fullmatch(got.head.request_id or "")


async def test_a_websocket_has_it_in_its_handshake(capsys: Logged) -> None:
    """The 101 carries it; the messages are forwarded as they are."""
    async with world() as w:
        async with tunnelled(w) as (client, upstream):
            (own,) = re.findall(rb"x-reasoning-replay-request-id: (\w+)\r\n", client.head)
            await upstream.send(said(b"{}"))
            await client.gets(said(b"{}"))
            client.leave()
            upstream.leave()
        await eventually(lambda: w.counted("exchanges_total", route="websocket") == 1)
    assert ids_in_the_log(capsys) == [own.decode()]


async def test_a_refused_connection_has_none() -> None:
    """It has no log line in which the id could be found."""
    async with world(max_connections=1) as w, line_to(w.app.url) as line:
        w.upstream.otherwise = whole(b"{}")
        await line.ask(request("GET", "/v1/models"))
        got = await w.get("/v1/models")
        assert (got.status, got.mark) == (503, "error=too_many_connections")
        assert got.head.request_id is None


BROKEN = b"GET / HTTP/1.1\r\nno header\r\n\r\n"


@pytest.mark.parametrize(
    ("port", "asked"),
    [
        pytest.param("url", BROKEN, id="malformed"),
        pytest.param("url", REQUEST, id="unreachable"),
        pytest.param("admin_url", BROKEN, id="admin-malformed"),
        pytest.param("admin_url", request("GET", "/livez"), id="admin"),
        pytest.param("admin_url", request("GET", "/nowhere"), id="admin-404"),
        pytest.param("admin_url", request("GET", "/inspector/events?x"), id="admin-stream"),
    ],
)
async def test_no_response_of_the_proxy_tells_versions(port: str, asked: bytes) -> None:
    """`Server` names the product only: neither Python nor aiohttp, nor a version."""
    async with world() as w, line_to(getattr(w.app, port)) as line:
        w.upstream.plays(Script([cut()]))
        await line.send(asked)
        got = await line.head()
        assert got.values("server") == ["reasoning-replay"]


async def test_a_handshake_without_a_server_name_tells_no_version() -> None:
    """The head of a 101 is completed by aiohttp."""
    async with world() as w, tunnelled(w) as (client, upstream):
        assert b"\r\nServer: reasoning-replay\r\n" in client.head
        client.leave()
        upstream.leave()
