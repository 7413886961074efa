"""Refusals as the dialect answers them: parsed, looked up, cured, learnt and decided again."""

import json

import pytest
from msgspec import structs
from reasoning_replay.core.dialects.base import Caller, Cure, Decision, RefusedBodies
from reasoning_replay.core.dialects.chat.dialect import ChatDialect
from reasoning_replay.core.dialects.chat.heal.diagnosis import Diagnosis, RefusalKind
from reasoning_replay.core.dialects.chat.profiles import GENERIC, Rounds
from reasoning_replay.core.dialects.engine import Engine
from reasoning_replay.core.history.lookup_keys import LookupResult
from reasoning_replay.core.history.plan import Outcome
from reasoning_replay.core.history.turns import Turn
from reasoning_replay.core.tenancy.scope import NO_ACCOUNT

from tests.core.dialects.chat.heal.requests import (
    ASK,
    RESULT,
    SIGNED,
    Json,
    body,
    call,
    message,
)
from tests.core.engines import engine_of

SCOPE = b"scope"
MODEL = "vendor-large"
CALLER = Caller(SCOPE, NO_ACCOUNT)
CALL = call(1) | {"id": "call_Zk3mQ9xT7bLw2RsV"}
OUTPUT = RESULT | {"tool_call_id": CALL["id"]}
LOST = [ASK, message(CALL), OUTPUT]
LATER = [*LOST, message(content="7 degrees."), ASK]
THOUGHT = {"reasoning_content": "I look.", "reasoning": "I look, too."}
LACKS = Diagnosis(RefusalKind.LACKS_REASONING, "reasoning_content")
NO_TEXT = Diagnosis(RefusalKind.FIELD, refused=frozenset({"reasoning_content"}))
NO_CALL = Diagnosis(RefusalKind.FIELD, refused=frozenset({"extra_content"}))


def engine(rounds: Rounds | None = None, *, fills: bool = False, is_shadow: bool = False) -> Engine:
    """Return the engine of a dialect with these settings."""
    return engine_of(ChatDialect(GENERIC, rounds, fills), is_shadow=is_shadow)


def captured(one: Engine, said: Json) -> LookupResult:
    """Return the lookup result of a store that captured one turn."""
    question = one.ask(body(ASK), {}, SCOPE)
    decision = one.decide(CALLER, body(ASK), question, LookupResult(), is_created=True)
    capture = one.capture(decision.origin)
    choice = {"index": 0, "message": said, "finish_reason": "tool_calls"}
    capture.read(json.dumps({"id": "chatcmpl-1", "choices": [choice]}).encode())
    turn = capture.snapshot(1).turn
    assert isinstance(turn, Turn)
    return LookupResult([turn])


def decided(one: Engine, found: LookupResult, *history: Json, **more: object) -> Decision:
    """Return the decision about a request."""
    given = body(*history, **more)
    return one.decide(CALLER, given, one.ask(given, {}, SCOPE), found, is_created=True)


def healed(one: Engine, found: LookupResult, refusal: Diagnosis, *history: Json) -> Cure:
    """Return the cure of a request that was decided and refused, after it was accepted."""
    cure = maybe_healed(one, found, refusal, *history)
    assert cure is not None
    return cure


def maybe_healed(
    one: Engine, found: LookupResult, refusal: Diagnosis, *history: Json
) -> Cure | None:
    """Return the same; None if the refusal is passed on."""
    bodies = RefusedBodies(body(*history), decided(one, found, *history).body)
    question = one.ask_for_cure(bodies, refusal)
    assert question.lookups
    cure = one.cure(SCOPE, bodies, question, refusal, found)
    if cure is not None:
        one.learn(SCOPE, refusal, cure, MODEL)
    return cure


@pytest.mark.parametrize("limit", [{"rounds": Rounds.CURRENT}, {}])
def test_reasoning_that_a_setting_leaves_out_is_injected_if_it_is_demanded(
    limit: dict[str, Rounds],
) -> None:
    """The upstream refuses the request without it, and so does its next one."""
    one = engine(limit.get("rounds"))
    said = message(content="7 degrees.", **THOUGHT)
    found = captured(one, said)
    history = [ASK, message(content="7 degrees."), ASK]
    before = decided(one, found, *history)
    assert before.outcomes == ({Outcome.SKIPPED: 2} if limit else {Outcome.INJECTED: 2})
    cure = maybe_healed(one, found, LACKS, *history)
    after = decided(one, found, *history)
    assert after.outcomes == {Outcome.INJECTED: 2}
    if limit:
        assert cure is not None
        assert (cure.body, cure.injected) == (after.body, 2)
    else:
        assert cure is None


