"""Runs of recordings of the Responses API: which takes are played, and by which rule judged."""

from collections.abc import Sequence
from functools import partial

from tests.recordings import runner
from tests.recordings.responses.client import Take, Variant, take
from tests.recordings.responses.judge import RULES, TOGETHER, Verdict, judge
from tests.recordings.responses.tape import Recording, load

MIXED = ("oracle", "dropped", "plain", "stateful")
Played = runner.Played[Take, Verdict]


async def alone(
    recordings: Sequence[Recording],
    variant: Variant,
    seed: int | None = None,
    profile: str = "auto",
) -> list[Played]:
    """Play each recording as a separate tenant, on one proxy with `memory://`."""
    takes = [take(one, exchange, variant) for one in recordings for exchange in one.exchanges]
    judged = partial(judge, rule=RULES.get(profile, TOGETHER))
    return await runner.alone(takes, judged, seed=seed, profile=profile)


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
    """Play all recordings as one tenant's; only a client that replayed reasoning can drop it."""
    takes = [
        take(one, exchange, variant if one.kind == "oracle" else Variant.AS_RECORDED)
        for one in recordings
        for exchange in one.exchanges
    ]
    return await runner.one_tenant(takes, judge, store_url)


def mix() -> list[Recording]:
    """Return the recordings of the one tenant: with reasoning or not, replaying or dropping."""
    return [one for kind in MIXED for one in load(kind)]
