"""
Burst of long requests to a real proxy process, and the memory that it takes.

    python -m tests.burst COUNT BYTES [--hold] [--gzip] [--images] [--json-bytes N] [SETTING=VALUE]

It is bounded: COUNT requests once, and one minute for their responses.
"""

import argparse
import asyncio
import base64
import contextlib
import gzip
import json
from collections import Counter
from collections.abc import AsyncIterator
from random import Random
from typing import NamedTuple

from tests.patience import SOON_S
from tests.web.line import request
from tests.web.served import Served, served
from tests.web.world import eventually

__all__ = ["Burst", "burst"]

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
MARK = b"x-reasoning-replay: "
ITEM_BYTES = 5000
IMAGE_BYTES = 1_000_000


class Burst(NamedTuple):
    """
    Result of a burst.

    Attributes:
        marks: Number of responses for each value of the header `x-reasoning-replay`.
        before_bytes: Resident memory of the process before the burst.
        peak_bytes: Its peak.
        after_bytes: Its memory one second after the last response.
        cpu_s: Its CPU time.
    """

    marks: Counter[str]
    before_bytes: int
    peak_bytes: int
    after_bytes: int
    cpu_s: float


def body_of(size: int, number: int, *, has_images: bool = False) -> bytes:
    """Return a request with items of ITEM_BYTES, half of them from the model; or with images."""
    if has_images:
        return _with_images(size, number)
    text = "word " * (ITEM_BYTES // 5)
    roles = ("user", "assistant")
    items = [
        {"role": roles[n % 2], "content": f"{number} {n} {text}"}
        for n in range(max(1, size // (ITEM_BYTES + 50)))
    ]
    document = {"model": "gpt-5", "store": False, "input": items}
    return json.dumps(document, separators=(",", ":")).encode()


def _with_images(size: int, number: int) -> bytes:
    """Return a request with images of IMAGE_BYTES in base64, and an answer after each."""
    items: list[object] = []
    for n in range(max(1, size // IMAGE_BYTES)):
        pixels = Random(n).randbytes(IMAGE_BYTES * 3 // 4)  # noqa: S311 (no secret)
        data = base64.b64encode(pixels).decode()
        image = {"type": "input_image", "image_url": f"data:image/png;base64,{data}"}
        text = {"type": "input_text", "text": f"{number} {n}"}
        items += [
            {"role": "user", "content": [text, image]},
            {"role": "assistant", "content": f"I see {n}."},
        ]
    document = {"model": "gpt-5", "store": False, "input": items}
    return json.dumps(document, separators=(",", ":")).encode()


class _Upstream:
    """Upstream that reads requests without keeping them, and answers when it may."""

    def __init__(self, answer: bytes, holds: int) -> None:
        self.answer = answer
        self.left = holds
        self.may_answer = asyncio.Event()
        self.open = 0  # number of connections

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open += 1
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                left = int(head.partition(b"content-length:")[2].split(b"\r\n")[0])
                while left:
                    left -= len(await reader.read(min(left, 1 << 18)))
                self.left -= 1
                if self.left <= 0:
                    self.may_answer.set()
                await self.may_answer.wait()
                writer.write(self.answer)
                await writer.drain()
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        self.open -= 1


@contextlib.asynccontextmanager
async def _running(answer: bytes, holds: int, **settings: object) -> AsyncIterator[Served]:
    upstream = _Upstream(answer, holds)
    server = await asyncio.start_server(upstream.serve, "127.0.0.1", 0, limit=1 << 19)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    try:
        async with served(under=(), upstream_url=url, **settings) as proxy:
            await proxy.started()
            logging = asyncio.ensure_future(proxy.rest())
            try:
                yield proxy
            finally:
                logging.cancel()
                await asyncio.gather(logging, return_exceptions=True)
        await eventually(lambda: not upstream.open)
    finally:
        server.close()


async def burst(
    count: int,
    size: int,
    *,
    holds: bool = False,
    is_packed: bool = False,
    has_images: bool = False,
    answer_bytes: int = 2,
    **settings: object,
) -> Burst:
    """
    Send requests at once and return what they cost.

    Args:
        count: Number of requests.
        size: Size of each, in bytes.
        holds: Whether upstream answers only when it has all of them.
        is_packed: Whether they are sent with gzip.
        has_images: Whether they are images in base64.
        answer_bytes: Size of each response, which is JSON.
        settings: Settings of the proxy.
    """
    bodies = [body_of(size, number, has_images=has_images) for number in range(count)]
    headers = ["Authorization: Bearer sk-a", "Content-Type: application/json"]
    if is_packed:
        headers.append("Content-Encoding: gzip")
        bodies = [gzip.compress(body, 1) for body in bodies]
    requests = [request("POST", "/v1/responses", *headers, body=body) for body in bodies]
    del bodies
    answer = ANSWER % answer_bytes + b'"' + b"x" * (answer_bytes - 2) + b'"'

    async def ask(proxy: Served, data: bytes) -> str:
        port = int(proxy.url.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(data)
        await writer.drain()
        head = await reader.readuntil(b"\r\n\r\n")
        left = answer_bytes
        while left:
            left -= len(await reader.read(left))
        writer.close()
        await writer.wait_closed()
        return head.partition(MARK)[2].partition(b"\r\n")[0].decode()

    async with _running(answer, count if holds else 0, **settings) as proxy:
        before_bytes = proxy.resident_bytes
        async with asyncio.timeout(SOON_S):
            marks = Counter(await asyncio.gather(*(ask(proxy, data) for data in requests)))
        peak_bytes = proxy.peak_bytes
        await asyncio.sleep(1)
        return Burst(marks, before_bytes, peak_bytes, proxy.resident_bytes, proxy.cpu_s)


def main() -> None:
    """Run one burst, and print its result in MB."""
    parser = argparse.ArgumentParser(prog="python -m tests.burst", description=__doc__)
    parser.add_argument("count", type=int)
    parser.add_argument("size", type=int)
    parser.add_argument("--hold", action="store_true", help="upstream answers only at the end")
    parser.add_argument("--gzip", action="store_true")
    parser.add_argument("--images", action="store_true", help="images in base64")
    parser.add_argument("--json-bytes", type=int, default=2, help="size of each response")
    parser.add_argument("settings", nargs="*", metavar="SETTING=VALUE")
    given = parser.parse_intermixed_args()
    settings = dict(one.split("=", 1) for one in given.settings)
    got = asyncio.run(
        burst(
            given.count,
            given.size,
            holds=given.hold,
            is_packed=given.gzip,
            has_images=given.images,
            answer_bytes=given.json_bytes,
            **settings,
        )
    )
    before, peak, after = (round(n / 1e6) for n in got[1:4])
    memory = f"MB before {before}, peak {peak}, after {after}"
    print(f"{memory}; CPU {got.cpu_s:.1f} s; {dict(got.marks)}")  # noqa: T201


if __name__ == "__main__":
    main()
