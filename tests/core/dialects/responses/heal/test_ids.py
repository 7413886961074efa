"""Cures of ids: items sent twice, ids that are not stored, and ids that the API rejects."""

from typing import Any

import pytest
from reasoning_replay.core.dialects.responses.heal.cure import cure
from reasoning_replay.core.dialects.responses.heal.diagnosis import Diagnosis, RefusalKind
from reasoning_replay.core.dialects.responses.profiles import GENERIC
from reasoning_replay.core.dialects.responses.request import read_request
from reasoning_replay.core.history.lookup_keys import LookupResult

from tests.core.dialects.responses.heal.played import (
    ASK,
    MORE,
    SCREEN,
    STATEFUL,
    cured,
    hollow,
    reference,
    world_of,
)
from tests.core.world import Item, World, call, message, nameless, output, reasoning, search

R1, R2, R3 = reasoning("1"), reasoning("2"), reasoning("3")
C1, C2 = call("1"), call("2")
O1, O2 = output(C1, "one"), output(C2, "two")
SAID, OTHER, WS = message("1", "Sunny."), message("1", "Rainy."), search("1")
SEEN, SEEN_AGAIN = output(SCREEN, "iVBO"), output(SCREEN, "Rw0K")
UNSTORED, OTHER_MODEL = {"store": False}, {"model": "o4-mini"}
NOTE: Item = {"type": "message", "role": "user", "id": "msg_9", "content": "Hi"}
ZIP: Item = {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAAAzip"}
NAMED_OUTPUT = O1 | {"id": "fco_1"}
NEWER_OUTPUT = NAMED_OUTPUT | {"output": "two"}

# (items sent, item that upstream names, items of the cure)
TWICE = [
    pytest.param([R1, C1, O1, R1], R1, [R1, C1, O1], id="reasoning"),
    pytest.param([R1, R1, C1, O1], R1, [R1, C1, O1], id="side-by-side"),
    pytest.param(
        [R1, C1, {**R1, "encrypted_content": "gAAAAother"}], R1, [R1, C1], id="other-blob-same-id"
    ),
    pytest.param([hollow(R1), R1, C1], R1, [R1, C1], id="bare-id-and-whole-item"),
    pytest.param([reference(R1), C1, R1], R1, [C1, R1], id="reference-leads"),
    pytest.param([reference(SAID), SAID], SAID, [SAID], id="reference-and-whole-item"),
    pytest.param([reference(C1), C1, O1], C1, [C1, O1], id="reference-is-no-call"),
    pytest.param([SAID, MORE, SAID], SAID, [SAID, MORE], id="message"),
    pytest.param([SAID, MORE, OTHER], SAID, [SAID, MORE, nameless(OTHER)], id="other-text-same-id"),
    pytest.param([C1, O1, C1, O1], C1, [C1, O1], id="call-with-its-output"),
    pytest.param([C1, C1, O1], C1, [C1, O1], id="call-alone"),
    pytest.param(
        [C1, O1, C1, {**O1, "output": "two"}],
        C1,
        [C1, O1, nameless(C1), {**O1, "output": "two"}],
        id="called-twice",
    ),
    pytest.param([C1, C1, C1, O1, O1, O1], C1, [C1, O1], id="thrice"),
    pytest.param([WS, SAID, WS], WS, [WS, SAID], id="hosted"),
    pytest.param(
        [WS, {**WS, "action": {"type": "search", "query": "2"}}], WS, [WS], id="hosted-id-demanded"
    ),
    pytest.param([SCREEN, SEEN, SCREEN, SEEN_AGAIN], SCREEN, None, id="answered-id-demanded"),
    pytest.param(
        [C1, NAMED_OUTPUT, NEWER_OUTPUT],
        NAMED_OUTPUT,
        [C1, NAMED_OUTPUT, nameless(NEWER_OUTPUT)],
        id="other-output-same-id",
    ),
    pytest.param(
        [C1, NAMED_OUTPUT, NAMED_OUTPUT], NAMED_OUTPUT, [C1, NAMED_OUTPUT], id="output-again"
    ),
    pytest.param([NOTE, SAID, NOTE], NOTE, [NOTE, SAID, nameless(NOTE)], id="user-message-stays"),
    pytest.param([R1, C1, R1, SAID, SAID], R1, [R1, C1, SAID], id="all-of-them"),
    pytest.param([ZIP, SAID, ZIP, SAID], ZIP, [ZIP, SAID, ZIP], id="compactions-stay"),
    pytest.param([R1, C1], R1, None, id="once"),
    pytest.param([C1], R1, None, id="not-there"),
]


@pytest.mark.parametrize(("sent", "named", "want"), TWICE)
def test_every_item_is_sent_once(sent: list[Item], named: Item, want: list[Item] | None) -> None:
    """A copy is removed with the copy of its output; an item with other content loses its id."""
    got = cured(World(), [ASK, *sent], Diagnosis(RefusalKind.DUPLICATE, subject=named["id"]))

    assert got == ([ASK, *want] if want is not None else None)


def test_items_that_upstream_stores_are_not_sent_again() -> None:
    """All output items of the stored response are removed; user messages and tool outputs stay."""
    refusal = Diagnosis(RefusalKind.DUPLICATE, subject=R1["id"])
    sent = [R1, C1, O1, SAID]

    assert cured(world_of([R1, C1]), sent, refusal, **STATEFUL) == [O1, SAID]
    assert cured(world_of([R1, C1], [R2, SAID]), sent, refusal, **STATEFUL) == [O1, SAID]
    assert cured(World(), sent, refusal, **STATEFUL) == [C1, O1, SAID]
    assert cured(world_of([R1, C1]), [C1, O1], refusal, **STATEFUL) == [O1]


# (captured turns, other fields of the request, items sent, id not found, items of the cure)
NOT_FOUND: list[Any] = [
    pytest.param([[R1, C1]], UNSTORED, [hollow(R1), C1, O1], R1, [R1, C1, O1], id="hollow"),
    pytest.param([[R1, C1]], {}, [hollow(R1), C1, O1], R1, [R1, C1, O1], id="hollow-stored"),
    pytest.param([[R1, C1]], {}, [{"id": R1["id"]}, C1, O1], R1, [R1, C1, O1], id="bare"),
    pytest.param([[R1, C1]], {}, [reference(R1), C1, O1], R1, [R1, C1, O1], id="reference"),
    pytest.param(
        [[R1, SAID]], {}, [reference(R1), reference(SAID)], SAID, [R1, SAID], id="message"
    ),
    pytest.param([[R1, C1]], {}, [R1, reference(C1), O1], C1, [R1, C1, O1], id="call"),
    pytest.param(
        [[R1, C1]],
        UNSTORED,
        [hollow(R1), C1, O1, hollow(R2), C2, O2],
        R1,
        [R1, C1, O1, nameless(C2), O2],
        id="one-known-one-not",
    ),
    pytest.param([], {}, [hollow(R1), C1, O1], R1, [nameless(C1), O1], id="unknown"),
    pytest.param([], {}, [reference(R1), SAID], R1, [nameless(SAID)], id="unknown-reference"),
    pytest.param([], {}, [reference(SAID), MORE], SAID, [MORE], id="unknown-message"),
    pytest.param(
        [], {}, [R1, reference(SAID), MORE], SAID, [MORE], id="unknown-message-with-its-reasoning"
    ),
    pytest.param([], {}, [reference(C1), O1], C1, None, id="unknown-call-with-its-output"),
    pytest.param([], {}, [reference(WS), C1, O1], WS, [C1, O1], id="unknown-hosted"),
    pytest.param(
        [], {}, [R1, C1, O1], R1, [nameless(R1), nameless(C1), O1], id="whole-but-looked-up"
    ),
    pytest.param(
        [],
        {},
        [R1, C1, O1, hollow(R2), C2, O2],
        C1,
        [nameless(R1), nameless(C1), O1, nameless(C2), O2],
        id="item-looked-up",
    ),
    pytest.param([[R1, C1]], OTHER_MODEL, [hollow(R1), C1], R1, [nameless(C1)], id="another-model"),
    pytest.param(
        [[R1, R2, SAID]],
        {},
        [reference(R1), hollow(R3), reference(SAID)],
        R3,
        [nameless(R1), nameless(SAID)],
        id="half-a-run-by-value",
    ),
    pytest.param([[hollow(R1), C1]], {}, [hollow(R1), C1], R1, [nameless(C1)], id="never-whole"),
    pytest.param([], {}, [C1, O1], R1, None, id="not-there"),
]


@pytest.mark.parametrize(("turns", "more", "sent", "named", "want"), NOT_FOUND)
def test_whole_items_replace_bare_ids(
    turns: list[list[Item]],
    more: dict[str, Any],
    sent: list[Item],
    named: Item,
    want: list[Item] | None,
) -> None:
    """An item is sent as it was captured; an unknown item is removed, but never half of a unit."""
    refusal = Diagnosis(RefusalKind.NOT_FOUND, subject=named["id"])
    got = cured(world_of(*turns), [ASK, *sent], refusal, **more)

    assert got == ([ASK, *want] if want is not None else None)


def named(item: Item, item_id: object) -> Item:
    """Return an item with another id."""
    return {**item, "id": item_id}


# (captured turns, items sent, index that upstream names, items of the cure)
BAD: list[Any] = [
    pytest.param([], [named(C1, "call_1"), O1], 1, [nameless(C1), O1], id="prefix"),
    pytest.param([], [named(C1, "call_1"), O1], None, [nameless(C1), O1], id="no-index"),
    pytest.param([], [named(SAID, "")], 1, [nameless(SAID)], id="empty"),
    pytest.param(
        [], [R1, WS, named(SAID, "")], 3, [R1, WS, nameless(SAID)], id="required-id-stays"
    ),
    pytest.param([], [named(SAID, None)], 1, [nameless(SAID)], id="null"),
    pytest.param([], [named(SAID, "msg 1")], 1, [nameless(SAID)], id="characters"),
    pytest.param([], [named(SAID, "msg_" + "1" * 61)], 1, [nameless(SAID)], id="too-long"),
    pytest.param(
        [],
        [named(C1, "x"), O1, named(C2, "y"), O2, SAID],
        1,
        [nameless(C1), O1, nameless(C2), O2, SAID],
        id="all-of-them",
    ),
    pytest.param([[R1, C1]], [R1, named(C1, "x"), O1], 2, [R1, C1, O1], id="restored-id"),
    pytest.param(
        [[R1, C1]], [named(C1, "x"), O1], 1, [nameless(C1), O1], id="known-but-not-demanded"
    ),
    pytest.param([[R1, C1]], [named(R1, "x"), C1, O1], 1, [R1, C1, O1], id="reasoning-id-replaced"),
    pytest.param(
        [],
        [named(R1, "x"), C1, O1],
        1,
        [nameless(R1), nameless(C1), O1],
        id="reasoning-by-value",
    ),
    pytest.param(
        [], [R1, named(C1, "x"), O1], 2, [nameless(R1), nameless(C1), O1], id="group-by-value"
    ),
    pytest.param(
        [], [named(hollow(R1), "x"), C1, O1], 1, [nameless(C1), O1], id="hollow-reasoning-removed"
    ),
    pytest.param(
        [], [named(R1, ""), hollow(R2), C1], 1, [nameless(R1), hollow(R2), C1], id="next-to-hollow"
    ),
    pytest.param([], [named(WS, "x"), SAID], 1, None, id="demanded-and-unknown"),
    pytest.param([[R1, WS]], [R1, named(WS, "x")], 2, [R1, WS], id="demanded-and-known"),
    pytest.param([], [C1, named(O1, "x")], 2, [C1, O1], id="output"),
    pytest.param([], [named(NOTE, "x")], 1, [nameless(NOTE)], id="users-message"),
    pytest.param([], [C1, O1], 9, None, id="not-there"),
    pytest.param(
        [[R1, C1]], [nameless(R1), nameless(C1), O1], 1, [R1, nameless(C1), O1], id="id-demanded"
    ),
    pytest.param([], [nameless(R1), nameless(C1), O1, R2], 1, None, id="id-demanded-and-unknown"),
]


@pytest.mark.parametrize(("turns", "sent", "index", "want"), BAD)
def test_a_bad_id_is_replaced_or_left_out(
    turns: list[list[Item]], sent: list[Item], index: int | None, want: list[Item] | None
) -> None:
    """The captured id is used where it is demanded; otherwise all ids of a group are left out."""
    got = cured(world_of(*turns), [ASK, *sent], Diagnosis(RefusalKind.BAD_ID, index=index))

    assert got == ([ASK, *want] if want is not None else None)


def test_an_item_with_a_repeated_key_stays() -> None:
    """If an item has two ids, readers disagree on which one counts, so the item is not edited."""
    raw = b'{"input":[{"type":"function_call","id":"x","id":""},{"type":"message","id":"x"}]}'
    sent = read_request(raw, {})
    refusal = Diagnosis(RefusalKind.BAD_ID, index=1)

    found = cure(sent, sent, refusal, LookupResult(), GENERIC)

    assert found is not None
    assert found.body == raw.replace(b',"id":"x"}]', b"}]")


def test_a_duplicate_without_a_named_id_is_not_cured() -> None:
    """Without a named id there is no copy to remove."""
    sent = [ASK, R1, C1, O1]

    assert cured(World(), sent, Diagnosis(RefusalKind.DUPLICATE), **STATEFUL) is None
