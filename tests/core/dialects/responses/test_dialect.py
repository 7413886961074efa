"""Responses dialect: the pure object that decides, captures and heals for the shell."""

import json
from collections.abc import Callable, Sequence
from contextlib import nullcontext

import pytest
from msgspec import structs
from reasoning_replay.core.dialects import continuation
from reasoning_replay.core.dialects.base import AnyDialect, Caller, Cure, Decision, RefusedBodies
from reasoning_replay.core.dialects.captures import Origin
from reasoning_replay.core.dialects.responses.decision import ResponsesSettings
from reasoning_replay.core.dialects.responses.dialect import ResponsesDialect
from reasoning_replay.core.dialects.responses.heal.repair import Repair
from reasoning_replay.core.dialects.responses.profiles import GENERIC, PROFILES, Profile
from reasoning_replay.core.dialects.states import RequestState
from reasoning_replay.core.history.item_index import IndexedTurns
from reasoning_replay.core.history.lookup_keys import LookupResult
from reasoning_replay.core.history.plan import Outcome
from reasoning_replay.core.history.seen import Seen
from reasoning_replay.core.history.turns import Context, Turn
from reasoning_replay.core.tenancy.scope import NO_ACCOUNT

from tests.core.world import Item, answer, body, call, input_of, output, reasoning, user

R1, C1 = reasoning("1"), call("1")
R2, C2 = reasoning("2"), call("2")
SCOPE = b"scope"
CALLER = Caller(SCOPE, NO_ACCOUNT)
ASK = user("What is the weather?")


def dialect(
    *, is_shadow: bool = False, include: str = "never", profile: Profile = GENERIC
) -> AnyDialect:
    """Return a dialect with all repairs switched on."""
    settings = ResponsesSettings(is_shadow, profile, include, [*Repair], 1 << 20)
    return ResponsesDialect(settings, lambda: 0.0, nullcontext())


def found(one: AnyDialect) -> LookupResult:
    """Return the lookup result of a store that captured one turn."""
    question = one.ask(body([ASK]), {}, SCOPE)
    first = one.decide(CALLER, body([ASK]), question, LookupResult(), is_created=True)
    capture = one.capture(first.origin)
    capture.read(answer([R1, C1], "resp_1"))
    part = capture.snapshot(1).part
    assert part is not None
    one.note_issued((b"account", b""), part.reasoning)
    return LookupResult([part.turn])


def decided(one: AnyDialect, sent: bytes, held: LookupResult | None) -> Decision:
    """Return the decision on one request."""
    return one.decide(CALLER, sent, one.ask(sent, {}, SCOPE), held, is_created=True)


def test_reasoning_that_was_captured_is_injected() -> None:
    """One turn is captured, and the next request gets its reasoning."""
    one = dialect()
    made = decided(one, body([ASK, C1, output(C1)]), found(one))

    assert input_of(made.body) == [ASK, R1, C1, output(C1)]
    assert (made.state, made.outcomes) == (RequestState.PLANNED, {Outcome.INJECTED: 1})
    assert made.injected_bytes > 0
    assert made.summary is not None


def test_a_fault_in_the_summary_does_not_affect_the_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The inspector shows no items, but the reasoning is injected."""
    monkeypatch.setattr(continuation, "summarise", None)
    one = dialect()
    made = decided(one, body([ASK, C1, output(C1)]), found(one))

    assert input_of(made.body) == [ASK, R1, C1, output(C1)]
    assert made.summary is None


def test_a_request_that_continues_a_stored_response_is_not_repaired() -> None:
    """Its history is stored at the upstream, so a repeated item is left to the upstream."""
    one = dialect()
    sent = body([R1, R1, C1, output(C1)], previous_response_id="resp_0")
    made = decided(one, sent, LookupResult())

    assert made.body is sent
    assert made.state is RequestState.STATEFUL


def test_a_sound_request_of_an_unknown_conversation_is_not_parsed_again() -> None:
    """Reasoning that the client replays needs no repair, unless it is there twice in a row."""
    one = dialect()
    sent = body([ASK, R1, C1, output(C1)])
    assert decided(one, sent, LookupResult()).body is sent
    twice = decided(one, body([ASK, R1, R1, C1, output(C1)]), LookupResult())
    assert input_of(twice.body) == [ASK, R1, C1, output(C1)]


def test_the_last_resort_is_the_clients_own_request() -> None:
    """There is none if upstream refused that request already."""
    given = b"given"
    edited, unedited = RefusedBodies(given, b"sent"), RefusedBodies(given, given)
    cured = Cure(b"cured")
    last = edited.last_resort(cured)
    assert last is not None
    assert (last.body, last.is_clients_own) == (b"given", True)
    assert edited.last_resort(last) is None
    assert unedited.last_resort(cured) is None


def test_a_repaired_request_keeps_its_hint() -> None:
    """The client's own name for its conversation counts for the repaired body as well."""
    one = dialect()
    sent = body([ASK, R1, R1, C1, output(C1)], prompt_cache_key="thread-1")
    made = decided(one, sent, found(one))

    assert input_of(made.body) == [ASK, R1, C1, output(C1)]
    assert made.repairs == {Repair.DUPLICATES: 1}
    named = decided(one, body([ASK], prompt_cache_key="thread-1"), LookupResult())
    assert made.origin is not None
    assert named.origin is not None
    assert made.origin.context.hint == named.origin.context.hint != b""


