"""Replay of real traffic: dropped reasoning is injected, and nothing else is changed."""

import pytest

from tests.fast_lane import IS_EVERY, slow
from tests.recordings import runner
from tests.recordings.client import Variant
from tests.recordings.judge import Result
from tests.recordings.reasons import Reason
from tests.recordings.runner import Played, alone, changing, mix, one_tenant, own
from tests.recordings.table import ADAPTERS, DROPPING, KNOWN, excuses
from tests.recordings.tape import load
from tests.redis_server import RedisServer

# A run plays hundreds of exchanges: a busy machine is no fault.
pytestmark = [pytest.mark.usefixtures("recordings"), pytest.mark.timeout(900)]

DIALECTS = sorted(ADAPTERS)
AMBIGUOUS = (Reason.TWIN, Reason.LOOKALIKE)
OF_MESSAGES = [name for name in DIALECTS if name != "responses"]
# Only items of Responses have ids that a client may drop. One variant of each in the fast lane.
PLAYED = [
    (name, variant)
    for name in DIALECTS
    for variant in (DROPPING if IS_EVERY else DROPPING[:1])
    if name == "responses" or variant is Variant.DROPPED
]


def faults(played: list[Played]) -> list[str]:
    """Return all faults of the played exchanges, and of the conversations as a whole."""
    return runner.faults(played) + changing(played)


def check(name: str, run: str, played: list[Played], variant: Variant = Variant.DROPPED) -> None:
    """Check one run: nothing is wrong, and all is injected but what is known not to be."""
    adapter, known = ADAPTERS[name], KNOWN[name]
    mixed = {**known.one_tenant, **(known.ids_dropped if variant.drops_ids else {})}
    named = {**known.alone, **(mixed if run == "one tenant" else {})}
    count = known.injected.get(run)
    excused = excuses(adapter, played, mix(adapter) if run == "one tenant" else ())
    lacking = {one.name for one in played if one.is_lacking}
    names = {one.name for one in played}

    assert played
    assert faults(played) == []
    assert lacking <= set(excused)
    if not names & {**known.alone, **known.one_tenant}.keys():
        return  # other recordings
    if count is not None:
        assert lacking == names & set(named)
        assert sum(one.verdict.result is Result.INJECTED for one in played) == count
    else:
        assert {name for name in lacking if excused[name] in AMBIGUOUS} == names & set(named)


@pytest.mark.parametrize(("name", "variant"), PLAYED)
async def test_a_recording_alone_is_restored(name: str, variant: Variant) -> None:
    """Upstream receives the reasoning that the real client once sent."""
    adapter = ADAPTERS[name]

    check(name, "alone", await alone(adapter, load(adapter, "oracle"), variant), variant)


@slow
@pytest.mark.parametrize(("name", "variant"), PLAYED)
async def test_conversations_of_one_tenant_are_not_confused(
    name: str, variant: Variant, own_redis: RedisServer
) -> None:
    """With mixed turns, cut streams, two proxies and a restart, each gets its own reasoning."""
    played, complaints = await one_tenant(ADAPTERS[name], own_redis.url, variant)

    check(name, "one tenant", played, variant)
    assert complaints == []


@slow
@pytest.mark.parametrize(("name", "variant"), PLAYED)
async def test_streams_may_be_cut_anywhere(name: str, variant: Variant) -> None:
    """The same reasoning is injected if every response arrives in random pieces."""
    adapter = ADAPTERS[name]
    played = await alone(adapter, load(adapter, "oracle"), variant, seed=1)

    check(name, "responses in pieces", played, variant)


@slow
@pytest.mark.parametrize("name", OF_MESSAGES)
async def test_a_cut_head_makes_nothing_wrong(name: str, own_redis: RedisServer) -> None:
    """If the client forgets its first messages, each conversation still gets only its own."""
    adapter, known = ADAPTERS[name], KNOWN[name]
    single = await alone(adapter, load(adapter, "oracle"), Variant.HEAD_CUT)
    mixed, complaints = await one_tenant(adapter, own_redis.url, Variant.HEAD_CUT)

    assert faults(single) == []
    assert faults(mixed) == []
    assert complaints == []
    lacking = {one.name for one in single if one.is_lacking}
    assert lacking == set(excuses(adapter, single))
    if {one.name for one in single} & set(known.alone):
        assert lacking - set(known.alone) == set(known.head_cut)


@slow
@pytest.mark.parametrize("name", DIALECTS)
async def test_a_store_of_redis_restores_the_same(name: str, own_redis: RedisServer) -> None:
    """The same reasoning is injected if it is kept in Redis."""
    adapter = ADAPTERS[name]
    played = await alone(adapter, load(adapter, "oracle"), store_url=own_redis.url)

    check(name, "redis", played)


@slow
@pytest.mark.parametrize("name", OF_MESSAGES)
async def test_nothing_is_wrong_under_the_vendors_profile(name: str) -> None:
    """The profile of a vendor changes what is injected, never what is right."""
    adapter = ADAPTERS[name]
    played = await own(adapter, load(adapter, "oracle"))

    assert played
    assert faults(played) == []


# Recordings whose client sent `reasoning_content` alone, where details were emitted as well, and
# those whose client lost a part: the start of a stream, or a member of an entry.
COMPLETED = {
    "chat": {
        *("049", "061", "112", "115", "116", "118"),
        *("073", "075", "083", "096", "126", "130"),
    }
}


@pytest.mark.parametrize("name", OF_MESSAGES)
async def test_requests_with_replayed_reasoning_are_only_completed(name: str) -> None:
    """What the client replays stays; a member that upstream emitted is added if it is lacking."""
    adapter = ADAPTERS[name]
    played = await alone(adapter, load(adapter, "oracle"), Variant.REPLAYED)

    assert played
    assert faults(played) == []
    assert {
        one.name.partition("-")[0]
        for one in played
        if not one.take.lacks and one.arrived != (one.take.exchange.request,)
    } == COMPLETED.get(name, set())


@pytest.mark.parametrize("kind", ["dropped", "foreign", "error"])
@pytest.mark.parametrize("name", OF_MESSAGES)
async def test_other_clients_pass(name: str, kind: str) -> None:
    """Requests of clients that drop reasoning, or began elsewhere, and refusals pass unharmed."""
    adapter = ADAPTERS[name]
    recordings = load(adapter, kind)
    if not recordings:
        pytest.skip(f"no recordings of {name} are of this kind")
    played = await alone(adapter, recordings)

    if kind == "dropped":
        check(name, kind, played)
    else:
        assert played
        assert faults(played) == []
        assert all(one.arrived[0] == one.take.exchange.request for one in played)
