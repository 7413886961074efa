"""Large responses: they pass through a process that holds little of them and releases it all."""

import asyncio
import contextlib
import hashlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.faults.kinds import JSON, STREAM, Kind
from tests.faults.stage import LEARNT
from tests.web.line import line_to
from tests.web.scripted import Script, Step, Upstream, scripted, send
from tests.web.served import Served, served
from tests.web.wire import ASK, END, chunk, whole
from tests.web.world import MODEL, eventually, post

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")

MIB = 1 << 20
PIECE = b"x" * (1 << 16)
SAID = b'{ "n": 1.0e5 }\n'
# Buffers of sockets and of the allocator, in addition to the bound that a setting sets.
BESIDES_BYTES = 24 * MIB


async def works(proxy: Served, upstream: Upstream) -> None:
    """Check that a response passes unchanged and that captured reasoning is injected."""
    upstream.answers(whole(SAID))
    async with line_to(proxy.url) as line:
        got = await line.ask(JSON.data)
    assert (got.status, got.body, got.mark) == (200, SAID, "injected=1")


def open_files(proxy: Served) -> int:
    """Count the open files of a process, including sockets."""
    return len(list(Path(f"/proc/{proxy.pid}/fd").iterdir()))


def large(start: bytes, size: int, end: bytes) -> Iterator[bytes]:
    """Yield a body of about `size` bytes in pieces."""
    yield start
    for _ in range(0, size, len(PIECE)):
        yield PIECE
    yield end


EVENT = b'event: response.output_item.done\ndata: {"type":"response.output_item.done","item":"'
Pieces = Callable[[int], Iterator[bytes]]


def among(size: int) -> Iterator[bytes]:
    """Put a large event between the events of a stream."""
    yield STREAM.pieces[0]
    yield from large(EVENT, size, b'"}\n\n')
    yield from STREAM.pieces[1:]


def first(size: int) -> Iterator[bytes]:
    """Begin a stream with a large event."""
    yield from large(EVENT, size, b'"}\n\n')
    yield from STREAM.pieces


def plain(size: int) -> Iterator[bytes]:
    """Return a large response that is not a stream."""
    return large(b'{"output":[],"text":"', size, b'"}')


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
    answers: list[tuple[Kind, Pieces]], size: int, bound: int
) -> None:
    """A huge event passes unchanged; the proxy buffers no more than its bound, and releases it."""
    async with (
        scripted() as upstream,
        served(upstream_url=upstream.url + "/v1", inspect_max_bytes=bound) as proxy,
    ):
        await proxy.started()
        reading = asyncio.ensure_future(proxy.rest())  # its log: a full pipe would block it
        upstream.answers(LEARNT)
        async with line_to(proxy.url) as line:
            assert (await line.ask(post({"model": MODEL, "input": [ASK]}))).status == 200
        await works(proxy, upstream)
        files, resident_bytes, before = open_files(proxy), proxy.resident_bytes, proxy.peak_bytes
        for kind, pieces in answers:
            sent, got = hashlib.sha256(), hashlib.sha256()
            upstream.plays(Script([send(kind.chunked()), sends(pieces(size), sent)]))
            async with line_to(proxy.url) as line:
                await line.send(kind.data)
                assert (await line.head()).status == 200
                while piece := await line.some():
                    got.update(piece)
            assert got.digest() == sent.digest()
            # While a buffer grows, it exists twice for a moment.
            assert proxy.peak_bytes - before < 2 * bound + BESIDES_BYTES
            await works(proxy, upstream)
        await eventually(lambda: open_files(proxy) <= files)
        assert proxy.resident_bytes - resident_bytes < BESIDES_BYTES
        reading.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await reading
