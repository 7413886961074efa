"""Cure of a refused request: it is retried only if an edit can change the outcome."""

import json
from collections import defaultdict

import pytest
from reasoning_replay.core.dialects.responses.heal.cure import (
    BARE_LOOKED_UP,
    RefusedResponses,
    lookups_for,
)
from reasoning_replay.core.dialects.responses.heal.diagnosis import Diagnosis, RefusalKind
from reasoning_replay.core.dialects.responses.profiles import GENERIC
from reasoning_replay.core.dialects.responses.request import read_request
from reasoning_replay.core.history.lookup_keys import LookupResult, keys_of_name, keys_of_request

from tests.core.dialects.responses.heal.played import (
    ASK,
    MORE,
    cure_of,
    cured,
    hollow,
    maybe_cure_of,
    reference,
    world_of,
)
from tests.core.world import World, body, call, drawn, message, nameless, output, reasoning

R1, R2 = reasoning("1"), reasoning("2")
C1, C2 = call("1"), call("2")
O1, O2 = output(C1, "one"), output(C2, "two")
SENT, GIVEN = [ASK, R1, C1, O1], [ASK, C1, O1]
NAMED = {"subject": C1["id"], "wanted": R2["id"]}


@pytest.mark.parametrize("fault", sorted(RefusalKind))
def test_without_a_possible_edit_the_refusal_is_passed_on(fault: RefusalKind) -> None:
    """A request without injected items, refused items and captured turns is not retried."""
    assert maybe_cure_of(World(), [ASK], Diagnosis(fault, subject="x", wanted="y")) is None


@pytest.mark.parametrize(
    "fault", [RefusalKind.INPUT, RefusalKind.OTHER, RefusalKind.INCLUDE, RefusalKind.NOT_FOUND]
)
def test_without_another_edit_the_clients_own_body_is_sent(fault: RefusalKind) -> None:
    """An edit by the proxy may be the cause, so the retry sends the bytes of the client."""
    found = cure_of(World(), SENT, Diagnosis(fault, subject="x"), given=GIVEN)
    assert found.body == body(GIVEN)
    assert found.is_clients_own


@pytest.mark.parametrize("fault", [RefusalKind.LACKS_OUTPUT, RefusalKind.LACKS_CALL])
def test_edits_stay_if_they_cannot_be_the_cause(fault: RefusalKind) -> None:
    """The proxy never removes an output or a call, so its edits stay."""
    assert maybe_cure_of(World(), SENT, Diagnosis(fault), given=GIVEN) is None


def test_a_cure_equal_to_the_clients_body_undoes_all_edits() -> None:
    """A cure that has the items of the client is sent as the client's own bytes."""
    given, sent = (
        read_request(json.dumps({"input": items}, separators=(",", ":")).encode(), {})
        for items in ([ASK, nameless(C1), O1], SENT)
    )
    found = RefusedResponses(
        sent, given, Diagnosis(RefusalKind.BLOB), LookupResult(), GENERIC
    ).cure()

    assert found is not None
    assert found.is_clients_own
    assert found.body == given.body


def test_items_that_a_cure_adds_are_counted() -> None:
    """`injected` counts the items that the client did not send."""
    refusal = Diagnosis(RefusalKind.LACKS_REASONING, subject=C1["id"], wanted=R1["id"])

    added = cure_of(world_of([R1, C1]), GIVEN, refusal)
    taken = cure_of(World(), SENT, Diagnosis(RefusalKind.NO_REASONING_MODEL))
    assert (added.injected, added.is_clients_own) == (1, False)
    assert (taken.injected, taken.is_clients_own) == (0, False)


