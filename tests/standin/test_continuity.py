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
    """Everything replayed, with ids or without any: nothing is lost."""
    world = World()
    items = history(world, variant)
    hosted = any(one.get("type") == "web_search_call" for one in items)

    assert world.message(items, continuity="strict", store=False) == ""
    if not hosted:
        assert world.message([without(one, "id") for one in items], continuity="strict") == ""


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_history_without_reasoning_is_refused(variant: Variant) -> None:
    """The same history, dropped and stripped, is accepted by the API and refused here."""
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
    """Rewritten arguments do not hide it."""
    world = World()
    _, (thought, call) = world.emit()
    sent = change(without(call, "id"))
    items = [ASK, sent, *answers([call])]

    assert world.message(items, continuity="strict") == lost(call, thought)
    assert world.message([ASK, without(thought, "id"), *items[1:]], continuity="strict") == ""


def test_reasoning_in_the_wrong_place_is_lost() -> None:
    """Directly ahead of its group: not ahead of the question, not ahead of another call."""
    world = World()
    items = [without(one, "id") for one in history(world, "chain")]
    first, third = items[1], items[6]
    assert first["type"] == third["type"] == "reasoning"

    swapped = [third if one is first else first if one is third else one for one in items]

    assert world.message(items, continuity="strict") == ""
    assert "without its required" in world.message(swapped, continuity="strict")


def test_reasoning_of_another_conversation_does_not_do() -> None:
    """`call_0` in both conversations: only the reasoning of this one belongs here."""
    world = World()
    here = history(world, "call_zero")
    there = history(world, "call_zero", {"role": "user", "content": "And in Rome?"})
    mixed = [
        without(theirs if theirs.get("type") == "reasoning" else ours, "id")
        for ours, theirs in zip(here, there, strict=True)
    ]

    assert world.message(mixed) == ""
    assert "without its required" in world.message(mixed, continuity="strict")


def test_one_text_said_twice_is_two_messages() -> None:
    """Each emitted message is taken once, so the second one wants its own reasoning."""
    world = World()
    _, first = world.emit("message", store=False)
    _, second = world.emit("message", store=False)
    assert first[1]["content"] == second[1]["content"]
    stripped = [without(one, "id") for one in (*first, *second)]

    assert world.message([ASK, *stripped], continuity="strict") == ""
    assert world.message([ASK, *stripped[:3]], continuity="strict") != ""
    assert world.message([ASK, *stripped[:2], stripped[3]], continuity="strict") != ""


def test_nothing_is_demanded_that_may_not_come_back() -> None:
    """Not of a turn that did not finish, not of another model, not of another caller."""
    world = World()
    _, (_, cut) = world.emit(end="incomplete")
    _, (_, call) = world.emit()
    both = [without(cut, "id"), *answers([cut]), without(call, "id"), *answers([call])]

    assert world.message([ASK, *both[:2]], continuity="strict") == ""
    assert world.message([ASK, *both], continuity="strict") != ""
    assert world.message([ASK, *both], continuity="strict", model="gpt-6") == ""
    assert world.message([ASK, *both], continuity="strict", model="gpt-4o") == ""
    assert world.message([ASK, *both], "b", continuity="strict") == ""


def test_nothing_is_demanded_of_what_the_server_adds() -> None:
    """A continued response brings its reasoning along."""
    world = World()
    turn, (_, call) = world.emit()

    items, previous = answers([call]), turn.answer.id
    assert world.message(items, continuity="strict", previous_response_id=previous) == ""
