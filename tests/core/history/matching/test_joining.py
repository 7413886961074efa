"""Joining: turns whose lookup failed are moved to the conversation that they belong to."""

from collections import Counter

import pytest
from msgspec import structs
from reasoning_replay.core.dialects.responses.request import read_request
from reasoning_replay.core.history.item_index import IndexedTurns
from reasoning_replay.core.history.matching.matches import Joined, join, match_items

from tests.core.world import Item, World, body, message, nameless, reasoning, user

TURNS = 47


def history(turns: int) -> list[Item]:
    """Return a chat without ids, up to the next question."""
    items: list[Item] = []
    for n in range(turns):
        items += [user(f"Question {n}?"), nameless(answered(n))]
    return [*items, user(f"Question {turns}?")]


def answered(n: int) -> Item:
    """Return an answer that is too long to match by coincidence."""
    return message(f"{n}", f"This is what is to be said as number {n}, about the weather there.")


def chat(*fails: bool) -> World:
    """Return a world with one turn for each flag; a lookup fails where its flag is set."""
    world = World()
    for n, has_failed in enumerate(fails):
        world.learn(body(history(n)), [reasoning(f"{n}"), answered(n)], has_failed=has_failed)
    return world


def injected(world: World, turns: int) -> int:
    """Return the number of reasoning items that upstream receives with a history."""
    return Counter(i.get("type") for i in world.seen(body(history(turns))))["reasoning"]


def conversations(world: World) -> set[bytes]:
    """Return the conversations that hold a turn."""
    return {turn.conversation for turn in world.turns.values()}


def test_turns_of_failed_lookups_are_joined_by_the_next_lookup() -> None:
    """With every second lookup failing, a long chat stays one conversation, injected as a whole."""
    world = chat(*(n % 2 == 1 for n in range(TURNS)))

    assert injected(world, TURNS) == TURNS
    assert len(conversations(world)) == 1


def test_more_turns_than_are_loaded_are_joined_step_by_step() -> None:
    """The newest turns are joined first, because the number of loaded conversations is limited."""
    world = chat(False, False, *[True] * 10)
    assert injected(world, 12) < 12

    for n in range(12, 15):
        world.learn(body(history(n)), [reasoning(f"{n}"), answered(n)])

    assert injected(world, 15) == 15
    assert len(conversations(world)) == 1


def joined(world: World, turns: int) -> Joined:
    """Return the joined turns of a request."""
    request = read_request(body(history(turns)), {})
    found = world.recall(request)
    return join(match_items(request, found), found.turns)


def test_a_joined_turn_gets_its_parent() -> None:
    """From then on its place is known from its lineage."""
    world = chat(False, True, True)
    before = {turn.items[0].id: turn for turn in world.turns.values()}
    ids = [answered(n)["id"] for n in range(3)]

    done = joined(world, 3)

    assert [turn.items[0].id for turn in done.turns] == ids[1:]
    assert [turn.parent for turn in done.turns] == [before[name].id for name in ids[:2]]
    assert {turn.conversation for turn in done.turns} == {before[ids[0]].conversation}
    assert set(done.left) == {before[name].conversation for name in ids[1:]}


def test_later_turns_of_a_joined_conversation_are_moved_too() -> None:
    """A response in flight while its conversation is joined still continues the old one."""
    world = chat(False, True, True)
    first, second, third = world.turns.values()
    world.keep(structs.replace(third, parent=second.id, conversation=second.conversation))

    done = joined(world, 3)

    lines = [(turn.id, turn.parent) for turn in done.turns]
    assert lines == [(second.id, first.id), (third.id, second.id)]
    assert done.left == (second.conversation,)


@pytest.mark.parametrize("fails", [(False,), (False, False, False), (True,)])
def test_a_single_conversation_is_not_rewritten(fails: tuple[bool, ...]) -> None:
    """If no turn has to be joined, nothing is written."""
    assert joined(chat(*fails), len(fails)) == Joined()


def test_conversations_with_the_same_start_are_not_joined() -> None:
    """Another client continues from the same first response, so there is nothing to join."""
    world = chat(False, False)
    other = [user("Question 0?"), nameless(answered(0)), user("And what else?")]
    world.learn(body(other), [reasoning("else"), message("else", "Nothing else, as it seems.")])

    assert joined(world, 2) == Joined()


def test_the_cached_turns_of_one_conversation_are_not_searched() -> None:
    """They already belong to one conversation."""
    world = chat(False, True, True)
    request = read_request(body(history(3)), {})
    found = world.recall(request)

    assert join(match_items(request, found), IndexedTurns(found.turns)) == Joined()
