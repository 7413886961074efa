"""The connections to the upstream: what goes out is what was given, and failures have a source."""

import asyncio
import socket
from collections.abc import AsyncGenerator, AsyncIterator

import pytest
from reasoning_replay.adapters.upstream.connection import Timeouts
from reasoning_replay.adapters.upstream.egress import egress
from reasoning_replay.adapters.upstream.pool import UpstreamPool
from reasoning_replay.adapters.upstream.response import UpstreamError, UpstreamResponse
from reasoning_replay.core.wire.headers import Headers

from tests.web.scripted import Script, close, cut, scripted, send, wait
from tests.web.wire import chunk, head, stream_head, whole


@pytest.fixture
async def connections() -> AsyncIterator[UpstreamPool]:
    """A pool with short deadlines."""
    upstream = UpstreamPool(Timeouts(0.5, 0.1, 0.1), egress("http://127.0.0.1"))
    yield upstream
    await upstream.close()


async def whole_of(answer: UpstreamResponse) -> bytes:
    """Read an answer to its end."""
    read = b""
    while piece := await answer.read():
        read += piece
    return read


async def pieces() -> AsyncGenerator[bytes, None]:
    """Give a body in two pieces."""
    yield b"ab"
    yield b"c"


async def test_it_sends_what_it_is_given(connections: UpstreamPool) -> None:
    """Method, target, headers and body, and of its own the host and the length alone."""
    async with scripted() as far:
        far.answers(whole(b"{}"))
        url = far.url + "/a%2Fb?x=%7E"
        answer = await connections.send("PATCH", url, [(b"X-A", b"1"), (b"x-b", b"2")], b"abc")
        (received,) = far.received
        assert received.line == "PATCH /a%2Fb?x=%7E HTTP/1.1"
        assert received.headers == [
            ("Host", far.url.removeprefix("http://")),
            ("X-A", "1"),
            ("x-b", "2"),
            ("Content-Length", "3"),
        ]
        assert (received.body, await whole_of(answer)) == (b"abc", b"{}")


async def test_a_large_body_goes_out_with_its_length(connections: UpstreamPool) -> None:
    """In pieces, so that nobody waits for it to be written; and with no header more."""
    body = bytes(range(256)) * 12_000
    async with scripted() as far:
        far.answers(whole(b"{}"))
        answer = await connections.send("POST", far.url + "/", [], body)
        (received,) = far.received
        assert [name for name, _ in received.headers] == ["Host", "Content-Length"]
        assert received.body == body
        answer.close()


@pytest.mark.parametrize(
    ("headers", "framing"),
    [
        ([], ("transfer-encoding", "chunked")),
        ([(b"Content-Length", b"3")], ("content-length", "3")),
    ],
)
async def test_a_streamed_body_goes_out_as_it_comes(
    headers: Headers, framing: tuple[str, str], connections: UpstreamPool
) -> None:
    """In chunks, unless its length is known."""
    async with scripted() as far:
        far.answers(whole(b"{}"))
        answer = await connections.send("POST", far.url + "/", headers, pieces())
        (received,) = far.received
        assert received.body == b"abc"
        assert received.values(framing[0]) == [framing[1]]
        answer.close()


async def test_a_connection_is_used_again(connections: UpstreamPool) -> None:
    """Once its answer has been read: TLS for every request would cost more than we do."""
    async with scripted() as far:
        for _ in range(3):
            far.answers(whole(b"{}"))
            answer = await connections.send("GET", far.url + "/", [], None)
            await whole_of(answer)
        assert (len(far.received), far.connections) == (3, 1)


async def test_there_is_no_limit_to_how_many_run_at_once() -> None:
    """Streams last for minutes; none waits for another to end."""
    connections = UpstreamPool(Timeouts(5, 5, 5), egress("http://127.0.0.1"))
    scripts = [Script([wait(), send(whole(b"{}"))]) for _ in range(150)]
    async with scripted() as far:
        far.plays(*scripts)
        waiting = [
            asyncio.ensure_future(connections.send("GET", far.url + "/", [], None)) for _ in scripts
        ]
        async with asyncio.timeout(5):
            for script in scripts:
                await script.arrived.wait()
        for script in scripts:
            script.go()
        for answer in await asyncio.gather(*waiting):
            answer.close()
        await connections.close()


