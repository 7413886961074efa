"""Pairing: what a table cannot say, because the turn or its history is unusual."""

from reasoning_replay.core.dialects.responses.heal.diagnosis import Diagnosis, RefusalKind

from tests.core.dialects.responses.heal.played import ASK, cured, reference, world_of
from tests.core.world import body, call, drawn, nameless, output, reasoning

R1, R2, C1 = reasoning("1"), reasoning("2"), call("1")
O1 = output(C1, "one")


def test_a_call_matched_to_its_twin_is_not_inserted_twice() -> None:
    """Two equal calls share a common `call_id`; the client sends one of them, without its id."""
    one = call("1", call_id="call_0")
    twin = one | {"id": f"fc_{drawn(9)}"}
    world = world_of([R1, one])
    world.learn(body([ASK, R1, one, output(one, "one")]), [R2, twin])
    refusal = Diagnosis(RefusalKind.LACKS_FOLLOWER, subject=R2["id"])
    sent = [ASK, reference(R2), nameless(one), output(one, "one")]

    assert cured(world, sent, refusal) == [ASK, reference(R2), twin, output(one, "one")]


def test_a_call_of_an_unfinished_turn_is_inserted_by_value() -> None:
    """Its reasoning is guarded, and its id would demand that reasoning."""
    cut = world_of([R1, {**C1, "status": "incomplete"}], status="incomplete")
    refusal = Diagnosis(RefusalKind.LACKS_CALL, subject=C1["call_id"])

    assert cured(cut, [ASK, O1], refusal) == [
        ASK,
        nameless({**C1, "status": "incomplete"}),
        O1,
    ]
