"""Replay of real traffic: dropped reasoning is injected, and nothing else is changed."""

import pytest

from tests.fast_lane import slow
from tests.recordings import runner
from tests.recordings.atoms.client import Variant
from tests.recordings.atoms.runs import Played, alone, changing, mix, one_tenant, own
from tests.recordings.atoms.table import ADAPTERS, excuses
from tests.recordings.atoms.tape import load
from tests.recordings.runner import Result
from tests.redis_server import RedisServer

pytestmark = pytest.mark.usefixtures("recordings")

DIALECTS = sorted(ADAPTERS)


def faults(played: list[Played]) -> list[str]:
    """Return all faults of the played exchanges, and of the conversations as a whole."""
    return runner.faults(played) + changing(played)


def check(name: str, run: str, played: list[Played]) -> None:
    """Check one run: nothing is wrong, and all is injected but what is known not to be."""
    adapter, known = ADAPTERS[name]
    named = {**known.alone, **(known.one_tenant if run == "one tenant" else {})}
    count = known.injected[run]

    assert played
    assert faults(played) == []
    if count is None:  # the proxy does not speak the dialect
        return
    lacking = {one.name for one in played if one.is_lacking}
    names = {one.name for one in played}
    every = {exchange.name for one in mix(adapter) for exchange in one.exchanges}
    if every & {**known.alone, **known.one_tenant}.keys():
        injected = [one for one in played if one.verdict.result is Result.INJECTED]
        assert lacking == names & set(named)
        assert len(injected) == count
    else:  # other recordings
        assert lacking == set(excuses(adapter, played, mix(adapter)))


@pytest.mark.parametrize("name", DIALECTS)
async def test_a_recording_alone_is_restored(name: str) -> None:
    """Upstream receives the reasoning that the real client once sent."""
    adapter = ADAPTERS[name][0]

    check(name, "alone", await alone(adapter, load(adapter, "oracle")))


@slow
@pytest.mark.parametrize("name", DIALECTS)
async def test_conversations_of_one_tenant_are_not_confused(
    name: str, own_redis: RedisServer
) -> None:
    """With mixed turns, cut streams, two proxies and a restart, each gets its own reasoning."""
    adapter = ADAPTERS[name][0]
    played, complaints = await one_tenant(adapter, mix(adapter), own_redis.url)

    check(name, "one tenant", played)
    assert complaints == []


@slow
@pytest.mark.parametrize("name", DIALECTS)
async def test_streams_may_be_cut_anywhere(name: str) -> None:
    """The same reasoning is injected if every response arrives in random pieces."""
    adapter = ADAPTERS[name][0]

    check(name, "responses in pieces", await alone(adapter, load(adapter, "oracle"), seed=1))


@slow
@pytest.mark.parametrize("name", DIALECTS)
async def test_a_cut_head_makes_nothing_wrong(name: str, own_redis: RedisServer) -> None:
    """If the client forgets its first messages, each conversation still gets only its own."""
    adapter, known = ADAPTERS[name]
    single = await alone(adapter, load(adapter, "oracle"), Variant.HEAD_CUT)
    mixed, complaints = await one_tenant(adapter, mix(adapter), own_redis.url, Variant.HEAD_CUT)

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
    adapter = ADAPTERS[name][0]
    played = await alone(adapter, load(adapter, "oracle"), store_url=own_redis.url)

    check(name, "redis", played)


@slow
@pytest.mark.parametrize("name", DIALECTS)
async def test_nothing_is_wrong_under_the_vendors_profile(name: str) -> None:
    """The profile of a vendor changes what is injected, never what is right."""
    adapter = ADAPTERS[name][0]
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


@pytest.mark.parametrize("name", DIALECTS)
async def test_requests_with_replayed_reasoning_are_only_completed(name: str) -> None:
    """What the client replays stays; a member that upstream emitted is added if it is lacking."""
    adapter = ADAPTERS[name][0]
    played = await alone(adapter, load(adapter, "oracle"), Variant.REPLAYED)

    assert played
    assert faults(played) == []
    assert {
        one.name.partition("-")[0]
        for one in played
        if not one.take.lacks and one.arrived != (one.take.exchange.request,)
    } == COMPLETED.get(name, set())


@pytest.mark.parametrize("kind", ["dropped", "foreign", "error"])
@pytest.mark.parametrize("name", DIALECTS)
async def test_other_clients_pass(name: str, kind: str) -> None:
    """Requests of clients that drop reasoning, or began elsewhere, and refusals pass unharmed."""
    adapter = ADAPTERS[name][0]
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
