"""Compaction: it replaces all items before it, so it stays in place, and nothing moves past it."""

import pytest

from tests.core.world import (
    Item,
    World,
    body,
    call,
    dropped,
    input_of,
    message,
    output,
    reasoning,
    user,
    without_ids,
)

COMPACTION: Item = {"type": "compaction", "id": "cmp_00aabbccdd0011", "encrypted_content": "gAAAAc"}
TRIGGER: Item = {"type": "compaction_trigger"}


@pytest.fixture
def world() -> World:
    """A world that captured a turn with a compaction in its middle."""
    world = World()
    emitted = [reasoning("1"), COMPACTION, reasoning("2"), message("1", "It rains.")]
    world.learn(body([user("Rain?")]), emitted)
    return world


@pytest.mark.parametrize("strip", [list, without_ids], ids=["ids", "no-ids"])
def test_a_history_may_start_from_a_compaction(world: World, strip: object) -> None:
    """Items after the compaction are matched and get their reasoning; those inside it do not."""
    said = [COMPACTION, message("1", "It rains.")]
    sent = body([*(without_ids(said) if strip is without_ids else said), user("Sure?")])

    seen = world.seen(sent)

    assert seen[0] == COMPACTION
    assert [item.get("encrypted_content") for item in seen] == ["gAAAAc", "gAAAA2", None, None]


def test_reasoning_inside_a_compaction_is_not_injected(world: World) -> None:
    """It is injected neither before the compaction nor before a later item without reasoning."""
    world.learn(
        body([user("Snow?")]),
        [reasoning("3"), COMPACTION | {"id": "cmp_00aabbccdd0022"}, call("3")],
    )
    history = [user("Snow?"), COMPACTION | {"id": "cmp_00aabbccdd0022"}, call("3")]
    sent = body([*history, output(call("3"))])

    assert world.ask(sent)[2].apply(sent) is sent


def test_the_history_after_a_compaction_is_matched(world: World) -> None:
    """A turn whose history starts with the compaction is found again."""
    start = [COMPACTION, user("Snow?")]
    emitted = world.learn(body(start), [reasoning("4"), call("4")])
    sent = body([*start, *dropped(emitted), output(call("4"))])

    assert world.seen(sent) == [*start, *emitted, output(call("4"))]


def test_a_trigger_stays_last(world: World) -> None:
    """A trigger asks upstream to compact all items before it."""
    said = [user("Rain?"), COMPACTION, message("1", "It rains."), TRIGGER]
    sent = body(said)

    assert input_of(world.ask(sent)[2].apply(sent))[-1] == TRIGGER
    assert len(world.seen(sent)) == len(said) + 1
