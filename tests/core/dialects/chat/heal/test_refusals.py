"""Refusals as the dialect answers them: parsed, looked up, cured, learnt and decided again."""

import json

import pytest
from msgspec import structs
from reasoning_replay.core.dialects.base import Bodies, Cure, Decision
from reasoning_replay.core.dialects.chat.dialect import ChatDialect
from reasoning_replay.core.dialects.chat.heal.diagnosis import Diagnosis, RefusalKind
from reasoning_replay.core.dialects.chat.profiles import GENERIC, Rounds
from reasoning_replay.core.history.plan import ItemForm, Outcome

from tests.core.dialects.chat.chats import Chats
from tests.core.dialects.chat.heal.requests import (
    ASK,
    RESULT,
    SIGNED,
    Json,
    body,
    call,
    message,
)
from tests.core.dialects.tenant import CALLER

MODEL = "vendor-large"
CALL = call(1) | {"id": "call_Zk3mQ9xT7bLw2RsV"}
OUTPUT = RESULT | {"tool_call_id": CALL["id"]}
LOST = [ASK, message(CALL), OUTPUT]
THOUGHT = {"reasoning_content": "I look.", "reasoning": "I look, too."}
LACKS = Diagnosis(RefusalKind.LACKS_REASONING, "reasoning_content")
NO_TEXT = Diagnosis(RefusalKind.FIELD, refused=frozenset({"reasoning_content"}))
NO_CALL = Diagnosis(RefusalKind.FIELD, refused=frozenset({"extra_content"}))


def engine(rounds: Rounds | None = None, *, fills: bool = False, is_shadow: bool = False) -> Chats:
    """Return the chats of a dialect with these settings."""
    return Chats(ChatDialect(GENERIC, rounds, fills), is_shadow=is_shadow)


def captured(one: Chats, said: Json) -> None:
    """Let the store capture one turn."""
    choice = {"index": 0, "message": said, "finish_reason": "tool_calls"}
    one.take(body(ASK), json.dumps({"id": "chatcmpl-1", "choices": [choice]}).encode())


def decided(one: Chats, *history: Json) -> Decision:
    """Return the decision about a request."""
    return one.decide(body(*history))


def healed(one: Chats, refusal: Diagnosis, *history: Json) -> Cure:
    """Return the cure of a request that was decided and refused, after it was accepted."""
    cure = maybe_healed(one, refusal, *history)
    assert cure is not None
    return cure


def maybe_healed(one: Chats, refusal: Diagnosis, *history: Json) -> Cure | None:
    """Return the same; None if the refusal is passed on."""
    return one.cure_of(Bodies(body(*history), decided(one, *history).body), refusal)


@pytest.mark.parametrize("limit", [{"rounds": Rounds.CURRENT}, {}])
def test_reasoning_that_a_setting_leaves_out_is_injected_if_it_is_demanded(
    limit: dict[str, Rounds],
) -> None:
    """The upstream refuses the request without it, and so does its next one."""
    one = engine(limit.get("rounds"))
    said = message(content="7 degrees.", **THOUGHT)
    captured(one, said)
    history = [ASK, message(content="7 degrees."), ASK]
    before = decided(one, *history)
    assert before.outcomes == ({Outcome.SKIPPED: 2} if limit else {Outcome.INJECTED: 2})
    cure = maybe_healed(one, LACKS, *history)
    after = decided(one, *history)
    assert after.outcomes == {Outcome.INJECTED: 2}
    if limit:
        assert cure is not None
        assert (cure.body, cure.injected) == (after.body, 2)
    else:
        assert cure is None


def test_an_emitted_empty_text_is_injected_if_it_is_demanded() -> None:
    """It is what the upstream emitted, so it is no filler."""
    one = engine()
    captured(one, message(CALL, reasoning_content=""))
    assert decided(one, *LOST).outcomes == {}
    cure = healed(one, LACKS, *LOST)
    assert (cure.injected, cure.degraded) == (1, 0)
    assert decided(one, *LOST).outcomes == {Outcome.INJECTED: 1}


def test_what_the_client_sends_in_another_form_is_completed_if_it_is_demanded() -> None:
    """The text in tags stays, and so does a value of its own."""
    for change in ({"content": "<think>I look.</think>7 degrees."}, {"reasoning": "Mine."}):
        one = engine()
        captured(one, message(content="7 degrees.", **THOUGHT))
        sent = message(content="7 degrees.") | change
        before = decided(one, ASK, sent, ASK)
        assert (before.body, before.outcomes) == (body(ASK, sent, ASK), {Outcome.PRESENT: 1})
        cure = healed(one, LACKS, ASK, sent, ASK)
        assert json.loads(cure.body)["messages"][1] == THOUGHT | sent
        assert decided(one, ASK, sent, ASK).body == cure.body


def test_a_refused_member_is_never_injected_again() -> None:
    """The other members of the same turn are."""
    one = engine()
    captured(one, message(CALL | {"extra_content": SIGNED}, **THOUGHT))
    assert decided(one, *LOST).outcomes == {Outcome.INJECTED: 3}
    for refusal, left in ((NO_TEXT, 2), (NO_CALL, 1)):
        cure = healed(one, refusal, *LOST)
        assert cure.injected == left
        after = decided(one, *LOST)
        assert (after.body, after.outcomes) == (cure.body, {Outcome.INJECTED: left})
    # What a cure injects leaves it out, too.
    assert maybe_healed(one, LACKS, *LOST) is None


