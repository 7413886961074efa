"""A compaction stands for what was before it: it stays where it is, and so does its last place."""

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
    """A turn in whose middle upstream has compacted what was before."""
    world = World()
    emitted = [reasoning("1"), COMPACTION, reasoning("2"), message("1", "It rains.")]
    world.learn(body([user("Rain?")]), emitted)
    return world


@pytest.mark.parametrize("strip", [list, without_ids], ids=["ids", "no ids"])
def test_a_history_may_start_from_a_compaction(world: World, strip: object) -> None:
    """What followed it is recognised, and gets its reasoning back; what it holds does not."""
    said = [COMPACTION, message("1", "It rains.")]
    sent = body([*(without_ids(said) if strip is without_ids else said), user("Sure?")])

    seen = world.seen(sent)

    assert seen[0] == COMPACTION
    assert [item.get("encrypted_content") for item in seen] == ["gAAAAc", "gAAAA2", None, None]


def test_what_a_compaction_holds_does_not_go_back(world: World) -> None:
    """Neither ahead of it, nor ahead of what followed it without reasoning of its own."""
    world.learn(
        body([user("Snow?")]),
        [reasoning("3"), COMPACTION | {"id": "cmp_00aabbccdd0022"}, call("3")],
    )
    history = [user("Snow?"), COMPACTION | {"id": "cmp_00aabbccdd0022"}, call("3")]
    sent = body([*history, output(call("3"))])

    assert world.ask(sent)[2].apply(sent) is sent


def test_the_history_after_a_compaction_goes_on(world: World) -> None:
    """Turns that were made from it are found again from it."""
    start = [COMPACTION, user("Snow?")]
    emitted = world.learn(body(start), [reasoning("4"), call("4")])
    sent = body([*start, *dropped(emitted), output(call("4"))])

    assert world.seen(sent) == [*start, *emitted, output(call("4"))]


def test_a_trigger_stays_last(world: World) -> None:
    """It asks for the compaction of all that stands ahead of it."""
    said = [user("Rain?"), COMPACTION, message("1", "It rains."), TRIGGER]
    sent = body(said)

    assert input_of(world.ask(sent)[2].apply(sent))[-1] == TRIGGER
    assert len(world.seen(sent)) == len(said) + 1
