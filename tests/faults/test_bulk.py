"""
Large bodies: they pass through a process that holds little of them and releases it all.

The proxy runs in its own process, as in production, so its memory and files are its own.
"""

import asyncio
import contextlib
import hashlib
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.kinds import JSON, STREAM, Kind
from tests.faults.stage import LEARNT
from tests.web.line import Line, line_to
from tests.web.scripted import Script, Step, Upstream, scripted, send
from tests.web.served import Served, served
from tests.web.wire import ASK, END, chunk, whole
from tests.web.world import MODEL, eventually, post

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")

MIB = 1 << 20
PIECE = b"x" * (1 << 16)
# Buffers of sockets and of the allocator, in addition to the bound that a setting sets.
BESIDES_BYTES = 24 * MIB
# Bytes that kernels and the proxy hold between a fast and a stalled side.
BETWEEN_MAX_BYTES = 40 * MIB


class Process:
    """
    Proxy in its own process that has captured something, and its upstream.

    Attributes:
        proxy: The process.
        upstream: Scripted upstream in this process.
    """

    def __init__(self, proxy: Served, upstream: Upstream) -> None:
        self.proxy = proxy
        self.upstream = upstream
        self.files = 0
        self.rss_bytes = 0

    async def learns(self) -> None:
        """Make the first exchanges, then record what the process holds."""
        self.upstream.answers(LEARNT)
        async with line_to(self.proxy.url) as line:
            assert (await line.ask(post({"model": MODEL, "input": [ASK]}))).status == 200
        await self.works()
        self.files, self.rss_bytes = self.open_files(), self.resident_bytes()

    async def works(self, line: Line | None = None) -> None:
        """Check that a response passes unchanged and that captured reasoning is injected."""
        said = b'{ "n": 1.0e5 }\n'
        self.upstream.forget_scripts()
        self.upstream.answers(whole(said))
        async with contextlib.AsyncExitStack() as stack:
            if line is None:
                line = await stack.enter_async_context(line_to(self.proxy.url))
            got = await line.ask(JSON.data)
        assert (got.status, got.body, got.mark) == (200, said, "injected=1")

    async def is_as_before(self) -> None:
        """Check that exchanges work and that the process holds no more than before."""
        await self.works()
        await eventually(lambda: self.open_files() <= self.files)
        assert self.resident_bytes() - self.rss_bytes < BESIDES_BYTES

    def open_files(self) -> int:
        """Count its open files, including sockets."""
        return len(list(Path(f"/proc/{self.proxy.pid}/fd").iterdir()))

    def resident_bytes(self) -> int:
        """Return its resident memory, in bytes."""
        status = Path(f"/proc/{self.proxy.pid}/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if "VmRSS" in line) * 1024


@contextlib.asynccontextmanager
async def process(**settings: Any) -> AsyncIterator[Process]:
    """Run the proxy and its upstream with these settings."""
    async with (
        scripted() as upstream,
        served(upstream_url=upstream.url + "/v1", **settings) as proxy,
    ):
        await proxy.started()
        reading = asyncio.ensure_future(proxy.rest())  # its log: a full pipe would block it
        one = Process(proxy, upstream)
        await one.learns()
        yield one
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


def first(size: int) -> Iterator[bytes]:
    """Begin a stream with a large event."""
    yield from _event(size)
    yield from STREAM.pieces


def among(size: int) -> Iterator[bytes]:
    """Put a large event between the events of a stream."""
    yield STREAM.pieces[0]
    yield from _event(size)
    yield from STREAM.pieces[1:]


def _event(size: int) -> Iterator[bytes]:
    yield b'event: response.output_item.done\ndata: {"type":"response.output_item.done","item":"'
    for _ in range(0, size, len(PIECE)):
        yield PIECE
    yield b'"}\n\n'


def plain(size: int) -> Iterator[bytes]:
    """Return a large response that is not a stream."""
    yield b'{"output":[],"text":"'
    for _ in range(0, size, len(PIECE)):
        yield PIECE
    yield b'"}'


def sends(pieces: Iterator[bytes], digest: "hashlib._Hash") -> Step:
    """Send it chunk by chunk."""

    async def step(_: Script, writer: asyncio.StreamWriter) -> None:
        for piece in pieces:
            digest.update(piece)
            writer.write(chunk(piece))
            await writer.drain()
        writer.write(END)

    return step


LARGE = [
    pytest.param([(STREAM, among)], 100 * MIB, 64 * MIB, id="100 MiB"),
    pytest.param(
        [(STREAM, among), (STREAM, first), (JSON, plain)], 32 * MIB, MIB, id="over a lower bound"
    ),
]


@pytest.mark.parametrize(("answers", "size", "bound"), LARGE)
async def test_an_answer_that_is_large_in_one_piece(
    answers: list[tuple[Kind, Callable[[int], Iterator[bytes]]]], size: int, bound: int
) -> None:
    """A huge event passes unchanged; the proxy buffers no more than its bound, and releases it."""
    async with process(inspect_max_bytes=bound) as one:
        before = one.proxy.peak_bytes
        for kind, pieces in answers:
            sent, got = hashlib.sha256(), hashlib.sha256()
            one.upstream.plays(Script([send(kind.chunked()), sends(pieces(size), sent)]))
            async with line_to(one.proxy.url) as line:
                await line.send(kind.data)
                assert (await line.head()).status == 200
                while piece := await line.some():
                    got.update(piece)
                assert got.digest() == sent.digest()
                # While a buffer grows, it exists twice for a moment.
                assert one.proxy.peak_bytes - before < 2 * bound + BESIDES_BYTES
                await one.works(line)
        await one.is_as_before()
