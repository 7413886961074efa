"""Timeouts: every wait is bounded, slow peers are not cut off, and errors name the setting."""

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.patience import LONG_S, SOON_S
from tests.web.line import Answer, Broken, Line, line_to, request
from tests.web.scripted import Script, send, swallow, wait
from tests.web.sockets import KEY as FRAME_KEY
from tests.web.sockets import PONG, TEXT, frame, tunnelled
from tests.web.stalls import LARGE_BYTES, reads_again, stalls, stops_reading
from tests.web.test_errors import assert_ours
from tests.web.wire import END, chunk, head, stream_head, whole
from tests.web.world import World, eventually, world

KEY = "Authorization: Bearer sk-a"
GET = request("GET", "/v1/models", KEY)
OK = whole(b"{}")
SHORT_S = 0.5
LARGE = b"x" * LARGE_BYTES
TARGETS = ["/v1/responses", "/v1/files"]


async def answer(line: Line) -> Answer:
    """Read a complete response."""
    return Answer(await line.head(), await line.rest())


def counted(w: World, outcome: str) -> float:
    """Return how many exchanges had this outcome, on the routes of these tests."""
    routes = ("responses", "files", "models", "websocket", "other")
    return sum(w.counted("exchanges_total", route=route, outcome=outcome) for route in routes)


# --- clients ---


@pytest.mark.parametrize("is_used", [False, True])
async def test_a_connection_without_a_request_is_closed(is_used: bool) -> None:
    """An idle connection is closed without a response, whether it was used before or not."""
    async with world(idle_timeout_s=SHORT_S) as w, line_to(w.app.url) as line:
        w.upstream.otherwise = OK
        if is_used:
            assert (await line.ask(GET)).status == 200
        assert await line.is_closed()


async def test_an_old_connection_is_closed_by_a_response_that_says_so() -> None:
    """A client that is never idle moves on, and no request or stream of it is cut."""
    async with world(connection_max_age_s=SHORT_S, idle_timeout_s=SOON_S) as w:
        w.upstream.otherwise = OK
        async with line_to(w.app.url) as line:
            got = await line.ask(GET)
            while got.head.values("Connection") != ["close"]:
                got = await line.ask(GET)
            assert got.status == 200
            assert await line.is_closed()
        slow = Script([send(stream_head() + chunk(b"1")), wait(), send(chunk(b"2") + END)])
        w.upstream.plays(slow)
        async with line_to(w.app.url) as line:
            await line.send(GET)
            await line.head()
            await asyncio.sleep(2 * SHORT_S)  # it grows old in the middle
            slow.go()
            assert await line.rest() == b"12"
            assert (await line.ask(GET)).head.values("Connection") == ["close"]


async def test_a_connection_may_have_no_age() -> None:
    """Zero is no limit."""
    async with world(connection_max_age_s=0) as w, line_to(w.app.url) as line:
        w.upstream.otherwise = OK
        for _ in range(20):
            assert (await line.ask(GET)).head.values("Connection") != ["close"]


@pytest.mark.parametrize("is_used", [False, True])
@pytest.mark.parametrize("drips", [False, True])
async def test_a_head_that_does_not_come_to_its_end_is_closed(is_used: bool, drips: bool) -> None:
    """The head has one time limit, also byte by byte, and a closed connection holds no place."""
    async with world(idle_timeout_s=SHORT_S) as w, line_to(w.app.url) as line:
        w.upstream.otherwise = OK
        if is_used:
            assert (await line.ask(GET)).status == 200

        async def drip() -> None:
            await line.send(b"GET /v1/models HTTP/1.1\r\nX: ")
            while drips:
                await asyncio.sleep(0.02)
                await line.send(b"x")

        dripping = asyncio.ensure_future(drip())
        with contextlib.suppress(ConnectionResetError):  # the drip may still be running
            assert await line.is_closed()
        await eventually(lambda: not w.app.server.connections)
        dripping.cancel()
        await asyncio.gather(dripping, return_exceptions=True)


async def test_an_exchange_does_not_make_its_connection_idle() -> None:
    """A connection is not idle while its response is pending."""
    script = Script([wait(), send(OK)])
    short: Any = dict.fromkeys(("idle_timeout_s", "client_timeout_s"), SHORT_S)
    async with world(**short) as w, line_to(w.app.url) as line:
        w.upstream.plays(script)
        await line.send(GET)
        await asyncio.sleep(2 * SHORT_S)
        script.go()
        assert (await answer(line)).status == 200


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("framing", ["Content-Length: 100", "Transfer-Encoding: chunked"])
async def test_a_client_that_is_silent_within_its_body_is_told_408(
    target: str, framing: str
) -> None:
    """A client that stops sending its body gets a 408, and upstream is left."""
    script = Script([wait()], reads_body=False)
    async with world(client_timeout_s=SHORT_S) as w, line_to(w.app.url) as line:
        w.upstream.plays(script)
        await line.send(request("POST", target, KEY, framing) + chunk(b"half of it"))
        message = assert_ours(await answer(line), 408, "body_timeout")
        assert "client_timeout_s" in message
        assert await line.is_closed()
        if target == "/v1/files":
            await asyncio.wait_for(script.left.wait(), SOON_S)
        else:
            assert w.upstream.connections == 0
        assert counted(w, "body_timeout") == 1


