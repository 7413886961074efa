"""Known state: which requests begin with what is decided already, and why others do not."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from reasoning_replay.core.dialects.anthropic.dialect import MessagesDialect
from reasoning_replay.core.dialects.anthropic.profiles import PROFILES as ANTHROPIC
from reasoning_replay.core.dialects.base import Anew, Bodies, Decision, Dialect, Question
from reasoning_replay.core.dialects.chat.dialect import ChatDialect
from reasoning_replay.core.dialects.chat.profiles import GENERIC as CHAT
from reasoning_replay.core.dialects.chat.profiles import Rounds
from reasoning_replay.core.dialects.known_state import NOTHING_KNOWN
from reasoning_replay.core.dialects.refusal_memory import BLOB
from reasoning_replay.core.dialects.request_body import ITEMS_MAX
from reasoning_replay.core.dialects.responses.dialect import ResponsesDialect
from reasoning_replay.core.dialects.responses.heal.repair import Repair
from reasoning_replay.core.dialects.responses.profiles import GENERIC
from reasoning_replay.core.dialects.states import RequestState, Way
from reasoning_replay.core.history import prefix_cache
from reasoning_replay.core.history.item_index import IndexedTurns
from reasoning_replay.core.history.plan import Outcome
from reasoning_replay.core.wire.json_spans import TooMany, Unspliceable

from tests.core.engines import answered, asked, engine_of
from tests.core.world import (
    MODEL,
    Item,
    answer,
    call,
    drawn,
    dropped,
    message,
    output,
    reasoning,
    user,
    without_ids,
)
from tests.core.worlds.two_ways import CALLER, Proxy, Told

ASK = user("Which file sets the timeout? " + "x" * prefix_cache.LEAST_BYTES)
RESPONSES = ResponsesDialect(GENERIC, "auto", frozenset(Repair))


def told(items: Sequence[Item], **more: Any) -> bytes:
    """Return a request."""
    top = {"model": MODEL, "input": items, "store": False, **more}
    return json.dumps(top).encode()


class Talk:
    """A client that drops reasoning, and its proxy."""

    def __init__(
        self, dialect: Dialect[Any, Any] = RESPONSES, seen: Callable[[Item], Item] = dict
    ) -> None:
        self.proxy = Proxy(engine_of(dialect))
        self.items: list[Item] = [ASK]
        self.turns = 0
        self._seen = seen

    def ask(self, **more: Any) -> Decision:
        """Send the history; return the decision."""
        return self.proxy.decide(Told(told(self.items, **more)))

    def question(self) -> Question:
        """Ask about the history, after what is known of it."""
        body, engine = told(self.items), self.proxy.engine
        return engine.ask(body, {}, engine.begun(body, CALLER.scope))

    def turn(self, *emitted: Item, **more: Any) -> Decision:
        """Send the history; its response has these items, by default reasoning and a call."""
        self.turns += 1
        n = f"{self.turns}"
        said = list(emitted) or [reasoning(n), call(n)]
        decision = self.ask(**more)
        self.proxy.capture(decision, answer(said, f"resp_{n}", store=False), self.turns)
        self.items += [self._seen(item) for item in dropped(said)]
        self.items += [output(item) for item in said if item["type"] == "function_call"]
        return decision


def injected(decision: Decision) -> list[str]:
    """Return the types of the items that are sent."""
    return [item["type"] for item in json.loads(decision.body)["input"][1:]]


def nameless_texts(item: Item) -> Item:
    """Return an item as a client sends it that drops the ids of texts."""
    return nameless(item) if item["type"] == "message" else item


def nameless(item: Item) -> Item:
    """Return an item as a client sends it that drops ids."""
    return without_ids([item])[0]


@pytest.mark.parametrize("seen", [dict, nameless])
def test_a_client_that_goes_on_begins_with_what_is_known(seen: Callable[[Item], Item]) -> None:
    """With ids from its second request on; without them the first response must be found first."""
    talk = Talk(seen=seen)
    decisions = [talk.turn() for _ in range(6)]

    ways = [decision.way for decision in decisions]
    assert ways[0] == Way.NEW
    assert set(ways[3:]) == {Way.SHORT}
    round_ = ["reasoning", "function_call", "function_call_output"]
    assert injected(decisions[5]) == round_ * 5
    assert decisions[5].state == RequestState.PLANNED
    assert decisions[5].outcomes == {"injected": 5}
    assert decisions[5].summary is not None
    assert decisions[5].summary.total == 11


def test_a_request_that_is_sent_again_is_repeated() -> None:
    """Whatever was found the first time; also if nothing was."""
    talk = Talk()
    for _ in range(3):
        talk.turn()
    first, again = talk.ask(), talk.ask()
    assert again.way == Way.SHORT
    assert (again.body, again.origin, again.outcomes) == (first.body, first.origin, first.outcomes)

    unknown = Talk()
    unknown.items += [call("elsewhere"), output(call("elsewhere"))]
    assert [unknown.ask().way for _ in range(2)] == [Way.NEW, Way.SHORT]
    assert unknown.ask().outcomes == {"missed": 1}
    unknown.turn()
    assert unknown.ask().way == Way.OTHER_FORM  # more may be found than at first


def test_what_may_be_found_later_is_decided_again() -> None:
    """Turns that led to no match may match the next time."""
    talk = Talk()
    for _ in range(2):
        talk.turn()
    edited = [user("Another question? " + "y" * 4096), {**talk.items[1], "name": "renamed"}]
    sent = Told(told([*edited, user("and?")]))
    assert [talk.proxy.decide(sent).way for _ in range(2)] == [Way.NEW, Way.NEW]


def test_a_client_that_does_not_only_append_is_decided_again() -> None:
    """What it changed may be found to be another conversation."""
    talk = Talk(seen=nameless)
    for n in range(3):
        talk.turn(reasoning(f"{n}"), message(f"{n}", f"I looked at file {n} of the service. " * 5))
        talk.items.append(user(f"What else did you see there, apart from file {n}? " * 3))
    del talk.items[0]
    talk.items[0] = user("A summary of all that was said before. " + "y" * 4096)
    decisions = [talk.ask() for _ in range(2)]
    assert [decision.way for decision in decisions] == [Way.NEW, Way.NEW]
    assert decisions[0].injected_bytes


def forget(talk: Talk) -> None:
    """Let the store lose the newest turn."""
    talk.proxy.lose(frozenset({next(reversed(talk.proxy.conversations.values()))[-1].id}))


def forget_all(talk: Talk) -> None:
    """Let the store lose everything."""
    talk.proxy.conversations.clear()


def save_elsewhere(talk: Talk) -> None:
    """Let the newest turn have another history, as after a fault of its request."""
    [(name, turns)] = talk.proxy.conversations.items()
    *older, newest = turns
    before = IndexedTurns(older)
    before.line = turns.line
    other = structs.replace(newest, context=structs.replace(newest.context, whole=b"other"))
    talk.proxy.conversations[name] = IndexedTurns([*older, other], before)


def change(talk: Talk) -> None:
    """Let another replica change the conversation."""
    known = talk.proxy.conversations
    for name, turns in known.items():
        known[name] = IndexedTurns(turns)


def answer_again(talk: Talk) -> None:
    """Let the last request have a second response."""
    items, talk.items = talk.items, talk.items[:-2]
    talk.turn(reasoning("again"), call("again"))
    talk.items = items


def send_before(talk: Talk) -> None:
    """Let another process have sent the next request before."""
    other = Proxy(engine_of(RESPONSES))
    other.conversations, other.index = talk.proxy.conversations, talk.proxy.index
    other.capture(other.decide(Told(told(talk.items))), answer([call("before")], "resp_0"), 99)


def refuse(talk: Talk) -> None:
    """Let upstream have refused something to the tenant."""
    talk.proxy.engine._refusals.refuse(CALLER.scope, BLOB, b"blob")


def cut(talk: Talk) -> None:
    """Leave an item of the response out."""
    del talk.items[-2]


def put(*items: Item, at: int = 0) -> Callable[[Talk], None]:
    """Add items, counted from the end."""

    def act(talk: Talk) -> None:
        place = len(talk.items) - at
        talk.items[place:place] = items

    return act


def rewrite(**members: Any) -> Callable[[Talk], None]:
    """Change members of the newest call."""

    def act(talk: Talk) -> None:
        talk.items[-2] = {**talk.items[-2], **members}

    return act


def nothing(_: Talk) -> None:
    """Change nothing."""


@pytest.mark.parametrize(
    ("act", "more", "way"),
    [
        pytest.param(nothing, {}, Way.SHORT, id="goes-on"),
        pytest.param(put(user("and now?")), {}, Way.SHORT, id="adds-a-message"),
        pytest.param(nothing, {"temperature": 0.5}, Way.OTHER_FORM, id="other-member"),
        pytest.param(nothing, {"prompt_cache_key": "x"}, Way.OTHER_FORM, id="names-it"),
        pytest.param(put(user("wait"), at=2), {}, Way.SHORT, id="message-before"),
        pytest.param(put(message("m", "more")), {}, Way.SHORT, id="ends-with-the-model"),
        pytest.param(put(reasoning("3"), at=2), {}, Way.OTHER_FORM, id="keeps-reasoning"),
        pytest.param(cut, {}, Way.SHORT, id="leaves-the-response-out"),
        pytest.param(forget_all, {}, Way.OTHER_TURNS, id="store-is-empty"),
        pytest.param(save_elsewhere, {}, Way.SHORT, id="does-not-follow"),
        pytest.param(change, {}, Way.OTHER_TURNS, id="changed-elsewhere"),
        pytest.param(forget, {}, Way.OTHER_TURNS, id="lost-the-turn"),
        pytest.param(answer_again, {}, Way.SHORT, id="two-responses"),
        pytest.param(send_before, {}, Way.SHORT, id="sent-before"),
        pytest.param(refuse, {}, Way.REFUSED, id="refused"),
        pytest.param(put(call("other"), at=1), {}, Way.OTHER_ITEMS, id="one-item-more"),
        pytest.param(rewrite(arguments='{"city":"Rome"}'), {}, Way.SHORT, id="other-content"),
        pytest.param(rewrite(id="", call_id="call_1"), {}, Way.OTHER_ITEMS, id="other-names"),
        pytest.param(rewrite(type="custom_tool_call"), {}, Way.SHORT, id="other-type"),
    ],
)
def test_what_is_known_changes_no_decision(
    act: Callable[[Talk], None], more: dict[str, Any], way: Way
) -> None:
    """It is gone on from, or a doubt reopens it: the decision is that about the whole request."""
    talk, other = Talk(), Talk()
    other.proxy.is_short = False
    for one in (talk, other):
        for _ in range(4):
            one.turn()
        act(one)

    decision, long = talk.ask(**more), other.ask(**more)
    assert decision.way == way
    assert decision.body == long.body
    assert decision.outcomes == long.outcomes
    assert decision.origin is not None
    assert long.origin is not None
    assert decision.origin.conversation == long.origin.conversation


def test_turns_that_are_not_indexed_are_decided_again() -> None:
    """Nothing shows whether they change."""
    talk = Talk()
    for _ in range(3):
        talk.turn()
    engine, sent = talk.proxy.engine, told([*talk.items, user("and?")])
    for _ in range(2):
        question = asked(engine, sent, CALLER.scope)
        found = talk.proxy.look_up(question.lookups)
        bare = found._replace(turns=[*found.turns])
        assert answered(engine, CALLER, sent, question, bare, is_created=True).outcomes
        assert engine.begun(sent, CALLER.scope).known.outline is None


def test_another_name_of_the_conversation_is_another_form() -> None:
    """The request is asked about as a whole."""
    talk = Talk()
    for _ in range(3):
        talk.turn()
    engine, sent = talk.proxy.engine, told(talk.items)
    with pytest.raises(Anew) as raised:
        engine.ask(sent, {"session-id": "another"}, engine.begun(sent, CALLER.scope))
    again = raised.value.begun
    assert (again.way, again.known) == (Way.OTHER_FORM, NOTHING_KNOWN)
    assert talk.proxy.decide(Told(sent, has_failed=True)).way == Way.OTHER_TURNS


def test_too_many_items_are_too_many() -> None:
    """The limit applies to all items."""
    talk = Talk()
    talk.turn()
    talk.items += [user("x")] * ITEMS_MAX
    sent = told(talk.items)
    with pytest.raises(TooMany):
        talk.proxy.engine.ask(sent, {}, talk.proxy.engine.begun(sent, CALLER.scope))


def same_both_ways(new: bytes, end: bytes = b"") -> None:
    """Assert that bytes after a known history are read as they are in a whole request."""
    talk, other = Talk(), Talk()
    other.proxy.is_short = False
    results: list[object] = []
    for one in (talk, other):
        one.turn()
        sent = told(one.items)
        one.proxy.decide(Told(sent))
        at = sent.rindex(b"]")
        try:
            results.append(one.proxy.decide(Told(sent[:at] + new + sent[at:] + end)).body)
        except Unspliceable as error:
            results.append(type(error))
    assert results[0] == results[1]


TAILS = [
    b" ",
    b",",
    b",[",
    b",{}",
    b',{"role":"user","content":"\xff"}',
    b'],"":[{}',
    b',"\\ud800"',
]


@pytest.mark.parametrize("new", [*TAILS, b'],"a":[{}', b',{}],"a":[{}', b',{}],"":[1'])
def test_a_history_that_goes_on_in_another_way_is_read_as_a_whole(new: bytes) -> None:
    """What is not JSON, or ends the array, is never read in part."""
    same_both_ways(new)


@given(st.lists(st.sampled_from([*TAILS, b"]", b"}", b"1", b'"']), max_size=6), st.booleans())
@settings(max_examples=100, deadline=None)
def test_any_bytes_are_read_as_on_the_long_way(new: Sequence[bytes], is_cut: bool) -> None:
    """The same, for random bytes."""
    same_both_ways(b"".join(new), b"}" * is_cut)


def test_what_a_cure_changed_is_decided_again() -> None:
    """A request that upstream refused is not repeated."""
    talk = Talk()
    for _ in range(3):
        talk.turn()
    decision = talk.ask()
    engine, given = talk.proxy.engine, told(talk.items)
    bodies = Bodies(given, decision.body)
    refusal = engine.readers.diagnose(400, b'{"error":{"message":"no"}}')
    question = engine.ask_for_cure(bodies, refusal)
    engine.cure(CALLER.scope, bodies, question, refusal, talk.proxy.look_up(question.lookups))

    assert talk.ask().way == Way.NEW


def test_a_shadow_repeats_nothing() -> None:
    """It changes no request, so upstream saw nothing."""
    talk = Talk()
    talk.proxy.engine = engine_of(RESPONSES, is_shadow=True)
    assert {talk.turn().way for _ in range(4)} == {Way.NEW}


@pytest.mark.parametrize("include", [None, []])
def test_other_edits_stay(include: object) -> None:
    """The wish for blobs is repeated, before the history and after it."""
    talk = Talk(seen=nameless_texts)
    for n in range(5):
        decision = talk.turn(reasoning(f"{n}"), message(f"{n}", f"text {n}" * 9), include=include)
        talk.items.append(user(f"and {n}?"))
        assert json.loads(decision.body)["include"] == ["reasoning.encrypted_content"]
    assert decision.way == Way.SHORT


def chats(kept: Sequence[Item], **more: Any) -> bytes:
    """Return a request to Chat Completions."""
    return json.dumps({"model": MODEL, "messages": kept, **more}).encode()


def chat_answer(n: int) -> Item:
    """Return a message with reasoning and a call."""
    this = {"id": f"call_{drawn(n)}", "type": "function"}
    called = {**this, "function": {"name": "look", "arguments": "{}"}}
    return {
        "role": "assistant",
        "content": None,
        "reasoning_content": f"{n}",
        "tool_calls": [called],
    }


@pytest.mark.parametrize(("rounds", "count"), [(Rounds.ALL, 4), (Rounds.CURRENT, 0)])
def test_a_new_round_of_a_chat_may_take_reasoning_away(rounds: Rounds, count: int) -> None:
    """Where only the current round has reasoning, a message of the user changes the older part."""
    proxy = Proxy(engine_of(ChatDialect(CHAT, rounds=rounds)))
    kept: list[Item] = [ASK]
    for n in range(4):
        decision = proxy.decide(Told(chats(kept)))
        said = chat_answer(n)
        made = {"id": f"chatcmpl-{n}", "model": MODEL, "choices": [{"index": 0, "message": said}]}
        proxy.capture(decision, json.dumps(made).encode(), n)
        said = {name: value for name, value in said.items() if name != "reasoning_content"}
        kept += [
            said,
            {"role": "tool", "tool_call_id": said["tool_calls"][0]["id"], "content": "1"},
        ]
    assert decision.way == Way.SHORT
    assert decision.outcomes == {"injected": 3}

    kept.append(user("and now?"))
    decision = proxy.decide(Told(chats(kept)))
    assert decision.way == Way.SHORT  # from before the round on
    assert decision.outcomes.get(Outcome.INJECTED, 0) == count
    proxy.is_short = False
    assert proxy.decide(Told(chats(kept))).body == decision.body


def blocks(n: int) -> list[Item]:
    """Return the blocks of a response of a model that binds its reasoning."""
    thought = {"type": "thinking", "thinking": f"{n}", "signature": f"signature {n}" * 20}
    called = {"type": "tool_use", "id": f"toolu_{drawn(n)}", "name": "look", "input": {"n": n}}
    return [thought, called]


@pytest.mark.parametrize("model", ["claude-opus-4-6", "claude-fable-5-1"])
def test_bound_reasoning_goes_on_with_what_is_known(model: str) -> None:
    """The digest of the history grows with it; what was made after another history does not fit."""
    engine = engine_of(MessagesDialect(ANTHROPIC["anthropic"], frozenset({"foreign"})))
    proxy, long = (
        Proxy(engine),
        Proxy(
            engine_of(MessagesDialect(ANTHROPIC["anthropic"], frozenset({"foreign"}))),
            is_short=False,
        ),
    )
    kept: list[Item] = [ASK]
    for n in range(5):
        sent = json.dumps({"model": model, "system": "Be good.", "messages": kept}).encode()
        decisions = [one.decide(Told(sent)) for one in (proxy, long)]
        assert decisions[0].body == decisions[1].body
        assert decisions[0].origin == decisions[1].origin
        made: Item = {"id": f"msg_{n}", "type": "message", "role": "assistant", "model": model}
        made |= {"content": blocks(n), "stop_reason": "tool_use"}
        for one, decision in zip((proxy, long), decisions, strict=True):
            one.capture(decision, json.dumps(made).encode(), n)
        result: Item = {"type": "tool_result", "tool_use_id": blocks(n)[1]["id"], "content": f"{n}"}
        kept += [
            {"role": "assistant", "content": blocks(n)[1:]},
            {"role": "user", "content": [result]},
        ]
    assert decisions[0].way == Way.SHORT
    assert decisions[0].outcomes == {"injected": 4}

    [name] = proxy.conversations
    *older, newest = proxy.conversations[name]
    elsewhere = structs.replace(newest, binding=newest.binding and b"x" * 32)
    before = IndexedTurns(older)
    before.line = proxy.conversations[name].line
    proxy.conversations[name] = IndexedTurns([*older, elsewhere], before)
    sent = json.dumps({"model": model, "system": "Be good.", "messages": kept}).encode()
    is_bound = ANTHROPIC["anthropic"].is_bound(model)
    assert proxy.decide(Told(sent)).way == (Way.BOUND if is_bound else Way.SHORT)
