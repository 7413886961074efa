"""Runs: play recordings through proxies, and judge every exchange."""

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
        arrived: Every body that upstream received for it; more than one if it was healed.
        answer: The response that the client received.
        mark: The header in which the proxy reports its actions.
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
        """All faults: the verdict's, a changed response, and unexpected upstream requests."""
        found = [f"{self.name}: {fault} [{self.mark}]" for fault in self.verdict.wrong]
        if self.answer != Answer.of(self.take.exchange):
            found.append(f"{self.name}: the response was changed on its way")
        if len(self.arrived) != 1 and self.answer.status < 400:  # a refusal may be healed, once
            found.append(f"{self.name}: upstream received {len(self.arrived)} requests")
        return found

    @property
    def sealed(self) -> bool:
        """Whether all missing reasoning was recorded with a blob, so that it can be injected."""
        recording = self.take.recording
        wanted = [one for one in self.take.want or () if isinstance(one, Thought)]
        keys = {key for one in wanted for key in one.keys}
        return all(recording.emitted[key].blobs for key in keys)

    @property
    def is_lacking(self) -> bool:
        """Whether reasoning was to be injected, and was not."""
        return self.verdict.result in (Result.UNTOUCHED, Result.PARTLY)


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
    url: str,
    key: str,
    what: tuple[Take, Variant],
    *,
    rule: Rule = TOGETHER,
) -> Played:
    """Send one request through a proxy, and judge the received body by the upstream's rule."""
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
    verdict = judge(this, arrived[0], rule) if arrived else Verdict(0, wrong=["nothing received"])
    return Played(this, variant, arrived, answer, response.headers.get(MARK, ""), verdict)


async def alone(
    recordings: Sequence[Recording],
    variant: Variant,
    seed: int | None = None,
    profile: str = "auto",
) -> list[Played]:
    """Play each recording as a separate tenant, on one proxy with `memory://`."""
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
    Play each recording as `alone`, on a proxy with the profile of its vendor.

    With `auto` the fake upstream matches no vendor, because it listens on this machine.
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
    Play all recordings as conversations of one tenant, turns in mixed order.

    Turns of a conversation go to two proxies in alternation, which share a Redis and are both
    restarted half way. The order is random, and the same every time.

    Returns:
        The played exchanges, and every warning in the proxies' logs.
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
    """Return the recordings of the one tenant: with reasoning or not, replaying or dropping."""
    return [one for kind in MIXED for one in load(kind)]


def _variant(recording: Recording, variant: Variant) -> Variant:
    """Return the variant to play: only a client that replayed reasoning can drop it."""
    return variant if recording.kind == "oracle" else Variant.AS_RECORDED


def _mingled(recordings: Iterable[Recording]) -> Iterator[tuple[Recording, Exchange]]:
    """Yield all first exchanges in random order, then all second ones, and so on."""
    chance = random.Random(MINGLED_SEED)  # noqa: S311 (nothing secret)
    left = list(recordings)
    n = 0
    while left:
        chance.shuffle(left)
        yield from ((recording, recording.exchanges[n]) for recording in left)
        n += 1
        left = [recording for recording in left if len(recording.exchanges) > n]
