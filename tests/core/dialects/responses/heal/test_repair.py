"""Repairs: the edits before the first attempt, made only where the request is certainly wrong."""

from collections.abc import Collection
from typing import Any

import pytest
from msgspec import structs
from reasoning_replay.core.dialects.responses.heal.repair import Repair, Repairs
from reasoning_replay.core.dialects.responses.profiles import PROFILES

from tests.core.dialects.responses.heal.played import (
    ASK,
    MORE,
    hollow,
    reference,
    repaired,
    repaired_body,
    world_of,
)
from tests.core.dialects.responses.heal.test_blobs import digest_of
from tests.core.world import (
    Item,
    World,
    body,
    call,
    input_of,
    message,
    nameless,
    output,
    reasoning,
    search,
)

R1, R2 = reasoning("1"), reasoning("2")
C1, C2 = call("1"), call("2")
O1, O2 = output(C1, "one"), output(C2, "two")
SAID, WS = message("1", "Sunny."), search("1")
DONE: Item = {**SAID, "id": "msg_1"}
NOTE: Item = {"type": "message", "role": "user", "id": "msg_9", "content": "Hi"}
UNSTORED, OTHER_MODEL = {"store": False}, {"model": "o4-mini"}
D, H, F, END = Repair.DUPLICATES, Repair.HOLLOW, Repair.FOREIGN, Repair.DANGLING

# (captured turns, other fields of the request, items sent, items of the repaired request, repairs)
REPAIRED: list[Any] = [
    pytest.param([], {}, [R1, R1, C1, O1], [R1, C1, O1], {D: 1}, id="reasoning-twice"),
    pytest.param(
        [], {}, [R1, R1, R2, R2, R1, C1], [R1, R2, R1, C1], {D: 2}, id="reasoning-not-in-a-row"
    ),
    pytest.param([], {}, [hollow(R1), R1, C1], [hollow(R1), R1, C1], {}, id="not-identical"),
    *(
        pytest.param([], {}, [*again, MORE], [*again, MORE], {}, id=f"{name}-{where}")
        for name, items in {
            "message": [SAID],
            "counted-id": [DONE],
            "search": [WS],
            "call-with-its-output": [C1, O1],
            "user-message": [NOTE],
        }.items()
        for where, again in {"in-a-row": [*items, *items], "later": [*items, MORE, *items]}.items()
    ),
    pytest.param([[R1, C1]], UNSTORED, [hollow(R1), C1], [R1, C1], {H: 1}, id="hollow"),
    pytest.param([[R1, C1]], UNSTORED, [reference(R1), C1], [R1, C1], {H: 1}, id="reference"),
    pytest.param([[R1, C1]], {}, [hollow(R1), C1], [hollow(R1), C1], {}, id="hollow-but-stored"),
    pytest.param([], UNSTORED, [hollow(R1), C1], [hollow(R1), C1], {}, id="hollow-unknown"),
    pytest.param(
        [[R1, SAID]],
        UNSTORED,
        [R1, reference(SAID)],
        [R1, reference(SAID)],
        {},
        id="reference-to-a-message",
    ),
    pytest.param(
        [[R1, C1]],
        {**UNSTORED, **OTHER_MODEL},
        [hollow(R1), C1],
        [hollow(R1), C1],
        {},
        id="hollow-other-model",
    ),
    pytest.param([[R1, C1]], OTHER_MODEL, [R1, C1, O1], [nameless(C1), O1], {F: 1}, id="foreign"),
    pytest.param([[R1, C1]], {"model": ""}, [R1, C1, O1], [R1, C1, O1], {}, id="no-model"),
    pytest.param([], OTHER_MODEL, [R1, C1, O1], [R1, C1, O1], {}, id="foreign-but-unknown"),
    pytest.param([], {}, [ASK, R1], [ASK], {END: 1}, id="dangling"),
    pytest.param([], {}, [R1, SAID, R2, R2], [R1, SAID], {D: 1, END: 1}, id="dangling-run"),
    pytest.param([], {}, [SAID, R1], [SAID, R1], {}, id="perhaps-out-of-order"),
    pytest.param([], {}, [ASK, nameless(R1)], [ASK, nameless(R1)], {}, id="dangling-by-value"),
    pytest.param(
        [[R1, C1]], {"model": "gpt-5.4"}, [R1, C1, O1], [R1, C1, O1], {}, id="perhaps-an-alias"
    ),
    pytest.param(
        [[R1, WS]], OTHER_MODEL, [R1, WS], [R1, WS], {}, id="foreign-before-a-hosted-item"
    ),
    pytest.param([[R1, C1]], {}, [C1, O1, R1], [C1, O1, R1], {}, id="out-of-order"),
    pytest.param([[R1, SAID]], {}, [ASK, R1], [ASK], {END: 1}, id="dangling-and-known"),
    pytest.param([], {}, [ASK, MORE], [ASK, MORE], {}, id="nothing"),
]


@pytest.mark.parametrize(("turns", "more", "sent", "want", "counts"), REPAIRED)
def test_certain_faults_are_repaired(
    turns: list[list[Item]],
    more: dict[str, Any],
    sent: list[Item],
    want: list[Item],
    counts: dict[Repair, int],
) -> None:
    """Each repair edits only its own fault, and is counted."""
    done = repaired(world_of(*turns), [ASK, *sent], **more)

    assert input_of(done.body) == [ASK, *want]
    assert done.counts == counts


