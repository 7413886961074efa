"""Pairing: an item that lacks its other half gets it from the request or from a captured turn."""

import pytest
from reasoning_replay.core.dialects.responses.heal.diagnosis import Diagnosis, RefusalKind

from tests.core.dialects.responses.heal.played import (
    ASK,
    MORE,
    STATEFUL,
    cured,
    reference,
    world_of,
)
from tests.core.world import (
    Item,
    body,
    call,
    drawn,
    message,
    nameless,
    output,
    reasoning,
    search,
    user,
)

R1, R2, R3 = reasoning("1"), reasoning("2"), reasoning("3")
C1, C2, C3 = call("1"), call("2"), call("3")
O1, O2, O3 = output(C1, "one"), output(C2, "two"), output(C3, "three")
SAID, LATER, WS = message("1", "Sunny."), message("2", "Rainy."), search("1")


def orphan(item: Item, wanted: Item = R1) -> Diagnosis:
    """Return the diagnosis of an item without its reasoning."""
    return Diagnosis(RefusalKind.LACKS_REASONING, subject=item["id"], wanted=wanted["id"])


def alone(item: Item = R1) -> Diagnosis:
    """Return the diagnosis of reasoning without the item that it led to."""
    return Diagnosis(RefusalKind.LACKS_FOLLOWER, subject=item["id"])


def renamed(item: Item) -> Item:
    """Return a call or its output under another `call_id`."""
    return item | {"call_id": f"call_{drawn(item['call_id'])}"}


def test_a_call_matched_to_its_twin_is_not_inserted_twice() -> None:
    """Two equal calls share a common `call_id`; the client sends one of them, without its id."""
    one = call("1", call_id="call_0")
    twin = one | {"id": f"fc_{drawn(9)}"}
    world = world_of([R1, one])
    world.learn(body([ASK, R1, one, output(one, "one")]), [R2, twin])
    sent = [ASK, reference(R2), nameless(one), output(one, "one")]

    assert cured(world, sent, alone(R2)) == [ASK, reference(R2), twin, output(one, "one")]


def test_a_call_is_not_inserted_if_its_output_has_another() -> None:
    """Some providers name every call `call_0`; an output that has a call lacks none."""
    one = call("1", call_id="call_0")
    other = call("2", tool="get_time", call_id="call_0")
    sent = [ASK, reference(R2), one, output(one, "one")]

    got = cured(world_of([R1, one], [R2, other]), sent, alone(R2))

    assert got == [ASK, nameless(one), output(one, "one")]


def test_an_item_already_present_is_not_inserted_again() -> None:
    """Reasoning that occurs twice gets one search, not two."""
    assert cured(world_of([R1, WS]), [ASK, R1, WS, MORE, R1], alone(), **STATEFUL) is not None
    got = cured(world_of([R1, WS]), [ASK, R1, MORE, reference(WS)], alone())

    assert got == [ASK, MORE, R1, reference(WS)]


def test_a_call_with_a_common_call_id_is_not_inserted() -> None:
    """The name `call_0` may be any call of any conversation."""
    counted = call("1", call_id="call_0")
    refusal = Diagnosis(RefusalKind.LACKS_CALL, subject="call_0")

    assert cured(world_of([counted, C2]), [ASK, C2, output(counted)], refusal) is None


def test_a_call_id_of_two_calls_matches_neither() -> None:
    """If two captured calls share a `call_id`, the output cannot be attributed to one of them."""
    twin = {**C2, "call_id": C1["call_id"]}
    refusal = Diagnosis(RefusalKind.LACKS_CALL, subject=C1["call_id"])

    assert cured(world_of([C1, twin]), [ASK, O1], refusal) is None


def test_a_call_of_an_unfinished_turn_is_inserted_by_value() -> None:
    """Its reasoning is guarded, and its id would demand that reasoning."""
    cut = world_of([R1, {**C1, "status": "incomplete"}], status="incomplete")
    refusal = Diagnosis(RefusalKind.LACKS_CALL, subject=C1["call_id"])

    assert cured(cut, [ASK, O1], refusal) == [
        ASK,
        nameless({**C1, "status": "incomplete"}),
        O1,
    ]


def test_a_user_message_inside_a_unit_stays_after_it() -> None:
    """The message is moved to the end of the unit that it interrupted."""
    note = user("Hurry.")
    got = cured(world_of([R1, C1]), [ASK, C1, note, O1, R1], orphan(C1))

    assert got == [ASK, R1, C1, O1, note]


# (captured turns, items that the client sent, items that upstream refused, items of the cure)
INJECTED = [
    pytest.param(
        [[R1, SAID, C1]],
        [C1, O1],
        [nameless(R1), nameless(C1), O1],
        [nameless(C1), O1],
        id="dropped-message",
    ),
    pytest.param(
        [[R1, SAID, C1, C2]],
        [nameless(C1), nameless(C2), nameless(SAID), O1, O2],
        [nameless(R1), nameless(C1), nameless(C2), nameless(SAID), O1, O2],
        [nameless(C1), nameless(C2), nameless(SAID), O1, O2],
        id="moved-message",
    ),
    pytest.param(
        [[R1, C1], [R2, C2], [R3, C3]],
        [C1, O1, C2, O2, R3, C3, O3],
        [R1, C1, O1, R2, C2, O2, R3, C3, O3],
        [nameless(C1), O1, R2, C2, O2, R3, C3, O3],
        id="the-named-one-alone",
    ),
    pytest.param(
        [[R1, C1], [R2, C2]],
        [renamed(C1), renamed(O1), renamed(C2), renamed(O2)],
        [R1, renamed(C1), renamed(O1), R2, renamed(C2), renamed(O2)],
        [renamed(nameless(C1)), renamed(O1), renamed(nameless(C2)), renamed(O2)],
        id="renamed-calls",
    ),
    pytest.param(
        [[R1, C1, C2]],
        [nameless(C2), O1, O2],
        [nameless(R1), nameless(C2), O1, O2],
        [nameless(C2), R1, C1, O1, O2],
        id="dropped-call-with-an-output",
    ),
    pytest.param([[R1, SAID]], [], [R1], [], id="nothing-behind-it"),
    pytest.param([], [C1, O1], [R1, C1, O1], [nameless(C1), O1], id="no-longer-known"),
]


@pytest.mark.parametrize(("turns", "given", "sent", "want"), INJECTED)
def test_injected_reasoning_is_taken_out(
    turns: list[list[Item]], given: list[Item], sent: list[Item], want: list[Item]
) -> None:
    """What was injected before another item goes, with the ids that need it; nothing is moved."""
    got = cured(world_of(*turns), [ASK, *sent, MORE], alone(), given=[ASK, *given, MORE])

    assert got == [ASK, *want, MORE]
