"""Dialect: what the Chat Completions API gives to the engine."""

from reasoning_replay.core.dialects.states import RequestState
from reasoning_replay.core.history.sent_items import DIGEST_BYTES, common_items

from tests.core.dialects.chat.chats import (
    Chats,
    assistant,
    body_of,
    user,
)

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
