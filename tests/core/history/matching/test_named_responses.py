"""Turns made with `previous_response_id` are found again by what they say, without ids."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reasoning_replay.core.dialects.responses.request import read_request
from reasoning_replay.core.history.matching.matches import context_of
from reasoning_replay.core.history.turns import Context

from tests.core.world import (
    Item,
    World,
    body,
    drawn,
    emitted,
    message,
    output,
    reasoning,
    user,
)
from tests.fast_lane import examples

TOWNS = ("Aarhus", "Bergen", "Cork", "Delft")


def asked(town: str) -> Item:
    """Return a question of its own."""
    return user(f"What is the weather in the town of {town} going to be this week?")


def said(town: str) -> Item:
    """Return an answer of its own."""
    return message(town, f"This week it is going to be sunny and dry in the town of {town}.")


def named(world: World) -> dict[str, str]:
    """Return the member that names the newest response; nothing before the first one."""
    return {"previous_response_id": f"resp_{drawn(world.responses)}"} if world.responses else {}


def conversed(**more: object) -> World:
    """Return the world after a conversation whose history upstream holds."""
    world = World()
    for town in TOWNS:
        sent = body([asked(town)], **named(world), **more)
        world.learn(sent, [reasoning(town), said(town)])
    return world


def test_a_conversation_whose_beginning_is_unknown_stays_unknown() -> None:
    """If the previous response was not captured, the messages before it are not known."""
    world = World()
    for town in TOWNS[:2]:
        world.learn(body([asked(town)], previous_response_id="resp_of_another"), [said(town)])

    assert not any(turn.context.is_known for turn in world.turns.values())


SHAPES = st.lists(
    st.sampled_from(["R C", "M", "R C C", "R M C", "R C R C"]), min_size=1, max_size=6
)


@given(SHAPES, st.booleans())
@examples(100)
def test_it_is_the_context_of_the_whole_history(shapes: list[str], has_frame: bool) -> None:
    """Messages, runs, depth and frame are those of a client that sends all of the history."""
    frame = {"instructions": "Be brief."} if has_frame else {}
    world, whole, new = World(), list[Item](), [asked("Aarhus")]
    contexts: list[Context] = []
    for n, shape in enumerate(shapes):
        sent = body(new, **named(world), **frame)
        whole += new
        contexts.append(read_request(body(whole, **frame), {}).context())
        request = read_request(sent, {})
        got = context_of(request, world.recall(request))
        assert _shared(got) == _shared(contexts[-1])
        items = emitted(shape, f"{n}")
        world.learn(sent, items)
        whole += items
        new = [*[output(item) for item in items if "call_id" in item], user(f"And then {n}?")]


def _shared(context: Context) -> tuple[bytes, int, bytes, bytes, bool]:
    return context.tail, context.depth, context.frame, context.model_traces, context.is_known


@pytest.mark.parametrize("hint", ["", "a-conversation"])
def test_a_hint_is_kept(hint: str) -> None:
    """The name of the conversation is that of the request."""
    more = {"prompt_cache_key": hint} if hint else {}
    hints = {turn.context.hint for turn in conversed(**more).turns.values()}

    assert [bool(each) for each in hints] == [bool(hint)]
