"""Framing of responses for the client, whatever framing upstream used."""

import asyncio
import re
from typing import NamedTuple

import pytest
from reasoning_replay.web.pipeline.client_response import INTERIM_MAX

from tests.patience import SOON_S
from tests.web.scripted import Script, close, send
from tests.web.wire import END, chunk, head
from tests.web.world import world

OWN_ID = re.compile(rb"x-reasoning-replay-request-id: [0-9a-f]{16}\r\n")
CHUNKED = "Transfer-Encoding: chunked"
AFTER = b"HTTP/1.1 299 after\r\nContent-Length: 0\r\n\r\n"


class Case(NamedTuple):
    """
    One exchange, and the bytes that its client reads.

    Attributes:
        asked: Method, version and one header of the request.
        answer: Response of upstream, which closes its connection after it if `ends`.
        read: Bytes that the client reads.
        stays: Whether the client's connection carries another exchange.
    """

    asked: tuple[str, str, str]
    answer: bytes
    read: bytes
    stays: bool
    ends: bool = False


GET, HEAD = ("GET", "1.1", "X: y"), ("HEAD", "1.1", "X: y")
GET_10, HEAD_10 = ("GET", "1.0", "X: y"), ("HEAD", "1.0", "X: y")
KEPT_10 = ("GET", "1.0", "Connection: keep-alive")
LAST = ("GET", "1.1", "Connection: close")
LENGTH = head("A: b", "Content-Length: 3") + b"abc"
IN_CHUNKS = head("A: b", CHUNKED) + chunk(b"abc") + END
TO_ITS_END = head("A: b") + b"abc"
NAMES_LENGTH = head("Connection: close, Content-Length", "A: b", "Content-Length: 3") + b"abc"


def with_more(answer: bytes, header: str) -> bytes:
    """Return a response with this header at the end of its head."""
    return answer.replace(b"\r\n\r\n", f"\r\n{header}\r\n\r\n".encode(), 1)


CASES = {
    "length": Case(GET, LENGTH, LENGTH, True),
    "length-last": Case(
        LAST, LENGTH, head("A: b", "Content-Length: 3", "Connection: close") + b"abc", False
    ),
    "length-1.0": Case(GET_10, LENGTH, with_more(LENGTH, "Connection: close"), False),
    "length-1.0-kept": Case(KEPT_10, LENGTH, with_more(LENGTH, "Connection: keep-alive"), True),
    "length-of-one-hop": Case(GET, NAMES_LENGTH, LENGTH, True),
    "length-0": Case(GET, head("Content-Length: 0"), head("Content-Length: 0"), True),
    "chunks": Case(GET, IN_CHUNKS, IN_CHUNKS, True),
    "chunks-none": Case(GET, head(CHUNKED) + END, head(CHUNKED) + END, True),
    "chunks-extended": Case(
        GET,
        IN_CHUNKS.replace(b"3\r\n", b"03;x=y\r\n").replace(END, b"0\r\nT: r\r\n\r\n"),
        IN_CHUNKS,
        True,
    ),
    "chunks-1.0": Case(GET_10, IN_CHUNKS, with_more(TO_ITS_END, "Connection: close"), False),
    "chunks-1.0-kept": Case(KEPT_10, IN_CHUNKS, with_more(TO_ITS_END, "Connection: close"), False),
    "to-its-end": Case(GET, TO_ITS_END, IN_CHUNKS, True, ends=True),
    "to-its-end-1.0": Case(
        GET_10, TO_ITS_END, with_more(TO_ITS_END, "Connection: close"), False, ends=True
    ),
    "to-its-end-none": Case(GET, head("A: b"), head("A: b", CHUNKED) + END, True, ends=True),
    "head": Case(HEAD, head("A: b", "Content-Length: 3"), LENGTH[:-3], True),
    "head-1.0": Case(
        HEAD_10,
        head("A: b", "Content-Length: 3"),
        with_more(LENGTH[:-3], "Connection: close"),
        False,
    ),
    "head-chunks": Case(HEAD, head("A: b", CHUNKED), head("A: b"), True),
    "head-none": Case(HEAD, head("A: b"), head("A: b"), True),
    "204-length": Case(GET, head("Content-Length: 0", status="204 x"), head(status="204 x"), True),
    "304-length": Case(
        GET,
        head("Content-Length: 9", status="304 x"),
        head("Content-Length: 9", status="304 x"),
        True,
    ),
    "304-chunks": Case(GET, head(CHUNKED, status="304 x"), head(status="304 x"), True),
    "interim": Case(
        GET,
        head(status="100 x") + head("B: c", "Connection: C", "C: d", status="103 x") + LENGTH,
        head("B: c", status="103 x") + LENGTH,
        True,
    ),
    "interim-of-any-status": Case(
        GET,
        head(status="102 x") + head("Content-Length: 0", status="199") + LENGTH,
        head(status="102 x") + head(status="199 ") + LENGTH,
        True,
    ),
    "interim-1.0": Case(
        GET_10, head(status="103 x") + LENGTH, with_more(LENGTH, "Connection: close"), False
    ),
    "interim-many": Case(
        GET,
        head(status="103 x") * (INTERIM_MAX + 5) + LENGTH,
        head(status="103 x") * INTERIM_MAX + LENGTH,
        True,
    ),
    "chunks-and-length": Case(GET, with_more(IN_CHUNKS, "Content-Length: 7"), IN_CHUNKS, True),
    "identity-and-length": Case(
        GET, with_more(LENGTH, "Transfer-Encoding: identity"), LENGTH, True
    ),
    "no-reason": Case(GET, LENGTH.replace(b" OK", b""), LENGTH.replace(b" OK", b" "), True),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_the_client_knows_where_it_ends(case: Case) -> None:
    """A response has the exact bytes that let its client find its end and the next response."""
    method, version, header = case.asked
    steps = [send(case.answer), *([close()] if case.ends else [])]
    async with world() as w:
        w.upstream.plays(Script(steps))
        w.upstream.otherwise = AFTER
        host, _, port = w.app.url.removeprefix("http://").partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        asked = f"{method} /v1/models HTTP/{version}\r\nHost: x\r\n{header}\r\n\r\n"
        after = "GET /v1/models HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        writer.write((asked + (after if case.stays else "")).encode())
        read = await asyncio.wait_for(reader.read(), SOON_S)
        behind = AFTER.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
        want = case.read + (behind if case.stays else b"")
        assert OWN_ID.subn(b"", read) == (want, 1 + case.stays)
        writer.close()
