"""
Request smuggling: whatever bytes a client sends, upstream never receives an extra request.

The requests in the bytes are those that a strict reader finds (strict.py). The proxy may refuse
more. It must never find more, and the requests that it forwards are always well formed.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reasoning_replay.web.app import App

from tests.fast_lane import examples
from tests.patience import SOON_S
from tests.security.strict import Recorder, Request, first_requests, recording
from tests.web.line import line_to
from tests.web.world import eventually, world

QUIET_S = 0.05
MARK = b"GET /v1/theirs HTTP/1.1\r\nHost: x\r\n\r\n"
EVIL = b"GET /v1/smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
EMPTY = b"0\r\n\r\n"
ABC = b"3\r\nabc\r\n0\r\n\r\n"
CHUNKED = b"Transfer-Encoding: chunked"


def spelled(
    *fields: bytes,
    body: bytes = b"",
    line: bytes = b"POST /v1/responses HTTP/1.1",
    host: bytes = b"Host: x",
) -> bytes:
    """Return a request as given, without framing for its body."""
    return b"\r\n".join([line, *([host] if host else []), *fields, b"", b""]) + body


def get(*fields: bytes, version: bytes = b"HTTP/1.1", target: bytes = b"/v1/models") -> bytes:
    """Return a request without a body."""
    return spelled(*fields, line=b"GET %b %b" % (target, version))


# Bytes that no reader may accept as one request, or as two.
MALFORMED = {
    "length-and-coding": spelled(b"Content-Length: 4", CHUNKED, body=EMPTY + EVIL),
    "coding-and-length": spelled(CHUNKED, b"Content-Length: 4", body=b"27\r\n" + EVIL + EMPTY),
    "coding-space-colon": spelled(
        b"Transfer-Encoding : chunked", b"Content-Length: 5", body=EMPTY + EVIL
    ),
    "coding-vertical-tab": spelled(b"Transfer-Encoding:\x0bchunked", body=EMPTY + EVIL),
    "coding-quoted": spelled(b'Transfer-Encoding: "chunked"', body=EMPTY + EVIL),
    "coding-folded": spelled(b"Transfer-Encoding:\r\n chunked", body=EMPTY + EVIL),
    "chunked-not-last": spelled(b"Transfer-Encoding: chunked, identity", body=EMPTY + EVIL),
    "chunked-behind-identity": spelled(b"Transfer-Encoding: identity, chunked", body=EMPTY + EVIL),
    "chunked-behind-gzip": spelled(b"Transfer-Encoding: gzip, chunked", body=EMPTY + EVIL),
    "chunked-behind-nothing": spelled(b"Transfer-Encoding: , chunked", body=EMPTY + EVIL),
    "chunked-with-a-parameter": spelled(b"Transfer-Encoding: chunked;a=b", body=EMPTY + EVIL),
    "chunked-twice": spelled(b"Transfer-Encoding: chunked, chunked", body=EMPTY + EVIL),
    "xchunked": spelled(b"Transfer-Encoding: xchunked", body=EMPTY + EVIL),
    "xchunked-and-length": spelled(
        b"Transfer-Encoding: xchunked", b"Content-Length: 5", body=EMPTY + EVIL
    ),
    "two-codings": spelled(CHUNKED, CHUNKED, body=EMPTY + EVIL),
    "chunked-then-identity": spelled(CHUNKED, b"Transfer-Encoding: identity", body=EMPTY + EVIL),
    "identity-then-chunked": spelled(b"Transfer-Encoding: identity", CHUNKED, body=EMPTY + EVIL),
    "coding-in-1.0": spelled(CHUNKED, line=b"POST /v1/responses HTTP/1.0", body=EMPTY + EVIL),
    "two-lengths": spelled(b"Content-Length: 3", b"Content-Length: 0", body=b"abc" + EVIL),
    "two-lengths-alike": spelled(b"Content-Length: 3", b"Content-Length: 3", body=b"abc" + EVIL),
    "length-list": spelled(b"Content-Length: 3, 3", body=b"abc" + EVIL),
    "length-plus": spelled(b"Content-Length: +3", body=b"abc" + EVIL),
    "length-minus": spelled(b"Content-Length: -3", body=b"abc" + EVIL),
    "length-spaced": spelled(b"Content-Length: 3 3", body=b"abc" + EVIL),
    "length-underscore": spelled(b"Content-Length: 1_0", body=b"a" * 10 + EVIL),
    "length-hex": spelled(b"Content-Length: 0x3", body=b"abc" + EVIL),
    "length-empty": spelled(b"Content-Length:", body=EVIL),
    "length-beyond-64-bits": spelled(b"Content-Length: 18446744073709551619", body=b"abc" + EVIL),
    "length-in-other-digits": spelled("Content-Length: ٣".encode(), body=b"abc" + EVIL),
    "length-space-colon": spelled(b"Content-Length : 3", body=b"abc" + EVIL),
    "bare-lf-everywhere": get().replace(b"\r\n", b"\n") + EVIL,
    "bare-lf-in-head": get().replace(b"Host: x\r\n", b"Host: x\nContent-Length: 39\n") + EVIL,
    "bare-lf-at-end": get()[:-2] + b"\n" + EVIL,
    "bare-cr-in-value": get(b"A: b\rContent-Length: 39") + EVIL,
    "bare-cr-in-name": get(b"\rA: b") + EVIL,
    "bare-cr-at-end": get()[:-2] + b"\r" + EVIL,
    "obs-fold": get(b"A: b\r\n c") + EVIL,
    "fold-behind-line": get().replace(b"Host", b" Host") + EVIL,
    "nul-in-value": get(b"A: b\0c") + EVIL,
    "nul-in-name": get(b"A\0: b") + EVIL,
    "control-in-value": get(b"A: b\x01c\x7f") + EVIL,
    "space-before-colon": get(b"A : b") + EVIL,
    "no-colon": get(b"abc") + EVIL,
    "no-name": get(b": x") + EVIL,
    "name-beyond-ascii": get(b"\xff: x") + EVIL,
    "no-host": spelled(line=b"GET /v1/models HTTP/1.1", host=b"") + EVIL,
    "two-hosts": get(b"Host: y") + EVIL,
    "chunk-bare-lf": spelled(CHUNKED, body=b"3\nabc\n0\n\n" + EVIL),
    "chunk-data-bare-lf": spelled(CHUNKED, body=b"3\r\nabc\n0\r\n\r\n" + EVIL),
    "chunk-size-bare-lf": spelled(CHUNKED, body=b"3\nabc\r\n0\r\n\r\n" + EVIL),
    "chunk-size-bare-cr": spelled(CHUNKED, body=b"3\rabc\r\n0\r\n\r\n" + EVIL),
    "chunk-end-bare-lf": spelled(CHUNKED, body=b"3\r\nabc\r\n0\n\r\n" + EVIL),
    "chunk-extension-bare-lf": spelled(CHUNKED, body=b"3;a\nx\r\nabc\r\n0\r\n\r\n" + EVIL),
    "chunk-extension-bare-cr": spelled(CHUNKED, body=b"3;a\rx\r\nabc\r\n0\r\n\r\n" + EVIL),
    "chunk-extension-over-lines": spelled(
        CHUNKED, body=b'3;a="\r\nabc\r\n0\r\n\r\n"\r\nxyz' + EVIL
    ),
    "chunk-negative": spelled(CHUNKED, body=b"-3\r\nabc\r\n0\r\n\r\n" + EVIL),
    "chunk-underscore": spelled(CHUNKED, body=b"1_0\r\n" + b"a" * 16 + b"\r\n0\r\n\r\n" + EVIL),
    "chunk-0x": spelled(CHUNKED, body=b"0x3\r\nabc\r\n0\r\n\r\n" + EVIL),
    "chunk-plus": spelled(CHUNKED, body=b"+3\r\nabc\r\n0\r\n\r\n" + EVIL),
    "chunk-space-before": spelled(CHUNKED, body=b" 3\r\nabc\r\n0\r\n\r\n" + EVIL),
    "chunk-beyond-64-bits": spelled(CHUNKED, body=b"10000000000000003\r\nabc\r\n0\r\n\r\n" + EVIL),
    "chunk-endless-size": spelled(CHUNKED, body=b"f" * 40 + b"\r\nabc\r\n0\r\n\r\n" + EVIL),
    "chunk-without-size": spelled(CHUNKED, body=b"\r\nabc\r\n0\r\n\r\n" + EVIL),
    "chunk-too-long": spelled(CHUNKED, body=b"3\r\nabcdef\r\n0\r\n\r\n" + EVIL),
    "a-request-for-a-trailer": spelled(CHUNKED, body=b"0\r\n" + EVIL),
    "trailer-bare-lf": spelled(CHUNKED, body=b"0\r\nX: 1\n\n" + EVIL),
    "space-in-target": get(target=b"/v1/models x") + EVIL,
    "nul-in-target": get(target=b"/v1/\0") + EVIL,
    "cr-in-target": get(target=b"/v1/\rX:") + EVIL,
    "lf-in-target": get(target=b"/v1/\nX:") + EVIL,
    "target-beyond-ascii": get(target=b"/v1/\xff") + EVIL,
    "tabs-in-line": b"GET\t/v1/models\tHTTP/1.1\r\nHost: x\r\n\r\n" + EVIL,
    "http-0.9": b"GET /v1/models\r\n\r\n" + EVIL,
    "http-1.2": get(version=b"HTTP/1.2") + EVIL,
    "http-2.0": get(version=b"HTTP/2.0") + EVIL,
    "http-in-small": get(version=b"http/1.1") + EVIL,
    "space-behind-version": get(version=b"HTTP/1.1 ") + EVIL,
    "preface-of-http-2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + EVIL,
    "method-with-an-at": spelled(line=b"G@T /v1/models HTTP/1.1") + EVIL,
    "tls": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + EVIL,
}
UPGRADE = [b"Connection: Upgrade, HTTP2-Settings", b"HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA"]
WEBSOCKET = [
    b"Connection: Upgrade",
    b"Upgrade: websocket",
    b"Sec-WebSocket-Version: 13",
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
]
# Bytes that are one request, or two, for every reader: each is forwarded or refused.
WELL_FORMED = {
    "plain": get(),
    "two": get() + MARK,
    "length": spelled(b"Content-Length: 3", body=b"abc"),
    "length-with-zeros": spelled(b"Content-Length: 003", body=b"abc") + MARK,
    "a-request-for-a-body": spelled(b"Content-Length: %d" % len(EVIL), body=EVIL) + MARK,
    "chunks": spelled(CHUNKED, body=ABC) + MARK,
    "a-request-for-a-chunk": spelled(CHUNKED, body=b"%x\r\n%b\r\n0\r\n\r\n" % (len(EVIL), EVIL))
    + MARK,
    "chunked-in-capitals": spelled(b"Transfer-Encoding: CHUNKED", body=ABC) + MARK,
    "chunked-behind-a-tab": spelled(b"Transfer-Encoding:\tchunked", body=ABC) + MARK,
    "chunk-extension": spelled(CHUNKED, body=b'3;a=b;c="d"\r\nabc\r\n0\r\n\r\n') + MARK,
    "trailer": spelled(CHUNKED, body=b"3\r\nabc\r\n0\r\nX-T: 1\r\n\r\n") + MARK,
    "body-of-a-get": spelled(CHUNKED, line=b"GET /v1/models HTTP/1.1", body=ABC) + MARK,
    "names-with-underscores": get(b"Content_Length: 40", b"Transfer_Encoding: chunked") + MARK,
    "empty-lines-ahead": b"\r\n\r\n" + get() + MARK,
    "two-spaces": b"GET  /v1/models  HTTP/1.1\r\nHost: x\r\n\r\n" + MARK,
    "escaped-line-ends": get(target=b"/v1/models%0d%0aX:%201?a=%0d%0a") + MARK,
    "odd-characters": get(target=b'/v1/<"{}|^`>\\?[]') + MARK,
    "odd-host": spelled(line=b"GET /v1/models HTTP/1.1", host=b"Host: a b/c@d") + MARK,
    "upgrade-with-a-body": spelled(
        *WEBSOCKET, b"Content-Length: %d" % len(EVIL), line=b"GET /v1/x HTTP/1.1", body=EVIL
    ),
    "upgrade-that-is-refused": get(*WEBSOCKET) + MARK,
    "upgrade-of-a-post": spelled(*UPGRADE, b"Upgrade: foo", CHUNKED, body=ABC) + MARK,
    "upgrade-to-h2c": get(*UPGRADE, b"Upgrade: h2c") + MARK,
    "continue": spelled(b"Expect: 100-continue", b"Content-Length: 3", body=b"abc") + MARK,
    "continue-without-a-body": get(b"Expect: 100-continue") + MARK,
    "expects-what-is-unknown": spelled(b"Expect: x", b"Content-Length: 3", body=b"abc") + MARK,
    "length-of-one-hop": spelled(b"Connection: content-length", b"Content-Length: 3", body=b"abc")
    + MARK,
    "coding-of-one-hop": spelled(b"Connection: transfer-encoding", CHUNKED, body=ABC) + MARK,
    "host-of-one-hop": get(b"Connection: host") + MARK,
    "keep-alive-in-1.0": get(b"Connection: keep-alive", version=b"HTTP/1.0") + MARK,
}

# Well-formed requests that the proxy may refuse.
REFUSED = {
    "length-for-a-trailer": spelled(CHUNKED, body=b"0\r\nContent-Length: 39\r\n\r\n") + MARK,
    "more-behind-a-close": get(b"Connection: close") + MARK,
    "unknown-method": spelled(line=b"SMUGGLE /v1/models HTTP/1.1") + MARK,
}


async def tell(app: App, data: bytes, patience_s: float = SOON_S) -> None:
    """
    Write bytes, and read until no more arrive.

    Args:
        app: The proxy.
        data: The bytes.
        patience_s: Time to wait for the first response, or for the end, in seconds.
    """
    parts = urlsplit(app.url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    with contextlib.suppress(ConnectionError, TimeoutError):
        writer.write(data)
        await writer.drain()
        while await asyncio.wait_for(reader.read(1 << 16), patience_s):
            patience_s = QUIET_S
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()


async def own_answer(app: App, name: bytes) -> bytes:
    """Send a request as another client; return the body of the response."""
    async with line_to(app.url) as line:
        return (await line.ask(get(target=b"/v1/" + name))).body


def said(requests: list[Request]) -> list[tuple[bytes, bytes, bytes]]:
    """Return method, target and body of each request."""
    return [(one.method, one.target, one.body) for one in requests]


@contextlib.asynccontextmanager
async def proxied() -> AsyncIterator[tuple[App, Recorder]]:
    """Run a proxy in front of an upstream that records every byte."""
    async with (
        recording() as upstream,
        world(upstream_url=upstream.url + "/v1", log_level="error") as w,
    ):
        yield w.app, upstream


async def received_of(app: App, upstream: Recorder, data: bytes) -> list[Request]:
    """
    Write bytes, and compare upstream's requests with those that a strict reader finds.

    Returns:
        The requests that upstream received, all of which are in the bytes.
    """
    before = len(upstream.requests)
    await tell(app, data)
    received = upstream.requests[before:]
    want = said(first_requests(data))
    assert all(said(received).count(one) <= want.count(one) for one in said(received))
    assert all(one.values(b"host") == [urlsplit(upstream.url).netloc.encode()] for one in received)
    assert await own_answer(app, b"mine") == b"GET /v1/mine"
    await eventually(lambda: upstream.is_clean)
    return received


@pytest.mark.parametrize("cases", [MALFORMED, REFUSED], ids=["malformed", "odd"])
async def test_what_is_no_request_is_not_sent_on(cases: dict[str, bytes]) -> None:
    """Malformed bytes and those after them are not forwarded; the next client is not affected."""
    async with proxied() as (app, upstream):
        got = {name: await received_of(app, upstream, data) for name, data in cases.items()}
        assert [name for name, received in got.items() if received] == []


async def test_what_is_a_request_is_that_one_for_upstream_too() -> None:
    """Well-formed requests are forwarded; a body that looks like a request stays a body."""
    async with proxied() as (app, upstream):
        got = {name: await received_of(app, upstream, data) for name, data in WELL_FORMED.items()}
        assert [name for name, received in got.items() if not received] == []


# Insertions of a mutation: parts of framing, and bytes on which readers disagree.
PIECES = [b"\r\n", b"\n", b"\r", b"\0", b" ", b"\t", b"\x0b", b":", b",", b";", b"0", b"-", b"\xff"]
PIECES += [b"chunked", b"Transfer-Encoding: chunked\r\n", b"Content-Length: 5\r\n", EMPTY, EVIL]
Change = tuple[float, int, bytes]
changes = st.lists(
    st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 3), st.sampled_from(PIECES)),
    min_size=1,
    max_size=4,
)


def changed(data: bytes, edits: list[Change]) -> bytes:
    """Insert pieces, each in place of a few bytes."""
    for place, size, piece in edits:
        at = int(place * len(data))
        data = data[:at] + piece + data[at + size :]
    return data


@given(cases=st.lists(st.tuples(st.sampled_from([*WELL_FORMED.values()]), changes), min_size=1))
@examples(80)
def test_no_mutation_smuggles_anything(cases: list[tuple[bytes, list[Change]]]) -> None:
    """For mutated bytes, upstream receives a part of the requests in them, or none."""

    async def play() -> None:
        async with proxied() as (app, upstream):
            written = [changed(data, edits) for data, edits in cases]
            await asyncio.gather(*(tell(app, data, QUIET_S) for data in written))
            want = [one for data in written for one in said(first_requests(data))]
            received = said(upstream.requests)
            assert all(received.count(one) <= want.count(one) for one in received)
            assert await own_answer(app, b"mine") == b"GET /v1/mine"
            await eventually(lambda: upstream.is_clean)

    asyncio.run(play())
