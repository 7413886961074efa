"""
Runner: plays recordings through proxies, and has every exchange judged.

An adapter and a variant say what the client sends, and what is right.
"""

import contextlib
import random
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import get_args

import aiohttp
from reasoning_replay.settings.model import Settings

from tests.e2e.proxies import ProxyProcess, proxied
from tests.recordings.adapter import Adapter
from tests.recordings.client import Take, Variant, take
from tests.recordings.judge import Verdict, judge, unsteady
from tests.recordings.tape import Recording, load
from tests.recordings.upstream import TAPE, Answer, Upstream, upstream

MARK = "x-reasoning-replay"
MIXED_SEED = 20_250_612
_SKIP = ("User-Agent", "Accept-Encoding", "Accept", "Content-Type")
# Recordings of the one tenant: replaying, dropping, without reasoning, and begun elsewhere.
MIXED = ("oracle", "dropped", "foreign", "error")
MIXED_RESPONSES = ("oracle", "dropped", "plain", "stateful")


@dataclass(frozen=True, slots=True)
class Played:
    """
    One exchange that was played.

    Attributes:
        arrived: Every body that upstream received for it; more than one if it was healed.
        answer: The response that the client received.
        mark: The header in which the proxy reports its actions.
    """

    take: Take
    verdict: Verdict
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


def faults(played: Iterable[Played]) -> list[str]:
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
    this: Take,
    adapter: Adapter,
) -> Played:
    """Send one request to a proxy, given its URL and a key, and judge the received body."""
    url, key = to
    exchange = this.exchange
    before = len(fake.received.get(exchange.name, []))
    headers = {
        **exchange.request_headers,
        "content-type": "application/json",
        "authorization": f"Bearer {key}",
        TAPE: exchange.name,
    }
    async with session.post(
        url.removesuffix("/v1") + exchange.path, data=this.body, headers=headers
    ) as response:
        answer = Answer(
            response.status,
            response.headers.get("content-type", ""),
            response.headers.get("content-encoding", ""),
            await response.read(),
        )
    arrived = tuple(fake.received.get(exchange.name, [])[before:])
    verdict = judge(adapter, this, arrived[0] if arrived else b"")
    return Played(this, verdict, arrived, answer, response.headers.get(MARK, ""))


async def alone(
    adapter: Adapter,
    recordings: Sequence[Recording],
    variant: Variant = Variant.DROPPED,
    *,
    seed: int | None = None,
    store_url: str = "memory://",
    profile: str = "auto",
) -> list[Played]:
    """Play each recording as a separate tenant, on one proxy."""
    played = []
    async with (
        upstream() as fake,
        proxied(fake, store_url, upstream_profile=profile) as url,
        client() as session,
    ):
        fake.knows(exchange for one in recordings for exchange in one.exchanges)
        fake.seed = seed
        for one in recordings:
            for exchange in one.exchanges:
                this = take(adapter, one, exchange, variant)
                to = url, f"sk-{one.name}"
                played.append(await play(session, fake, to, this, adapter.under(profile)))
    return played


async def own(
    adapter: Adapter, recordings: Sequence[Recording], variant: Variant = Variant.DROPPED
) -> list[Played]:
    """
    Play each recording as `alone`, on a proxy with its upstream's profile, if that exists.

    With `auto` the fake upstream matches no vendor, because it listens on this machine.
    """
    known = get_args(Settings.model_fields["upstream_profile"].annotation)
    played: list[Played] = []
    for profile in sorted({one.profile for one in recordings} & {*known}):
        theirs = [one for one in recordings if one.profile == profile]
        played += await alone(adapter, theirs, variant, profile=profile)
    return played


async def one_tenant(
    adapter: Adapter, store_url: str, variant: Variant = Variant.DROPPED
) -> tuple[list[Played], list[str]]:
    """
    Play all recordings as conversations of one tenant, turns in mixed order.

    Turns of a conversation go to two proxies in alternation, which share a Redis and are both
    restarted half way. The order is random, and the same every time. Responses are cut at random.

    Returns:
        The played exchanges, and every warning in the proxies' logs.
    """
    takes = [
        take(adapter, one, exchange, variant if _drops(adapter, one) else Variant.REPLAYED)
        for one in mix(adapter)
        for exchange in one.exchanges
    ]
    played = []
    async with (
        upstream() as fake,
        ProxyProcess(fake.base_url, store_url) as one,
        ProxyProcess(fake.base_url, store_url) as other,
        client() as session,
    ):
        fake.knows(this.exchange for this in takes)
        fake.seed = 1
        for n, this in enumerate(_mixed(takes)):
            if n == len(takes) // 2:
                await one.restart()
                await other.restart()
            to = (one, other)[this.exchange.n % 2].base_url, "sk-one-tenant"
            played.append(await play(session, fake, to, this, adapter))
    warned = one.warned + other.warned
    return played, [str(entry) for entry in warned if entry["event"] != "doubtful_setting"]


def mix(adapter: Adapter) -> list[Recording]:
    """Return the recordings of the one tenant."""
    kinds = MIXED_RESPONSES if adapter.is_owed else MIXED
    return [one for kind in kinds for one in load(adapter, kind)]


def changing(played: Iterable[Played]) -> list[str]:
    """Name the messages to which later requests of a conversation did not add the same."""
    return unsteady((one.take, one.verdict) for one in played)


def _drops(adapter: Adapter, recording: Recording) -> bool:
    """Return whether a client drops more than it did; of items, only those that it replayed."""
    return recording.kind == "oracle" or not adapter.is_owed


def _mixed(takes: Sequence[Take]) -> Iterator[Take]:
    """Yield the first takes of all recordings in random order, then all second ones, and so on."""
    chance = random.Random(MIXED_SEED)  # noqa: S311 (nothing secret)
    left = [list(group) for _, group in groupby(takes, lambda one: one.exchange.recording)]
    n = 0
    while left:
        chance.shuffle(left)
        yield from (recording[n] for recording in left)
        n += 1
        left = [recording for recording in left if len(recording) > n]
