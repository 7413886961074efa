"""Reasoning and what it led to go by both ids or by neither, where that is known for certain."""

from dataclasses import replace
from typing import Any

import pytest
from reasoning_replay.core.dialects.responses.heal.repair import Repair, Repairs
from reasoning_replay.core.dialects.responses.profiles import GENERIC, PROFILES, Ids

from tests.core.dialects.responses.heal.played import (
    ASK,
    MORE,
    hollow,
    reference,
    repaired,
    world_of,
)
from tests.core.dialects.responses.heal.test_blobs import digest_of
from tests.core.world import Item, call, input_of, message, nameless, output, reasoning, search

R1, R2 = reasoning("1"), reasoning("2")
C1, C2 = call("1"), call("2")
O1, O2 = output(C1, "one"), output(C2, "two")
SAID, WS = message("1", "Sunny."), search("1")
EASY: Item = {"role": "assistant", "content": "Sunny."}
REWORDED = nameless(message("1", "It will be sunny."))
COUNTED: Item = {**R1, "id": "rs_1"}
OPEN: Item = {**R1, "content": [{"type": "reasoning_text", "text": "Hm."}]}
BARE_R1, BARE_C1 = nameless(R1), nameless(C1)
KEPT: dict[str, Any] = {}
UNSTORED: dict[str, Any] = {"store": False}

# (one captured turn, what the request says, what the client sends, what goes out, how many changed)
PAIRED: list[Any] = [
    pytest.param([R1, C1], KEPT, [R1, BARE_C1, O1], [R1, C1, O1], 1, id="call"),
    pytest.param([R1, SAID], KEPT, [R1, nameless(SAID)], [R1, SAID], 1, id="message"),
    pytest.param([R1, C1], KEPT, [hollow(R1), BARE_C1, O1], [hollow(R1), C1, O1], 1, id="hollow"),
    pytest.param(
        [R1, C1], KEPT, [reference(R1), BARE_C1, O1], [reference(R1), C1, O1], 1, id="reference"
    ),
    pytest.param([R1, R2, C1], KEPT, [R1, R2, BARE_C1, O1], [R1, R2, C1, O1], 1, id="run"),
    pytest.param([R1, C1], KEPT, [BARE_R1, C1, O1], [R1, C1, O1], 1, id="reasoning-without"),
    pytest.param([R1, C1], UNSTORED, [BARE_R1, C1, O1], [R1, C1, O1], 1, id="without-unstored"),
    pytest.param([R1, R2, C1], KEPT, [BARE_R1, R2, C1], [R1, R2, C1], 1, id="half-without"),
    pytest.param(
        [R1, SAID, C1],
        UNSTORED,
        [R1, C1, O1],
        [BARE_R1, BARE_C1, O1],
        2,
        id="preamble-gone",
    ),
    pytest.param(
        [R1, SAID, C1], KEPT, [R1, BARE_C1, O1], [BARE_R1, BARE_C1, O1], 1, id="gone-and-no-id"
    ),
    pytest.param(
        [R1, SAID, C1], KEPT, [BARE_R1, C1, O1], [BARE_R1, BARE_C1, O1], 1, id="gone-and-by-blob"
    ),
    pytest.param(
        [R1, SAID, C1, C2],
        KEPT,
        [R1, C1, O1, C2, O2],
        [BARE_R1, BARE_C1, O1, nameless(C2), O2],
        3,
        id="preamble-of-two-calls-gone",
    ),
    pytest.param(
        [R1, SAID, C1, R2, C2],
        KEPT,
        [R1, C1, R2, C2, O1, O2],
        [BARE_R1, BARE_C1, R2, C2, O1, O2],
        2,
        id="the-next-group-stays",
    ),
]


@pytest.mark.parametrize(("turn", "more", "sent", "want", "count"), PAIRED)
def test_what_is_known_goes_by_both_ids_or_by_neither(
    turn: list[Item], more: dict[str, Any], sent: list[Item], want: list[Item], count: int
) -> None:
    """The least edit, and the same one as the history grows."""
    for rest in ([], [MORE]):
        done = repaired(world_of(turn), [ASK, *sent, *rest], **more)

        assert input_of(done.body) == [ASK, *want, *rest]
        assert done.counts == {Repair.UNPAIRED: count}


