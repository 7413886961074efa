"""Engine: the way of a request, which no dialect repeats; played with the Responses dialect."""

import json
from collections.abc import Callable, Sequence

import pytest
from msgspec import structs
from reasoning_replay.core.dialects.base import Bodies, Caller, Cure
from reasoning_replay.core.dialects.captures import Origin
from reasoning_replay.core.dialects.chat.dialect import ChatDialect
from reasoning_replay.core.dialects.chat.profiles import GENERIC
from reasoning_replay.core.dialects.engine import Engine
from reasoning_replay.core.dialects.responses.heal.repair import Repair
from reasoning_replay.core.dialects.states import RequestState
from reasoning_replay.core.history import item_summary
from reasoning_replay.core.history.item_index import IndexedTurns
from reasoning_replay.core.history.lookup_keys import LookupResult
from reasoning_replay.core.history.plan import Outcome
from reasoning_replay.core.history.seen import Seen
from reasoning_replay.core.history.turns import Context, Reasoning, Turn
from reasoning_replay.core.tenancy.scope import NO_ACCOUNT

from tests.core.dialects.responses.exchanges import (
    ASK,
    C1,
    C2,
    R1,
    R2,
    SCOPE,
    decided,
    engine,
    found,
)
from tests.core.engines import answered, asked, engine_of
from tests.core.world import answer, body, input_of, output


def refusal_body(message: str) -> bytes:
    """Return an error body in the upstream's format."""
    return json.dumps({"error": {"message": message, "code": None}}).encode()


UNVERIFIED = f"The encrypted content for item {R1['id']} could not be verified."


def test_reasoning_that_was_captured_is_injected() -> None:
    """One turn is captured, and the next request gets its reasoning."""
    one = engine()
    made = decided(one, body([ASK, C1, output(C1)]), found(one))

    assert input_of(made.body) == [ASK, R1, C1, output(C1)]
    assert (made.state, made.outcomes) == (RequestState.PLANNED, {Outcome.INJECTED: 1})
    assert made.injected_bytes > 0
    assert made.summary is not None


def test_a_fault_in_the_summary_does_not_affect_the_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The inspector shows no items, but the reasoning is injected."""
    monkeypatch.setattr(item_summary, "summarise", None)
    one = engine()
    made = decided(one, body([ASK, C1, output(C1)]), found(one))

    assert input_of(made.body) == [ASK, R1, C1, output(C1)]
    assert made.summary is None


def test_turns_of_conversations_that_a_failed_lookup_split_are_both_injected() -> None:
    """The next response is saved in the newer conversation: that of its parent."""
    one = engine()
    held = found(one)
    failed = decided(one, body([ASK, C1, output(C1)]), None)
    capture = one.capture(failed.origin)
    capture.read(answer([R2, C2], "resp_2"))
    turn = capture.snapshot(2).turn
    assert turn is not None
    sent = body([ASK, C1, output(C1), C2, output(C2)])
    made = decided(one, sent, LookupResult([*held.turns, turn]))

    assert input_of(made.body) == [ASK, R1, C1, output(C1), R2, C2, output(C2)]
    assert made.origin is not None
    assert made.origin.conversation == turn.conversation != held.turns[0].conversation


@pytest.mark.parametrize("turns", [list, IndexedTurns])
def test_a_turn_is_later_than_the_newest_of_its_conversation(
    turns: Callable[[Sequence[Turn]], Sequence[Turn]],
) -> None:
    """Its time is that of the newest turn and one more, whatever the clock of this replica says."""
    one = engine()
    (first,) = found(one).turns
    late = structs.replace(first, created_ms=9_000)
    made = decided(one, body([ASK, C1, output(C1)]), LookupResult(turns([late])))
    capture = one.capture(made.origin)
    capture.read(answer([R2, C2], "resp_2"))
    part = capture.snapshot(5).part

    assert part is not None
    assert part.turn.created_ms == 9_001


def test_the_turn_after_a_cure_records_no_decisions() -> None:
    """The upstream received another request than the one that was decided."""
    one = engine()
    origin = Origin(Context(), "gpt-5.4", seen=Seen(b"basis", 3, ()))
    capture = one.capture(origin)
    capture.note_cure()
    capture.read(answer([R1, C1], "resp_1"))
    turn = capture.snapshot(1).turn

    assert turn is not None
    assert turn.seen is None


@pytest.mark.parametrize(
    ("known", "want"),
    [(b"", (b"healed", b"parent", 9)), (b"own", (b"own", b"", 1))],
    ids=["unknown", "known"],
)
def test_the_turn_after_a_cure_is_of_the_conversation_that_it_continues(
    known: bytes, want: tuple[bytes, bytes, int]
) -> None:
    """Only the healed request may show it; what the client's own shows stays."""
    capture = engine().capture(Origin(Context(), "gpt-5.4", conversation=known))
    healed = Origin(Context(), "gpt-5.4", conversation=b"healed", parent=b"parent", after_ms=8)
    capture.note_cure(continues=healed)
    capture.read(answer([R1, C1], "resp_1"))
    turn = capture.snapshot(1).turn

    assert turn is not None
    assert (turn.conversation, turn.parent, turn.created_ms) == want


