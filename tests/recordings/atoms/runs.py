"""Runs: play the recordings of one dialect through proxies, and judge every exchange."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

import aiohttp
from reasoning_replay.settings.model import Settings

from tests.e2e.proxies import ProxyProcess, proxied
from tests.recordings.atoms.adapter import Adapter
from tests.recordings.atoms.client import Take, Variant, take
from tests.recordings.atoms.judge import Result, Verdict, judge, unsteady
from tests.recordings.atoms.tape import Recording, load
from tests.recordings.delivery import Delivery, client, deliver, mingled
from tests.recordings.upstream import Upstream, upstream

__all__ = ["KINDS", "Played", "alone", "changing", "mix", "one_tenant", "own"]

KINDS = ("oracle", "dropped", "foreign", "error")


@dataclass(frozen=True, slots=True)
class Played:
    """One exchange that was played."""

    take: Take
    delivery: Delivery
    verdict: Verdict

    @property
    def name(self) -> str:
        """The exchange's name."""
        return self.take.exchange.name

    @property
    def faults(self) -> list[str]:
        """All faults: the verdict's, a changed response, and unexpected upstream requests."""
        mark = self.delivery.mark
        wrong = [f"{self.name}: {fault} [{mark}]" for fault in self.verdict.wrong]
        return wrong + self.delivery.faults

    @property
    def is_lacking(self) -> bool:
        """Whether reasoning was to be injected, and was not; or nothing could be stripped."""
        return self.verdict.result in (Result.UNTOUCHED, Result.PARTLY) or self.take.is_held


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
    played: list[Played] = []
    async with (
        upstream() as fake,
        proxied(fake, store_url, upstream_profile=profile) as url,
        client() as session,
    ):
        fake.knows(recordings)
        fake.seed = seed
        for recording in recordings:
            for exchange in recording.exchanges:
                this = take(adapter, recording, exchange, variant)
                played.append(
                    await _play(adapter, session, fake, url, (this, f"sk-{recording.name}"))
                )
    return played


async def own(adapter: Adapter, recordings: Sequence[Recording]) -> list[Played]:
    """
    Play each recording as `alone`, on a proxy with its upstream's profile, if that exists.

    With `auto` the fake upstream matches no vendor, because it listens on this machine.
    """
    known = get_args(Settings.model_fields["upstream_profile"].annotation)
    played: list[Played] = []
    for profile in sorted({one.profile for one in recordings} & set(known)):
        theirs = [one for one in recordings if one.profile == profile]
        played += await alone(adapter, theirs, profile=profile)
    return played


async def one_tenant(
    adapter: Adapter,
    recordings: Sequence[Recording],
    store_url: str,
    variant: Variant = Variant.DROPPED,
) -> tuple[list[Played], list[str]]:
    """
    Play all recordings as conversations of one tenant, turns in mixed order.

    Turns of a conversation go to two proxies in alternation, which share a Redis and are both
    restarted half way; responses are cut at random. The order is the same every time.

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
        fake.seed = 1
        for n, (recording, exchange) in enumerate(order):
            if n == len(order) // 2:
                await one.restart()
                await other.restart()
            proxy = (one, other)[exchange.n % 2]
            this = take(adapter, recording, exchange, variant)
            played.append(
                await _play(adapter, session, fake, proxy.base_url, (this, "sk-one-tenant"))
            )
    return played, [str(entry) for entry in one.warned + other.warned]


def mix(adapter: Adapter) -> list[Recording]:
    """Return the recordings of the one tenant: replaying, dropping, and begun elsewhere."""
    return [one for kind in KINDS for one in load(adapter, kind)]


def changing(played: Sequence[Played]) -> list[str]:
    """Name the messages to which later requests of a conversation did not add the same."""
    return unsteady((one.take, one.verdict) for one in played)


async def _play(
    adapter: Adapter,
    session: aiohttp.ClientSession,
    fake: Upstream,
    url: str,
    what: tuple[Take, str],
) -> Played:
    """Send one request through a proxy with a key, and judge the received body."""
    this, key = what
    sent = await deliver(session, fake, url, key, (this.exchange, this.body))
    verdict = Verdict(0, wrong=["nothing received"])
    if sent.arrived:
        verdict = judge(adapter, this, sent.arrived[0])
    return Played(this, sent, verdict)
