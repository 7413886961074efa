"""Dialect: the Chat Completions API as an implementation of the interface."""

from contextlib import nullcontext

from reasoning_replay.core.dialects.base import AnyDialect, Cure, RefusedBodies
from reasoning_replay.core.dialects.chat.dialect import ChatDialect
from reasoning_replay.core.dialects.states import RequestState
from reasoning_replay.core.history.lookup_keys import LookupResult
from reasoning_replay.core.history.sent_items import DIGEST_BYTES, common_items
from reasoning_replay.core.tenancy.scope import NO_ACCOUNT

from tests.core.dialects.chat.chats import (
    CALLER,
    Chats,
    assistant,
    body_of,
    settings_of,
    user,
)
from tests.core.dialects.chat.streams import answer

ASK, GO = user("What is the weather in Paris?"), user("Go on")
SAID = assistant("It is sunny in Paris, and warm.")
LATER = [ASK, SAID, GO]


def learned(chats: Chats) -> Chats:
    """Return the chats after one response."""
    chats.learn([ASK], SAID | {"reasoning_content": "Hm"})
    return chats


def test_a_request_is_decided_on() -> None:
    """The decision has the body, the counts, the summary, and the origin of the response."""
    chats = learned(Chats())
    body = body_of(LATER)
    decided = chats.decide(body)

    assert decided.state is RequestState.PLANNED
    assert decided.body == body.replace(b'warm."', b'warm.","reasoning_content":"Hm"')
    assert decided.injected_bytes == len('"reasoning_content":"Hm"')
    assert decided.summary is not None
    assert decided.summary.total == 3
    assert decided.origin is not None
    (turn,) = chats.store.turns.values()
    assert (decided.origin.parent, decided.origin.stores) == (turn.id, False)


def test_the_digests_are_those_of_what_is_sent() -> None:
    """A client that replays the same bytes itself continues the prefix of an injected request."""
    chats = learned(Chats())
    sent = chats.decide(body_of(LATER))
    same, bare = chats.decide(sent.body), Chats().decide(body_of(LATER))

    assert sent.summary is not None
    assert same.summary is not None
    assert bare.summary is not None
    injected, own = sent.summary.sent, same.summary.sent
    assert (own.total, len(injected.injected), own.injected) == (3, DIGEST_BYTES, b"")
    assert injected.items == own.items
    assert common_items(own, bare.summary.sent) == 1
    assert own.head == bare.summary.sent.head


def test_an_error_is_named_by_the_words_of_the_api() -> None:
    """An error has a code and a type."""
    said = b'{"error":{"code":"a","type":"b","message":"c d"}}'
    assert Chats().dialect.error_names(said) == ("a", "b")


def test_a_first_request_is_sent_as_it_is() -> None:
    """Nothing to inject means the identical object."""
    body = body_of([ASK])
    decided = Chats().decide(body)

    assert decided.body is body
    assert decided.origin is not None
    assert decided.origin.conversation == b""


def test_shadow_mode_counts_and_changes_nothing() -> None:
    """The counts say what would have been injected."""
    body = body_of(LATER)
    decided = learned(Chats(settings_of(is_shadow=True))).decide(body)

    assert decided.body is body
    assert [*decided.outcomes.values()] == [1]
    assert decided.injected_bytes == 0


def test_without_a_lookup_nothing_is_injected() -> None:
    """The origin remembers no decisions, so the next request decides anew."""
    chats = learned(Chats())
    body = body_of(LATER)
    question, _ = chats.asked(body)
    decided = chats.dialect.decide(CALLER, body, question, None, is_created=True)

    assert decided.body is body
    assert decided.state is RequestState.STORE_FAILED
    assert decided.origin is not None
    assert decided.origin.seen is None


def test_a_response_to_an_unknown_request_is_followed() -> None:
    """Its turn has no history."""
    captured = Chats().dialect.capture(None)
    captured.read(answer(SAID))
    turn = captured.snapshot(1).turn

    assert turn is not None
    assert not turn.context.is_known


def test_no_request_fetches_a_completion_and_an_unknown_refusal_is_not_cured() -> None:
    """The interface asks; this API has no such requests, and other refusals are forwarded."""
    dialect: AnyDialect = ChatDialect(settings_of(), lambda: 0.0, nullcontext())
    body = body_of(LATER)
    bodies = RefusedBodies(body, body)
    refusal = dialect.diagnose(400, b"{}")
    question = dialect.ask_for_cure(bodies, refusal)

    assert dialect.retrieved("/v1/chat/completions/x") == ""
    assert dialect.origin_of("chatcmpl-1", LookupResult()) is None
    assert not dialect.is_refusal(500)
    assert not dialect.is_failing_event(b"{}")
    assert not dialect.is_refusing_event(b"{}")
    assert (refusal.kind, refusal.is_understood) == ("other", False)
    assert question.request.body is body
    assert dialect.cure(b"s", bodies, question, refusal, LookupResult()) is None
    dialect.learn(b"s", refusal, Cure(body), "m")
    dialect.note_issued(NO_ACCOUNT, ())
