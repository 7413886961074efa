"""Versions and methods: the proxy answers as HTTP/1.1, and says what it does not know."""

import asyncio
import json
from urllib.parse import urlsplit

import pytest

from tests.patience import SOON_S
from tests.web.line import request
from tests.web.wire import END, chunk, head, whole
from tests.web.world import World, world

GET = request("GET", "/v1/models", "Authorization: Bearer sk-a")
GZIPPED = request("POST", "/v1/files", "Transfer-Encoding: gzip, chunked") + chunk(b"{}") + END


async def raw(w: World, data: bytes) -> tuple[bytes, bytes, bytes]:
    """Send bytes; return the status line, the rest of the head and the body, up to the end."""
    parts = urlsplit(w.app.url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    writer.write(data)
    got = await asyncio.wait_for(reader.read(), SOON_S)
    writer.close()
    first, _, body = got.partition(b"\r\n\r\n")
    line, _, fields = first.partition(b"\r\n")
    return line, fields, body


@pytest.mark.parametrize(
    ("data", "line", "code"),
    [
        (GET.replace(b"/1.1", b"/2.0"), b"HTTP/1.1 505 HTTP Version Not Supported", "version"),
        (GET.replace(b"/1.1", b"/1.2"), b"HTTP/1.1 505 HTTP Version Not Supported", "version"),
        (GET.replace(b"/1.1", b"/one"), b"HTTP/1.1 400 Bad Request", "bad_request"),
        (GET.replace(b"\r\n", b"\n"), b"HTTP/1.1 400 Bad Request", "bad_request"),
        (GET.replace(b"GET", b"BREW"), b"HTTP/1.1 501 Not Implemented", "method"),
        (GET.replace(b"GET", b"get"), b"HTTP/1.1 501 Not Implemented", "method"),
        (GET.replace(b"GET", b"GETS"), b"HTTP/1.1 501 Not Implemented", "method"),
        (GET.replace(b"GET", b"G@T"), b"HTTP/1.1 400 Bad Request", "bad_request"),
        (b"\x16\x03\x01\x02\x00" + GET, b"HTTP/1.1 400 Bad Request", "no_tls"),
        (GET.replace(b"Host:", b"Host :"), b"HTTP/1.1 400 Bad Request", "bad_request"),
        (GET.replace(b"/v1", b"http://x/v1"), b"HTTP/1.1 400 Bad Request", "bad_target"),
        (GET.replace(b"models", b"models#a"), b"HTTP/1.1 400 Bad Request", "bad_target"),
        (GZIPPED, b"HTTP/1.1 501 Not Implemented", "unknown_transfer_coding"),
        (GET.replace(b"/1.1", b"/1.0"), b"HTTP/1.1 599 unscripted", ""),
    ],
)
async def test_a_status_line_has_the_version_of_the_proxy(
    data: bytes, line: bytes, code: str
) -> None:
    """Whatever version a request names, and also if it is no HTTP; each says what it lacks."""
    async with world() as w:
        got, fields, body = await raw(w, data)
        assert got == line
        assert b"Connection: close" in fields
        if code:
            error = json.loads(body)["error"]
            assert code in error["code"]
            assert ("OPENAI_BASE_URL" in error["message"]) == (code == "bad_target")
            assert w.counted("exchanges_total", outcome=error["code"]) == 1


async def test_a_client_of_http_1_0_may_keep_its_connection() -> None:
    """It reads the version of the proxy, no chunks, and that the connection stays."""
    old = GET.replace(b"HTTP/1.1", b"HTTP/1.0")
    kept = old.replace(b"\r\n\r\n", b"\r\nConnection: keep-alive\r\n\r\n")
    async with world() as w:
        w.upstream.answers(
            whole(b"{}"), head("Transfer-Encoding: chunked") + b"2\r\nok\r\n0\r\n\r\n"
        )
        line, fields, body = await raw(w, kept + old)
        assert (line, b"Connection: keep-alive" in fields) == (b"HTTP/1.1 200 OK", True)
        assert body.startswith(b"{}HTTP/1.1 200 OK\r\n")
        assert body.endswith(b"\r\nConnection: close\r\n\r\nok")
        assert b"chunked" not in body
