"""Before the first try only what is certain is mended."""

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
DONE, PADDED = ({**SAID, "id": name} for name in ("msg_1", "msg_0000000000000001"))
FIRST: Item = {**C1, "id": "fc_1"}
NOTE: Item = {"type": "message", "role": "user", "id": "msg_9", "content": "Hi"}
UNSTORED, OTHER_MODEL = {"store": False}, {"model": "o4-mini"}
D, H, F, END = Repair.DUPLICATES, Repair.HOLLOW, Repair.FOREIGN, Repair.DANGLING

# (turns captured, what the request says, what the client sends, what goes out, what was mended)
REPAIRED: list[Any] = [
    pytest.param([], {}, [R1, C1, O1, R1], [R1, C1, O1], {D: 1}, id="reasoning-twice"),
    pytest.param([], {}, [C1, O1, C1, O1], [C1, O1], {D: 2}, id="call-with-its-output"),
    pytest.param([], {}, [SAID, MORE, SAID], [SAID, MORE], {D: 1}, id="message-twice"),
    pytest.param([], {}, [NOTE, NOTE], [NOTE, NOTE], {}, id="what-users-say-twice"),
    pytest.param([], {}, [C1, C1, O1, O2, MORE], [C1, O1, O2, MORE], {D: 1}, id="call-alone"),
    pytest.param(
        [], {}, [DONE, MORE, DONE, MORE], [DONE, MORE, DONE, MORE], {}, id="another-of-a-counted-id"
    ),
    pytest.param(
        [], {}, [PADDED, MORE, PADDED], [PADDED, MORE, PADDED], {}, id="another-of-a-padded-id"
    ),
    pytest.param(
        [], {}, [FIRST, O1, FIRST, O1], [FIRST, O1], {D: 2}, id="counted-and-its-call-id-is-not"
    ),
    pytest.param(
        [],
        {},
        [SAID, {**SAID, "content": "x"}],
        [SAID, {**SAID, "content": "x"}],
        {},
        id="not-to-the-letter",
    ),
    pytest.param(
        [],
        {},
        [C1, O1, C1, {**O1, "output": "two"}],
        [C1, O1, C1, {**O1, "output": "two"}],
        {},
        id="called-twice",
    ),
    pytest.param([[R1, C1]], UNSTORED, [hollow(R1), C1], [R1, C1], {H: 1}, id="hollow"),
    pytest.param([[R1, C1]], UNSTORED, [reference(R1), C1], [R1, C1], {H: 1}, id="reference"),
    pytest.param([[R1, C1]], {}, [hollow(R1), C1], [hollow(R1), C1], {}, id="hollow-but-kept"),
    pytest.param([], UNSTORED, [hollow(R1), C1], [hollow(R1), C1], {}, id="hollow-unknown"),
    pytest.param(
        [[R1, SAID]], UNSTORED, [R1, reference(SAID)], [R1, reference(SAID)], {}, id="of-a-message"
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
        [[R1, WS]], OTHER_MODEL, [R1, WS], [R1, WS], {}, id="foreign-but-ahead-of-what-is-hosted"
    ),
    pytest.param([[R1, C1]], {}, [C1, O1, R1], [C1, O1, R1], {}, id="out-of-order"),
    pytest.param([[R1, SAID]], {}, [ASK, R1], [ASK], {END: 1}, id="dangling-and-known"),
    pytest.param([], {}, [ASK, MORE], [ASK, MORE], {}, id="nothing"),
]


@pytest.mark.parametrize(("turns", "more", "sent", "want", "counts"), REPAIRED)
def test_what_is_certain_is_mended(
    turns: list[list[Item]],
    more: dict[str, Any],
    sent: list[Item],
    want: list[Item],
    counts: dict[Repair, int],
) -> None:
    """Each repair touches what it is for, and is counted."""
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
    """Then nothing of its kind is done."""
    for switched_off in Repair:
        left = frozenset(Repair) - {switched_off}
        repairs = Repairs(left, lambda _: False)
        done = repaired(world_of(*turns), [ASK, *sent], repairs, **more)

        assert switched_off not in done.counts
        if switched_off not in counts:
            assert done.counts == counts
            assert input_of(done.body) == [ASK, *want]


