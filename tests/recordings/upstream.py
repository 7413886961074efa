"""A fake upstream that answers with the recorded bytes, and keeps what it was sent."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass

from aiohttp import web

from tests.recordings.tape import Exchange, Recording

__all__ = ["TAPE", "Answer", "Upstream", "upstream"]

# Names the exchange whose answer is wanted. The proxy knows nothing of it, and passes it on.
TAPE = "x-tape"
PIECES_MAX = 600


@dataclass(frozen=True, slots=True)
class Answer:
    """What the recorded upstream answered."""

    status: int
    content_type: str
    encoding: str
    body: bytes

    @classmethod
    def of(cls, exchange: Exchange) -> "Answer":
        """Return the answer of a recorded exchange."""
        return cls(exchange.status, exchange.content_type, exchange.encoding, exchange.answer)


class Upstream:
    """
    Answers by name.

    Attributes:
        base_url: What a client takes as its base URL.
        answers: Name of an exchange -> what is answered to it.
        received: Name of an exchange -> every body that came for it, in order.
        seed: None answers in one piece; any number cuts answers up, each time the same way.
    """

    def __init__(self) -> None:
        """Know no answers yet."""
        self.base_url = ""
        self.answers: dict[str, Answer] = {}
        self.received: dict[str, list[bytes]] = {}
        self.seed: int | None = None

    def knows(self, recordings: Iterable[Recording]) -> None:
        """Be able to answer every exchange of these recordings."""
        for recording in recordings:
            for exchange in recording.exchanges:
                self.answers[exchange.name] = Answer.of(exchange)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request."""
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
            await asyncio.sleep(0)  # whoever reads shall see this piece by itself
        await response.write_eof()
        return response


def _cut(body: bytes, seed: int) -> Iterator[bytes]:
    """Cut at random, also within lines and characters; few enough pieces to be quick about it."""
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