@pytest.mark.parametrize("target", TARGETS)
async def test_a_slow_body_is_not_silent(target: str) -> None:
    """As long as bytes arrive, it is not cut off, and first_byte_timeout_s does not begin."""
    async with (
        world(client_timeout_s=1.0, first_byte_timeout_s=0.8) as w,
        line_to(w.app.url) as line,
    ):
        w.upstream.otherwise = OK
        await line.send(request("POST", target, KEY, "Content-Length: 10"))
        for _ in range(10):
            await line.send(b"x")
            await asyncio.sleep(0.12)
        assert (await answer(line)).status == 200
        assert w.upstream.received[0].body == b"x" * 10


@pytest.mark.parametrize("ends", [False, True])
async def test_a_client_that_does_not_read_is_cut_off(ends: bool) -> None:
    """A client that stops reading is cut off together with upstream, also if upstream is done."""
    last = [] if ends else [wait()]
    script = Script([send(head("Transfer-Encoding: chunked") + chunk(LARGE) + END), *last])
    async with world(client_timeout_s=SHORT_S) as w, line_to(w.app.url) as line:
        w.upstream.plays(script)
        stops_reading(line._writer)
        await line.send(GET)
        await eventually(lambda: counted(w, "client_stalled") == 1)
        await asyncio.wait_for(script.left.wait(), SOON_S)
        assert w.app.handler.admission.count == 0
        reads_again(line._writer)
        with contextlib.suppress(Broken, ConnectionError):
            await line.head()
            assert not (await line.until_it_ends())[1]


async def test_a_slow_client_is_never_cut_off() -> None:
    """A client that reads a little at a time is never cut off: kernel buffers do not hide it."""
    script = Script([send(whole(LARGE)), wait()])
    loop = asyncio.get_running_loop()
    async with world(client_timeout_s=1.0) as w:
        w.upstream.plays(script)
        port = urlsplit(w.app.url).port
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)
            client.setblocking(False)
            await loop.sock_connect(client, ("127.0.0.1", port))
            await loop.sock_sendall(client, GET)
            for _ in range(20):
                assert await loop.sock_recv(client, 32 * 1024)
                await asyncio.sleep(0.1)
            assert counted(w, "client_stalled") == 0
            assert w.app.handler.admission.count == 1


async def test_what_is_left_of_an_answer_does_not_keep_a_connection_for_ever() -> None:
    """A connection with unread data is closed, though its handler has finished."""
    async with world(client_timeout_s=SHORT_S, idle_timeout_s=SHORT_S) as w:
        w.upstream.otherwise = whole(LARGE)
        async with line_to(w.app.url) as line:
            stops_reading(line._writer)
            await line.send(GET)
            await eventually(lambda: bool(w.app.server.connections))
            await eventually(lambda: not w.app.server.connections)


# --- upstream ---


def names(got: Answer, setting: str) -> None:
    """Check for the proxy's 504 with the name of this setting."""
    assert setting in assert_ours(got, 504, "upstream_timeout")


@contextlib.contextmanager
def deaf() -> Iterator[str]:
    """Return the URL of a port that never completes a connection, as its queue is full."""
    with socket.socket() as listening, contextlib.ExitStack() as waiting:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        for _ in range(4):
            line = waiting.enter_context(socket.socket())
            line.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                line.connect(listening.getsockname())
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


@pytest.mark.parametrize("target", TARGETS)
async def test_no_connection_in_time_is_a_504(target: str) -> None:
    """A connection that takes too long is a 504 that names connect_timeout_s."""
    with deaf() as url:
        async with world(upstream_url=url + "/v1", connect_timeout_s=SHORT_S) as w:
            names(await w.ask(request("POST", target, KEY, body=b"{}")), "connect_timeout_s")


SILENT: list[Any] = [
    pytest.param([wait()], id="silent"),
    pytest.param([send(b"HTTP/1.1 200 OK\r\nX: "), wait()], id="half-a-head"),
]


