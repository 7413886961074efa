"""Private parts of aiohttp that a client connection uses: a release that drops one fails here."""

import asyncio
import inspect
from collections import deque

import pytest
from aiohttp import web, web_response
from aiohttp.http_exceptions import BadHttpMethod, BadStatusLine, LineTooLong
from aiohttp.http_parser import RawRequestMessage
from aiohttp.web_protocol import RequestHandler
from reasoning_replay.adapters.upstream.connection import ConnectionState
from reasoning_replay.web.http.client_connection import ClientConnection

from tests.web.line import line_to, request
from tests.web.scripted import Script, send, wait
from tests.web.wire import chunk, whole
from tests.web.world import eventually, world

POST = b"POST /v1/files HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"


async def answer(_: web.BaseRequest) -> web.Response:
    """Return an empty response."""
    return web.Response()


async def test_every_private_attribute_is_there_and_means_what_it_did() -> None:
    """The private attributes of aiohttp exist and have the expected meaning."""
    connection = RequestHandler(web.Server(answer), loop=asyncio.get_running_loop())
    assert connection._messages == deque()
    assert connection._upgraded is False
    assert connection._buffer_paused is False

    connection.data_received(POST + chunk(b"abc"))
    ((message, body),) = connection._messages
    assert isinstance(message, RawRequestMessage)
    assert not body.is_eof()

    connection.data_received(b"ZZ\r\n")
    error, _ = connection._messages[-1]
    assert not isinstance(error, RawRequestMessage)
    assert error.status == 400
    assert isinstance(error.exc, Exception)
    assert body.exception() is None  # so the proxy must pass the error to the body's reader


async def test_an_upgrade_and_a_full_queue_are_known_by_their_flags() -> None:
    """The flags of aiohttp show an upgrade and a full queue, whose bytes belong to no head."""
    upgrade = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    connection = RequestHandler(web.Server(answer), loop=asyncio.get_running_loop())
    connection.data_received(upgrade)
    assert connection._upgraded is True

    connection = RequestHandler(web.Server(answer), loop=asyncio.get_running_loop())
    connection.data_received(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 100)
    assert connection._buffer_paused is True
    assert len(connection._messages) < 100


async def test_what_is_too_long_or_too_many_is_known_by_its_error() -> None:
    """The errors of aiohttp identify heads that are too large, by class or by text."""
    errors = []
    for field in (b"X: " + b"x" * 5000 + b"\r\n", b"X: x\r\n" * 200):
        connection = RequestHandler(
            web.Server(answer), loop=asyncio.get_running_loop(), max_field_size=4096
        )
        connection.data_received(b"GET / HTTP/1.1\r\nHost: x\r\n" + field + b"\r\n")
        error, _ = connection._messages[-1]
        assert not isinstance(error, RawRequestMessage)
        errors.append(error.exc)
    assert isinstance(errors[0], LineTooLong)
    assert "Too many headers" in str(errors[1])


@pytest.mark.parametrize(
    ("line", "kind", "quoted"),
    [
        ("BREW /a HTTP/1.1", BadHttpMethod, "b'BREW /a HTTP/1.1'"),
        ("GET /a HTTP/1.2", BadStatusLine, "b'GET /a HTTP/1.2'"),
    ],
)
async def test_what_the_parser_does_not_know_is_quoted(
    line: str, kind: type[Exception], quoted: str
) -> None:
    """The errors of aiohttp tell a method and a version that it does not know from garbage."""
    connection = RequestHandler(web.Server(answer), loop=asyncio.get_running_loop())
    connection.data_received(f"{line}\r\nHost: x\r\n\r\n".encode())
    error, _ = connection._messages[-1]
    assert not isinstance(error, RawRequestMessage)
    assert isinstance(error.exc, kind)
    assert quoted in str(error.exc)


def test_what_is_overridden_is_there() -> None:
    """The methods that the connection, and responses of the proxy, override exist in aiohttp."""
    assert inspect.iscoroutinefunction(web.StreamResponse._write_headers)
    assert hasattr(web.Response(), "_payload_writer")
    assert hasattr(web_response, "SERVER_SOFTWARE")
    for name in ("data_received", "handle_error", "force_close", "close"):
        assert callable(getattr(RequestHandler, name))
    for name in ("connection_made", "connection_lost"):
        assert list(inspect.signature(getattr(web.Server, name)).parameters)[1] == "handler"


async def test_a_connection_says_what_it_is_used_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """In one line, with its peer: new, active, idle, closed."""
    seen: list[ClientConnection] = []

    class Noted(ClientConnection):
        __slots__ = ()

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            seen.append(self)

    monkeypatch.setattr("reasoning_replay.web.http.server.ClientConnection", Noted)
    async with world() as w, line_to(w.app.url) as line:
        await eventually(lambda: bool(seen))
        assert repr(seen[0]).startswith("<ClientConnection new, from ('127.0.0.1', ")
        script = Script([wait(), send(whole(b"{}"))])
        w.upstream.plays(script)
        await line.send(request("GET", "/v1/models"))
        await script.arrived.wait()
        assert seen[0].state is ConnectionState.ACTIVE
        script.go()
        assert (await line.ask(b"")).body == b"{}"
        await eventually(lambda: seen[0].state is ConnectionState.IDLE)
        await line.leave()
        await eventually(lambda: seen[0].state is ConnectionState.CLOSED)