def test_items_that_upstream_names_are_looked_up_first() -> None:
    """The lookup starts with the missing reasoning, then its item, bare ids and outputs."""
    sent = read_request(body([ASK, hollow(R1), reference(C2), O1]), {})
    asked = lookups_for(sent, Diagnosis(RefusalKind.LACKS_REASONING, **NAMED))
    names = [R2["id"], C1["id"], R1["id"], C2["id"], C1["call_id"]]

    assert [list(one.id_keys) for one in asked[:5]] == [keys_of_name(name) for name in names]
    assert [one.keys for one in asked[5:]] == [one.keys for one in keys_of_request(sent)]


def test_a_lookup_is_bounded() -> None:
    """Only the newest ids and outputs are looked up, each once; unusable names are skipped."""
    many = [hollow(reasoning(f"{n}")) for n in range(BARE_LOOKED_UP * 2)]
    sent = read_request(body([ASK, *many, *many, *[O1] * 200]), {})

    asked = lookups_for(sent, Diagnosis(RefusalKind.NOT_FOUND, subject="call_0"))

    assert len(asked) == BARE_LOOKED_UP + 1 + len(keys_of_request(sent))


def test_a_body_with_a_repeated_key_is_not_cured() -> None:
    """If a key occurs twice in reasoning, readers disagree on its value, so it is not edited."""
    raw = b'{"input":[{"type":"reasoning","id":"rs_1","status":1,"status":2},{"role":"user"}]}'
    sent = read_request(raw, {})

    found = RefusedResponses(
        sent, sent, Diagnosis(RefusalKind.FIELD, member="status"), LookupResult(), GENERIC
    ).cure()

    assert found is None
    assert json.loads(raw)["input"][0]["status"] == 2


def test_an_item_with_a_repeated_key_stays() -> None:
    """If an item has two ids, readers disagree on which one counts, so the item is not edited."""
    raw = b'{"input":[{"type":"function_call","id":"x","id":""},{"type":"message","id":"x"}]}'
    sent = read_request(raw, {})
    refusal = Diagnosis(RefusalKind.BAD_ID, index=1)

    found = RefusedResponses(sent, sent, refusal, LookupResult(), GENERIC).cure()

    assert found is not None
    assert found.body == raw.replace(b',"id":"x"}]', b"}]")


def test_a_call_matched_to_its_twin_is_not_inserted_twice() -> None:
    """Two equal calls share a common `call_id`; the client sends one of them, without its id."""
    one = call("1", call_id="call_0")
    twin = one | {"id": f"fc_{drawn(9)}"}
    world = world_of([R1, one])
    world.learn(body([ASK, R1, one, output(one, "one")]), [R2, twin])
    refusal = Diagnosis(RefusalKind.LACKS_FOLLOWER, subject=R2["id"])
    sent = [ASK, reference(R2), nameless(one), output(one, "one")]

    assert cured(world, sent, refusal) == [ASK, reference(R2), twin, output(one, "one")]


def test_reasoning_that_was_missed_is_found_by_the_id_of_its_item() -> None:
    """The client has changed the text; only its id tells which message it is."""
    said, later = message("1", "It is sunny in Paris today."), message("2", "Rainy.")
    world = world_of([R1, said])
    stored, world.index = world.index, defaultdict(list)
    history = [ASK, message("1", "Sun."), MORE]
    world.learn(body(history), [R2, later])  # its request missed the first turn
    for key, leads in stored.items():
        world.index[key] += leads
    refusal = Diagnosis(RefusalKind.LACKS_REASONING, subject=said["id"], wanted=R1["id"])

    healed = cured(world, [*history, R2, later, MORE], refusal)

    assert healed == [ASK, R1, message("1", "Sun."), MORE, R2, later, MORE]


def test_a_call_of_an_unfinished_turn_is_inserted_by_value() -> None:
    """Its reasoning is guarded, and its id would demand that reasoning."""
    cut = world_of([R1, {**C1, "status": "incomplete"}], status="incomplete")
    refusal = Diagnosis(RefusalKind.LACKS_CALL, subject=C1["call_id"])

    assert cured(cut, [ASK, O1], refusal) == [
        ASK,
        nameless({**C1, "status": "incomplete"}),
        O1,
    ]
