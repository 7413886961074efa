"""The connection pool sends requests exactly as they are given, and each failure has a source."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from reasoning_replay.adapters.upstream.client import UpstreamClient
from reasoning_replay.adapters.upstream.connection import Timeouts
from reasoning_replay.adapters.upstream.egress import egress
from reasoning_replay.adapters.upstream.response import UpstreamError, UpstreamResponse

from tests.patience import SOON_S
from tests.web.scripted import Script, scripted, send, wait
from tests.web.wire import chunk, head, stream_head, whole

READ_S = 1.0


@pytest.fixture
async def connections() -> AsyncIterator[UpstreamClient]:
    """Yield a pool."""
    upstream = UpstreamClient(Timeouts(SOON_S, SOON_S, READ_S), egress("http://127.0.0.1"))
    yield upstream
    await upstream.close()


async def whole_of(answer: UpstreamResponse) -> bytes:
    """Read a response to its end."""
    read = b""
    while piece := await answer.read():
        read += piece
    return read


async def test_parallel_requests_are_not_limited() -> None:
    """Streams last for minutes, so no request waits for another one to end."""
    connections = UpstreamClient(Timeouts(SOON_S, SOON_S, SOON_S), egress("http://127.0.0.1"))
    scripts = [Script([wait(), send(whole(b"{}"))]) for _ in range(150)]
    async with scripted() as far:
        far.plays(*scripts)
        waiting = [
            asyncio.ensure_future(connections.send("GET", far.url + "/", [], None)) for _ in scripts
        ]
        async with asyncio.timeout(SOON_S):
            for script in scripts:
                await script.arrived.wait()
        for script in scripts:
            script.go()
        for answer in await asyncio.gather(*waiting):
            answer.close()
        await connections.close()


async def source_of(connections: UpstreamClient, url: str) -> str:
    """Return the source of the error that a request ends with."""
    with pytest.raises(UpstreamError) as caught:
        await connections.send("POST", url, [], b"{}")
    assert str(caught.value)
    return caught.value.source


async def test_an_upstream_that_sends_first_is_not_retried(connections: UpstreamClient) -> None:
    """An upstream that sends data first is not HTTP, so a request to it is not retried."""
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
async def test_an_invalid_header_is_an_upstream_error(
    value: bytes, connections: UpstreamClient
) -> None:
    """A header with a line break or a NUL raises UpstreamError, and no request arrives."""
    async with scripted() as far:
        with pytest.raises(UpstreamError):
            await connections.send("GET", far.url + "/", [(b"X", value)], None)
        assert far.received == []


async def test_the_read_timeout_is_for_each_read(
    connections: UpstreamClient,
) -> None:
    """The timeout is for the time between two reads: a stream may last any time in total."""
    steps = [step for _ in range(6) for step in (wait(), send(chunk(b"x")))]
    script = Script([send(stream_head()), *steps, send(b"0\r\n\r\n")])
    async with scripted() as far:
        far.plays(script)
        answer = await connections.send("GET", far.url + "/", [], None)
        read = b""
        for _ in range(6):
            await asyncio.sleep(READ_S / 5)
            script.go()
            read += await answer.read()
        assert read == b"x" * 6
        answer.close()


async def test_a_response_that_waits_for_its_reader_does_not_time_out() -> None:
    """The read timeout does not run while the read buffer is full."""
    size, short_s = 16 << 20, 0.2
    connections = UpstreamClient(Timeouts(5.0, 60.0, short_s), egress("http://127.0.0.1"))
    async with scripted() as far:
        far.otherwise = head(f"Content-Length: {size}") + bytes(size)
        for late_s in (0.0, 3 * short_s):  # a connection that was used before receives more at once
            answer = await connections.send("GET", far.url + "/", [], None)
            await asyncio.sleep(late_s)
            assert len(await whole_of(answer)) == size
        assert far.connections == 1
        await connections.close()
