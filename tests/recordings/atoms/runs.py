"""Runs of recordings that are judged by atoms: which takes are played, and by which adapter."""

from collections.abc import Sequence
from functools import partial
from typing import get_args

from reasoning_replay.settings.model import Settings

from tests.recordings import runner
from tests.recordings.atoms.adapter import Adapter
from tests.recordings.atoms.client import Take, Variant, take
from tests.recordings.atoms.judge import Verdict, judge, unsteady
from tests.recordings.atoms.tape import Recording, load

KINDS = ("oracle", "dropped", "foreign", "error")
Played = runner.Played[Take, Verdict]


def _takes(adapter: Adapter, recordings: Sequence[Recording], variant: Variant) -> list[Take]:
    return [
        take(adapter, one, exchange, variant) for one in recordings for exchange in one.exchanges
    ]


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
    takes, judged = _takes(adapter, recordings, variant), partial(judge, adapter)
    return await runner.alone(takes, judged, seed=seed, store_url=store_url, profile=profile)


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
    """Play all recordings as one tenant's, with responses that are cut at random."""
    takes = _takes(adapter, recordings, variant)
    return await runner.one_tenant(takes, partial(judge, adapter), store_url, seed=1)


def mix(adapter: Adapter) -> list[Recording]:
    """Return the recordings of the one tenant: replaying, dropping, and begun elsewhere."""
    return [one for kind in KINDS for one in load(adapter, kind)]


def changing(played: Sequence[Played]) -> list[str]:
    """Name the messages to which later requests of a conversation did not add the same."""
    return unsteady((one.take, one.verdict) for one in played)
