"""Seen: the reasoning that upstream received before an item stays the same in later requests."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from reasoning_replay.core.dialects.responses.request import read_request
from reasoning_replay.core.history.matching.matches import match_items, match_refused
from reasoning_replay.core.history.seen import RUNS_MAX, MatchedRun, Seen, recorded, seen_of
from reasoning_replay.core.history.turns import Turn

from tests.core.world import (
    Item,
    World,
    body,
    call,
    message,
    nameless,
    output,
    reasoning,
    reasons,
    user,
)

ASKS = [user(f"Question number {n}, which nobody else would ask in these words?") for n in range(9)]
SAYS = [message(f"{n}", f"Answer number {n}, which nobody else would give.") for n in range(9)]
DEEDS = [call(f"{n}") for n in range(9)]


def chat(turns: int) -> list[Item]:
    """Return a chat without ids, up to the next question."""
    pairs = zip(ASKS[:turns], map(nameless, SAYS), strict=False)
    return [*(item for pair in pairs for item in pair), ASKS[turns]]


def loop(turns: int) -> list[Item]:
    """Return a tool loop with ids."""
    return [ASKS[0], *(item for deed in DEEDS[:turns] for item in (deed, output(deed)))]


def take_away(world: World, turn: Turn) -> None:
    """Remove a turn from the world for a while."""
    del world.turns[turn.id]


@pytest.mark.parametrize(("history", "emitted"), [(chat, SAYS), (loop, DEEDS)])
def test_missed_reasoning_stays_missed(history: object, emitted: list[Item]) -> None:
    """A turn that was saved too late for one request is not injected in later requests either."""
    assert callable(history)
    world = World()
    for n in range(2):
        world.learn(body(history(n)), [reasoning(f"{n}"), emitted[n]])
    late = list(world.turns.values())[1]
    take_away(world, late)
    assert reasons(world.seen(body(history(2)))) == ["0"]
    world.learn(body(history(2)), [reasoning("2"), emitted[2]])
    world.keep(late)

    assert reasons(world.seen(body(history(3)))) == ["0", "2"]
    world.learn(body(history(3)), [reasoning("3"), emitted[3]])
    assert reasons(world.seen(body(history(4)))) == ["0", "2", "3"]


def test_a_refusal_lets_missed_reasoning_be_matched_again() -> None:
    """If upstream refuses the request without it, the match is decided anew from then on."""
    world = World()
    for n in range(2):
        world.learn(body(loop(n)), [reasoning(f"{n}"), DEEDS[n]])
    late = list(world.turns.values())[1]
    take_away(world, late)
    world.learn(body(loop(2)), [reasoning("2"), DEEDS[2]])
    world.keep(late)
    request = read_request(body(loop(3)), {})
    found = world.recall(request)

    assert len(match_items(request, found).matches) == 2
    assert len(match_refused(request, found).matches) == 3

    cured = list(world.turns.values())[1]
    world.keep(structs.replace(cured, seen=None))
    assert reasons(world.seen(body(loop(3)))) == ["0", "1", "2"]


def test_a_trimmed_conversation_is_decided_as_far_as_known() -> None:
    """The oldest turns were trimmed, together with the decisions that they recorded."""
    world = World()
    for n in range(6):
        world.learn(body(chat(n)), [reasoning(f"{n}"), SAYS[n]])
    for turn in list(world.turns.values())[:3]:
        take_away(world, turn)

    assert reasons(world.seen(body(chat(6)))) == ["3", "4", "5"]


def test_of_turns_with_different_records_the_oldest_decides() -> None:
    """Two replicas answered the same request at the same time."""
    world = World()
    hi, hello, go_on, done = user("Hi"), "Hello!", user("continue"), "Done."
    told = [hi, nameless(message("", hello)), go_on]
    world.learn(body([hi]), [reasoning("mine"), message("mine", hello)])
    first = world.learn(body(told), [reasoning("mine+"), message("mine+", done)])
    assert first
    world.learn(body(told), [reasoning("twin+"), message("twin+", done)])
    *_, late = world.turns.values()
    world.keep(structs.replace(late, seen=Seen(b"", 0, ())))

    longer = [*told, nameless(message("", done)), go_on]
    assert reasons(world.seen(body(longer))) == ["mine"]


def test_matches_by_name_are_not_recorded() -> None:
    """Names lead to the same turns again, so most tool loops cost no extra bytes."""
    world = World()
    for n in range(4):
        world.learn(body(loop(n)), [reasoning(f"{n}"), DEEDS[n]])

    assert {turn.seen for turn in world.turns.values()} == {None}


def test_a_turn_records_only_new_decisions() -> None:
    """Older decisions are recorded by the turn before it."""
    world = World()
    for n in range(5):
        world.learn(body(chat(n)), [reasoning(f"{n}"), SAYS[n]])
    seen = [turn.seen for turn in world.turns.values()]
    ids = list(world.turns)

    assert seen[0] is None
    assert seen[1] == Seen(b"", 0, (MatchedRun(1, ids[0], 0, 1),))
    assert seen[2:] == [
        Seen(ids[n - 1], 2 * n - 1, (MatchedRun(2 * n - 1, ids[n - 1], 0, 1),)) for n in (2, 3, 4)
    ]


matched = st.lists(
    st.tuples(st.integers(0, 40), st.sampled_from([b"a", b"b", b"c"]), st.integers(0, 5)),
    max_size=30,
    unique_by=lambda one: one[0],
).map(sorted)


@given(matched, st.integers(0, 20))
def test_recorded_decisions_are_read_back(one: list[tuple[int, bytes, int]], since: int) -> None:
    """They cover the items from `since` on, and in addition everything that the basis records."""
    seen = seen_of(b"", since, one)
    want = {at: (turn, k) for at, turn, k in one}
    late = {at: origin for at, origin in want.items() if at >= since}
    assert recorded(seen, lambda _: None)[:2] == (since, late)

    early = seen_of(b"", 0, [each for each in one if each[0] < since])
    both = structs.replace(seen, basis=b"early")
    if since:
        assert recorded(both, {b"early": early}.get)[:2] == (0, want)


def test_a_cycle_of_records_is_not_followed() -> None:
    """A damaged record must not stall a request."""
    seen = Seen(b"itself", 3, ())
    assert recorded(seen, lambda _: seen)[:2] == (3, {})


def test_the_number_of_recorded_decisions_is_bounded() -> None:
    """Of a long history with a first miss, only the newest decisions are recorded."""
    many = [(2 * n, b"turn", n) for n in range(2 * RUNS_MAX)]
    seen = seen_of(b"basis", 0, many)

    assert (seen.basis, seen.since) == (b"", 2 * RUNS_MAX)
    assert [run.at for run in seen.runs] == [at for at, _, _ in many[RUNS_MAX:]]


def test_a_long_tool_loop_stays_without_a_missed_turn() -> None:
    """This holds for any number of earlier turns that were matched by name."""
    world, turns = World(), RUNS_MAX + 9
    told: list[Item] = [ASKS[0]]
    for n in range(turns + 2):
        if n == turns:
            late = list(world.turns.values())[-1]
            take_away(world, late)
        deed = call(f"{n}")
        world.learn(body(told), [reasoning(f"{n}"), deed])
        told += [deed, output(deed)]
    world.keep(late)

    assert reasons(world.seen(body(told))) == [f"{n}" for n in range(turns + 2) if n != turns - 1]


def test_a_history_that_changes_each_time_is_not_remembered() -> None:
    """No later history could be recognised by it, as its first item changes with each request."""
    world = World()
    told: list[Item] = []
    for n in range(4):
        told.append(ASKS[n])
        now = user(f"<now>{n}</now>")
        world.learn(body([now, *told]), [reasoning(f"{n}"), SAYS[n]])
        told.append(nameless(SAYS[n]))

    assert {turn.seen for turn in world.turns.values()} == {None}
    assert reasons(world.seen(body([*told, ASKS[4]]))) == ["0", "1", "2", "3"]
