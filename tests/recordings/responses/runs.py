"""Runs: play recordings through proxies, and judge every exchange."""

from collections.abc import Sequence
from dataclasses import dataclass

import aiohttp

from tests.e2e.proxies import ProxyProcess, proxied
from tests.recordings.delivery import Delivery, client, deliver, mingled
from tests.recordings.responses.client import Take, Thought, Variant, take
from tests.recordings.responses.judge import RULES, TOGETHER, Result, Rule, Verdict, judge
from tests.recordings.responses.tape import Recording, load
from tests.recordings.upstream import Upstream, upstream

__all__ = ["Played", "alone", "mix", "one_tenant", "own", "play"]

MIXED = ("oracle", "dropped", "plain", "stateful")


@dataclass(frozen=True, slots=True)
class Played:
    """
    One exchange that was played.

    Attributes:
        delivery: The request on its way, and its response.
    """

    take: Take
    variant: Variant
    delivery: Delivery
    verdict: Verdict

    @property
    def name(self) -> str:
        """The exchange's name."""
        return self.take.exchange.name

    @property
    def arrived(self) -> tuple[bytes, ...]:
        """Every body that upstream received."""
        return self.delivery.arrived

    @property
    def faults(self) -> list[str]:
        """All faults: the verdict's, a changed response, and unexpected upstream requests."""
        mark = self.delivery.mark
        wrong = [f"{self.name}: {fault} [{mark}]" for fault in self.verdict.wrong]
        return wrong + self.delivery.faults

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
    sent = await deliver(session, fake, url, key, (this.exchange, this.body))
    verdict = Verdict(0, wrong=["nothing received"])
    if sent.arrived:
        verdict = judge(this, sent.arrived[0], rule)
    return Played(this, variant, sent, verdict)


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
    order = [(one, one.exchanges[n]) for one, n in mingled(recordings)]
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