@pytest.mark.parametrize("steps", SILENT)
@pytest.mark.parametrize("setting", ["first_byte_timeout_s", "total_timeout_s"])
@pytest.mark.parametrize("body", [b"{}", b"x" * 3_000_000])
async def test_no_answer_in_time_is_a_504(steps: list[Any], setting: str, body: bytes) -> None:
    """Whatever the size of the request, which is sent once, and nothing of it is left."""
    script = Script(steps)
    settings: Any = {"read_timeout_s": LONG_S, setting: SHORT_S}
    async with world(**settings) as w:
        w.upstream.plays(script)
        names(await w.ask(request("POST", "/v1/files", KEY, body=body)), setting)
        await asyncio.wait_for(script.left.wait(), SOON_S)
        assert len(w.upstream.received) == 1
        assert w.app.handler.admission.count == 0


async def test_silence_within_a_response_cuts_it_off() -> None:
    """The timer of read_timeout_s starts with the head, which has its own timeout."""
    script = Script([wait(), send(stream_head()), wait()])
    async with (
        world(first_byte_timeout_s=LONG_S, read_timeout_s=SHORT_S) as w,
        line_to(w.app.url) as line,
    ):
        w.upstream.plays(script)
        await line.send(GET)
        await asyncio.sleep(2 * SHORT_S)
        script.go()
        assert (await line.head()).status == 200
        assert (await line.until_it_ends())[1] is False
        await asyncio.wait_for(script.left.wait(), SOON_S)
        await eventually(lambda: counted(w, "cut_off") == 1)


async def test_the_time_to_the_first_byte_is_over_with_the_head() -> None:
    """After the head, only read_timeout_s limits silence."""
    script = Script([send(stream_head()), wait(), send(END)])
    async with (
        world(first_byte_timeout_s=SHORT_S, read_timeout_s=LONG_S) as w,
        line_to(w.app.url) as line,
    ):
        w.upstream.plays(script)
        await line.send(GET)
        await line.head()
        await asyncio.sleep(2 * SHORT_S)
        script.go()
        assert await line.rest() == b""


@pytest.mark.parametrize("framing", [f"Content-Length: {len(LARGE)}", "Transfer-Encoding: chunked"])
async def test_an_upstream_that_reads_no_request_body_is_a_504(framing: str) -> None:
    """Upstream must read the body within read_timeout_s; the client's own pause does not count."""
    script = Script([stalls(), swallow(len(LARGE))], reads_body=False)
    async with (
        world(read_timeout_s=SHORT_S, client_timeout_s=LONG_S) as w,
        line_to(w.app.url) as line,
    ):
        w.upstream.plays(script)
        await line.send(request("POST", "/v1/files", KEY, framing))
        await asyncio.sleep(2 * SHORT_S)  # upstream waits for the client
        body = chunk(LARGE) if "chunked" in framing else LARGE
        sending = asyncio.ensure_future(line.send(body))
        names(await answer(line), "read_timeout_s")
        script.go()  # the end of a connection shows only when it is read
        await asyncio.wait_for(script.left.wait(), SOON_S)
        assert script.swallowed < len(LARGE)
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)


async def test_a_held_body_that_upstream_does_not_read_is_a_504() -> None:
    """A buffered body is sent in pieces, and read_timeout_s applies to them."""
    script = Script([stalls()], reads_body=False)
    async with world(read_timeout_s=SHORT_S) as w, line_to(w.app.url) as line:
        w.upstream.plays(script)
        await line.send(request("POST", "/v1/responses", KEY, body=LARGE))
        names(await answer(line), "read_timeout_s")


# --- total time ---


async def test_an_exchange_that_takes_too_long_within_its_response_is_cut_off() -> None:
    """total_timeout_s cuts off a response even if bytes arrive all the time."""
    many = [send(chunk(b"data: 1\n\n")), wait()] * 100
    script = Script([send(stream_head()), *many])
    async with world(total_timeout_s=SHORT_S) as w, line_to(w.app.url) as line:
        w.upstream.plays(script)
        await line.send(GET)
        assert (await line.head()).status == 200
        with pytest.raises(Broken):  # noqa: PT012 (which of them is broken is a matter of time)
            for _ in range(100):
                await line.some()
                script.go()
                await asyncio.sleep(0.05)
        await asyncio.wait_for(script.left.wait(), SOON_S)
        await eventually(lambda: counted(w, "cut_off") == 1)


async def test_a_websocket_lasts_for_as_long_as_it_likes() -> None:
    """None of these timeouts applies to a WebSocket."""
    short: Any = dict.fromkeys(
        ("total_timeout_s", "read_timeout_s", "client_timeout_s", "idle_timeout_s"), SHORT_S
    )
    async with world(**short) as w, tunnelled(w) as (client, upstream):
        await asyncio.sleep(2 * SHORT_S)
        await upstream.send(frame(TEXT, b"still there"))
        await client.gets(frame(TEXT, b"still there"))
        await client.send(frame(PONG, key=FRAME_KEY))
        await upstream.gets(frame(PONG, key=FRAME_KEY))