def test_an_emitted_empty_text_is_injected_if_it_is_demanded() -> None:
    """It is what the upstream emitted, so it is no filler."""
    one = engine()
    found = captured(one, message(CALL, reasoning_content=""))
    assert decided(one, found, *LOST).outcomes == {}
    cure = healed(one, found, LACKS, *LOST)
    assert (cure.injected, cure.degraded) == (1, 0)
    assert decided(one, found, *LOST).outcomes == {Outcome.INJECTED: 1}


def test_what_the_client_sends_in_another_form_is_completed_if_it_is_demanded() -> None:
    """The text in tags stays, and so does a value of its own."""
    for change in ({"content": "<think>I look.</think>7 degrees."}, {"reasoning": "Mine."}):
        one = engine()
        found = captured(one, message(content="7 degrees.", **THOUGHT))
        sent = message(content="7 degrees.") | change
        before = decided(one, found, ASK, sent, ASK)
        assert (before.body, before.outcomes) == (body(ASK, sent, ASK), {Outcome.PRESENT: 1})
        cure = healed(one, found, LACKS, ASK, sent, ASK)
        assert json.loads(cure.body)["messages"][1] == THOUGHT | sent
        assert decided(one, found, ASK, sent, ASK).body == cure.body


def test_a_refused_member_is_never_injected_again() -> None:
    """The other members of the same turn are."""
    one = engine()
    found = captured(one, message(CALL | {"extra_content": SIGNED}, **THOUGHT))
    assert decided(one, found, *LOST).outcomes == {Outcome.INJECTED: 3}
    for refusal, left in ((NO_TEXT, 2), (NO_CALL, 1)):
        cure = healed(one, found, refusal, *LOST)
        assert cure.injected == left
        after = decided(one, found, *LOST)
        assert (after.body, after.outcomes) == (cure.body, {Outcome.INJECTED: left})
    # What a cure injects leaves it out, too.
    assert maybe_healed(one, found, LACKS, *LOST) is None


def test_a_refused_signature_is_withheld() -> None:
    """It is taken out, and the whole run of its call is not injected again."""
    one = engine()
    found = captured(one, message(CALL | {"extra_content": SIGNED}))
    quotes = Diagnosis(RefusalKind.BLOB, quoted=frozenset({"Es4DCss"}))
    cure = healed(one, found, quotes, *LOST)
    assert (cure.is_clients_own, cure.withheld) == (True, tuple(found.turns))
    assert decided(one, found, *LOST).outcomes == {Outcome.GUARDED_UNFINISHED: 1}


def test_a_filler_is_used_again_once_it_was_accepted() -> None:
    """Only in a request that the proxy may edit, and counted as degraded."""
    one = engine(fills=True)
    cure = healed(one, LookupResult(), LACKS, *LOST)
    assert cure.degraded == 1
    after = decided(one, LookupResult(), *LOST)
    assert after.body == cure.body
    assert after.outcomes == {Outcome.MISSED: 1, Outcome.DEGRADED: 1}
    assert after.summary is not None
    assert json.loads(after.summary.shown)["notes"] == [
        [1, "missed", 1, 0, ""],
        [1, "degraded", 1, 0, ""],
    ]
    own = [ASK, message(CALL, reasoning_content="mine"), OUTPUT]
    assert decided(one, LookupResult(), *own).outcomes == {Outcome.PRESENT: 1}
    shadow = engine(fills=True, is_shadow=True)
    shadow.learn(SCOPE, LACKS, cure, MODEL)
    assert decided(shadow, LookupResult(), *LOST).body == body(*LOST)


def test_a_filler_in_an_empty_message_has_no_mark() -> None:
    """A message without text and calls has no item at which it could be shown."""
    one = engine(fills=True)
    one.learn(SCOPE, LACKS, Cure(body(ASK), degraded=1), MODEL)
    after = decided(one, LookupResult(), ASK, message(content=None), ASK)
    assert after.outcomes == {Outcome.DEGRADED: 1}
    assert after.summary is not None
    assert json.loads(after.summary.shown)["notes"] == []


SURROGATE = b'{"model":"m","messages":[{"role":"user","content":"\\ud83d"}]}'


def test_a_body_that_cannot_be_edited_is_sent_as_the_client_sent_it() -> None:
    """A lone surrogate is not valid Unicode, so nothing can be changed in it safely."""
    one = engine(fills=True)
    bodies = RefusedBodies(SURROGATE, SURROGATE)
    question = one.ask_for_cure(bodies, LACKS)
    assert one.cure(SCOPE, bodies, question, LACKS, LookupResult()) is None
    edited = RefusedBodies(SURROGATE, b'{"messages":[]}')
    cure = one.cure(SCOPE, edited, question, LACKS, LookupResult())
    assert cure == Cure(SURROGATE, is_clients_own=True)
    one.learn(SCOPE, LACKS, Cure(body(ASK), degraded=1), MODEL)
    given = SURROGATE.replace(b'"m"', b'"vendor-large"')
    question = one.ask(given, {}, SCOPE)
    assert one.decide(CALLER, given, question, None, is_created=True).body is given


