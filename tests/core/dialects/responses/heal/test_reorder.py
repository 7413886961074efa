"""Reordering: restores the order in which a history happened, as far as it is known."""

import pytest
from reasoning_replay.core.dialects.responses.heal.calls import in_order
from reasoning_replay.core.dialects.responses.heal.draft import Draft

from tests.core.dialects.responses.heal.played import ASK, MORE, case_of, reference, world_of
from tests.core.world import (
    Item,
    World,
    call,
    input_of,
    message,
    nameless,
    output,
    reasoning,
    search,
)

R1, R2, R3 = reasoning("1"), reasoning("2"), reasoning("3")
C1, C2, C3 = call("1"), call("2"), call("3")
O1, O2, O3 = output(C1, "one"), output(C2, "two"), output(C3, "three")
SAID, WS = message("1", "Sunny."), search("1")
FRAME: Item = {"role": "system", "content": "Be brief."}


def ordered(world: World, items: list[Item]) -> list[Item]:
    """Return a history in order."""
    case = case_of(world, items)
    draft = Draft(case.sent)
    draft.items = in_order(draft.items, case.positions())
    return input_of(draft.body())


# (captured turns, items sent, items in order)
CAPTURED = [
    pytest.param([[R1, C1]], [C1, R1, O1], [R1, C1, O1], id="reasoning-after-its-item"),
    pytest.param([[R1, C1]], [R1, ASK, C1, O1], [ASK, R1, C1, O1], id="reasoning-apart"),
    pytest.param(
        [[R1, C1], [R2, C2]],
        [R1, R2, C1, C2, O1, O2],
        [R1, C1, O1, R2, C2, O2],
        id="all-reasoning-first",
    ),
    pytest.param(
        [[R1, C1, R2, C2]], [R1, R2, C1, C2, O1, O2], [R1, C1, R2, C2, O1, O2], id="one-response"
    ),
    pytest.param([[R1, C1, C2]], [R1, C1, O1, C2, O2], [R1, C1, C2, O1, O2], id="interleaved"),
    pytest.param([[R1, C1, C2]], [R1, C2, C1, O2, O1], [R1, C1, C2, O2, O1], id="calls-swapped"),
    pytest.param(
        [[R1, SAID, C1]], [R1, C1, SAID, O1], [R1, SAID, C1, O1], id="message-after-the-call"
    ),
    pytest.param([[R1, R2, C1]], [R2, R1, C1, O1], [R1, R2, C1, O1], id="a-run-of-two"),
    pytest.param([[R1, WS, R2, SAID]], [WS, R1, SAID, R2], [R1, WS, R2, SAID], id="hosted"),
    pytest.param([[R1, C1]], [R1, C1, MORE, O1], [R1, C1, O1, MORE], id="user-between"),
    pytest.param(
        [[R1, C1]], [ASK, O1, MORE, R1, C1], [ASK, MORE, R1, C1, O1], id="output-before-its-call"
    ),
    pytest.param([[R1, C1]], [R1, nameless(C1), O1], [R1, nameless(C1), O1], id="in-order"),
    pytest.param(
        [[R1, C1]],
        [nameless(C1), nameless(R1), O1],
        [nameless(R1), nameless(C1), O1],
        id="without-ids",
    ),
    pytest.param([[R1, SAID]], [reference(SAID), R1], [R1, reference(SAID)], id="reference"),
    pytest.param(
        [[R1, SAID]], [SAID, reference(R1)], [reference(R1), SAID], id="reasoning-by-reference"
    ),
    pytest.param([[R1, C1]], [R1, ASK], [R1, ASK], id="no-follower"),
    pytest.param([[R1, C1]], [R1, C1, O3, O1], [R1, C1, O1, O3], id="output-without-call-stays"),
]


@pytest.mark.parametrize(("turns", "sent", "want"), CAPTURED)
def test_captured_turns_show_which_items_belong_together(
    turns: list[list[Item]], sent: list[Item], want: list[Item]
) -> None:
    """A response is placed at the first of its items; the outputs of its calls follow it."""
    assert ordered(world_of(*turns), sent) == want


# (items sent, their order; None means unchanged)
UNKNOWN = [
    pytest.param([R1, C1, O1], None, id="in-order"),
    pytest.param([R1, C1, R2, C2, O1, O2], None, id="one-response"),
    pytest.param([R1, C1, O1, R2, C2, O2], None, id="two-responses"),
    pytest.param([R1, C1, O1, C2, O2], None, id="interleaved"),
    pytest.param([C1, MORE, O1], [C1, O1, MORE], id="user-between"),
    pytest.param([O1, C1], [C1, O1], id="output-before-its-call"),
    pytest.param([C1, O1, MORE, C2, O2], None, id="message-between"),
    pytest.param([C1, O1, FRAME, C2, O2], None, id="instructions-between"),
    pytest.param([C1, C2, O2, O1], None, id="outputs-in-another-order"),
    pytest.param([C1, O2, O1, C2], [C1, O1, C2, O2], id="outputs-swapped"),
    pytest.param([R1, MORE, C1, O1], None, id="not-captured-and-apart"),
]


@pytest.mark.parametrize(("sent", "want"), UNKNOWN)
def test_items_not_captured_are_grouped_with_their_neighbours(
    sent: list[Item], want: list[Item] | None
) -> None:
    """Only the outputs move: nothing shows which of the other items belong together."""
    assert ordered(World(), sent) == (want or sent)


def test_calls_with_one_call_id_have_one_output_each() -> None:
    """If every call is named `call_0`, a call gets the first output after it that is still free."""
    first, second = call("1", call_id="call_0"), call("2", call_id="call_0")
    sent = [first, output(first, "one"), MORE, second, output(second, "two")]

    assert ordered(World(), sent) == sent
    assert ordered(World(), [first, MORE, output(first)]) == [first, output(first), MORE]


def test_a_captured_response_separates_the_calls_around_it() -> None:
    """Calls on both sides of a captured response are not joined into one unit."""
    sent = [C1, O1, R2, C2, O2, C3, O3]

    assert ordered(world_of([R2, C2]), sent) == sent
