"""Strict continuity: lost reasoning is refused also where dropped ids hide the loss."""

from collections.abc import Callable
from typing import get_args

import pytest

from tests.standin.test_pairing import lost
from tests.standin.variants import Variant
from tests.standin.world import ASK, Item, World, answers, as_input, without

VARIANTS: tuple[Variant, ...] = get_args(Variant)


def history(world: World, variant: Variant, ask: Item = ASK) -> list[Item]:
    """Play a loop to its end, replaying everything."""
    items = [ask]
    for _ in range(6):
        _, output = world.emit(variant, items, store=False)
        items = [*items, *as_input(output)]
        if not answers(output):
            break
    return items


def bare(items: list[Item]) -> list[Item]:
    """Drop reasoning, ids, and the hosted calls that cannot be sent without one."""
    kept = [one for one in items if one.get("type") not in {"reasoning", "web_search_call"}]
    return [without(one, "id", "status", "phase") for one in kept]


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_whole_history_is_accepted(variant: Variant) -> None:
    """A history with all its reasoning is accepted, with ids and without."""
    world = World()
    items = history(world, variant)
    hosted = any(one.get("type") == "web_search_call" for one in items)

    assert world.message(items, continuity="strict", store=False) == ""
    if not hosted:
        assert world.message([without(one, "id") for one in items], continuity="strict") == ""


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_history_without_reasoning_is_refused(variant: Variant) -> None:
    """The API accepts a history without reasoning and ids; strict continuity refuses it."""
    world = World()
    items = bare(history(world, variant))

    assert world.message(items) == ""
    assert "without its required 'reasoning' item" in world.message(items, continuity="strict")


def edited(arguments: str) -> str:
    """Re-serialise arguments as some clients do."""
    return arguments.replace('":"', '": "')


CHANGES: list[Callable[[Item], Item]] = [
    lambda call: call,
    lambda call: call | {"arguments": edited(call["arguments"])},
    lambda call: call | {"arguments": "{}"},
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_call_is_recognised_by_its_call_id(change: Callable[[Item], Item]) -> None:
    """A call with rewritten arguments is still recognised, and its reasoning is demanded."""
    world = World()
    _, (thought, call) = world.emit()
    sent = change(without(call, "id"))
    items = [ASK, sent, *answers([call])]

    assert world.message(items, continuity="strict") == lost(call, thought)
    assert world.message([ASK, without(thought, "id"), *items[1:]], continuity="strict") == ""


def test_reasoning_in_the_wrong_place_is_lost() -> None:
    """Reasoning counts only directly before its own group, not before another call."""
    world = World()
    items = [without(one, "id") for one in history(world, "chain")]
    first, third = items[1], items[6]
    assert first["type"] == third["type"] == "reasoning"

    swapped = [third if one is first else first if one is third else one for one in items]

    assert world.message(items, continuity="strict") == ""
    assert "without its required" in world.message(swapped, continuity="strict")


def test_reasoning_of_another_conversation_is_not_accepted() -> None:
    """If both conversations have `call_0`, only the reasoning of the same one is accepted."""
    world = World()
    here = history(world, "call_zero")
    there = history(world, "call_zero", {"role": "user", "content": "And in Rome?"})
    mixed = [
        without(theirs if theirs.get("type") == "reasoning" else ours, "id")
        for ours, theirs in zip(here, there, strict=True)
    ]

    assert world.message(mixed) == ""
    assert "without its required" in world.message(mixed, continuity="strict")


def test_one_text_emitted_twice_is_two_messages() -> None:
    """Each emitted message is taken once, so the second one needs its own reasoning."""
    world = World()
    _, first = world.emit("message", store=False)
    _, second = world.emit("message", store=False)
    assert first[1]["content"] == second[1]["content"]
    stripped = [without(one, "id") for one in (*first, *second)]

    assert world.message([ASK, *stripped], continuity="strict") == ""
    assert world.message([ASK, *stripped[:3]], continuity="strict") != ""
    assert world.message([ASK, *stripped[:2], stripped[3]], continuity="strict") != ""


def test_reasoning_that_may_not_be_replayed_is_not_demanded() -> None:
    """Reasoning of an unfinished turn, another model or another caller is not demanded."""
    world = World()
    _, (_, cut) = world.emit(end="incomplete")
    _, (_, call) = world.emit()
    both = [without(cut, "id"), *answers([cut]), without(call, "id"), *answers([call])]

    assert world.message([ASK, *both[:2]], continuity="strict") == ""
    assert world.message([ASK, *both], continuity="strict") != ""
    assert world.message([ASK, *both], continuity="strict", model="gpt-6") == ""
    assert world.message([ASK, *both], continuity="strict", model="gpt-4o") == ""
    assert world.message([ASK, *both], "b", continuity="strict") == ""


def test_reasoning_that_the_server_adds_is_not_demanded() -> None:
    """The server adds the reasoning of a continued response itself."""
    world = World()
    turn, (_, call) = world.emit()

    items, previous = answers([call]), turn.answer.id
    assert world.message(items, continuity="strict", previous_response_id=previous) == ""
