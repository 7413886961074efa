"""Laws of the dialect: the promises, as properties of whole conversations."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from reasoning_replay.core.dialects.chat.dialect import ChatDialect
from reasoning_replay.core.dialects.chat.placement import plan_injection
from reasoning_replay.core.dialects.chat.profiles import PROFILES, Policy
from reasoning_replay.core.dialects.chat.request import read_request
from reasoning_replay.core.history.matching.matches import match_items
from reasoning_replay.core.history.plan import Outcome
from reasoning_replay.core.wire import json_spans

from tests.core.dialects.chat.chats import (
    Chats,
    Message,
    assistant,
    body_of,
    tool,
    user,
)
from tests.core.dialects.chat.streams import call, details
from tests.core.documents import values
from tests.core.world import drawn
from tests.fast_lane import examples

TEXTS = ["Done.", "It is sunny in Paris today.", "OK"]
# How ids of calls are made: at random, or in the ways in which they recur.
NAMINGS = ["call_{drawn}", "call_{k}", "functions.add:{k}", ""]
SHAPES = ["RT", "RC", "RCC", "RTC", "T", "C", "C*C", "RC*", "D C", "D T C C", "RD T", "X T"]
UPSTREAMS = st.sampled_from([*PROFILES.values()])
NAMES = ("reasoning_content", "reasoning_details", "extra_content")

# A tape: for each turn its conversation, the shape of the message, its text, the client's reply.
TAPES = st.lists(
    st.tuples(
        st.integers(0, 2), st.sampled_from(SHAPES), st.sampled_from(TEXTS), st.sampled_from("ab")
    ),
    max_size=9,
)


class Person:
    """A client with its conversation: the history with everything that upstream emitted."""

    def __init__(self, number: int, naming: str) -> None:
        self.number = number
        self.naming = naming
        self.turn = 0
        self.history: list[Message] = [user(f"I am {number}")]

    def emit(self, shape: str, text: str) -> Message:
        """Return the next message of upstream; its reasoning is unique."""
        name = f"{self.number}x{self.turn}"
        message = assistant()
        calls: list[dict[str, Any]] = []
        for kind in shape:
            match kind:
                case "R":
                    message["reasoning_content"] = f"R{name}"
                case "D":
                    message["reasoning_details"] = [details("text", text=f"D{name}")]
                case "X":
                    message["extra_content"] = _signed(f"X{name}")
                case "T":
                    message["content"] = text
                case "C":
                    call_id = self.naming.format(drawn=drawn(f"{name}.{len(calls)}"), k=len(calls))
                    made = call("add", json.dumps({"q": text}), None, call_id)
                    calls.append(made | {"id": call_id})
                case "*":
                    calls[-1]["extra_content"] = _signed(f"*{name}.{len(calls)}")
        if calls:
            message["tool_calls"] = calls
        return message

    def go_on(self, message: Message, saying: str) -> None:
        """Append a response and what the client adds after it."""
        calls = message.get("tool_calls", [])
        self.history += [message, *(tool(saying, made["id"]) for made in calls)]
        if not calls:
            self.history.append(user(saying))
        self.turn += 1


def _signed(name: str) -> dict[str, Any]:
    return {"google": {"thought_signature": name}}


def dropped(messages: list[Message]) -> list[Message]:
    """Return a history as a client keeps it that drops reasoning."""
    kept = [{k: v for k, v in message.items() if k not in NAMES} for message in messages]
    for message in kept:
        if "tool_calls" in message:
            message["tool_calls"] = [
                {k: v for k, v in made.items() if k not in NAMES} for made in message["tool_calls"]
            ]
    return kept


def held(messages: list[Message]) -> list[str]:
    """Return all reasoning in a history, with the index of its message."""
    found = []
    for n, message in enumerate(messages):
        for holder in (message, *message.get("tool_calls", ())):
            found += [f"{n} {json.dumps(holder[name])}" for name in NAMES if holder.get(name)]
    return found


def people(naming: str) -> list[Person]:
    """Return three clients of one tenant."""
    return [Person(n, naming) for n in range(3)]


@examples(100)
@given(TAPES, st.sampled_from(NAMINGS), UPSTREAMS)
def test_the_prefix_is_stable(tape: list[Any], naming: str, profile: Any) -> None:
    """The messages that upstream receives for one turn begin those for the next turn."""
    chats, person = Chats(ChatDialect(profile)), Person(0, naming)
    before: list[Message] = []
    for _, shape, text, saying in tape:
        sent = dropped(person.history)
        seen = chats.send(sent)
        assert seen[: len(before)] == before
        before = seen
        person.go_on(chats.learn(sent, person.emit(shape, text)), saying)


@examples(100)
@given(TAPES, st.sampled_from(NAMINGS), st.booleans())
def test_removing_what_was_injected_leaves_the_clients_bytes(
    tape: list[Any], naming: str, with_nulls: bool
) -> None:
    """Every client byte survives, and injecting twice is injecting once."""
    chats, person = Chats(), Person(0, naming)
    for _, shape, text, saying in tape:
        sent = dropped(person.history)
        for message in sent if with_nulls else ():
            if message["role"] == "assistant":
                message["reasoning_content"] = None
        body = body_of(sent)
        request = read_request(body, {})
        matched = match_items(request, chats.store.recall(request))
        plan = plan_injection(request, matched, Policy())
        got = plan.apply(body)
        at = 0
        for edit in sorted(plan.edits):
            start = edit.start + at
            assert got[start : start + len(edit.new)] == edit.new
            got = got[:start] + body[edit.start : edit.end] + got[start + len(edit.new) :]
            assert body[edit.start : edit.end] in (b"", b"null")
        assert got == body

        again = chats.decide(plan.apply(body))
        assert Outcome.INJECTED not in again.outcomes
        person.go_on(chats.learn(sent, person.emit(shape, text)), saying)


def respelled(message: Message, how: int) -> Message:
    """Return a message as some client spells it."""
    made = dict(message)
    if how & 1 and isinstance(made.get("content"), str):
        made["content"] = [{"type": "text", "text": made["content"]}]
    if how & 2 and made["role"] == "assistant" and not made.get("content"):
        made["content"] = ""
    if how & 4 and isinstance(made.get("content"), str):
        made["content"] = f"\n {made['content']}  "
    if how & 8 and "tool_calls" in made:
        made["tool_calls"] = [
            each | {"function": {**each["function"], "arguments": _respaced(each)}}
            for each in made["tool_calls"]
        ]
    return made


def _respaced(made: dict[str, Any]) -> str:
    return json.dumps(json.loads(made["function"]["arguments"]), indent=2)


@examples(250)
@given(TAPES, st.sampled_from(NAMINGS), st.lists(st.integers(0, 15), min_size=9, max_size=9))
def test_capture_strip_inject_is_the_whole_history(
    tape: list[Any], naming: str, spellings: list[int]
) -> None:
    """Of three clients at once, also if ids recur, and however each request is spelled."""
    chats, clients = Chats(), people(naming)
    for (who, shape, text, saying), how in zip(tape, spellings, strict=False):
        person = clients[who]
        sent = [respelled(message, how) for message in dropped(person.history)]
        assert held(chats.send(sent)) == held(person.history)
        person.go_on(chats.learn(sent, person.emit(shape, text)), saying)


@examples(120)
@given(TAPES, st.sampled_from(NAMINGS), st.data())
def test_merged_and_split_messages_get_nothing_wrong(
    tape: list[Any], naming: str, data: st.DataObject
) -> None:
    """
    A client that reshapes its messages gets no other reasoning than theirs.

    Theirs is that of their calls, also if another text has come before them.
    """
    chats, person = Chats(), Person(0, naming)
    for _, shape, text, saying in tape:
        person.go_on(chats.learn(dropped(person.history), person.emit(shape, text)), saying)
    reshaped: list[Message] = []
    for message in dropped(person.history):
        before = reshaped[-1] if reshaped else user("")
        what = data.draw(st.sampled_from(["keep", "keep", "split", "leave out", "merge"]))
        calls = message.get("tool_calls", [])
        if what == "split" and message["role"] == "assistant" and message.get("content") and calls:
            reshaped += [assistant(message["content"]), assistant(tool_calls=calls)]
        elif what == "merge" and message["role"] == before["role"] == "assistant":
            both = [*before.get("tool_calls", []), *calls]
            reshaped[-1] = before | ({"tool_calls": both} if both else {})
        elif what != "leave out":
            reshaped.append(message)
    emitted = {each.split(" ", 1)[1]: each for each in held(person.history)}
    for each in held(chats.send(reshaped)):
        n, value = each.split(" ", 1)
        origin = person.history[int(emitted[value].split(" ", 1)[0])]
        message = reshaped[int(n)]
        assert _said(message | {"content": ""} if "tool_calls" in message else message) <= _said(
            origin
        )


def _said(message: Message) -> set[str]:
    """Return the visible parts of a message."""
    calls = [json.dumps(made["function"]) for made in message.get("tool_calls", ())]
    return {*calls, *([message["content"]] if message.get("content") else [])}


@examples(150)
@given(values)
def test_any_messages_are_read(written: Any) -> None:
    """Any JSON value is accepted as the messages, and nothing is injected into unknown ones."""
    chats = Chats()
    chats.learn([user("Hi")], assistant("Hello", reasoning="Hm"))
    body = b'{"model":"glm-5","messages":%b}' % written.text
    try:
        decided = chats.decide(body)
    except json_spans.Unspliceable:
        return  # a key occurs twice
    assert decided.body is body