@pytest.mark.parametrize("items", [[], [ASK, R1]])
def test_an_input_that_is_empty_or_ends_with_reasoning_is_repaired(items: list[Item]) -> None:
    """Reasoning at the end is removed if the upstream would require the item after it."""
    made = decided(dialect(), body(items), LookupResult())

    assert input_of(made.body) == items[:1]


def test_conversations_that_a_failed_lookup_split_are_joined() -> None:
    """The next response is saved in the older conversation, and the lookup continues from there."""
    one = dialect()
    held = found(one)
    failed = decided(one, body([ASK, C1, output(C1)]), None)
    capture = one.capture(failed.origin)
    capture.read(answer([R2, C2], "resp_2"))
    turn = capture.snapshot(2).turn
    assert turn is not None
    sent = body([ASK, C1, output(C1), C2, output(C2)])
    made = decided(one, sent, LookupResult([*held.turns, turn]))

    assert input_of(made.body) == [ASK, R1, C1, output(C1), R2, C2, output(C2)]
    assert made.joined.left == (turn.conversation,)
    assert made.origin is not None
    assert made.origin.conversation == held.turns[0].conversation


@pytest.mark.parametrize("turns", [list, IndexedTurns])
def test_a_turn_is_later_than_the_newest_of_its_conversation(
    turns: Callable[[Sequence[Turn]], Sequence[Turn]],
) -> None:
    """Its time is that of the newest turn and one more, whatever the clock of this replica says."""
    one = dialect()
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
    one = dialect()
    origin = Origin(Context(), "gpt-5.4", seen=Seen(b"basis", 3, ()))
    capture = one.capture(origin)
    capture.note_cure()
    capture.read(answer([R1, C1], "resp_1"))
    turn = capture.snapshot(1).turn

    assert turn is not None
    assert turn.seen is None


INCLUDED = ["reasoning.encrypted_content"]
EASY = {"role": "assistant", "content": "Sunny."}


@pytest.mark.parametrize(
    ("include", "items", "more", "is_included"),
    [
        pytest.param("auto", [ASK], {"store": False}, True, id="nothing-is-stored"),
        pytest.param("auto", [ASK], {}, False, id="ids-are-enough"),
        pytest.param("auto", [ASK, EASY, ASK], {}, True, id="easy-form-has-no-ids"),
        pytest.param("always", [ASK], {}, True, id="always"),
        pytest.param("never", [ASK], {"store": False}, False, id="never"),
        pytest.param("always", [ASK], {"background": True}, False, id="in-the-background"),
        pytest.param("always", [ASK], {"model": "gpt-4o"}, False, id="a-model-without-reasoning"),
        pytest.param("always", [ASK], {"previous_response_id": "resp_0"}, False, id="stateful"),
    ],
)
def test_encrypted_reasoning_is_requested_where_ids_are_not_enough(
    include: str, items: list[Item], more: Item, *, is_included: bool
) -> None:
    """The setting `include` decides; nothing else in the request changes."""
    sent = body(items, **more)
    made = decided(dialect(include=include), sent, LookupResult())

    assert json.loads(made.body) == json.loads(sent) | (
        {"include": INCLUDED} if is_included else {}
    )


def test_an_upstream_that_ignores_include_is_not_sent_it() -> None:
    """The profile has priority over the setting."""
    sent = body([ASK], store=False)
    made = decided(dialect(include="always", profile=PROFILES["vllm"]), sent, LookupResult())

    assert made.body is sent


@pytest.mark.parametrize("is_away", [True, False])
def test_an_unchanged_body_is_the_same_object(*, is_away: bool) -> None:
    """The body is not copied in shadow mode and if the lookup failed."""
    one = dialect(is_shadow=not is_away)
    sent = body([ASK, C1, output(C1)])
    made = decided(one, sent, None if is_away else found(one))

    assert made.body is sent
    assert (made.state is RequestState.STORE_FAILED) == is_away
    assert made.injected_bytes == 0


def test_a_lone_surrogate_does_not_prevent_injection() -> None:
    """Repairs are skipped, because they would have to decode the surrogate."""
    one = dialect()
    odd = {"role": "user", "content": "?"}
    sent = body([ASK, C1, output(C1), odd]).replace(b'"?"', rb'"\ud83d"')
    made = decided(one, sent, found(one))

    assert made.outcomes == {Outcome.INJECTED: 1}
    assert rb'"\ud83d"' in made.body


def test_an_error_is_named_by_the_words_of_the_api() -> None:
    """An error has a code and a type."""
    said = b'{"error":{"code":"a","type":"b","message":"c d"}}'
    assert dialect().error_names(said) == ("a", "b")