def every(refused: Collection[bytes] = (), **more: Any) -> Repairs:
    """Return all repairs, where these blobs are known to be refused."""
    return Repairs(frozenset(Repair), refused.__contains__, **more)


def test_what_was_refused_is_not_sent_again() -> None:
    """Whoever it is from; nor is it put where only its id stood."""
    refused = every([digest_of(R1)])
    sent = [ASK, R1, C1, O1, R2, C2, O2]

    assert input_of(repaired(World(), sent, refused).body) == [ASK, nameless(C1), O1, R2, C2, O2]
    done = repaired(world_of([R1, C1]), [ASK, hollow(R1), C1, O1], refused, store=False)
    assert input_of(done.body) == [ASK, nameless(C1), O1]


def test_a_model_known_to_take_no_reasoning_gets_none() -> None:
    """Whole, hollow or by reference."""
    sent = [ASK, R1, C1, O1, hollow(R2), SAID, reference(R1), C2, O2]

    assert input_of(repaired(World(), sent, every(takes_reasoning=False)).body) == [
        ASK,
        nameless(C1),
        O1,
        nameless(SAID),
        nameless(C2),
        O2,
    ]


def test_whose_model_is_not_known_is_not_foreign() -> None:
    """A turn that was retrieved, not made, may name no model: nothing is certain of it."""
    world = world_of([R1, C1])
    world.turns = {key: structs.replace(turn, models=()) for key, turn in world.turns.items()}

    assert repaired(world, [ASK, R1, C1, O1]).counts == {}


def test_nothing_to_mend_is_the_very_same_object() -> None:
    """Not an equal one."""
    for items in ([ASK], [ASK, R1, C1, O1, R2, WS, MORE]):
        sent = body(items)
        assert repaired_body(world_of([R1, C1]), sent).body is sent


def test_a_damaged_copy_becomes_what_was_captured() -> None:
    """As its cure did, when it was refused."""
    damaged = R1 | {"encrypted_content": "gAAAAx"}
    done = repaired(world_of([R1, C1]), [ASK, damaged, C1, O1], every([digest_of(damaged)]))

    assert input_of(done.body) == [ASK, R1, C1, O1]
    assert done.counts == {F: 1}


def test_a_refused_blob_goes_alone_where_what_is_hosted_would_go_with_it() -> None:
    """As its cure did; where upstream keeps nothing, it goes with all of its group."""
    refused = every([digest_of(R1)])

    assert input_of(repaired(World(), [ASK, R1, WS], refused).body) == [ASK, hollow(R1), WS]
    assert input_of(repaired(World(), [ASK, R1, WS, MORE], refused, store=False).body) == [
        ASK,
        MORE,
    ]


@pytest.mark.parametrize("sent", [[ASK, C1, O1, C1, O1], [ASK, R1]], ids=["copies", "dangling"])
def test_where_nobody_checks_pairs_nothing_of_them_is_mended(sent: list[Item]) -> None:
    """Ids may be anything there, and reasoning at the end is gone on from."""
    assert repaired(World(), sent, every(profile=PROFILES["ollama"])).counts == {}


def test_a_request_of_nothing_but_reasoning_stays() -> None:
    """An empty input would be refused for what the client did not do."""
    assert repaired(World(), [R1]).counts == {}


def test_a_good_copy_is_not_put_in_for_another_makers_model() -> None:
    """It could not be read there, whatever it is a copy of."""
    damaged = R1 | {"encrypted_content": "gAAAAx"}
    refused = every([digest_of(damaged)])
    done = repaired(world_of([R1, C1]), [ASK, damaged, C1, O1], refused, model="grok-4")

    assert input_of(done.body) == [ASK, nameless(C1), O1]


def test_what_cannot_be_cut_is_not_said_to_be_mended() -> None:
    """A key twice, of which readers may take either: it goes as it came, and counts as nothing."""
    refused = body([ASK, R1, WS, MORE])
    twice = refused.replace(b'"summary"', b'"type" : "reasoning" , "summary"')
    for sent, count in ((refused, {F: 1}), (twice, {})):
        done = repaired_body(World(), sent, Repairs(frozenset(Repair), bool))
        assert done.counts == count
        assert (done.body is sent) == (not count)
