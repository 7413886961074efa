"""Replay of real conversations: dropped reasoning is injected, and nothing else is changed."""

from collections.abc import Container

import pytest

from tests.fast_lane import first, slow
from tests.recordings.responses.client import Piece, Thought, Variant, take, with_reasoning
from tests.recordings.responses.heads import is_unproved
from tests.recordings.responses.runs import Played, alone, mix, one_tenant, own
from tests.recordings.responses.tape import Key, load
from tests.recordings.responses.twins import ambiguous, twins
from tests.recordings.runner import Result, faults
from tests.redis_server import RedisServer

pytestmark = pytest.mark.usefixtures("recordings")

DROPPING: list[Variant] = [variant for variant in Variant if variant is not Variant.AS_RECORDED]


def lacking(played: list[Played], variant: Variant, named: Container[str] = ()) -> set[str]:
    """
    Return the exchanges that lack reasoning although their own client replayed all of it.

    A text that begins the request counts only if something proves whose it is, or if it is named.
    """
    return {
        one.name
        for one in played
        if one.take.recording.kind == "oracle" and one.is_lacking
        if one.name in named or not is_unproved(one, variant)
    }


@pytest.mark.parametrize("seed", [None, 1], ids=["whole responses", "responses in pieces"])
@pytest.mark.parametrize("variant", first(1, DROPPING))
async def test_a_recording_alone_is_restored(variant: Variant, seed: int | None) -> None:
    """Upstream receives the input that the real API accepted, whatever the client drops."""
    played = await alone(load("oracle"), variant, seed)

    assert faults(played) == []
    assert lacking(played, variant) == set()
    assert Result.INJECTED in {one.verdict.result for one in played}


@pytest.mark.parametrize("variant", DROPPING)
async def test_a_recording_is_restored_under_its_vendors_profile(variant: Variant) -> None:
    """The same, with ids as the vendor's rule demands."""
    played = await own(load("oracle"), variant)

    assert faults(played) == []
    assert lacking(played, variant) == set()
    assert Result.INJECTED in {one.verdict.result for one in played}


@slow
@pytest.mark.parametrize("variant", DROPPING)
async def test_conversations_of_one_tenant_are_not_confused(
    variant: Variant, own_redis: RedisServer
) -> None:
    """With mixed turns, two proxies and a restart, each conversation gets its own reasoning."""
    played, complaints = await one_tenant(mix(), variant, own_redis.url)

    assert faults(played) == []
    # Another set of recordings may be played.
    named = {one.name for one in played} & set(ambiguous(variant))
    assert lacking(played, variant, named) == named
    assert complaints == []


@pytest.mark.parametrize("variant", DROPPING)
def test_every_ambiguous_exchange_has_a_twin(variant: Variant) -> None:
    """For every excused exchange, another conversation of the tenant has the same content."""
    named = ambiguous(variant)
    takes = [
        take(recording, exchange, variant)
        for recording in load("oracle")
        for exchange in recording.exchanges
        if exchange.name in named
    ]

    assert [this.exchange.name for this in takes if not twins(this, mix(), variant)] == []


def test_the_computed_input_equals_the_recorded_one() -> None:
    """
    In every recorded input with reasoning, it stands where the tests compute its place.

    Dropping clients are judged by the computed places, because their recorded inputs have no
    reasoning.
    """
    for recording in load("oracle"):
        for exchange in recording.exchanges:
            want = list(take(recording, exchange, Variant.IDS_KEPT).want or ())
            pieces = [one for one in want if isinstance(one, Piece)]

            assert places(with_reasoning(recording, pieces)) == places(want)


def places(want: list[Piece | Thought]) -> list[Piece | frozenset[Key]]:
    """Return an expected input without the labels of its reasoning."""
    return [one.keys if isinstance(one, Thought) else one for one in want]