@pytest.mark.parametrize("is_away", [True, False])
def test_an_unchanged_body_is_the_same_object(*, is_away: bool) -> None:
    """The body is not copied in shadow mode and if the lookup failed."""
    one = engine(is_shadow=not is_away)
    sent = body([ASK, C1, output(C1)])
    made = decided(one, sent, None if is_away else found(one))

    assert made.body is sent
    assert (made.state is RequestState.STORE_FAILED) == is_away
    assert made.injected_bytes == 0


def test_a_lone_surrogate_does_not_prevent_injection() -> None:
    """Repairs are skipped, because they would have to decode the surrogate."""
    one = engine()
    odd = {"role": "user", "content": "?"}
    sent = body([ASK, C1, output(C1), odd]).replace(b'"?"', rb'"\ud83d"')
    made = decided(one, sent, found(one))

    assert made.outcomes == {Outcome.INJECTED: 1}
    assert rb'"\ud83d"' in made.body


@pytest.mark.parametrize("is_edited", [True, False])
def test_a_refused_request_with_a_lone_surrogate_is_sent_unedited(*, is_edited: bool) -> None:
    """It cannot be edited again; if the proxy made no edits, there is no cure."""
    one = engine()
    given = rb'{"input":"\ud83d"}'
    sent = rb'{"input":"\ud83d","n":1}' if is_edited else given
    bodies = Bodies(given, sent)
    refusal = one.readers.diagnose(400, json.dumps({"error": {"param": "input"}}).encode())
    question = one.ask_for_cure(bodies, refusal)

    cured = one.cure(SCOPE, bodies, question, refusal, LookupResult())
    assert cured == (Cure(given, is_clients_own=True) if is_edited else None)


def test_a_blob_that_was_refused_is_not_injected_again() -> None:
    """The cure removes it; once that is accepted, the blob counts as refused for an hour."""
    one = engine()
    held = found(one)
    given = body([ASK, C1, output(C1)])
    sent = decided(one, given, held).body
    bodies = Bodies(given, sent)
    refusal = one.readers.diagnose(400, refusal_body(UNVERIFIED))
    assert refusal.is_understood
    cured = one.cure(SCOPE, bodies, one.ask_for_cure(bodies, refusal), refusal, held)

    assert cured is not None
    assert "reasoning" not in {item.get("type") for item in input_of(cured.body)}
    assert list(cured.withheld) == held.turns
    one.learn(SCOPE, refusal, cured, "gpt-5.6-sol")
    assert Outcome.INJECTED not in decided(one, given, held).outcomes
    other = Caller(b"another scope", NO_ACCOUNT)
    question = asked(one, given, other.scope)
    assert Outcome.INJECTED in answered(one, other, given, question, held, is_created=True).outcomes


@pytest.mark.parametrize("is_continued", [False, True])
def test_a_client_that_damages_blobs_is_refused_once(*, is_continued: bool) -> None:
    """From then on, the captured ones go in their place, also those of later turns."""
    one = engine()
    held = found(one)
    bad = R1 | {"encrypted_content": "gAAAAbad"}
    given = body([ASK, bad, C1, output(C1)])
    bodies = Bodies(given, given, is_continued=is_continued)
    refusal = one.readers.diagnose(400, refusal_body(UNVERIFIED))
    cured = one.cure(SCOPE, bodies, one.ask_for_cure(bodies, refusal), refusal, held)

    assert cured is not None
    assert R1 in input_of(cured.body)
    # What it continues is only looked for where that is not known.
    assert (cured.origin is None) == is_continued
    one.learn(SCOPE, refusal, cured, "gpt-5.6-sol")
    worse = body([ASK, R1 | {"encrypted_content": "gAAAAworse"}, C1, output(C1)])
    again = decided(one, worse, held)
    assert (again.body, again.repairs) == (cured.body, {Repair.FOREIGN: 1})


@pytest.mark.parametrize("scope", [SCOPE, None])
def test_a_request_is_cured_with_or_without_a_scope(scope: bytes | None) -> None:
    """Without a scope, earlier refusals are not looked up."""
    one = engine()
    given = body([ASK, R1, C1, output(C1)], model="gpt-4o")
    bodies = Bodies(given, given)
    refusal = one.readers.diagnose(
        400, refusal_body("Reasoning input items can only be provided to a reasoning model.")
    )
    cured = one.cure(scope, bodies, one.ask_for_cure(bodies, refusal), refusal, LookupResult())

    assert cured is not None
    assert [item.get("type") for item in input_of(cured.body)][1:] == [
        C1["type"],
        "function_call_output",
    ]
    one.learn(SCOPE, refusal, cured, "gpt-4o")
    again = decided(one, given, LookupResult())
    assert again.repairs == {Repair.FOREIGN: 1}


@pytest.mark.parametrize(
    ("make", "is_foreign"),
    [
        pytest.param(engine, True, id="reasoning-belongs-to-an-account"),
        pytest.param(lambda: engine_of(ChatDialect(GENERIC)), False, id="it-does-not"),
    ],
)
def test_the_account_of_reasoning_is_recorded_where_it_matters(
    make: Callable[[], Engine], *, is_foreign: bool
) -> None:
    """Another account's requests are then known to be refused."""
    one = make()
    blob = b"0" * 16
    one.note_issued((b"mine", b""), [Reasoning("rs_1", b'{"e":"gAAAAx"}', (blob,), has_blob=True)])
    refused = one._refusals.known_to(SCOPE, (b"theirs", b""))
    assert refused.may_concern_blobs is refused.is_foreign(blob) is is_foreign
