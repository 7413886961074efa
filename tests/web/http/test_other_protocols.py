"""Other protocols at the clients' port: TLS and HTTP/2 end well, and are told of once."""

import asyncio
import contextlib
import socket
import ssl
import struct
from collections.abc import Callable
from urllib.parse import urlsplit

import pytest
import uvloop
from reasoning_replay.web import exchange_log

from tests.patience import SOON_S
from tests.web.world import Logged, World, eventually, logged, world

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
MANY = 20
RESET = struct.pack("ii", 1, 0)


def hello() -> bytes:
    """Return the first message of a TLS client."""
    sent = ssl.MemoryBIO()
    tls = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), sent, server_hostname="proxy")
    with contextlib.suppress(ssl.SSLWantReadError):
        tls.do_handshake()
    return sent.read()


def ways(data: bytes) -> dict[str, list[bytes]]:
    """Return ways in which a client sends its first message, and what it sends then."""
    return {
        "silence": [data],
        "in two": [data[:1], data[1:]],
        "garbage": [data, b"\x00\xff" * 999, b"GET /v1/models HTTP/1.1\r\n\r\n"],
    }


async def answer(w: World, pieces: list[bytes], *, is_reset: bool = False) -> bytes:
    """Send pieces on a connection of its own; return all that the proxy sends until it closes."""
    parts = urlsplit(w.app.url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    got = b""
    with contextlib.suppress(ConnectionError):
        for piece in pieces:
            writer.write(piece)
            await asyncio.sleep(0.01)
        if is_reset:
            plug: socket.socket = writer.get_extra_info("socket")
            plug.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        else:
            got = await asyncio.wait_for(reader.read(), SOON_S)
    writer.transport.abort()
    return got


@pytest.mark.parametrize(
    ("first", "status", "code"),
    [(hello, b"HTTP/1.1 400 ", "no_tls"), (lambda: PREFACE, b"HTTP/1.1 505 ", "no_http2")],
    ids=["tls", "http2"],
)
def test_another_protocol_is_answered_counted_and_told_of_once(
    first: Callable[[], bytes],
    status: bytes,
    code: str,
    capsys: Logged,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever the client does next, its connection ends, and a scanner does not fill the log."""
    monkeypatch.setattr(exchange_log, "WARNING_EVERY_S", 3600.0)

    async def play() -> None:
        async with world() as w:
            for pieces in ways(first()).values():
                got = await answer(w, pieces)
                assert got.startswith(status)
                assert got.count(b"\r\n\r\n") == 1
                assert f'"code": "{code}"'.encode() in got
            for _ in range(MANY):
                await answer(w, [first()], is_reset=True)
            await eventually(lambda: not w.app.server.connections)
            every = MANY + len(ways(b""))
            await eventually(lambda: w.counted("exchanges_total", outcome=code) == every)
            assert (await w.get("/v1/models")).status == 599
            assert len(w.upstream.received) == 1

    uvloop.run(play())
    (line, exchange) = logged(capsys, "wrong_protocol", "exchange")
    assert (line["level"], line["reason"], line["client"]) == ("warning", code, "127.0.0.1")
    assert "in the client" in line["hint"] or "http://" in line["hint"]
    assert exchange["route"] == "models"


async def test_a_request_that_only_looks_like_another_protocol_goes_on() -> None:
    """A body may hold anything."""
    async with world() as w:
        w.upstream.otherwise = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
        bodies = [hello(), PREFACE]
        for body in bodies:
            head = b"POST /v1/files HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body)
            assert (await w.ask(head + body)).status == 200
        assert [one.body for one in w.upstream.received] == bodies