# (captured turns, what the request says, what the client sends)
LEFT: list[Any] = [
    pytest.param([[R1, C1]], KEPT, [R1, C1, O1], id="a-pair"),
    pytest.param([[R1, C1]], KEPT, [BARE_R1, BARE_C1, O1], id="by-value"),
    pytest.param([[R1, C1]], UNSTORED, [R1, BARE_C1, O1], id="mixed-and-not-stored"),
    pytest.param([], KEPT, [R1, BARE_C1, O1], id="not-captured"),
    pytest.param([[COUNTED, C1]], KEPT, [COUNTED, BARE_C1, O1], id="counted"),
    pytest.param([[R1, C1], [R1, C2]], KEPT, [R1, BARE_C1, O1], id="one-id-for-two"),
    pytest.param([[R1, C1]], KEPT, [R1, C2, O2], id="of-nothing-known"),
    pytest.param([[R1, SAID]], KEPT, [R1, EASY], id="takes-no-id"),
    pytest.param([[R1, SAID, C1]], KEPT, [R1, REWORDED, C1], id="reworded"),
    pytest.param([[R1, SAID, C1]], KEPT, [hollow(R1), C1, O1], id="nothing-else-is-left-of-it"),
    pytest.param([[R1, SAID, WS]], KEPT, [R1, WS], id="an-id-that-is-demanded"),
    pytest.param([[R1, SAID, C1]], KEPT, [R1, C1, O1, SAID], id="stands-elsewhere"),
    pytest.param([[R1, SAID, C1]], KEPT, [R1, C1, O1, nameless(SAID)], id="elsewhere-without-id"),
    pytest.param([[R1, C1, C2]], KEPT, [R1, C2, O1, O2], id="may-be-put-in-again"),
    pytest.param([[R1, R2, C1]], KEPT, [R2, BARE_C1, O1], id="half-a-run"),
    pytest.param([[R1, C1]], KEPT, [R1, MORE], id="nothing-behind-it"),
    pytest.param([[OPEN, C1]], KEPT, [OPEN, BARE_C1, O1], id="in-the-open"),
    pytest.param([[R1, {**C1, "id": ""}]], KEPT, [R1, BARE_C1, O1], id="upstream-gave-no-id"),
    pytest.param([[BARE_R1, C1]], KEPT, [BARE_R1, C1, O1], id="upstream-named-no-reasoning"),
]


@pytest.mark.parametrize(("turns", "more", "sent"), LEFT)
def test_all_else_is_left_for_upstream_to_name(
    turns: list[list[Item]], more: dict[str, Any], sent: list[Item]
) -> None:
    """What is no pair for certain, or is taken as it is."""
    assert repaired(world_of(*turns), [ASK, *sent], **more).counts == {}


@pytest.mark.parametrize(
    ("ids", "turn", "sent", "want"),
    [
        pytest.param(Ids.DROPPED, [R1, C1], [BARE_R1, C1], [BARE_R1, BARE_C1], id="neither"),
        pytest.param(Ids.DROPPED, [R1, WS], [BARE_R1, WS], [R1, WS], id="demanded"),
        pytest.param(Ids.REQUIRED, [R1, C1], [R1, BARE_C1], [R1, C1], id="both"),
        pytest.param(Ids.REQUIRED, [R1, SAID, C1], [R1, C1], [R1, C1], id="required"),
        pytest.param(Ids.KEPT, [R1, C1], [R1, BARE_C1], [R1, BARE_C1], id="checks-none"),
    ],
)
def test_the_form_is_one_that_the_profile_takes(
    ids: Ids, turn: list[Item], sent: list[Item], want: list[Item]
) -> None:
    """Where neither form will do, nothing is changed."""
    repairs = Repairs([Repair.UNPAIRED], lambda _: False, profile=replace(GENERIC, ids=ids))

    assert input_of(repaired(world_of(turn), [ASK, *sent], repairs).body) == [ASK, *want]


def test_where_upstream_keeps_nothing_reasoning_may_have_an_id_alone() -> None:
    """Whatever the request says of `store`."""
    repairs = Repairs([*Repair], lambda _: False, profile=PROFILES["codex"])

    assert repaired(world_of([R1, C1]), [ASK, R1, BARE_C1, O1], repairs).counts == {}


def test_what_another_repair_has_changed_stays_so() -> None:
    """A refused blob has gone from reasoning that now needs its id."""
    refused = Repairs([*Repair], {digest_of(R1)}.__contains__)
    done = repaired(world_of([R1, SAID, C1]), [ASK, R1, C1, WS, O1], refused)

    assert input_of(done.body) == [ASK, hollow(R1), C1, WS, O1]
