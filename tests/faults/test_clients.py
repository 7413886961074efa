"""Odd but correct clients: slow ones, pipelining ones, and those that send `Expect`."""

import asyncio

import pytest

from tests.faults.kinds import ALL, JSON, KEY, OTHER, STREAM, Kind, Seen, reads
from tests.faults.stage import staged
from tests.faults.steps import hang
from tests.patience import SOON_S
from tests.web.line import Line, line_to, request
from tests.web.scripted import Script, close, send
from tests.web.wire import END, chunk

LIMIT = 2 * max(len(kind.data) for kind in ALL)
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


def head_and_body(kind: Kind, *more: str) -> tuple[bytes, bytes]:
    """Return the head of a request, with further headers, and its body."""
    head, end, body = kind.data.partition(b"\r\n\r\n")
    return b"".join([head, *(b"\r\n" + line.encode() for line in more), end]), body


def in_chunks(kind: Kind, *more: str) -> tuple[bytes, bytes]:
    """Return the head of a request with a chunked body, and that body."""
    head, body = head_and_body(kind, *more)
    return head.replace(b"Content-Length: %d" % len(body), b"Transfer-Encoding: chunked"), body


# --- slow ---


@pytest.mark.parametrize("is_framed", [False, True])
async def test_byte_by_byte(*, is_framed: bool) -> None:
    """A request that arrives byte by byte reaches upstream as if it had arrived at once."""
    async with staged() as stage, line_to(stage.w.app.url) as line:
        for kind in ALL:
            stage.door.answers(kind.whole())
            await line.send(kind.data)
            assert await reads(line) == Seen(200, kind.body)
            at_once = stage.door.received[-1]

            stage.door.answers(kind.whole())
            head, body = in_chunks(kind) if is_framed else head_and_body(kind)
            pieces = [b"%c" % byte for byte in body]
            data = head + (b"".join(map(chunk, pieces)) + END if is_framed else body)
            for byte in data:
                await line.send(b"%c" % byte)
                await asyncio.sleep(0)
            assert await reads(line) == Seen(200, kind.body)
            assert stage.door.received[-1].body == at_once.body
        await line.leave()
        await stage.is_as_before()
        assert not stage.is_fresh()


# --- pipelined ---

LOST = pytest.mark.xfail(
    reason="aiohttp's parser raises at the malformed request, and drops the good one before it in "
    "the same segment: that one gets a 400, and is never forwarded"
)
REFUSED = [
    pytest.param(
        request("GET", "http://elsewhere.test/v1/models", KEY),
        Seen(400, code="bad_target"),
        id="for its target",
    ),
    pytest.param(
        b"GET /v1/models HTTP/1.1\r\nno colon\r\n\r\n",
        Seen(400, code="bad_request"),
        id="for its head",
        marks=LOST,
    ),
    pytest.param(
        request("POST", "/v1/files", KEY, f"Content-Length: {LIMIT + 1}") + bytes(LIMIT + 1),
        Seen(413, code="body_too_large"),
        id="for its size",
    ),
]


@pytest.mark.parametrize(("refused", "sees"), REFUSED)
async def test_a_refused_request_among_others(refused: bytes, sees: Seen) -> None:
    """The request before a refused one is answered, and bytes after it are not parsed."""
    async with staged(body_max_bytes=LIMIT) as stage:
        for kind in ALL:
            before = len(stage.door.received)
            stage.door.answers(kind.whole())
            async with line_to(stage.w.app.url) as line:
                await line.send(kind.data + refused + kind.data)
                assert await reads(line) == Seen(200, kind.body)
                assert await reads(line) == sees
                assert await line.is_closed()
            assert len(stage.door.received) == before + 1
            await stage.is_as_before()


async def test_a_failing_request_among_others() -> None:
    """A pipelined request is answered normally after one that upstream failed."""
    async with staged() as stage:
        for kind in ALL:
            async with line_to(stage.w.app.url) as line:
                failing, *fine = Script([close()]), *(Script([send(kind.whole())]) for _ in "ab")
                stage.door.plays(fine[0], failing, fine[1])
                await line.send(kind.data * 3)
                assert await reads(line) == Seen(200, kind.body)
                assert await reads(line) == Seen(502, code="upstream_failed")
                assert await reads(line) == Seen(200, kind.body)
                await stage.works(line)
            await stage.is_as_before()


@pytest.mark.usefixtures("leaves_at_once")
async def test_a_client_that_leaves_with_requests_waiting() -> None:
    """Pipelined requests of a client that has left are not sent to upstream."""
    async with staged() as stage:
        for kind in ALL:
            before = len(stage.door.received)
            stage.door.plays(script := Script([hang()]))
            async with line_to(stage.w.app.url) as line:
                await line.send(kind.data * 3)
                await asyncio.wait_for(script.arrived.wait(), SOON_S)
            await asyncio.wait_for(script.left.wait(), SOON_S)
            await stage.holds(lines=0)
            assert len(stage.door.received) == before + 1
            await stage.is_as_before()


async def test_requests_cut_anywhere() -> None:
    """Pipelined requests are answered in their order, wherever their segments are cut."""
    kinds = (OTHER, JSON, STREAM, OTHER)
    data = b"".join(kind.data for kind in kinds)
    async with staged() as stage, line_to(stage.w.app.url) as line:
        for at in range(0, len(data), 7):
            stage.door.answers(*(kind.whole() for kind in kinds))
            await line.send(data[:at])
            await asyncio.sleep(0)
            await line.send(data[at:])
            for kind in kinds:
                assert await reads(line) == Seen(200, kind.body)
        await line.leave()
        await stage.is_as_before()
        assert not stage.is_fresh()


# --- Expect: 100-continue ---


async def reads_continue(line: Line) -> None:
    """Read the interim response that asks for the body."""
    assert await asyncio.wait_for(line._reader.readexactly(len(CONTINUE)), SOON_S) == CONTINUE


@pytest.mark.parametrize("is_framed", [False, True])
@pytest.mark.parametrize("waits", [False, True])
async def test_a_body_with_expect(*, is_framed: bool, waits: bool) -> None:
    """It is asked for once, unless the client sends it without waiting."""
    async with staged() as stage, line_to(stage.w.app.url) as line:
        for kind in ALL:
            head, body = (in_chunks if is_framed else head_and_body)(kind, "Expect: 100-continue")
            stage.door.answers(kind.whole())
            body = chunk(body) + END if is_framed else body
            await line.send(head if waits else head + body)
            if waits:
                await reads_continue(line)
                await line.send(body)
                head_seen = await line.head()
                assert (head_seen.status, await line.rest()) == (200, kind.body)
            else:  # an interim response is optional
                assert await reads(line) == Seen(200, kind.body)
            await stage.works(line)
        await line.leave()
        await stage.is_as_before()
