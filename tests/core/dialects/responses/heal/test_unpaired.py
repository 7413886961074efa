"""Repair of pairs: reasoning and its follower are sent with both ids or with neither."""

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

# (captured turn, other fields, items sent, items of the repaired request, number of changes)
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
        id="preamble-dropped",
    ),
    pytest.param(
        [R1, SAID, C1],
        KEPT,
        [R1, BARE_C1, O1],
        [BARE_R1, BARE_C1, O1],
        1,
        id="preamble-dropped-and-no-id",
    ),
    pytest.param(
        [R1, SAID, C1],
        KEPT,
        [BARE_R1, C1, O1],
        [BARE_R1, BARE_C1, O1],
        1,
        id="preamble-dropped-and-by-blob",
    ),
    pytest.param(
        [R1, SAID, C1, C2],
        KEPT,
        [R1, C1, O1, C2, O2],
        [BARE_R1, BARE_C1, O1, nameless(C2), O2],
        3,
        id="preamble-of-two-calls-dropped",
    ),
    pytest.param(
        [R1, SAID, C1, R2, C2],
        KEPT,
        [R1, C1, R2, C2, O1, O2],
        [BARE_R1, BARE_C1, R2, C2, O1, O2],
        2,
        id="next-group-stays",
    ),
]


@pytest.mark.parametrize(("turn", "more", "sent", "want", "count"), PAIRED)
def test_a_known_pair_is_sent_with_both_ids_or_with_neither(
    turn: list[Item], more: dict[str, Any], sent: list[Item], want: list[Item], count: int
) -> None:
    """The repair is the smallest edit, and it stays the same as the history grows."""
    for rest in ([], [MORE]):
        done = repaired(world_of(turn), [ASK, *sent, *rest], **more)

        assert input_of(done.body) == [ASK, *want, *rest]
        assert done.counts == {Repair.UNPAIRED: count}


# (captured turns, other fields of the request, items sent)
LEFT: list[Any] = [
    pytest.param([[R1, C1]], KEPT, [R1, C1, O1], id="a-pair"),
    pytest.param([[R1, C1]], KEPT, [BARE_R1, BARE_C1, O1], id="by-value"),
    pytest.param([[R1, C1]], UNSTORED, [R1, BARE_C1, O1], id="mixed-and-not-stored"),
    pytest.param([], KEPT, [R1, BARE_C1, O1], id="not-captured"),
    pytest.param([[COUNTED, C1]], KEPT, [hollow(COUNTED), BARE_C1, O1], id="counted"),
    pytest.param([[R1, C1], [R1, C2]], KEPT, [R1, BARE_C1, O1], id="one-id-for-two"),
    pytest.param([[R1, C1]], KEPT, [R1, C2, O2], id="follower-not-captured"),
    pytest.param([[R1, SAID]], KEPT, [R1, EASY], id="item-cannot-have-an-id"),
    pytest.param([[R1, SAID, C1]], KEPT, [R1, REWORDED, C1], id="reworded"),
    pytest.param([[R1, SAID, C1]], KEPT, [hollow(R1), C1, O1], id="hollow-without-its-message"),
    pytest.param([[R1, SAID, WS]], KEPT, [R1, WS], id="id-is-demanded"),
    pytest.param([[R1, SAID, C1]], KEPT, [R1, C1, O1, SAID], id="message-elsewhere"),
    pytest.param([[R1, SAID, C1]], KEPT, [R1, C1, O1, nameless(SAID)], id="elsewhere-without-id"),
    pytest.param([[R1, C1, C2]], KEPT, [R1, C2, O1, O2], id="call-may-be-inserted-later"),
    pytest.param([[R1, R2, C1]], KEPT, [R2, BARE_C1, O1], id="half-a-run"),
    pytest.param([[R1, C1]], KEPT, [R1, MORE], id="no-follower"),
    pytest.param([[OPEN, C1]], KEPT, [OPEN, BARE_C1, O1], id="readable-reasoning"),
    pytest.param([[R1, {**C1, "id": ""}]], KEPT, [R1, BARE_C1, O1], id="upstream-gave-no-id"),
    pytest.param([[BARE_R1, C1]], KEPT, [BARE_R1, C1, O1], id="upstream-named-no-reasoning"),
]


@pytest.mark.parametrize(("turns", "more", "sent"), LEFT)
def test_uncertain_pairs_are_left_to_upstream(
    turns: list[list[Item]], more: dict[str, Any], sent: list[Item]
) -> None:
    """Items that are not certainly a broken pair, or that upstream accepts, are sent unchanged."""
    assert repaired(world_of(*turns), [ASK, *sent], **more).counts == {}


@pytest.mark.parametrize(
    ("ids", "turn", "sent", "want"),
    [
        pytest.param(Ids.DROPPED, [R1, C1], [BARE_R1, C1], [BARE_R1, BARE_C1], id="neither"),
        pytest.param(Ids.DROPPED, [R1, WS], [BARE_R1, WS], [R1, WS], id="demanded"),
        pytest.param(Ids.REQUIRED, [R1, C1], [R1, BARE_C1], [R1, C1], id="both"),
        pytest.param(Ids.REQUIRED, [R1, SAID, C1], [R1, C1], [R1, C1], id="required"),
        pytest.param(Ids.KEPT, [R1, C1], [R1, BARE_C1], [R1, BARE_C1], id="not-checked"),
    ],
)
def test_the_repaired_form_is_accepted_by_the_profile(
    ids: Ids, turn: list[Item], sent: list[Item], want: list[Item]
) -> None:
    """If the profile accepts neither form, nothing is changed."""
    repairs = Repairs([Repair.UNPAIRED], lambda _: False, profile=replace(GENERIC, ids=ids))

    assert input_of(repaired(world_of(turn), [ASK, *sent], repairs).body) == [ASK, *want]


def test_an_upstream_that_stores_nothing_accepts_an_unpaired_id() -> None:
    """The profile decides this, independent of `store` in the request."""
    repairs = Repairs([*Repair], lambda _: False, profile=PROFILES["codex"])

    assert repaired(world_of([R1, C1]), [ASK, R1, BARE_C1, O1], repairs).counts == {}
