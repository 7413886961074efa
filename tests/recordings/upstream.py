"""Fake upstream: responds with the recorded bytes, and keeps the received bodies."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass

from aiohttp import web

from tests.recordings.wire import Wire

# Names the exchange to respond with. The proxy forwards it like any unknown header.
TAPE = "x-tape"
PIECES_MAX = 600


@dataclass(frozen=True, slots=True)
class Answer:
    """The response of the recorded upstream."""

    status: int
    content_type: str
    encoding: str
    body: bytes

    @classmethod
    def of(cls, exchange: Wire) -> "Answer":
        """Return the response of a recorded exchange."""
        return cls(exchange.status, exchange.content_type, exchange.encoding, exchange.answer)


class Upstream:
    """
    Server of recorded responses, by name.

    Attributes:
        base_url: The base URL for a client.
        answers: Name of an exchange -> its response.
        received: Name of an exchange -> every body received for it, in order.
        seed: None sends a response in one piece; a number cuts it up, each time the same way.
    """

    def __init__(self) -> None:
        """Start without any responses."""
        self.base_url = ""
        self.answers: dict[str, Answer] = {}
        self.received: dict[str, list[bytes]] = {}
        self.seed: int | None = None

    def knows(self, exchanges: Iterable[Wire]) -> None:
        """Add the responses to these exchanges."""
        self.answers |= {exchange.name: Answer.of(exchange) for exchange in exchanges}

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Respond to one request."""
        name = request.headers[TAPE]
        self.received.setdefault(name, []).append(await request.read())
        answer = self.answers[name]
        response = web.StreamResponse(status=answer.status)
        response.headers["content-type"] = answer.content_type
        if answer.encoding:
            response.headers["content-encoding"] = answer.encoding
        if self.seed is None:
            response.content_length = len(answer.body)
        await response.prepare(request)
        for piece in [answer.body] if self.seed is None else _cut(answer.body, self.seed):
            await response.write(piece)
            await asyncio.sleep(0)  # lets the reader receive this piece alone
        await response.write_eof()
        return response


def _cut(body: bytes, seed: int) -> Iterator[bytes]:
    """Cut at random, also within lines and characters; the number of pieces is limited."""
    chance = random.Random(seed ^ len(body))  # noqa: S311 (nothing secret)
    longest = max(97, 2 * len(body) // PIECES_MAX)
    at = 0
    while at < len(body):
        end = at + chance.randint(1, longest)
        yield body[at:end]
        at = end


@contextlib.asynccontextmanager
async def upstream() -> AsyncIterator[Upstream]:
    """Listen on a free port of this machine."""
    fake = Upstream()
    server = web.Server(fake.handle, access_log=None)
    runner = web.ServerRunner(server, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    fake.base_url = f"http://{host}:{port}/v1"
    try:
        yield fake
    finally:
        await runner.cleanup()
