"""What lacks its other half gets it back, from where it stands or as it was captured."""

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
    """Return the diagnosis of reasoning without what it led to."""
    return Diagnosis(RefusalKind.LACKS_FOLLOWER, subject=item["id"])


# (turns captured, what was sent, the refusal, what is sent instead)
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
    pytest.param([], [R1, ASK, C1, O1], orphan(C1), [ASK, R1, C1, O1], id="beside-nothing-lost"),
    pytest.param([], [R1, SAID, C1, O1], orphan(C1), [R1, C1, SAID, O1], id="beside-item-moves"),
    pytest.param([], [R1, R2, C2, C1], orphan(C1), [R1, C1, R2, C2], id="beside-first-of-run"),
    pytest.param([], [R2, R1, C2, C1], orphan(C1), [R2, C2, R1, C1], id="beside-last-of-run"),
    pytest.param([], [C1, O1, R1], orphan(C1), [R1, C1, O1], id="beside-behind"),
    pytest.param(
        [], [R1, C1, O1], orphan(C1), [nameless(R1), nameless(C1), O1], id="beside-by-value"
    ),
    pytest.param([], [hollow(R1), C1, O1], orphan(C1), [nameless(C1), O1], id="beside-hollow-goes"),
    pytest.param([], [R1, ASK, O1], orphan(C1), None, id="what-it-names-is-not-there"),
    pytest.param(
        [],
        [R1, C1, user("Hi") | {"id": "msg_9"}],
        orphan({"id": "msg_9"}),
        None,
        id="what-it-names-is-the-users",
    ),
]


@pytest.mark.parametrize(("turns", "sent", "refusal", "want"), WITH_REASONING)
def test_an_item_gets_its_reasoning(
    turns: list[list[Item]], sent: list[Item], refusal: Diagnosis, want: list[Item] | None
) -> None:
    """Moved or fetched; or it goes without the id that demands it."""
    got = cured(world_of(*turns), [ASK, *sent], refusal)

    assert got == ([ASK, *want] if want is not None else None)


# (turns captured, how they were asked for, what the request says, sent, sent instead)
GUARDED: list[Any] = [
    pytest.param([[R1, C1]], OTHER_MODEL, [C1, O1], [nameless(C1), O1], id="another-model"),
    pytest.param([[R1, C1]], STATEFUL, [C1, O1], [nameless(C1), O1], id="history-is-upstreams"),
    pytest.param([[hollow(R1), C1]], UNSTORED, [C1, O1], [nameless(C1), O1], id="no-form-of-it"),
    pytest.param([[R1, C1]], UNSTORED, [C1, O1], [R1, C1, O1], id="not-stored"),
]


@pytest.mark.parametrize(("turns", "more", "sent", "want"), GUARDED)
def test_what_may_not_go_back_is_not_fetched(
    turns: list[list[Item]], more: dict[str, Any], sent: list[Item], want: list[Item]
) -> None:
    """The guards of injecting hold for curing as well."""
    assert cured(world_of(*turns), [ASK, *sent], orphan(C1), **more) == [ASK, *want]


