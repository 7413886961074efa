"""Backpressure: a slow side stops the fast one, and the bytes between them are bounded."""

import asyncio
import contextlib
import tracemalloc
from collections.abc import AsyncIterator
from pathlib import Path

import reasoning_replay

from tests.fast_lane import each_value
from tests.patience import SOON_S
from tests.web.line import line_to, request
from tests.web.scripted import Script, scripted, send, swallow, wait
from tests.web.served import served
from tests.web.wire import chunk, head, stream_head
from tests.web.world import post, world

KEY = "Authorization: Bearer sk-a"
PIECE = b"x" * (1 << 16)
PIECES = 1600  # 100 MiB
SIZE = len(PIECE) * PIECES
# The kernel holds up to 10 MiB for a pair of sockets, and there are two pairs.
BETWEEN_MAX_BYTES = 40 << 20
STILL_S = 0.3
OPEN, EVENT_BYTES = 20, 40_000
LOOPS = ["asyncio", "uvloop"]


class Fast:
    """Writer that writes as fast as it can, and counts the bytes."""

    def __init__(self) -> None:
        self.written = 0

    async def write(self, writer: asyncio.StreamWriter) -> None:
        """Write all pieces, each as soon as the last one is flushed."""
        for _ in range(PIECES):
            writer.write(PIECE)
            await writer.drain()
            self.written += len(PIECE)

    async def stands_still(self) -> int:
        """Wait until the writer is blocked; return the number of bytes written."""
        async with asyncio.timeout(SOON_S):
            while True:
                before = self.written
                await asyncio.sleep(STILL_S)
                if self.written == before > 0:
                    return before


@contextlib.asynccontextmanager
async def in_front_of(url: str, loop: str) -> AsyncIterator[str]:
    """Give the URL of a proxy, in this process or in its own process on uvloop."""
    if loop == "uvloop":
        async with served(upstream_url=url + "/v1") as proxy:
            await proxy.started()
            yield proxy.url
    else:
        async with world(upstream_url=url + "/v1") as w:
            yield w.app.url


@each_value(target=["/v1/files/f/content", "/v1/responses/resp_1"], loop=LOOPS)
async def test_a_slow_client_stops_upstream(target: str, loop: str) -> None:
    """A client that does not read blocks upstream, and gets the complete response later."""
    fast = Fast()

    async def answer(_: Script, writer: asyncio.StreamWriter) -> None:
        writer.write(head("Content-Type: application/json", f"Content-Length: {SIZE}"))
        await fast.write(writer)

    async with (
        scripted() as upstream,
        in_front_of(upstream.url, loop) as url,
        line_to(url) as line,
    ):
        upstream.plays(Script([answer]))
        await line.send(request("GET", target, KEY))
        assert (await line.head()).status == 200
        assert 0 < await fast.stands_still() < BETWEEN_MAX_BYTES
        size = 0
        while piece := await line.some():
            size += len(piece)
        assert size == SIZE


@each_value(target=["/v1/files", "/v1/responses"], loop=LOOPS, framing=["length", "chunked"])
async def test_a_slow_upstream_stops_the_client(target: str, loop: str, framing: str) -> None:
    """An upstream that does not read blocks the client, also after a body proved too large."""
    fast, is_chunked = Fast(), framing == "chunked"
    framed = PIECES * (len(PIECE) + len(b"10000\r\n\r\n"))
    script = Script([wait(), swallow(framed if is_chunked else SIZE)], reads_body=False)
    how = "Transfer-Encoding: chunked" if is_chunked else f"Content-Length: {SIZE}"

    async with (
        scripted() as upstream,
        in_front_of(upstream.url, loop) as url,
        line_to(url) as line,
    ):
        upstream.plays(script)
        await line.send(request("POST", target, KEY, how))

        async def write() -> None:
            writer = line._writer
            for _ in range(PIECES):
                writer.write(b"10000\r\n%s\r\n" % PIECE if is_chunked else PIECE)
                await writer.drain()
                fast.written += len(PIECE)

        writing = asyncio.ensure_future(write())
        await asyncio.wait_for(script.arrived.wait(), SOON_S)
        held = 64 << 20 if target == "/v1/responses" and is_chunked else 0  # inspect_max_bytes
        assert 0 < await fast.stands_still() < BETWEEN_MAX_BYTES + held
        script.go()
        await writing
        assert fast.written == SIZE


async def test_a_stream_that_stays_open_holds_nothing_of_what_has_passed() -> None:
    """An open stream keeps neither its request nor the events that have passed."""
    ask = post({"input": "x" * EVENT_BYTES, "stream": True}, KEY)
    event = b'data: {"type":"response.created","pad":"%b"}\n\n' % (b"x" * EVENT_BYTES)
    async with world() as w, contextlib.AsyncExitStack() as stack:
        steps = [send(stream_head() + chunk(event)), wait()]
        w.upstream.plays(*(Script(steps) for _ in range(OPEN)))
        lines = [await stack.enter_async_context(line_to(w.app.url)) for _ in range(OPEN)]
        tracemalloc.start()
        try:
            for line in lines:
                await line.send(ask)
                await line.head()
                assert await line.exactly(len(event)) == event
            traced = tracemalloc.take_snapshot()
        finally:
            tracemalloc.stop()
    ours = traced.filter_traces(
        [tracemalloc.Filter(True, f"{Path(reasoning_replay.__file__).parent}/*")]
    )
    assert sum(one.size for one in ours.statistics("filename")) < OPEN * EVENT_BYTES / 2
