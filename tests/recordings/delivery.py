"""Delivery: one request sent through a proxy, its response, and the bodies upstream received."""

import contextlib
import random
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import aiohttp

from tests.recordings.upstream import TAPE, Answer, Upstream
from tests.recordings.wire import Recorded, Wire

__all__ = ["Delivery", "client", "deliver", "mingled"]

MARK = "x-reasoning-replay"
MINGLED_SEED = 20_250_612
_SKIP = ("User-Agent", "Accept-Encoding", "Accept", "Content-Type")
RecordedT = TypeVar("RecordedT", bound=Recorded)


@dataclass(frozen=True, slots=True)
class Delivery:
    """
    One request that was sent through a proxy.

    Attributes:
        arrived: Every body that upstream received for it; more than one if it was healed.
        answer: The response that the client received.
        mark: The header in which the proxy reports its actions.
    """

    exchange: Wire
    arrived: tuple[bytes, ...]
    answer: Answer
    mark: str

    @property
    def faults(self) -> list[str]:
        """A changed response, and unexpected upstream requests."""
        name = self.exchange.name
        found = []
        if self.answer != Answer.of(self.exchange):
            found.append(f"{name}: the response was changed on its way")
        if len(self.arrived) != 1 and self.answer.status < 400:  # a refusal may be healed, once
            found.append(f"{name}: upstream received {len(self.arrived)} requests")
        return found


@contextlib.asynccontextmanager
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    """Open a client that sends and returns bytes unchanged."""
    async with aiohttp.ClientSession(
        auto_decompress=False,
        skip_auto_headers=_SKIP,
        timeout=aiohttp.ClientTimeout(total=60),
    ) as session:
        yield session


async def deliver(
    session: aiohttp.ClientSession, fake: Upstream, url: str, key: str, what: tuple[Wire, bytes]
) -> Delivery:
    """Send a body in place of an exchange's recorded request, through a proxy."""
    exchange, body = what
    before = len(fake.received.get(exchange.name, []))
    headers = {
        **exchange.request_headers,
        "content-type": "application/json",
        "authorization": f"Bearer {key}",
        TAPE: exchange.name,
    }
    async with session.post(
        url + exchange.path.removeprefix("/v1"), data=body, headers=headers
    ) as response:
        answer = Answer(
            response.status,
            response.headers.get("content-type", ""),
            response.headers.get("content-encoding", ""),
            await response.read(),
        )
    arrived = tuple(fake.received.get(exchange.name, [])[before:])
    return Delivery(exchange, arrived, answer, response.headers.get(MARK, ""))


def mingled(recordings: Iterable[RecordedT]) -> Iterator[tuple[RecordedT, int]]:
    """Yield all first exchanges in random order, then all second ones, and so on, by index."""
    chance = random.Random(MINGLED_SEED)  # noqa: S311 (nothing secret)
    left = list(recordings)
    n = 0
    while left:
        chance.shuffle(left)
        yield from ((recording, n) for recording in left)
        n += 1
        left = [recording for recording in left if len(recording.exchanges) > n]
