"""
Runner: plays the recordings of one dialect through proxies, and has every exchange judged.

A dialect brings its takes, which are exchanges as a client plays them, and its judge.
"""

import contextlib
import random
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import groupby
from typing import Generic, Protocol, TypeVar

import aiohttp

from tests.e2e.proxies import ProxyProcess, proxied
from tests.recordings.upstream import TAPE, Answer, Upstream, upstream
from tests.recordings.wire import Wire

MARK = "x-reasoning-replay"
MIXED_SEED = 20_250_612
_SKIP = ("User-Agent", "Accept-Encoding", "Accept", "Content-Type")


class Take(Protocol):
    """One exchange, as a client plays it; `body` is what the client sends."""

    @property
    def exchange(self) -> Wire:
        """The recorded exchange."""

    @property
    def body(self) -> bytes:
        """The bytes that are sent."""


class Result(StrEnum):
    """Result of one exchange."""

    INJECTED = "injected"
    PARTLY = "partly"
    UNTOUCHED = "untouched"  # nothing was injected, although something was to inject
    NOTHING_TO_DO = "nothing to do"
    WRONG = "wrong"


@dataclass(slots=True)
class Verdict:
    """
    The verdict on one exchange.

    Attributes:
        wanted, restored: Numbers of messages, or of reasoning items: to inject, and injected.
        missing: What was not injected.
        wrong: The faults; any makes the exchange WRONG.
    """

    wanted: int
    restored: int = 0
    missing: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    @property
    def result(self) -> Result:
        """The result of the exchange."""
        if self.wrong:
            return Result.WRONG
        if not self.wanted:
            return Result.NOTHING_TO_DO
        if self.restored == self.wanted:
            return Result.INJECTED
        return Result.PARTLY if self.has_some else Result.UNTOUCHED

    @property
    def has_some(self) -> bool:
        """Whether anything was injected."""
        return self.restored > 0

    @property
    def is_lacking(self) -> bool:
        """Whether reasoning was to be injected, and was not."""
        return self.result in (Result.UNTOUCHED, Result.PARTLY)


TakeT = TypeVar("TakeT", bound=Take)
VerdictT = TypeVar("VerdictT", bound=Verdict)
Judge = Callable[[TakeT, bytes], VerdictT]


@dataclass(frozen=True, slots=True)
class Played(Generic[TakeT, VerdictT]):
    """
    One exchange that was played.

    Attributes:
        arrived: Every body that upstream received for it; more than one if it was healed.
        answer: The response that the client received.
        mark: The header in which the proxy reports its actions.
    """

    take: TakeT
    verdict: VerdictT
    arrived: tuple[bytes, ...]
    answer: Answer
    mark: str

    @property
    def name(self) -> str:
        """The exchange's name."""
        return self.take.exchange.name

    @property
    def faults(self) -> list[str]:
        """All faults: the verdict's, a changed response, and unexpected upstream requests."""
        found = [f"{self.name}: {fault} [{self.mark}]" for fault in self.verdict.wrong]
        if self.answer != Answer.of(self.take.exchange):
            found.append(f"{self.name}: the response was changed on its way")
        if len(self.arrived) != 1 and self.answer.status < 400:  # a refusal may be healed, once
            found.append(f"{self.name}: upstream received {len(self.arrived)} requests")
        return found

    @property
    def is_lacking(self) -> bool:
        """Whether reasoning was to be injected, and was not."""
        return self.verdict.is_lacking


def faults(played: Iterable[Played[TakeT, VerdictT]]) -> list[str]:
    """Return all faults of the played exchanges."""
    return [fault for one in played for fault in one.faults]


@contextlib.asynccontextmanager
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    """Open a client that sends and returns bytes unchanged."""
    async with aiohttp.ClientSession(
        auto_decompress=False,
        skip_auto_headers=_SKIP,
        timeout=aiohttp.ClientTimeout(total=60),
    ) as session:
        yield session


async def play(
    session: aiohttp.ClientSession,
    fake: Upstream,
    to: tuple[str, str],
    take: TakeT,
    judge: Judge[TakeT, VerdictT],
) -> Played[TakeT, VerdictT]:
    """Send one request to a proxy, given its URL and a key, and judge the received body."""
    url, key = to
    exchange = take.exchange
    before = len(fake.received.get(exchange.name, []))
    headers = {
        **exchange.request_headers,
        "content-type": "application/json",
        "authorization": f"Bearer {key}",
        TAPE: exchange.name,
    }
    async with session.post(
        url.removesuffix("/v1") + exchange.path, data=take.body, headers=headers
    ) as response:
        answer = Answer(
            response.status,
            response.headers.get("content-type", ""),
            response.headers.get("content-encoding", ""),
            await response.read(),
        )
    arrived = tuple(fake.received.get(exchange.name, [])[before:])
    verdict = judge(take, arrived[0] if arrived else b"")
    return Played(take, verdict, arrived, answer, response.headers.get(MARK, ""))


async def alone(
    takes: Sequence[TakeT],
    judge: Judge[TakeT, VerdictT],
    *,
    seed: int | None = None,
    store_url: str = "memory://",
    profile: str = "auto",
) -> list[Played[TakeT, VerdictT]]:
    """Play each recording as a separate tenant, on one proxy."""
    played = []
    async with (
        upstream() as fake,
        proxied(fake, store_url, upstream_profile=profile) as url,
        client() as session,
    ):
        fake.knows(take.exchange for take in takes)
        fake.seed = seed
        for take in takes:
            to = url, f"sk-{take.exchange.recording}"
            played.append(await play(session, fake, to, take, judge))
    return played


async def one_tenant(
    takes: Sequence[TakeT],
    judge: Judge[TakeT, VerdictT],
    store_url: str,
    *,
    seed: int | None = None,
) -> tuple[list[Played[TakeT, VerdictT]], list[str]]:
    """
    Play all recordings as conversations of one tenant, turns in mixed order.

    Turns of a conversation go to two proxies in alternation, which share a Redis and are both
    restarted half way. The order is random, and the same every time.

    Returns:
        The played exchanges, and every warning in the proxies' logs.
    """
    played = []
    async with (
        upstream() as fake,
        ProxyProcess(fake.base_url, store_url) as one,
        ProxyProcess(fake.base_url, store_url) as other,
        client() as session,
    ):
        fake.knows(take.exchange for take in takes)
        fake.seed = seed
        for n, take in enumerate(_mixed(takes)):
            if n == len(takes) // 2:
                await one.restart()
                await other.restart()
            to = (one, other)[take.exchange.n % 2].base_url, "sk-one-tenant"
            played.append(await play(session, fake, to, take, judge))
    warned = one.warned + other.warned
    return played, [str(entry) for entry in warned if entry["event"] != "doubtful_setting"]


def _mixed(takes: Sequence[TakeT]) -> Iterator[TakeT]:
    """Yield the first takes of all recordings in random order, then all second ones, and so on."""
    chance = random.Random(MIXED_SEED)  # noqa: S311 (nothing secret)
    left = [list(group) for _, group in groupby(takes, lambda take: take.exchange.recording)]
    n = 0
    while left:
        chance.shuffle(left)
        yield from (recording[n] for recording in left)
        n += 1
        left = [recording for recording in left if len(recording) > n]
