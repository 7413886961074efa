"""
Upstream of the bench: `python -m tests.bench.upstream` prints its port, and serves until killed.

One `asyncio.Protocol`, no framework, so that a fast contender does not wait for it. A request's
`X-Bench` header names its dialect and its task:

- `small N`: the response of that number.
- `turn SEED N`: the response of that turn of that conversation.
- `seen`: what identifies each item in the request, in their order; see `Dialect.seen`.
- `stream N DELTAS EVERY_US AT_NS`: a stream of DELTAS deltas, one each EVERY_US, after that time of
  the monotonic clock, which all processes share; each carries its send time.
"""

import asyncio
import gc
import heapq
import json
import re
import time
from collections.abc import Iterator
from typing import cast

import uvloop

from tests.bench.shapes.dialect import Dialect
from tests.bench.shapes.dialects import DIALECTS

TASK = re.compile(rb"\r\nx-bench: ([^\r]+)\r\n", re.IGNORECASE)
LENGTH = re.compile(rb"\r\ncontent-length: (\d+)\r\n", re.IGNORECASE)
END = b"\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"

HEAD = (
    b"HTTP/1.1 200 OK\r\n"
    b"Date: Mon, 02 Feb 2026 10:00:00 GMT\r\n"
    b"openai-organization: bench\r\n"
    b"openai-processing-ms: 12\r\n"
    b"openai-version: 2020-10-01\r\n"
    b"x-ratelimit-limit-requests: 10000\r\n"
    b"x-ratelimit-remaining-requests: 9999\r\n"
    b"x-request-id: req_0123456789abcdef0123456789abcdef\r\n"
)
JSON_HEAD = HEAD + b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n"
STREAM_HEAD = (
    HEAD + b"Content-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"
)


class Pacer:
    """Writer of the chunks of all streams, each when it is due, never two at the same moment."""

    def __init__(self) -> None:
        self._due: list[tuple[int, int, Iterator[int]]] = []
        self._count = 0
        self._running: asyncio.Task[None] | None = None

    def add(self, due_ns: int, stream: Iterator[int]) -> None:
        """Start a stream; it yields the due time of the next chunk after each of its chunks."""
        self._count += 1
        heapq.heappush(self._due, (due_ns, self._count, stream))
        if self._running is None:
            self._running = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        while self._due:
            due_ns, number, stream = self._due[0]
            ahead_s = (due_ns - time.monotonic_ns()) / 1e9
            if ahead_s > 0.003:
                await asyncio.sleep(0.001)  # more streams may arrive, and be due sooner
                continue
            if ahead_s > 0:
                time.sleep(ahead_s)  # noqa: ASYNC251 - a loop's timers know whole milliseconds only
            following = next(stream, None)
            if following is None:
                heapq.heappop(self._due)
            else:
                heapq.heapreplace(self._due, (following, number, stream))
            await asyncio.sleep(0)
        self._running = None


def chunk(data: bytes) -> bytes:
    """Frame a chunk."""
    return b"%x\r\n%b\r\n" % (len(data), data)


class Answering(asyncio.Protocol):
    """Server connection: reads requests, one at a time, and responds to them."""

    def __init__(self, pacer: Pacer) -> None:
        self._pacer = pacer
        self._got = bytearray()
        self._needs = 0
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport to write to."""
        # uvloop's transports are not a subclass of it.
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Collect a request, and respond when it is complete."""
        self._got += data
        if len(self._got) < self._needs:
            return
        end = self._got.find(END)
        if end < 0:
            return
        head = bytes(self._got[: end + 4])
        length = LENGTH.search(head)
        if length is None:  # in chunks
            if not self._got.endswith(LAST_CHUNK):
                return
            whole = len(self._got)
        else:
            whole = end + 4 + int(length[1])
            if len(self._got) < whole:
                self._needs = whole
                return
        body = bytes(self._got[end + 4 : whole])
        del self._got[:whole]
        self._needs = 0
        self._answer(head, body)

    def _answer(self, head: bytes, body: bytes) -> None:
        task = TASK.search(head)
        words = task[1].decode().split() if task else []
        dialect = DIALECTS.get(words[0]) if words else None
        if dialect is None:
            self._transport.abort()
            return
        numbers = [int(word) for word in words[2:]]
        match words[1:2]:
            case ["small"]:
                self._write(dialect.small_answer(*numbers))
            case ["turn"]:
                self._write(dialect.answer(*numbers))
            case ["seen"]:
                seen = [dialect.seen(item) for item in json.loads(body)[dialect.key]]
                self._write(json.dumps({"seen": seen}).encode())
            case ["stream"]:
                number, deltas, every_us, at_ns = numbers
                stream = self._stream(dialect, number, deltas, every_us * 1000, at_ns)
                self._pacer.add(0, stream)
            case _:
                self._transport.abort()

    def _write(self, answer: bytes) -> None:
        self._transport.write(JSON_HEAD % len(answer) + answer)

    def _stream(
        self, dialect: Dialect, number: int, deltas: int, every_ns: int, due_ns: int
    ) -> Iterator[int]:
        form = dialect.delta(number)
        write = self._transport.write
        opening = dialect.opening(number)
        write(STREAM_HEAD + b"".join(map(chunk, opening)))
        for count in range(deltas):
            due_ns += every_ns
            yield due_ns
            if self._transport.is_closing():
                return
            write(chunk(form % (len(opening) + count, time.monotonic_ns())))
        due_ns += every_ns
        yield due_ns
        write(b"".join(map(chunk, dialect.closing(number, deltas))) + LAST_CHUNK)


async def main() -> None:
    """Serve until killed."""
    pacer = Pacer()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Answering(pacer), "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)  # noqa: T201
    gc.freeze()
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main())