def test_without_a_scope_nothing_is_remembered() -> None:
    """A request without a credential can be cured, but nothing is known for it."""
    one = engine()
    bodies = RefusedBodies(body(*LOST), body(*LOST))
    question = one.ask_for_cure(bodies, NO_TEXT)
    assert one.cure(None, bodies, question, NO_TEXT, LookupResult()) is None


ENTRIES = [{"type": "reasoning.text", "text": "I look.", "signature": "EpMDsig", "index": 0}]
WHOLE = message(CALL | {"extra_content": SIGNED}, reasoning="I look.", reasoning_details=ENTRIES)
TWICE = {"google": {"thought_signature": "RXM0RENzc0RBYjQ="}}
CORRUPTED = Diagnosis(RefusalKind.BLOB)


def damaged(**more: object) -> list[Json]:
    """Return a history whose client has damaged signatures, and a text of its own."""
    entries = [ENTRIES[0] | {"signature": "RXBNRHNpZw=="}]
    ours = {"reasoning": "My own words.", "reasoning_details": entries} | more
    return [ASK, message(CALL | {"extra_content": TWICE}, **ours), OUTPUT]


@pytest.mark.parametrize(
    "refusal",
    [
        CORRUPTED,
        Diagnosis(RefusalKind.BLOB, quoted=frozenset({"RXM0RENz"})),
        Diagnosis(RefusalKind.LACKS_REASONING, "extra_content"),
    ],
)
def test_damaged_signatures_are_completed(refusal: Diagnosis) -> None:
    """All members of the message are sent as they were emitted, from the next request on."""
    one = engine()
    found = captured(one, WHOLE)
    given = decided(one, found, *damaged())
    assert given.body == body(*damaged())
    cured = healed(one, found, refusal, *damaged())
    assert json.loads(cured.body)["messages"] == [ASK, json.loads(json.dumps(WHOLE)), OUTPUT]
    assert (cured.injected, cured.lost, cured.withheld) == (3, frozenset(), ())
    again = decided(one, found, *damaged())
    assert again.body == cured.body
    assert again.outcomes == {Outcome.INJECTED: 3}


def test_another_conversation_is_not_completed() -> None:
    """Its client was not refused."""
    one = engine()
    found = captured(one, WHOLE)
    healed(one, found, CORRUPTED, *damaged())
    (turn,) = found.turns
    other = found._replace(turns=[structs.replace(turn, conversation=b"other")])
    assert decided(one, other, *damaged()).body == body(*damaged())


def test_a_refusal_that_quotes_another_signature() -> None:
    """It is not about the message of the known turn, which stays as it is."""
    one = engine()
    found = captured(one, WHOLE)
    odd = call(2) | {"extra_content": {"google": {"thought_signature": "QWxpZW4="}}}
    history = [*damaged(), ASK, message(odd), RESULT | {"tool_call_id": odd["id"]}]
    alien = Diagnosis(RefusalKind.BLOB, quoted=frozenset({"QWxpZW4"}))
    cured = healed(one, found, alien, *history)
    received = json.loads(cured.body)["messages"]
    assert received[1] == json.loads(json.dumps(history[1]))
    assert "extra_content" not in received[4]["tool_calls"][0]


def test_a_completion_that_is_refused_is_taken_back() -> None:
    """The client's own message is sent."""
    one = engine()
    found = captured(one, WHOLE)
    healed(one, found, CORRUPTED, *damaged())
    cured = healed(one, found, CORRUPTED, *damaged())
    received = json.loads(cured.body)["messages"][1]
    assert received["tool_calls"][0]["extra_content"] == TWICE
    assert received["reasoning_details"] == damaged()[1]["reasoning_details"]


def test_a_text_alone_is_not_replaced_for_a_signature() -> None:
    """No signature of the message is damaged, so the refusal is about another one."""
    one = engine()
    found = captured(one, message(CALL, reasoning="I look."))
    given = [ASK, message(CALL, reasoning="My own words."), OUTPUT]
    assert maybe_healed(one, found, CORRUPTED, *given) is None


def test_a_member_that_the_model_refused_is_not_completed() -> None:
    """It is taken out of what is sent."""
    one = engine()
    found = captured(one, message(CALL | {"extra_content": SIGNED}))
    given = [ASK, message(CALL | {"extra_content": TWICE}), OUTPUT]
    healed(one, found, NO_CALL, *given)
    assert maybe_healed(one, found, CORRUPTED, *given) is None