@pytest.mark.parametrize(("turns", "more", "sent", "want", "counts"), REPAIRED)
def test_each_repair_may_be_switched_off(
    turns: list[list[Item]],
    more: dict[str, Any],
    sent: list[Item],
    want: list[Item],
    counts: dict[Repair, int],
) -> None:
    """A repair that is switched off edits nothing; the other repairs still work."""
    for switched_off in Repair:
        left = frozenset(Repair) - {switched_off}
        repairs = Repairs(left, lambda _: False)
        done = repaired(world_of(*turns), [ASK, *sent], repairs, **more)

        assert switched_off not in done.counts
        if switched_off not in counts:
            assert done.counts == counts
            assert input_of(done.body) == [ASK, *want]


def every(refused: Collection[bytes] = (), **more: Any) -> Repairs:
    """Return all repairs; these blobs are known to be refused."""
    return Repairs(frozenset(Repair), refused.__contains__, **more)


def test_a_refused_blob_is_not_sent_again() -> None:
    """A refused blob is removed, and it is not inserted where the client sent only its id."""
    refused = every([digest_of(R1)])
    sent = [ASK, R1, C1, O1, R2, C2, O2]

    assert input_of(repaired(World(), sent, refused).body) == [ASK, nameless(C1), O1, R2, C2, O2]
    done = repaired(world_of([R1, C1]), [ASK, hollow(R1), C1, O1], refused, store=False)
    assert input_of(done.body) == [ASK, nameless(C1), O1]


def test_a_model_that_rejects_reasoning_gets_none() -> None:
    """Reasoning is removed in every form: whole, hollow and as a reference."""
    sent = [ASK, R1, C1, O1, hollow(R2), SAID, reference(R1), C2, O2]

    assert input_of(repaired(World(), sent, every(takes_reasoning=False)).body) == [
        ASK,
        nameless(C1),
        O1,
        nameless(SAID),
        nameless(C2),
        O2,
    ]


def test_reasoning_of_an_unknown_model_is_not_foreign() -> None:
    """A retrieved turn may name no model, so its reasoning is not certainly foreign."""
    world = world_of([R1, C1])
    world.turns = {key: structs.replace(turn, models=()) for key, turn in world.turns.items()}

    assert repaired(world, [ASK, R1, C1, O1]).counts == {}


def test_without_repairs_the_same_object_is_returned() -> None:
    """The body is not copied."""
    for items in ([ASK], [ASK, R1, C1, O1, R2, WS, MORE]):
        sent = body(items)
        assert repaired_body(world_of([R1, C1]), sent).body is sent


def test_a_damaged_copy_is_replaced_by_the_captured_original() -> None:
    """The repair does the same as the cure that followed the first refusal."""
    damaged = R1 | {"encrypted_content": "gAAAAx"}
    done = repaired(world_of([R1, C1]), [ASK, damaged, C1, O1], every([digest_of(damaged)]))

    assert input_of(done.body) == [ASK, R1, C1, O1]
    assert done.counts == {F: 1}


@pytest.mark.parametrize("blob", ["gAAAAx", ""])
def test_blobs_of_a_client_that_damages_them_are_replaced(blob: str) -> None:
    """All of the conversation, before upstream refuses each of them; good ones stay."""
    world = world_of([R1, C1], [R2, C2])
    damaged = R1 | {"encrypted_content": blob}
    sent = [ASK, damaged, C1, O1, R2, C2, O2]
    done = repaired(world, sent, every(completes=lambda _: True))

    assert input_of(done.body) == [ASK, R1, C1, O1, R2, C2, O2]
    assert done.counts == {F: 1}
    other = repaired(world, sent, every(completes=lambda _: True), model="grok-4")
    assert R1 not in input_of(other.body)


def test_a_refused_blob_before_a_hosted_item_takes_that_item_with_it() -> None:
    """The API requires the id of a hosted item, and the reasoning before it."""
    refused = every([digest_of(R1)])

    assert input_of(repaired(World(), [ASK, R1, WS, MORE], refused).body) == [ASK, MORE]


@pytest.mark.parametrize("sent", [[ASK, R1, R1, C1, O1], [ASK, R1]], ids=["copies", "dangling"])
def test_pairs_are_not_repaired_for_an_upstream_that_does_not_check_them(sent: list[Item]) -> None:
    """Ollama accepts any ids, and it continues from reasoning at the end of the input."""
    assert repaired(World(), sent, every(profile=PROFILES["ollama"])).counts == {}


def test_a_request_of_reasoning_alone_stays() -> None:
    """The repair would leave an empty input, which upstream refuses."""
    assert repaired(World(), [R1]).counts == {}


def test_the_original_is_not_inserted_for_another_vendors_model() -> None:
    """Another vendor's model cannot decrypt it, so the damaged copy is removed."""
    damaged = R1 | {"encrypted_content": "gAAAAx"}
    refused = every([digest_of(damaged)])
    done = repaired(world_of([R1, C1]), [ASK, damaged, C1, O1], refused, model="grok-4")

    assert input_of(done.body) == [ASK, nameless(C1), O1]


def test_an_item_that_cannot_be_edited_is_not_counted() -> None:
    """An item in which a key occurs twice is sent unchanged, and no repair is counted."""
    sent = body([ASK, R1, nameless(C1), O1]).replace(b'"arguments"', b'"name":"x","arguments"')
    done = repaired_body(world_of([R1, C1]), sent)

    assert (done.body is sent, done.counts) == (True, {})
