"""Repairs: the edits before the first attempt, made only where the request is certainly wrong."""

from dataclasses import replace

import pytest
from msgspec import structs
from reasoning_replay.core.dialects.refusal_memory import BLOB, DAMAGED
from reasoning_replay.core.dialects.responses.heal.diagnosis import RefusalKind
from reasoning_replay.core.dialects.responses.heal.repair import Repair
from reasoning_replay.core.dialects.responses.profiles import GENERIC, PROFILES, Ids
from reasoning_replay.core.history.model_names import family

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
from tests.core.dialects.responses.notation import history, request_of, rows
from tests.core.world import (
    MODEL,
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
F = Repair.FOREIGN
NO_REASONING = (RefusalKind.NO_REASONING_MODEL, family(MODEL))


COLUMNS = ("captured", "request_", "sent", "want", "counts")
REPAIRED = rows("heal/repairs.md")


@pytest.mark.parametrize(COLUMNS, REPAIRED)
def test_certain_faults_are_repaired(
    captured: str, request_: str, sent: str, want: str, counts: str
) -> None:
    """Each repair edits only its own fault, and is counted; a pair stays as the history grows."""
    world = world_of(*map(history, captured.split(" / "))) if captured else World()
    for rest in ([], [MORE]) if "unpaired" in counts else ([],):
        done = repaired(world, [ASK, *history(sent), *rest], **request_of(request_))

        assert input_of(done.body) == [ASK, *history(want), *rest]
        assert ", ".join(f"{repair}={n}" for repair, n in done.counts.items()) == counts


@pytest.mark.parametrize(COLUMNS, REPAIRED)
def test_each_repair_may_be_switched_off(
    captured: str, request_: str, sent: str, want: str, counts: str
) -> None:
    """A repair that is switched off edits nothing; the other repairs still work."""
    world = world_of(*map(history, captured.split(" / "))) if captured else World()
    for switched_off in Repair:
        allowed = frozenset(Repair) - {switched_off}
        done = repaired(world, [ASK, *history(sent)], allowed=allowed, **request_of(request_))

        assert switched_off not in done.counts
        if switched_off not in counts:
            assert input_of(done.body) == [ASK, *history(want)]


def blob(item: Item) -> tuple[str, bytes]:
    """Return the refusal of an item's blob."""
    return BLOB, digest_of(item)


def damaging(world: World) -> list[tuple[str, bytes]]:
    """Return that the client damages the reasoning of all conversations."""
    return [(DAMAGED, turn.conversation) for turn in world.turns.values()]


def test_a_refused_blob_is_not_sent_again() -> None:
    """A refused blob is removed, and it is not inserted where the client sent only its id."""
    refused = [blob(R1)]
    sent = [ASK, R1, C1, O1, R2, C2, O2]

    assert input_of(repaired(World(), sent, refused).body) == [ASK, nameless(C1), O1, R2, C2, O2]
    done = repaired(world_of([R1, C1]), [ASK, hollow(R1), C1, O1], refused, store=False)
    assert input_of(done.body) == [ASK, nameless(C1), O1]


def test_a_model_that_rejects_reasoning_gets_none() -> None:
    """Reasoning is removed in every form: whole, hollow and as a reference."""
    sent = [ASK, R1, C1, O1, hollow(R2), SAID, reference(R1), C2, O2]

    assert input_of(repaired(World(), sent, [NO_REASONING]).body) == [
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
    done = repaired(world_of([R1, C1]), [ASK, damaged, C1, O1], [blob(damaged)])

    assert input_of(done.body) == [ASK, R1, C1, O1]
    assert done.counts == {F: 1}


@pytest.mark.parametrize("blob", ["gAAAAx", ""])
def test_blobs_of_a_client_that_damages_them_are_replaced(blob: str) -> None:
    """All of the conversation, before upstream refuses each of them; good ones stay."""
    world = world_of([R1, C1], [R2, C2])
    damaged = R1 | {"encrypted_content": blob}
    sent = [ASK, damaged, C1, O1, R2, C2, O2]
    done = repaired(world, sent, damaging(world))

    assert input_of(done.body) == [ASK, R1, C1, O1, R2, C2, O2]
    assert done.counts == {F: 1}
    other = repaired(world, sent, damaging(world), model="grok-4")
    assert R1 not in input_of(other.body)


def test_a_refused_blob_before_a_hosted_item_takes_that_item_with_it() -> None:
    """The API requires the id of a hosted item, and the reasoning before it."""
    refused = [blob(R1)]

    assert input_of(repaired(World(), [ASK, R1, WS, MORE], refused).body) == [ASK, MORE]


@pytest.mark.parametrize("sent", [[ASK, R1, R1, C1, O1], [ASK, R1]], ids=["copies", "dangling"])
def test_pairs_are_not_repaired_for_an_upstream_that_does_not_check_them(sent: list[Item]) -> None:
    """Ollama accepts any ids, and it continues from reasoning at the end of the input."""
    assert repaired(World(), sent, profile=PROFILES["ollama"]).counts == {}


def test_a_request_of_reasoning_alone_stays() -> None:
    """The repair would leave an empty input, which upstream refuses."""
    assert repaired(World(), [R1]).counts == {}


def test_the_original_is_not_inserted_for_another_vendors_model() -> None:
    """Another vendor's model cannot decrypt it, so the damaged copy is removed."""
    damaged = R1 | {"encrypted_content": "gAAAAx"}
    refused = [blob(damaged)]
    done = repaired(world_of([R1, C1]), [ASK, damaged, C1, O1], refused, model="grok-4")

    assert input_of(done.body) == [ASK, nameless(C1), O1]


def test_an_item_that_cannot_be_edited_is_not_counted() -> None:
    """An item in which a key occurs twice is sent unchanged, and no repair is counted."""
    sent = body([ASK, R1, nameless(C1), O1]).replace(b'"arguments"', b'"name":"x","arguments"')
    done = repaired_body(world_of([R1, C1]), sent)

    assert (done.body is sent, done.counts) == (True, {})


@pytest.mark.parametrize(
    ("ids", "turn", "sent", "want"),
    [
        pytest.param(
            Ids.DROPPED, [R1, C1], [nameless(R1), C1], [nameless(R1), nameless(C1)], id="neither"
        ),
        pytest.param(Ids.DROPPED, [R1, WS], [nameless(R1), WS], [R1, WS], id="demanded"),
        pytest.param(Ids.REQUIRED, [R1, C1], [R1, nameless(C1)], [R1, C1], id="both"),
        pytest.param(Ids.REQUIRED, [R1, SAID, C1], [R1, C1], [R1, C1], id="required"),
        pytest.param(Ids.KEPT, [R1, C1], [R1, nameless(C1)], [R1, nameless(C1)], id="not-checked"),
    ],
)
def test_the_repaired_form_is_accepted_by_the_profile(
    ids: Ids, turn: list[Item], sent: list[Item], want: list[Item]
) -> None:
    """If the profile accepts neither form, nothing is changed."""
    allowed, profile = [Repair.UNPAIRED], replace(GENERIC, ids=ids)
    done = repaired(world_of(turn), [ASK, *sent], allowed=allowed, profile=profile)

    assert input_of(done.body) == [ASK, *want]


def test_an_upstream_that_stores_nothing_accepts_an_unpaired_id() -> None:
    """The profile decides this, independent of `store` in the request."""
    done = repaired(world_of([R1, C1]), [ASK, R1, nameless(C1), O1], profile=PROFILES["codex"])

    assert done.counts == {}
