"""Pairing: an item that lacks its other half gets it from the request or from a captured turn."""

from typing import Any

import pytest
from reasoning_replay.core.dialects.responses.heal.diagnosis import Diagnosis, RefusalKind

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
from tests.core.world import (
    Item,
    World,
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
SEEN = output(SCREEN, "iVBO")
UNSTORED = {"store": False}
OTHER_MODEL = {"model": "o4-mini"}


def orphan(item: Item, wanted: Item = R1) -> Diagnosis:
    """Return the diagnosis of an item without its reasoning."""
    return Diagnosis(RefusalKind.LACKS_REASONING, subject=item["id"], wanted=wanted["id"])


def alone(item: Item = R1) -> Diagnosis:
    """Return the diagnosis of reasoning without the item that it led to."""
    return Diagnosis(RefusalKind.LACKS_FOLLOWER, subject=item["id"])


def renamed(item: Item) -> Item:
    """Return a call or its output under another `call_id`."""
    return item | {"call_id": f"call_{drawn(item['call_id'])}"}


# (captured turns, items sent, refusal, items of the cure)
WITH_REASONING = [
    pytest.param([[R1, C1]], [C1, O1], orphan(C1), [R1, C1, O1], id="fetched"),
    pytest.param(
        [[R1, SAID], [R2, C2]],
        [SAID, MORE, C2, O2],
        orphan(C2, R2),
        [R1, SAID, MORE, R2, C2, O2],
        id="fetched-with-all-else",
    ),
    pytest.param(
        [[R1, C1]],
        [C1, O1, C2, O2],
        orphan(C1),
        [R1, C1, O1, nameless(C2), O2],
        id="fetched-and-another-is-unknown",
    ),
    pytest.param(
        [[R1, C1], [C2]],
        [C1, O1, C2, O2],
        orphan(C1),
        [R1, C1, O1, C2, O2],
        id="fetched-and-another-had-none",
    ),
    pytest.param([[R1, C1]], [C1, O1, R1], orphan(C1), [R1, C1, O1], id="moved"),
    pytest.param(
        [[R1, C1], [R2, C2]],
        [R1, C2, O2, C1, O1, R2],
        orphan(C2, R2),
        [R2, C2, O2, R1, C1, O1],
        id="all-moved",
    ),
    pytest.param([[R1, C1]], [nameless(R1), C1, O1], orphan(C1), [R1, C1, O1], id="named-again"),
    pytest.param(
        [[R1, C1], [R2, C2]],
        [nameless(R1), nameless(C1), O1, nameless(R2), C2, O2],
        orphan(C2, R2),
        [nameless(R1), nameless(C1), O1, R2, C2, O2],
        id="named-again-where-needed",
    ),
    pytest.param([], [C1, O1], orphan(C1), [nameless(C1), O1], id="unknown"),
    pytest.param(
        [],
        [SAID, MORE, C1, O1, R2, C2],
        orphan(SAID),
        [nameless(SAID), MORE, nameless(C1), O1, R2, C2],
        id="unknown-all-of-them",
    ),
    pytest.param([], [WS, SAID], orphan(WS), [nameless(SAID)], id="unknown-hosted"),
    pytest.param([], [C1, WS, O1], orphan(C1), [nameless(C1), WS, O1], id="hosted-not-blamed"),
    pytest.param([], [SCREEN, SEEN], orphan(SCREEN), None, id="unknown-answered-id-demanded"),
    pytest.param([], [reference(SAID)], orphan(SAID), None, id="unknown-reference"),
    pytest.param([[R1, SAID]], [reference(SAID)], orphan(SAID), [R1, reference(SAID)], id="ref"),
    pytest.param([], [R1, ASK, C1, O1], orphan(C1), [ASK, R1, C1, O1], id="next-to-user-message"),
    pytest.param(
        [], [R1, SAID, C1, O1], orphan(C1), [R1, C1, SAID, O1], id="item-moves-to-reasoning"
    ),
    pytest.param([], [R1, R2, C2, C1], orphan(C1), [R1, C1, R2, C2], id="item-of-first-in-run"),
    pytest.param([], [R2, R1, C2, C1], orphan(C1), [R2, C2, R1, C1], id="item-of-last-in-run"),
    pytest.param([], [C1, O1, R1], orphan(C1), [R1, C1, O1], id="reasoning-after-its-item"),
    pytest.param(
        [], [R1, C1, O1], orphan(C1), [nameless(R1), nameless(C1), O1], id="in-place-by-value"
    ),
    pytest.param([], [R1, ASK, O1], orphan(C1), None, id="named-item-is-missing"),
    pytest.param(
        [],
        [R1, C1, user("Hi") | {"id": "msg_9"}],
        orphan({"id": "msg_9"}),
        None,
        id="named-item-is-a-user-message",
    ),
]


@pytest.mark.parametrize(("turns", "sent", "refusal", "want"), WITH_REASONING)
def test_an_item_gets_its_reasoning(
    turns: list[list[Item]], sent: list[Item], refusal: Diagnosis, want: list[Item] | None
) -> None:
    """The reasoning is moved or inserted; otherwise the item loses the id that demands it."""
    got = cured(world_of(*turns), [ASK, *sent], refusal)

    assert got == ([ASK, *want] if want is not None else None)


# (captured turns, other fields of the request, items sent, items of the cure)
GUARDED: list[Any] = [
    pytest.param([[R1, C1]], OTHER_MODEL, [C1, O1], [nameless(C1), O1], id="another-model"),
    pytest.param([[R1, C1]], STATEFUL, [C1, O1], [nameless(C1), O1], id="history-at-upstream"),
    pytest.param([[hollow(R1), C1]], UNSTORED, [C1, O1], [nameless(C1), O1], id="no-usable-form"),
    pytest.param([[R1, C1]], UNSTORED, [C1, O1], [R1, C1, O1], id="not-stored"),
]


@pytest.mark.parametrize(("turns", "more", "sent", "want"), GUARDED)
def test_guarded_reasoning_is_not_inserted(
    turns: list[list[Item]], more: dict[str, Any], sent: list[Item], want: list[Item]
) -> None:
    """The guards of injection hold for healing as well."""
    assert cured(world_of(*turns), [ASK, *sent], orphan(C1), **more) == [ASK, *want]


# (captured turns, items sent, refusal, items of the cure)
WITH_FOLLOWER = [
    pytest.param(
        [[R1, SAID, C1]],
        [R1, C1, O1],
        alone(),
        [nameless(R1), nameless(C1), O1],
        id="message-dropped",
    ),
    pytest.param([[R1, SAID, C1]], [hollow(R1), C1, O1], alone(), [nameless(C1), O1], id="hollow"),
    pytest.param([[R1, C1]], [R1, ASK, C1, O1], alone(), [ASK, R1, C1, O1], id="moved"),
    pytest.param([[R1, C1]], [R1, O1], alone(), [R1, C1, O1], id="call-of-an-output"),
    pytest.param([[R1, C1, C2]], [R1, C2, O1, O2], alone(), [R1, C1, C2, O1, O2], id="first-call"),
    pytest.param([[R1, C1]], [R1, MORE], alone(), [MORE], id="call-without-output"),
    pytest.param([[R1, WS, SAID]], [R1, SAID], alone(), [R1, WS, SAID], id="hosted"),
    pytest.param([[R1, WS]], [R1, MORE], alone(), [R1, WS, MORE], id="hosted-alone"),
    pytest.param([[R1, SAID]], [R1, MORE], alone(), [MORE], id="message-deleted-by-user"),
    pytest.param(
        [[R1, SAID], [R2, LATER]],
        [R1, LATER, MORE],
        alone(),
        [nameless(LATER), MORE],
        id="before-other-message",
    ),
    pytest.param([[R1, C1]], [R1, nameless(C1), O1], alone(), [R1, C1, O1], id="id-restored"),
    pytest.param(
        [[R1, SAID]],
        [R1, {"role": "assistant", "content": "Sunny."}, MORE],
        alone(),
        [nameless(R1), {"role": "assistant", "content": "Sunny."}, MORE],
        id="item-cannot-have-an-id",
    ),
    pytest.param([], [R1, MORE], alone(), [MORE], id="unknown-and-nothing-follows"),
    pytest.param(
        [], [R1, nameless(C1), O1], alone(), [nameless(R1), nameless(C1), O1], id="unknown-by-value"
    ),
    pytest.param([], [hollow(R1), nameless(C1)], alone(), [nameless(C1)], id="unknown-hollow"),
    pytest.param(
        [],
        [reference(R1), nameless(C1), O1, hollow(R2), nameless(C2), O2],
        alone(),
        [nameless(C1), O1, nameless(C2), O2],
        id="unknown-all-of-a-kind",
    ),
    pytest.param([], [R1, C1, O1], alone(), [nameless(R1), nameless(C1), O1], id="unknown-pair"),
    pytest.param(
        [], [R1, C1, O1, R2, C2], alone(R2), [R1, C1, O1, nameless(R2), nameless(C2)], id="blamed"
    ),
    pytest.param([], [nameless(R1), MORE], alone(), None, id="reasoning-without-id"),
    pytest.param(
        [[R1, WS, R2, SAID]], [R1, R2, SAID], alone(), [R1, WS, R2, SAID], id="hosted-between"
    ),
    pytest.param(
        [[R1, LATER], [R2, SAID]],
        [R1, R2, SAID],
        alone(),
        [R2, SAID],
        id="run-of-two-responses",
    ),
    pytest.param([], [R1, R2, C2], alone(), [R2, C2], id="run-of-two-unknown"),
]


@pytest.mark.parametrize(("turns", "sent", "refusal", "want"), WITH_FOLLOWER)
def test_reasoning_gets_the_item_it_led_to(
    turns: list[list[Item]], sent: list[Item], refusal: Diagnosis, want: list[Item] | None
) -> None:
    """The item is moved, or inserted if its turn was finished; else the reasoning is removed."""
    got = cured(world_of(*turns), [ASK, *sent], refusal)

    assert got == ([ASK, *want] if want is not None else None)


def test_without_store_an_item_keeps_its_missing_id() -> None:
    """Upstream looks up no ids without `store`, so the pair is sent by value."""
    sent = [ASK, R1, nameless(C1), O1]
    want = [ASK, nameless(R1), nameless(C1), O1]

    assert cured(world_of([R1, C1]), sent, alone(), store=False) == want


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


OPEN = {"type": "reasoning", "id": f"rs_{drawn(7)}", "summary": []}
TEXT = {"content": [{"type": "reasoning_text", "text": "The user asks."}]}

# (captured turns, items sent, call that upstream names, other fields, items of the cure)
CALLS: list[Any] = [
    pytest.param([[R1, C1]], [O1], C1, {}, [R1, C1, O1], id="captured"),
    pytest.param([[R1, C1]], [R1, O1], C1, {}, [R1, C1, O1], id="captured-reasoning-there"),
    pytest.param([[R1, C1]], [O1, O1], C1, {}, [R1, C1, O1, O1], id="once-for-two-outputs"),
    pytest.param(
        [[R1, C1, C2]], [C2, O1, O2], C1, {}, [R1, C1, C2, O1, O2], id="with-another-call"
    ),
    pytest.param([[R1, C1]], [reference(C1), O1], C1, {}, [R1, C1, O1], id="reference"),
    pytest.param([[R1, C1]], [O1], C1, OTHER_MODEL, [nameless(C1), O1], id="another-model"),
    pytest.param(
        [[R1, SCREEN]], [SEEN], SCREEN, OTHER_MODEL, [SCREEN, SEEN], id="another-model-id-demanded"
    ),
    pytest.param(
        [[hollow(R1), C1]], [O1], C1, {}, [hollow(R1), C1, O1], id="reasoning-stored-upstream"
    ),
    pytest.param(
        [[hollow(R1), C1]], [O1], C1, UNSTORED, [nameless(C1), O1], id="reasoning-not-stored"
    ),
    pytest.param([[OPEN | TEXT, C1]], [O1], C1, OTHER_MODEL, [OPEN | TEXT, C1, O1], id="open"),
    pytest.param([[R1, C1]], [O1], C1, STATEFUL, None, id="history-at-upstream"),
    pytest.param([], [O1], C1, {}, None, id="unknown"),
    pytest.param([], [O1, C1], C1, {}, [C1, O1], id="call-after-its-output"),
    pytest.param([], [C1, O1], C1, {}, None, id="already-in-order"),
]


@pytest.mark.parametrize(("turns", "sent", "named", "more", "want"), CALLS)
def test_an_output_gets_its_call(
    turns: list[list[Item]],
    sent: list[Item],
    named: Item,
    more: dict[str, Any],
    want: list[Item] | None,
) -> None:
    """The call is moved, or inserted with its reasoning; otherwise the refusal is passed on."""
    refusal = Diagnosis(RefusalKind.LACKS_CALL, subject=named["call_id"])
    got = cured(world_of(*turns), [ASK, *sent], refusal, **more)

    assert got == ([ASK, *want] if want is not None else None)


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


# (items sent, call that upstream names, items of the cure)
OUTPUTS = [
    pytest.param([C1, MORE, O1], C1, [C1, O1, MORE], id="after-a-user-message"),
    pytest.param([O1, C1], C1, [C1, O1], id="before-its-call"),
    pytest.param([C1, MORE], C1, None, id="missing"),
    pytest.param([C1, O1, C2, MORE], C2, None, id="missing-next-to-another"),
    pytest.param([C1, O1], C1, None, id="in-order"),
]


@pytest.mark.parametrize(("sent", "named", "want"), OUTPUTS)
def test_a_call_gets_its_output(sent: list[Item], named: Item, want: list[Item] | None) -> None:
    """An output in the request is moved to its call; a missing output is never invented."""
    refusal = Diagnosis(RefusalKind.LACKS_OUTPUT, subject=named["call_id"])
    got = cured(World(), [ASK, *sent], refusal)

    assert got == ([ASK, *want] if want is not None else None)


# (captured turns, items sent, items of the cure)
TEXTS = [
    pytest.param([[OPEN | TEXT, C1]], [C1, O1], [OPEN | TEXT, C1, O1], id="missing"),
    pytest.param([[OPEN | TEXT, C1]], [OPEN, C1, O1], [OPEN | TEXT, C1, O1], id="hollow"),
    pytest.param([[OPEN | TEXT, C1]], [OPEN | TEXT, C1, O1], None, id="there"),
    pytest.param(
        [[OPEN | TEXT, C1, C2]],
        [OPEN | TEXT, C1, O1, C2, O2],
        [OPEN | TEXT, C1, C2, O1, O2],
        id="interleaved",
    ),
    pytest.param([], [OPEN, C1, O1], None, id="unknown"),
    pytest.param([[R1, C1]], [hollow(R1), C1, O1], None, id="captured-without-text"),
]


@pytest.mark.parametrize(("turns", "sent", "want"), TEXTS)
def test_reasoning_text_is_inserted(
    turns: list[list[Item]], sent: list[Item], want: list[Item] | None
) -> None:
    """Where upstream requires readable reasoning, its text is inserted and calls are grouped."""
    got = cured(world_of(*turns), [ASK, *sent], Diagnosis(RefusalKind.LACKS_TEXT))

    assert got == ([ASK, *want] if want is not None else None)


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