@pytest.mark.parametrize("is_edited", [True, False])
def test_a_refused_request_with_a_lone_surrogate_is_sent_unedited(*, is_edited: bool) -> None:
    """It cannot be edited again; if the proxy made no edits, there is no cure."""
    one = dialect()
    given = rb'{"input":"\ud83d"}'
    sent = rb'{"input":"\ud83d","n":1}' if is_edited else given
    bodies = RefusedBodies(given, sent)
    refusal = one.diagnose(400, json.dumps({"error": {"param": "input"}}).encode())
    question = one.ask_for_cure(bodies, refusal)

    cured = one.cure(SCOPE, bodies, question, refusal, LookupResult())
    assert cured == (Cure(given, is_clients_own=True) if is_edited else None)


def test_a_retrieved_response_is_captured_once() -> None:
    """A retrieved response is captured, unless it was captured when it was created."""
    one = dialect()
    held = found(one)

    assert one.retrieved("/v1/responses/resp_1") == "resp_1"
    assert one.origin_of("resp_1", held) is None
    assert one.origin_of("resp_2", held) is not None


def test_a_retrieved_response_keeps_the_context_of_its_request() -> None:
    """The values recorded when the background response was created stay unchanged."""
    one = dialect()
    (turn,) = found(one).turns
    begun = structs.replace(turn, items=(), seen=Seen(b"basis", 3, ()))
    origin = one.origin_of("resp_1", LookupResult([begun]))

    assert origin is not None
    kept = ("context", "conversation", "parent", "created_ms", "seen")
    assert [getattr(origin, name) for name in kept] == [getattr(begun, name) for name in kept]


def refusal_body(message: str) -> bytes:
    """Return an error body in the upstream's format."""
    return json.dumps({"error": {"message": message, "code": None}}).encode()


UNVERIFIED = f"The encrypted content for item {R1['id']} could not be verified."


def test_a_blob_that_was_refused_is_not_injected_again() -> None:
    """The cure removes it; once that is accepted, the blob counts as refused for an hour."""
    one = dialect()
    held = found(one)
    given = body([ASK, C1, output(C1)])
    sent = decided(one, given, held).body
    assert one.is_refusal(400)
    bodies = RefusedBodies(given, sent)
    refusal = one.diagnose(400, refusal_body(UNVERIFIED))
    assert refusal.is_understood
    cured = one.cure(SCOPE, bodies, one.ask_for_cure(bodies, refusal), refusal, held)

    assert cured is not None
    assert "reasoning" not in {item.get("type") for item in input_of(cured.body)}
    assert list(cured.withheld) == held.turns
    one.learn(SCOPE, refusal, cured, "gpt-5.6-sol")
    assert Outcome.INJECTED not in decided(one, given, held).outcomes
    other = Caller(b"another scope", NO_ACCOUNT)
    asked = one.ask(given, {}, other.scope)
    assert Outcome.INJECTED in one.decide(other, given, asked, held, is_created=True).outcomes


def test_a_client_that_damages_blobs_is_refused_once() -> None:
    """From then on, the captured ones go in their place, also those of later turns."""
    one = dialect()
    held = found(one)
    bad = R1 | {"encrypted_content": "gAAAAbad"}
    given = body([ASK, bad, C1, output(C1)])
    bodies = RefusedBodies(given, given)
    refusal = one.diagnose(400, refusal_body(UNVERIFIED))
    cured = one.cure(SCOPE, bodies, one.ask_for_cure(bodies, refusal), refusal, held)

    assert cured is not None
    assert R1 in input_of(cured.body)
    one.learn(SCOPE, refusal, cured, "gpt-5.6-sol")
    worse = body([ASK, R1 | {"encrypted_content": "gAAAAworse"}, C1, output(C1)])
    again = decided(one, worse, held)
    assert (again.body, again.repairs) == (cured.body, {Repair.FOREIGN: 1})


@pytest.mark.parametrize("scope", [SCOPE, None])
def test_a_request_is_cured_with_or_without_a_scope(scope: bytes | None) -> None:
    """Without a scope, earlier refusals are not looked up."""
    one = dialect()
    given = body([ASK, R1, C1, output(C1)], model="gpt-4o")
    bodies = RefusedBodies(given, given)
    refusal = one.diagnose(
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
    ("event", "is_failing", "is_refusing"),
    [
        ({"type": "response.completed"}, False, False),
        ({"type": "error", "status": 500}, True, False),
        ({"type": "error", "status": 400}, True, True),
        ({"type": "response.failed"}, True, True),
    ],
)
def test_events_that_end_a_response(event: Item, *, is_failing: bool, is_refusing: bool) -> None:
    """A refusal may be healed; any other failure is passed on to the client."""
    one, data = dialect(), json.dumps(event).encode()

    assert (one.is_failing_event(data), one.is_refusing_event(data)) == (is_failing, is_refusing)


def test_a_success_is_never_held() -> None:
    """This API always refuses with a status, so the start of no response is looked at."""
    assert [dialect().maybe_failing(start) for start in (b"", b'{"error":')] == [False, False]
