"""
Desynchronisation: whatever bytes upstream sends, the next exchange gets its own response.

Clients share the upstream connections. Bytes that are left on one, or that arrive without a
request, must not reach the next client.
"""

import asyncio
import contextlib

import pytest

from tests.patience import SOON_S
from tests.web.line import Broken, request
from tests.web.scripted import Script, send, wait
from tests.web.wire import chunk, head, whole
from tests.web.world import World, eventually, world

LEFT = whole(b"SMUGGLED", "Content-Type: text/plain")
OWN = whole(b"own", "Content-Type: text/plain")
PLAIN = "Content-Type: text/plain"
CHUNKED = "Transfer-Encoding: chunked"
ABC = chunk(b"abc") + b"0\r\n\r\n"
LATER_S = 0.02

# Responses with extra bytes, or with an end on which readers disagree.
ANSWERS = {
    "length-and-coding": head(PLAIN, "Content-Length: 3", CHUNKED) + ABC,
    "coding-and-length": head(PLAIN, CHUNKED, "Content-Length: 5") + b"0\r\n\r\n",
    "more-behind-a-length": whole(b"abc", PLAIN),
    "more-behind-chunks": head(PLAIN, CHUNKED) + ABC,
    "more-behind-trailers": head(PLAIN, CHUNKED) + ABC[:-2] + b"X-T: 1\r\n\r\n",
    "more-behind-204": head(status="204 No Content"),
    "more-behind-304": head(status="304 Not Modified"),
    "body-of-204": head("Content-Length: 5", status="204 No Content") + b"abcde",
    "two-lengths": head(PLAIN, "Content-Length: 3", "Content-Length: 5") + b"abc",
    "length-minus": head(PLAIN, "Content-Length: -3") + b"abc",
    "length-plus": head(PLAIN, "Content-Length: +3") + b"abc",
    "xchunked": head(PLAIN, "Transfer-Encoding: xchunked") + ABC,
    "chunked-not-last": head(PLAIN, "Transfer-Encoding: chunked, identity") + ABC,
    "coding-space-colon": head(PLAIN, "Transfer-Encoding : chunked", "Content-Length: 3") + ABC,
    "chunk-bare-lf": head(PLAIN, CHUNKED) + b"3\nabc\n0\n\n",
    "chunk-without-size": head(PLAIN, CHUNKED) + b"zz\r\nabc\r\n0\r\n\r\n",
    "chunk-too-long": head(PLAIN, CHUNKED) + b"3\r\nabcdef\r\n0\r\n\r\n",
    "an-answer-for-a-trailer": head(PLAIN, CHUNKED) + ABC[:-2],
    "bare-lf-in-head": head(PLAIN, "A: b", "Content-Length: 3").replace(b"\r\n", b"\n") + b"abc",
    "many-interim-answers": b"HTTP/1.1 100 Continue\r\n\r\n" * 3 + whole(b"abc", PLAIN),
    "chunks-in-1.0": head(PLAIN, CHUNKED, "Connection: keep-alive").replace(b"/1.1", b"/1.0") + ABC,
    "101-unasked": head("Connection: upgrade", "Upgrade: x", status="101 Switching Protocols"),
    "nothing": b"",
}


async def ask(w: World, key: str, patience_s: float) -> bytes:
    """Return the body of a response, as far as it arrives."""
    data = request("POST", "/v1/responses", f"Authorization: Bearer {key}", body=b"{}")
    with contextlib.suppress(Broken, TimeoutError):
        async with asyncio.timeout(patience_s):
            return (await w.ask(data)).body
    return b""


@pytest.mark.parametrize("is_late", [False, True], ids=["at-once", "later"])
@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
async def test_extra_bytes_reach_no_other_client(answer: bytes, *, is_late: bool) -> None:
    """Bytes after a response, at once or later on the idle connection, reach no other client."""
    script = Script([send(answer), wait(), send(LEFT)] if is_late else [send(answer + LEFT)])
    async with world(log_level="error") as w:
        w.upstream.plays(script)
        w.upstream.otherwise = OWN
        asking = asyncio.create_task(ask(w, "sk-a", SOON_S))
        await asyncio.wait_for(script.arrived.wait(), SOON_S)
        await asyncio.wait([asking], timeout=5 * LATER_S)
        asking.cancel()  # some answers have no end
        await asyncio.gather(asking, return_exceptions=True)
        script.go()
        await eventually(lambda: script.ended.is_set() or script.left.is_set())
        await asyncio.sleep(LATER_S)  # the proxy has read it by then: it shares this event loop
        assert await ask(w, "sk-b", SOON_S) == b"own"


@pytest.mark.parametrize(
    "line",
    ["x-a: b\rSet-Cookie: c=d", "x-a: b\0c", "Content-Type: a\r\rX: b", "x-a: b\x01"],
    ids=["cr", "nul", "two-crs", "control"],
)
async def test_a_header_of_upstreams_is_one_header(line: str) -> None:
    """A header that some readers would split in two does not reach the client."""
    async with world(log_level="error") as w:
        w.upstream.answers(head(line, "Content-Length: 3") + b"abc")
        assert await ask(w, "sk-a", SOON_S) != b"abc"
