"""The runs: recordings through proxies, and the judgement on every exchange."""

import contextlib
import random
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import dataclass

import aiohttp

from tests.e2e.proxies import ProxyProcess, proxied
from tests.recordings.client import Take, Thought, Variant, take
from tests.recordings.judge import RULES, TOGETHER, Result, Rule, Verdict, judge
from tests.recordings.tape import Exchange, Recording, load
from tests.recordings.upstream import TAPE, Answer, Upstream, upstream

__all__ = ["Played", "alone", "client", "mix", "one_tenant", "own", "play"]

MIXED = ("oracle", "dropped", "plain", "stateful")
MARK = "x-reasoning-replay"
MINGLED_SEED = 20_250_612
_SKIP = ("User-Agent", "Accept-Encoding", "Accept", "Content-Type")


@dataclass(frozen=True, slots=True)
class Played:
    """
    One exchange that was played.

    Attributes:
        arrived: Every body that upstream received for it; more than one when it was healed.
        answer: What came downstream.
        mark: What the proxy says that it did.
    """

    take: Take
    variant: Variant
    arrived: tuple[bytes, ...]
    answer: Answer
    mark: str
    verdict: Verdict

    @property
    def name(self) -> str:
        """The exchange's name."""
        return self.take.exchange.name

    @property
    def faults(self) -> list[str]:
        """Everything that must never be."""
        found = [f"{self.name}: {fault} [{self.mark}]" for fault in self.verdict.wrong]
        if self.answer != Answer.of(self.take.exchange):
            found.append(f"{self.name}: the answer was changed on its way")
        if len(self.arrived) != 1 and self.answer.status < 400:  # a refusal may be healed, once
            found.append(f"{self.name}: upstream was asked {len(self.arrived)} times")
        return found

    @property
    def sealed(self) -> bool:
        """Whether the reasoning was recorded in a form that can go back anywhere."""
        recording = self.take.recording
        wanted = [one for one in self.take.want or () if isinstance(one, Thought)]
        keys = {key for one in wanted for key in one.keys}
        return all(recording.emitted[key].blobs for key in keys)

    @property
    def is_lacking(self) -> bool:
        """Whether something was to be restored, and was not."""
        return self.verdict.result in (Result.UNTOUCHED, Result.PARTLY)


@contextlib.asynccontextmanager
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    """Open a client that sends and shows bytes as they are."""
    async with aiohttp.ClientSession(
        auto_decompress=False,
        skip_auto_headers=_SKIP,
        timeout=aiohttp.ClientTimeout(total=60),
    ) as session:
        yield session


async def play(
    session: aiohttp.ClientSession,
    fake: Upstream,
    url: str,
    key: str,
    what: tuple[Take, Variant],
    *,
    rule: Rule = TOGETHER,
) -> Played:
    """Send one request through a proxy, and judge what arrived by the upstream's rule."""
    this, variant = what
    exchange = this.exchange
    before = len(fake.received.get(exchange.name, []))
    headers = {
        **exchange.request_headers,
        "content-type": "application/json",
        "authorization": f"Bearer {key}",
        TAPE: exchange.name,
    }
    async with session.post(
        url + exchange.path.removeprefix("/v1"), data=this.body, headers=headers
    ) as response:
        answer = Answer(
            response.status,
            response.headers.get("content-type", ""),
            response.headers.get("content-encoding", ""),
            await response.read(),
        )
    arrived = tuple(fake.received.get(exchange.name, [])[before:])
    verdict = judge(this, arrived[0], rule) if arrived else Verdict(0, wrong=["nothing arrived"])
    return Played(this, variant, arrived, answer, response.headers.get(MARK, ""), verdict)


async def alone(
    recordings: Sequence[Recording],
    variant: Variant,
    seed: int | None = None,
    profile: str = "auto",
) -> list[Played]:
    """Play each recording as a tenant of its own, on one proxy with `memory://`."""
    played: list[Played] = []
    rule = RULES.get(profile, TOGETHER)
    async with (
        upstream() as fake,
        proxied(fake, upstream_profile=profile) as url,
        client() as session,
    ):
        fake.knows(recordings)
        fake.seed = seed
        for recording in recordings:
            for exchange in recording.exchanges:
                what = take(recording, exchange, variant), variant
                key = f"sk-{recording.name}"
                played.append(await play(session, fake, url, key, what, rule=rule))
    return played


async def own(recordings: Sequence[Recording], variant: Variant) -> list[Played]:
    """
    Play each recording as `alone`, on a proxy with the profile of the vendor who answered.

    Under `auto` the fake upstream is nobody's: it listens on this machine.
    """
    played: list[Played] = []
    for vendor in sorted({one.vendor for one in recordings}):
        theirs = [one for one in recordings if one.vendor == vendor]
        played += await alone(theirs, variant, profile=vendor)
    return played


async def one_tenant(
    recordings: Sequence[Recording], variant: Variant, store_url: str
) -> tuple[list[Played], list[str]]:
    """
    Play all recordings as conversations of one tenant, mingled turn by turn.

    Turns of a conversation go to two proxies in alternation, which share a Redis and are both
    restarted when half of it is over. The order is random, and the same every time.

    Returns:
        What was played, and every complaint in the proxies' logs.
    """
    played: list[Played] = []
    order = list(_mingled(recordings))
    async with (
        upstream() as fake,
        ProxyProcess(fake.base_url, store_url) as one,
        ProxyProcess(fake.base_url, store_url) as other,
        client() as session,
    ):
        fake.knows(recordings)
        for n, (recording, exchange) in enumerate(order):
            if n == len(order) // 2:
                await one.restart()
                await other.restart()
            proxy = (one, other)[exchange.n % 2]
            given = _variant(recording, variant)
            what = take(recording, exchange, given), given
            played.append(await play(session, fake, proxy.base_url, "sk-one-tenant", what))
    return played, [str(entry) for entry in one.warned + other.warned]


def mix() -> list[Recording]:
    """Return what the one tenant has: what reasons and what does not, replaying or dropping."""
    return [one for kind in MIXED for one in load(kind)]


def _variant(recording: Recording, variant: Variant) -> Variant:
    """Only where the recorded client replayed reasoning is there anything to drop."""
    return variant if recording.kind == "oracle" else Variant.AS_RECORDED


def _mingled(recordings: Iterable[Recording]) -> Iterator[tuple[Recording, Exchange]]:
    """Give all first exchanges in random order, then all second ones, and so on."""
    chance = random.Random(MINGLED_SEED)  # noqa: S311 (nothing secret)
    left = list(recordings)
    n = 0
    while left:
        chance.shuffle(left)
        yield from ((recording, recording.exchanges[n]) for recording in left)
        n += 1
        left = [recording for recording in left if len(recording.exchanges) > n]