# (turns captured, what was sent, the refusal, what is sent instead)
WITH_FOLLOWER = [
    pytest.param(
        [[R1, SAID, C1]],
        [R1, C1, O1],
        alone(),
        [nameless(R1), nameless(C1), O1],
        id="its-message-is-gone",
    ),
    pytest.param([[R1, SAID, C1]], [hollow(R1), C1, O1], alone(), [nameless(C1), O1], id="hollow"),
    pytest.param([[R1, C1]], [R1, ASK, C1, O1], alone(), [ASK, R1, C1, O1], id="moved"),
    pytest.param([[R1, C1]], [R1, O1], alone(), [R1, C1, O1], id="call-of-an-output"),
    pytest.param([[R1, C1, C2]], [R1, C2, O1, O2], alone(), [R1, C1, C2, O1, O2], id="first-call"),
    pytest.param([[R1, C1]], [R1, MORE], alone(), [MORE], id="call-without-output"),
    pytest.param([[R1, WS, SAID]], [R1, SAID], alone(), [R1, WS, SAID], id="hosted"),
    pytest.param([[R1, WS]], [R1, MORE], alone(), [R1, WS, MORE], id="hosted-alone"),
    pytest.param([[R1, SAID]], [R1, MORE], alone(), [MORE], id="message-was-taken-back"),
    pytest.param(
        [[R1, SAID], [R2, LATER]],
        [R1, LATER, MORE],
        alone(),
        [nameless(LATER), MORE],
        id="before-anothers",
    ),
    pytest.param([[R1, C1]], [R1, nameless(C1), O1], alone(), [R1, C1, O1], id="id-given-back"),
    pytest.param(
        [[R1, SAID]],
        [R1, {"role": "assistant", "content": "Sunny."}, MORE],
        alone(),
        [nameless(R1), {"role": "assistant", "content": "Sunny."}, MORE],
        id="takes-no-id",
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
    pytest.param([], [nameless(R1), MORE], alone(), None, id="nothing-names-it"),
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
def test_reasoning_gets_what_it_led_to(
    turns: list[list[Item]], sent: list[Item], refusal: Diagnosis, want: list[Item] | None
) -> None:
    """From where it stands, or as it was captured if it was done; or the reasoning goes."""
    got = cured(world_of(*turns), [ASK, *sent], refusal)

    assert got == ([ASK, *want] if want is not None else None)


def test_without_store_an_item_keeps_its_missing_id() -> None:
    """Nobody looks ids up there, so that both go by value."""
    sent = [ASK, R1, nameless(C1), O1]
    want = [ASK, nameless(R1), nameless(C1), O1]

    assert cured(world_of([R1, C1]), sent, alone(), store=False) == want


def test_a_call_that_was_taken_for_a_twin_does_not_return_beside_itself() -> None:
    """Two say the same, under a name that every call has; the client sends one, without its id."""
    one = call("1", call_id="call_0")
    twin = one | {"id": f"fc_{drawn(9)}"}
    world = world_of([R1, one])
    world.learn(body([ASK, R1, one, output(one, "one")]), [R2, twin])
    sent = [ASK, reference(R2), nameless(one), output(one, "one")]

    assert cured(world, sent, alone(R2)) == [ASK, reference(R2), twin, output(one, "one")]


def test_a_call_whose_output_has_another_does_not_return() -> None:
    """Every call is `call_0` to some: an output that has one lacks none."""
    one = call("1", call_id="call_0")
    other = call("2", tool="get_time", call_id="call_0")
    sent = [ASK, reference(R2), one, output(one, "one")]

    got = cured(world_of([R1, one], [R2, other]), sent, alone(R2))

    assert got == [ASK, nameless(one), output(one, "one")]


def test_what_is_there_already_does_not_return_twice() -> None:
    """Reasoning that stands twice gets one search, not two."""
    assert cured(world_of([R1, WS]), [ASK, R1, WS, MORE, R1], alone(), **STATEFUL) is not None
    got = cured(world_of([R1, WS]), [ASK, R1, MORE, reference(WS)], alone())

    assert got == [ASK, MORE, R1, reference(WS)]


OPEN = {"type": "reasoning", "id": f"rs_{drawn(7)}", "summary": []}
TEXT = {"content": [{"type": "reasoning_text", "text": "The user asks."}]}

# (turns captured, what was sent, the call that is named, what is sent instead)
CALLS: list[Any] = [
    pytest.param([[R1, C1]], [O1], C1, {}, [R1, C1, O1], id="captured"),
    pytest.param([[R1, C1]], [R1, O1], C1, {}, [R1, C1, O1], id="captured-reasoning-there"),
    pytest.param([[R1, C1]], [O1, O1], C1, {}, [R1, C1, O1, O1], id="once-for-two-outputs"),
    pytest.param([[R1, C1, C2]], [C2, O1, O2], C1, {}, [R1, C1, C2, O1, O2], id="beside-another"),
    pytest.param([[R1, C1]], [reference(C1), O1], C1, {}, [R1, C1, O1], id="reference"),
    pytest.param([[R1, C1]], [O1], C1, OTHER_MODEL, [nameless(C1), O1], id="another-model"),
    pytest.param(
        [[R1, SCREEN]], [SEEN], SCREEN, OTHER_MODEL, [SCREEN, SEEN], id="another-model-id-demanded"
    ),
    pytest.param([[hollow(R1), C1]], [O1], C1, {}, [hollow(R1), C1, O1], id="kept-by-upstream"),
    pytest.param([[hollow(R1), C1]], [O1], C1, UNSTORED, [nameless(C1), O1], id="kept-by-nobody"),
    pytest.param([[OPEN | TEXT, C1]], [O1], C1, OTHER_MODEL, [OPEN | TEXT, C1, O1], id="open"),
    pytest.param([[R1, C1]], [O1], C1, STATEFUL, None, id="history-is-upstreams"),
    pytest.param([], [O1], C1, {}, None, id="unknown"),
    pytest.param([], [O1, C1], C1, {}, [C1, O1], id="there-behind-it"),
    pytest.param([], [C1, O1], C1, {}, None, id="there-in-order"),
]


@pytest.mark.parametrize(("turns", "sent", "named", "more", "want"), CALLS)
def test_an_output_gets_its_call(
    turns: list[list[Item]],
    sent: list[Item],
    named: Item,
    more: dict[str, Any],
    want: list[Item] | None,
) -> None:
    """From where it stands, or as it was captured, with its reasoning; else the refusal passes."""
    refusal = Diagnosis(RefusalKind.LACKS_CALL, subject=named["call_id"])
    got = cured(world_of(*turns), [ASK, *sent], refusal, **more)

    assert got == ([ASK, *want] if want is not None else None)


def test_a_call_of_a_name_that_others_have_is_not_made_up() -> None:
    """`call_0` may be any call of any conversation."""
    counted = call("1", call_id="call_0")
    refusal = Diagnosis(RefusalKind.LACKS_CALL, subject="call_0")

    assert cured(world_of([counted, C2]), [ASK, C2, output(counted)], refusal) is None


def test_a_name_that_two_calls_have_stands_for_neither() -> None:
    """Two captured calls with one `call_id`: nobody knows whose output it is."""
    twin = {**C2, "call_id": C1["call_id"]}
    refusal = Diagnosis(RefusalKind.LACKS_CALL, subject=C1["call_id"])

    assert cured(world_of([C1, twin]), [ASK, O1], refusal) is None


def test_a_call_of_a_refused_run_returns_by_value() -> None:
    """Its reasoning is withheld, and its id would demand it."""
    cut = world_of([R1, {**C1, "status": "incomplete"}], status="incomplete")
    refusal = Diagnosis(RefusalKind.LACKS_CALL, subject=C1["call_id"])

    assert cured(cut, [ASK, O1], refusal) == [
        ASK,
        nameless({**C1, "status": "incomplete"}),
        O1,
    ]


# (what was sent, the call that is named, what is sent instead)
OUTPUTS = [
    pytest.param([C1, MORE, O1], C1, [C1, O1, MORE], id="behind-a-user"),
    pytest.param([O1, C1], C1, [C1, O1], id="ahead"),
    pytest.param([R1, C1, O1, C2, O2], C2, [R1, C1, C2, O1, O2], id="interleaved"),
    pytest.param([C1, MORE], C1, None, id="missing"),
    pytest.param([C1, O1, C2, MORE], C2, None, id="missing-beside-another"),
    pytest.param([C1, O1], C1, None, id="in-order"),
]


@pytest.mark.parametrize(("sent", "named", "want"), OUTPUTS)
def test_a_call_gets_its_output(sent: list[Item], named: Item, want: list[Item] | None) -> None:
    """One that is there; a missing one is never made up."""
    refusal = Diagnosis(RefusalKind.LACKS_OUTPUT, subject=named["call_id"])
    got = cured(World(), [ASK, *sent], refusal)

    assert got == ([ASK, *want] if want is not None else None)


# (turns captured, what was sent, what is sent instead)
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
    pytest.param([], [C1, O1, C2, O2], [C1, C2, O1, O2], id="unknown-interleaved"),
    pytest.param([], [OPEN, C1, O1], None, id="unknown"),
    pytest.param([[R1, C1]], [hollow(R1), C1, O1], None, id="captured-without-text"),
]


@pytest.mark.parametrize(("turns", "sent", "want"), TEXTS)
def test_reasoning_goes_back_with_its_text(
    turns: list[list[Item]], sent: list[Item], want: list[Item] | None
) -> None:
    """Where upstream demands it in the open; what it says of grouping is heeded too."""
    got = cured(world_of(*turns), [ASK, *sent], Diagnosis(RefusalKind.LACKS_TEXT))

    assert got == ([ASK, *want] if want is not None else None)


def test_what_users_say_stays_where_a_unit_is_closed() -> None:
    """Behind the unit that it interrupted."""
    note = user("Hurry.")
    got = cured(world_of([R1, C1]), [ASK, C1, note, O1, R1], orphan(C1))

    assert got == [ASK, R1, C1, O1, note]