def test_a_refused_signature_is_withheld() -> None:
    """It is taken out, and the whole run of its call is not injected again."""
    one = engine()
    captured(one, message(CALL | {"extra_content": SIGNED}))
    quotes = Diagnosis(RefusalKind.BLOB, quoted=frozenset({"Es4DCss"}))
    cure = healed(one, quotes, *LOST)
    assert (cure.is_clients_own, cure.withheld) == (True, tuple(one.store.turns.values()))
    assert decided(one, *LOST).outcomes == {Outcome.REFUSED: 1}


def test_a_filler_is_used_again_once_it_was_accepted() -> None:
    """Only in a request that the proxy may edit, and counted as degraded."""
    one = engine(fills=True)
    cure = healed(one, LACKS, *LOST)
    assert cure.degraded == 1
    after = decided(one, *LOST)
    assert after.body == cure.body
    assert (after.outcomes, after.forms) == ({Outcome.MISSED: 1}, {ItemForm.DEGRADED: 1})
    assert after.summary is not None
    assert json.loads(after.summary.shown)["notes"] == [
        [1, "missed", 1, 0, ""],
        [1, "degraded", 1, 0, ""],
    ]
    own = [ASK, message(CALL, reasoning_content="mine"), OUTPUT]
    assert decided(one, *own).outcomes == {Outcome.PRESENT: 1}
    shadow = engine(fills=True, is_shadow=True)
    shadow.engine.learn(CALLER.scope, LACKS, cure, MODEL)
    assert decided(shadow, *LOST).body == body(*LOST)


def test_a_filler_in_an_empty_message_has_no_mark() -> None:
    """A message without text and calls has no item at which it could be shown."""
    one = engine(fills=True)
    one.engine.learn(CALLER.scope, LACKS, Cure(body(ASK), degraded=1), MODEL)
    after = decided(one, ASK, message(content=None), ASK)
    assert (after.outcomes, after.forms) == ({}, {ItemForm.DEGRADED: 1})
    assert after.summary is not None
    assert json.loads(after.summary.shown)["notes"] == []


def test_no_filler_goes_into_a_body_that_cannot_be_edited() -> None:
    """A lone surrogate is not valid Unicode, so nothing can be changed in it safely."""
    one = engine(fills=True)
    one.engine.learn(CALLER.scope, LACKS, Cure(body(ASK), degraded=1), MODEL)
    given = b'{"model":"vendor-large","messages":[{"role":"user","content":"\\ud83d"}]}'
    assert one.decide(given, fails=True).body is given


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
    captured(one, WHOLE)
    given = decided(one, *damaged())
    assert given.body == body(*damaged())
    cured = healed(one, refusal, *damaged())
    assert json.loads(cured.body)["messages"] == [ASK, json.loads(json.dumps(WHOLE)), OUTPUT]
    assert (cured.injected, cured.lost, cured.withheld) == (3, frozenset(), ())
    again = decided(one, *damaged())
    assert again.body == cured.body
    assert again.outcomes == {Outcome.INJECTED: 3}


def test_another_conversation_is_not_completed() -> None:
    """Its client was not refused."""
    one = engine()
    captured(one, WHOLE)
    healed(one, CORRUPTED, *damaged())
    ((key, turn),) = one.store.turns.items()
    one.store.turns[key] = structs.replace(turn, conversation=b"other")
    assert decided(one, *damaged()).body == body(*damaged())


def test_a_refusal_that_quotes_another_signature() -> None:
    """It is not about the message of the known turn, which stays as it is."""
    one = engine()
    captured(one, WHOLE)
    odd = call(2) | {"extra_content": {"google": {"thought_signature": "QWxpZW4="}}}
    history = [*damaged(), ASK, message(odd), RESULT | {"tool_call_id": odd["id"]}]
    alien = Diagnosis(RefusalKind.BLOB, quoted=frozenset({"QWxpZW4"}))
    cured = healed(one, alien, *history)
    received = json.loads(cured.body)["messages"]
    assert received[1] == json.loads(json.dumps(history[1]))
    assert "extra_content" not in received[4]["tool_calls"][0]


def test_a_completion_that_is_refused_is_taken_back() -> None:
    """The client's own message is sent."""
    one = engine()
    captured(one, WHOLE)
    healed(one, CORRUPTED, *damaged())
    cured = healed(one, CORRUPTED, *damaged())
    received = json.loads(cured.body)["messages"][1]
    assert received["tool_calls"][0]["extra_content"] == TWICE
    assert received["reasoning_details"] == damaged()[1]["reasoning_details"]


def test_a_text_alone_is_not_replaced_for_a_signature() -> None:
    """No signature of the message is damaged, so the refusal is about another one."""
    one = engine()
    captured(one, message(CALL, reasoning="I look."))
    given = [ASK, message(CALL, reasoning="My own words."), OUTPUT]
    assert maybe_healed(one, CORRUPTED, *given) is None


def test_a_member_that_the_model_refused_is_not_completed() -> None:
    """It is taken out of what is sent."""
    one = engine()
    captured(one, message(CALL | {"extra_content": SIGNED}))
    given = [ASK, message(CALL | {"extra_content": TWICE}), OUTPUT]
    healed(one, NO_CALL, *given)
    assert maybe_healed(one, CORRUPTED, *given) is None
