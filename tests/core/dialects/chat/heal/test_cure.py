"""Cures: the least edit that answers a refusal; nothing is invented unless the operator allows."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec import structs
from reasoning_replay.core.dialects.base import Cure
from reasoning_replay.core.dialects.chat.heal.cure import RefusedChat
from reasoning_replay.core.dialects.chat.heal.diagnosis import Diagnosis, RefusalKind
from reasoning_replay.core.dialects.chat.members import reasoning_of
from reasoning_replay.core.dialects.chat.request import ChatRequest, read_request
from reasoning_replay.core.history.plan import Plan
from reasoning_replay.core.history.turns import Emitted, Turn
from reasoning_replay.core.wire.json_spans import Edit

from tests.adapters.stores.turns import turn as any_turn
from tests.core.dialects.chat.heal.requests import (
    ASK,
    ENCRYPTED,
    RESULT,
    SIGNED,
    Json,
    body,
    call,
    message,
    read,
    result,
)

LACKS_TEXT = Diagnosis(RefusalKind.LACKS_REASONING, "reasoning_content")
LACKS_SIGNATURE = Diagnosis(RefusalKind.LACKS_REASONING, "extra_content")
LACKS_DETAILS = Diagnosis(RefusalKind.LACKS_REASONING, "reasoning_details")
NO_TEXT = Diagnosis(RefusalKind.FIELD, refused=frozenset({"reasoning_content"}))
BLOB = Diagnosis(RefusalKind.BLOB)
QUOTES = Diagnosis(RefusalKind.BLOB, quoted=frozenset({"Es4DCss"}))
INPUT = Diagnosis(RefusalKind.INPUT)

BARE = [ASK, message(call(1)), RESULT, message(call(2)), result(2)]
THOUGHT = [
    ASK,
    message(call(1), reasoning_content="I look."),
    RESULT,
    message(call(2), reasoning_content="Again."),
    result(2),
]
OWN_SIGNED = message(call(1, extra_content=SIGNED))


def cured(diagnosis: Diagnosis, sent: Sequence[Json], given: Sequence[Json], **more: Any) -> Cure:
    """Return the cure of a refused request."""
    found = maybe_cured(diagnosis, sent, given, **more)
    assert found is not None
    return found


def maybe_cured(
    diagnosis: Diagnosis,
    sent: Sequence[Json],
    given: Sequence[Json],
    *,
    planned: Sequence[Json] = (),
    turns: Sequence[Turn] = (),
    fills: bool = False,
) -> Cure | None:
    """Return the same; None if the refusal is passed on."""
    theirs = read(*given)
    ours = theirs if sent is given else read(*sent)
    plan = Plan((Edit(0, len(theirs.body), body(*planned)),)) if planned else Plan()
    return RefusedChat(ours, theirs, diagnosis, plan=plan, turns=turns, fills=fills).cure()


def messages(found: Cure) -> list[Json]:
    """Return the messages of a cured request."""
    return list(json.loads(found.body)["messages"])


# --- reasoning is missing ---


def test_missing_reasoning_that_is_known_is_injected() -> None:
    """All that is known goes in, also what the profile had left out; the count is that of it."""
    found = cured(LACKS_TEXT, BARE, BARE, planned=THOUGHT)
    assert found.body == body(*THOUGHT)
    assert (found.injected, found.degraded, found.is_clients_own) == (2, 0, False)
    assert found.injected_bytes == len('"reasoning_content":"I look."') + len(
        '"reasoning_content":"Again."'
    )
    assert (found.lost, found.withheld) == (frozenset(), ())


def test_a_refusal_of_all_that_is_known_is_passed_on() -> None:
    """Nothing more is known, so a retry would be the same request."""
    assert maybe_cured(LACKS_TEXT, THOUGHT, BARE, planned=THOUGHT) is None
    assert maybe_cured(LACKS_TEXT, BARE, BARE) is None


def test_an_empty_text_is_sent_only_if_the_operator_allows_it() -> None:
    """Every assistant message that has no text gets an empty one, so that the prefix is stable."""
    known = [ASK, message(content="Hi"), ASK, *THOUGHT[1:3], *BARE[3:]]
    bare = [ASK, message(content="Hi"), ASK, *BARE[1:]]
    found = cured(LACKS_TEXT, bare, bare, planned=known, fills=True)
    texts = [m.get("reasoning_content") for m in messages(found) if m["role"] == "assistant"]
    assert texts == ["", "I look.", ""]
    assert (found.injected, found.degraded) == (1, 2)
    without = cured(LACKS_TEXT, bare, bare, planned=known)
    assert (without.body, without.degraded) == (body(*known), 0)


def test_what_the_client_says_is_not_overwritten() -> None:
    """A message with a text of the client, also an empty one, is not filled."""
    given = [ASK, message(call(1), reasoning_content=""), RESULT]
    assert maybe_cured(LACKS_TEXT, given, given, fills=True) is None


def test_googles_value_goes_to_the_first_call_of_each_message() -> None:
    """Parallel calls have one signature; a message without calls needs none."""
    bare = [ASK, message(content="Hi"), ASK, message(call(1), call(2)), RESULT, result(2)]
    found = cured(LACKS_SIGNATURE, bare, bare, fills=True)
    filled = messages(found)
    skip = {"google": {"thought_signature": "skip_thought_signature_validator"}}
    assert filled[3]["tool_calls"] == [call(1, extra_content=skip), call(2)]
    assert [filled[0], filled[1], *filled[4:]] == [bare[0], bare[1], *bare[4:]]
    assert (found.injected, found.degraded) == (0, 1)


def test_no_filler_exists_for_details() -> None:
    """OpenRouter documents no value for reasoning that is unknown."""
    assert maybe_cured(LACKS_DETAILS, BARE, BARE, fills=True) is None


# --- a member is not accepted ---


def test_a_refused_member_is_taken_out_of_every_message() -> None:
    """What the proxy injected is taken back, byte for byte."""
    found = cured(NO_TEXT, THOUGHT, BARE)
    assert (found.body, found.is_clients_own, found.injected) == (body(*BARE), True, 0)


def test_other_members_stay() -> None:
    """Only the named member is refused, so what is injected under another name stays."""
    both = [ASK, message(call(1), reasoning_content="a", reasoning="b"), RESULT]
    left = [ASK, message(call(1), reasoning="b"), RESULT]
    found = cured(NO_TEXT, both, [ASK, message(call(1)), RESULT])
    assert (found.body, found.is_clients_own) == (body(*left), False)
    assert (found.injected, found.injected_bytes) == (1, len('"reasoning":"b"'))


def test_the_clients_own_member_is_taken_out_if_it_is_named() -> None:
    """The client replays what another upstream gave it."""
    found = cured(NO_TEXT, THOUGHT, THOUGHT)
    assert (found.body, found.is_clients_own) == (body(*BARE), False)


def test_a_member_that_the_request_lacks_is_no_cause() -> None:
    """Nothing can be taken out, so the refusal is passed on."""
    assert maybe_cured(NO_TEXT, BARE, BARE) is None


# --- signatures ---


def signed_turn() -> Turn:
    """Return a stored turn with a signed call."""
    part = reasoning_of("extra_content", json.dumps(SIGNED).encode(), is_of_call=True)
    assert part is not None
    item = Emitted("function_call", "", "call_1", "look_up", b"content", (part,))
    return structs.replace(any_turn("t", "c"), items=(item,))


def test_an_injected_signature_that_is_refused_is_taken_out_and_remembered() -> None:
    """Text stays; for an hour, the turn is not injected with this signature."""
    sent = [ASK, message(call(1, extra_content=SIGNED), reasoning_content="a"), RESULT]
    left = [ASK, message(call(1), reasoning_content="a"), RESULT]
    stored, other = signed_turn(), any_turn("u", "c")
    found = cured(BLOB, sent, [ASK, message(call(1)), RESULT], turns=[stored, other])
    assert found.body == body(*left)
    assert found.lost == frozenset(stored.items[0].run[0].blobs)
    assert found.withheld == ()  # another one may be the cause
    assert found.injected == 1


def test_an_injected_signature_that_is_quoted_is_withheld_for_good() -> None:
    """Only the quoted one is taken out, and its turn is marked in the store."""
    other = {"google": {"thought_signature": "EvcDCvQDAb4"}}
    sent = [ASK, OWN_SIGNED, RESULT, message(call(2, extra_content=other))]
    given = [ASK, message(call(1)), RESULT, message(call(2))]
    stored, foreign = signed_turn(), any_turn("u", "c")
    found = cured(QUOTES, sent, given, turns=[stored, foreign])
    assert found.body == body(*given[:3], sent[3])
    assert found.withheld == (stored,)
    assert found.lost == frozenset(stored.items[0].run[0].blobs)


def test_details_with_a_signature_are_taken_out_whole() -> None:
    """Their sequence must not be edited."""
    sent = [ASK, message(call(1), reasoning_details=ENCRYPTED), RESULT]
    found = cured(BLOB, sent, [ASK, message(call(1)), RESULT])
    assert found.is_clients_own
    assert len(found.lost) == 1


def test_the_clients_own_signature_is_taken_out_only_if_it_is_quoted() -> None:
    """A refusal that names none leaves it: it may be about any other."""
    given = [ASK, OWN_SIGNED, RESULT]
    assert maybe_cured(BLOB, given, given) is None
    found = cured(QUOTES, given, given)
    assert found.body == body(ASK, message(call(1)), RESULT)
    other = [ASK, message(call(1, extra_content={"google": {"thought_signature": "x"}})), RESULT]
    assert maybe_cured(QUOTES, other, other) is None


def test_a_filler_takes_the_place_of_a_signature() -> None:
    """Google demands one in its place."""
    given = [ASK, message(call(1)), RESULT]
    found = cured(BLOB, [ASK, OWN_SIGNED, RESULT], given, fills=True)
    assert b"skip_thought_signature_validator" in found.body
    assert (found.degraded, found.injected, len(found.lost)) == (1, 0, 1)
    details = [ASK, message(call(1), reasoning_details=ENCRYPTED), RESULT]
    found = cured(BLOB, details, given, fills=True)
    assert (found.body, found.degraded) == (body(*given), 0)


# --- anything else ---


def test_another_error_brings_the_clients_own_request() -> None:
    """The proxy's edits may be the cause; the client's own are not changed."""
    found = cured(INPUT, THOUGHT, BARE)
    assert (found.body, found.is_clients_own) == (body(*BARE), True)
    assert maybe_cured(INPUT, BARE, BARE) is None
    assert maybe_cured(INPUT, THOUGHT, THOUGHT) is None


def test_a_message_that_cannot_be_edited_stays() -> None:
    """Parsers could disagree on it, so nothing was injected there either."""
    odd = b'{"role":"assistant","role":"assistant","reasoning_content":"x"}'

    def request(raw: bytes) -> ChatRequest:
        return read_request(b'{"model":"m","messages":[' + odd + b"," + raw + b"]}", {})

    sent = request(b'{"reasoning_content":"a","role":"assistant","content":"b"}')
    given = request(b'{"role":"assistant","content":"b"}')
    found = RefusedChat(sent, given, NO_TEXT, plan=Plan(), turns=()).cure()
    assert found is not None
    assert found.body == given.body
    # A message that the client sent in that form was never edited.
    swapped = RefusedChat(given, request(odd), NO_TEXT, plan=Plan(), turns=()).cure()
    assert swapped is None


@pytest.mark.parametrize("kind", RefusalKind)
def test_a_cure_always_differs_from_the_refused_request(kind: RefusalKind) -> None:
    """The same request again would be refused again."""
    names = frozenset({"reasoning_content"})
    for sent in (THOUGHT, BARE, [ASK, OWN_SIGNED, RESULT]):
        for given in (BARE, [ASK, message(call(1)), RESULT]):
            if len(sent) == len(given):
                found = maybe_cured(
                    Diagnosis(kind, "extra_content", names), sent, given, fills=True
                )
                assert found is None or found.body != body(*sent)
