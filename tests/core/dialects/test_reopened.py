"""Reopened: what is new in a request may change what is decided; then it is decided as a whole."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from msgspec import structs
from reasoning_replay.core.dialects.anthropic.dialect import MessagesDialect
from reasoning_replay.core.dialects.anthropic.heal.diagnosis import RefusalKind as MessagesKind
from reasoning_replay.core.dialects.anthropic.profiles import PROFILES
from reasoning_replay.core.dialects.base import Decision, Dialect
from reasoning_replay.core.dialects.chat.dialect import ChatDialect
from reasoning_replay.core.dialects.chat.profiles import GENERIC as CHAT
from reasoning_replay.core.dialects.lessons import FORM
from reasoning_replay.core.dialects.responses.heal.diagnosis import RefusalKind
from reasoning_replay.core.dialects.states import Way
from reasoning_replay.core.history.plan import Outcome
from reasoning_replay.core.history.seen import Seen
from reasoning_replay.core.history.turns import Lesson

from tests.core.dialects.test_known_state import (
    ASK,
    RESPONSES,
    blocks,
    chat_answer,
    chats,
    nameless,
    told,
)
from tests.core.dialects.test_one_rule import teach
from tests.core.engines import engine_of
from tests.core.world import MODEL, Item, answer, call, dropped, message, output, reasoning, user
from tests.core.worlds.two_ways import CALLER, Proxy, Told

MESSAGES = MessagesDialect(PROFILES["anthropic"], frozenset({"foreign"}))
BINDS, FREE = "claude-fable-5-1", "claude-opus-4-6"


class Both:
    """Two proxies with what they know of one client: one begins with it, one with nothing."""

    def __init__(self, dialect: Dialect[Any, Any]) -> None:
        self.short = Proxy(engine_of(dialect))
        self.long = Proxy(engine_of(dialect), is_short=False)

    def decide(self, sent: bytes) -> Decision:
        """Decide on a request; both do the same."""
        short, long = (one.decide(Told(sent)) for one in (self.short, self.long))
        assert (short.body, short.outcomes) == (long.body, long.outcomes)
        return short

    def turn(self, sent: bytes, response: Item, n: int) -> Decision:
        """Decide on a request, and store the turn of its response."""
        decision = self.decide(sent)
        for one in (self.short, self.long):
            one.capture(one.decide(Told(sent)), json.dumps(response).encode(), n)
        return decision

    def teach(self, lesson: Lesson) -> None:
        """Let the newest turn be that of a request that was cured."""
        for one in (self.short, self.long):
            teach(one, [*one.conversations][-1], lesson)


Q, R = call("q"), call("r")
# The lesson, what is new, and how it is decided.
FAULTS = [
    (RefusalKind.DUPLICATE, [Q, output(Q), {**R, "id": Q["id"]}, output(R)], Way.REFUSED),
    (RefusalKind.BAD_ID, [{**message("m", "Hm"), "id": "x!y"}], Way.REFUSED),
    (RefusalKind.FORM, [Q], Way.OTHER_ITEMS),
]


@pytest.mark.parametrize(("lesson", "new", "way"), FAULTS)
def test_what_is_new_has_a_fault_that_was_cured_before(
    lesson: RefusalKind, new: list[Item], way: Way
) -> None:
    """The lesson is known, and what is decided had no such fault."""
    both = Both(RESPONSES)
    items: list[Item] = [ASK]
    for n in range(4):
        said = [reasoning(f"{n}"), call(f"{n}")]
        both.turn(told(items), json.loads(answer(said, f"resp_{n}", store=False)), n)
        items += [*dropped(said), output(said[1])]
        if n == 1:
            both.teach(Lesson(lesson))
    assert both.decide(told(items)).way == Way.SHORT

    decision = both.decide(told([*items, *new]))
    assert (decision.way, decision.repairs) == (way, {"learned": 1})


def test_unknown_words_were_cured_by_another_form() -> None:
    """In Chat, that form is the one of the whole history."""
    both = Both(ChatDialect(CHAT))
    kept: list[Item] = [ASK]
    for n in range(4):
        said = chat_answer(n)
        made = {"id": f"chatcmpl-{n}", "model": MODEL, "choices": [{"index": 0, "message": said}]}
        decision = both.turn(chats(kept), made, n)
        if n == 1:
            both.teach(Lesson(FORM))
        bare = {name: value for name, value in said.items() if name != "reasoning_content"}
        call_id = said["tool_calls"][0]["id"]
        kept += [bare, {"role": "tool", "tool_call_id": call_id, "content": "1"}]
    assert (decision.way, decision.outcomes) == (Way.OTHER_ITEMS, {"injected": 3})


def exchange(n: int, model: str) -> tuple[Item, list[Item]]:
    """Return a response of Messages, and what the client adds to its history."""
    made: Item = {"id": f"msg_{n}", "type": "message", "role": "assistant", "model": model}
    made |= {"content": blocks(n), "stop_reason": "tool_use"}
    result: Item = {"type": "tool_result", "tool_use_id": blocks(n)[1]["id"], "content": f"{n}"}
    return made, [
        {"role": "assistant", "content": blocks(n)[1:]},
        {"role": "user", "content": [result]},
    ]


def sent_by(model: str, kept: Sequence[Item]) -> bytes:
    """Return a request of Messages."""
    return json.dumps({"model": model, "system": "Be good.", "messages": kept}).encode()


def test_another_model_answered_and_it_binds() -> None:
    """The digest of what is decided is not known: the model that was asked binds nothing."""
    both = Both(MESSAGES)
    kept: list[Item] = [ASK]
    ways = []
    for n, model in enumerate([FREE, FREE, FREE, BINDS, FREE]):
        made, more = exchange(n, model)
        ways.append(both.turn(sent_by(FREE, kept), made, n).way)
        kept += more
    assert ways == [Way.NEW, Way.SHORT, Way.SHORT, Way.SHORT, Way.OTHER_ITEMS]


def test_a_model_that_takes_no_reasoning_but_binds_it() -> None:
    """What its turns are bound to is the digest of a whole request."""
    both = Both(MESSAGES)
    for one in (both.short, both.long):
        one.engine._refusals.refuse(CALLER.scope, MessagesKind.FIELD, BINDS)
    kept: list[Item] = [ASK]
    for n in range(3):
        made, more = exchange(n, BINDS)
        decision = both.turn(sent_by(BINDS, kept), made, n)
        assert decision.origin is not None
        assert decision.origin.binding
        assert (decision.way, decision.outcomes) == (Way.NEW, {})
        kept += more


def text(n: str) -> Item:
    """Return a text, which is known by what it says."""
    return message(n, f"I looked at file {n} of the service, and it sets no timeout. ")


class Client:
    """A client of which three requests were decided on by two proxies, by calls or texts."""

    def __init__(self, made: Callable[[str], Item] = call) -> None:
        self.both = Both(RESPONSES)
        self.items: list[Item] = [ASK]
        self._made = made
        for n in range(3):
            self.turn(n, [self.both.short, self.both.long])

    def turn(self, n: int, proxies: Sequence[Proxy], *, has_failed: bool = False) -> None:
        """Send a request to these proxies, and keep its response."""
        said = [reasoning(f"{n}"), self._made(f"{n}")]
        sent = told(self.items)
        for one in proxies:
            decision = one.decide(Told(sent, has_failed=has_failed))
            one.capture(decision, answer(said, f"resp_{n}", store=False), n)
        after = output(said[1]) if self._made is call else user(f"What else, apart from {n}?")
        self.items.extend([nameless(said[1]), after])

    def other(self) -> Proxy:
        """Return another replica, with the store of the one that knows the client."""
        other = Proxy(engine_of(RESPONSES), is_short=False)
        other.conversations, other.index = self.both.short.conversations, self.both.short.index
        return other


@pytest.mark.parametrize("is_edited", [False, True])
def test_a_name_is_doubted_and_what_is_given_agrees(*, is_edited: bool) -> None:
    """Another replica answered, and the client changed that call and the output before it."""
    client = Client()
    client.turn(3, [client.other(), client.both.long])
    items = client.items
    if is_edited:
        items[-3] = {**items[-3], "output": "edited"}
        items[-2] = {**items[-2], "arguments": '{"city": "edited"}'}
    decision = client.both.decide(told([*items, user("and?")]))
    assert decision.outcomes[Outcome.INJECTED] >= 2


def test_a_lookup_failed_at_another_replica() -> None:
    """Its turn records no decisions, so with nothing given, all is decided again."""
    client = Client(text)
    client.turn(3, [client.other(), client.both.long], has_failed=True)
    decision = client.both.decide(told(client.items))
    assert (decision.way, decision.outcomes) == (Way.OTHER_ITEMS, {"injected": 4})


def test_another_replica_decided_otherwise_about_what_is_given() -> None:
    """It sent nothing of it. That is what upstream has seen last, so it holds."""
    client = Client(text)
    other = client.other()
    other.conversations = {**other.conversations}
    client.turn(3, [other])
    [turns] = other.conversations.values()
    bare = structs.replace(turns[-1], seen=Seen(b"", 0, ()))
    for one in (client.both.short, client.both.long):
        one._save(bare)
    decision = client.both.decide(told(client.items))
    assert (decision.way, decision.outcomes) == (Way.OTHER_ITEMS, {"injected": 1, "missed": 3})


def test_only_what_is_new_is_read() -> None:
    """The rest of the body was read before."""
    client = Client()
    sent = told(client.items)
    begun = client.both.short.engine.begun(sent, CALLER.scope)
    assert begun.is_any
    assert begun.unread(sent) == sent[begun.known.end :]
    assert begun.anew(Way.NEW).unread(sent) == sent


def test_a_response_comes_again() -> None:
    """A cache of upstream repeats it. Its reasoning goes to the first copy, as from nothing."""
    client = Client(text)
    both, items = client.both, client.items
    again = [reasoning("2"), text("2")]
    for one in (both.short, both.long):
        decision = one.decide(Told(told(items)))
        [line] = [turns.line for turns in one.conversations.values()]
        one.capture(decision, answer(again, "resp_2", store=False), 9)
        for turns in one.conversations.values():
            turns.line = line  # the newest turn is replaced in place
    items += [nameless(again[1]), user("And now?")]
    decision = both.decide(told(items))
    assert (decision.way, decision.outcomes) == (Way.OTHER_ITEMS, {"injected": 3})