async def source_of(connections: UpstreamPool, url: str) -> str:
    """Return the source of the failure that a request ends with."""
    with pytest.raises(UpstreamError) as caught:
        await connections.send("POST", url, [], b"{}")
    assert str(caught.value)
    return caught.value.source


async def test_a_port_that_nobody_listens_on_is_a_failure_to_connect(
    connections: UpstreamPool,
) -> None:
    """Nothing was sent."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}/"
    assert await source_of(connections, url) == "connect"


@pytest.mark.parametrize(
    ("script", "source"),
    [
        pytest.param(Script([close()]), "read", id="closed"),
        pytest.param(Script([cut()]), "read", id="reset"),
        pytest.param(Script([send(b"220 smtp ready\r\n"), close()]), "read", id="no-http"),
        pytest.param(Script([send(head("X: " + "x" * 70_000))]), "read", id="too-long-a-head"),
        pytest.param(Script([wait()]), "timeout", id="silent"),
        pytest.param(Script([send(b"HTTP/1.1 200 OK\r\n"), wait()]), "timeout", id="half-a-head"),
    ],
)
async def test_a_failure_has_a_source(
    script: Script, source: str, connections: UpstreamPool
) -> None:
    """It decides between 502 and 504."""
    async with scripted() as far:
        far.plays(script)
        assert await source_of(connections, far.url + "/") == source


async def test_an_upstream_that_speaks_first_is_asked_once(connections: UpstreamPool) -> None:
    """It speaks no HTTP, and would do so on any connection."""
    opened: list[asyncio.StreamWriter] = []

    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        opened.append(writer)
        writer.write(b"220 smtp ready\r\n")

    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    for _ in range(5):
        assert await source_of(connections, url) == "read"
    assert len(opened) == 5
    server.close()
    for writer in opened:
        writer.close()


@pytest.mark.parametrize("value", [b"a\nb", b"a\rb", b"a\0b"])
async def test_what_cannot_be_sent_is_an_upstream_error(
    value: bytes, connections: UpstreamPool
) -> None:
    """Never any other exception, and nothing arrives."""
    async with scripted() as far:
        with pytest.raises(UpstreamError):
            await connections.send("GET", far.url + "/", [(b"X", value)], None)
        assert far.received == []


async def test_a_large_head_is_read(connections: UpstreamPool) -> None:
    """Gateways put much into theirs."""
    async with scripted() as far:
        far.answers(head("X-Long: " + "x" * 60_000, "Content-Length: 0"))
        answer = await connections.send("GET", far.url + "/", [], None)
        assert len(answer.value(b"x-long")) == 60_000
        answer.close()


async def test_silence_between_two_reads_is_bounded_and_the_whole_is_not(
    connections: UpstreamPool,
) -> None:
    """A model may stream for as long as it likes."""
    steps = [step for _ in range(6) for step in (wait(), send(chunk(b"x")))]
    script = Script([send(stream_head()), *steps, send(b"0\r\n\r\n")])
    async with scripted() as far:
        far.plays(script)
        answer = await connections.send("GET", far.url + "/", [], None)
        read = b""
        for _ in range(6):  # 0.24 s in all, of which no two reads are 0.1 s apart
            await asyncio.sleep(0.04)
            script.go()
            read += await answer.read()
        assert read == b"x" * 6
        answer.close()


async def test_an_answer_that_waits_for_us_is_not_silent() -> None:
    """Its beginning came with the head, and was more than is read ahead."""
    size, short_s = 16 << 20, 0.2
    connections = UpstreamPool(Timeouts(5.0, 60.0, short_s), egress("http://127.0.0.1"))
    async with scripted() as far:
        far.otherwise = head(f"Content-Length: {size}") + bytes(size)
        for late_s in (0.0, 3 * short_s):  # a connection takes much at once when it has run once
            answer = await connections.send("GET", far.url + "/", [], None)
            await asyncio.sleep(late_s)
            assert len(await whole_of(answer)) == size
        assert far.connections == 1
        await connections.close()
