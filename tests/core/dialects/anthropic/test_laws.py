"""Laws of the dialect: the promises, as properties of whole conversations."""

import itertools
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from reasoning_replay.core.dialects.anthropic.placement import plan_injection
from reasoning_replay.core.dialects.anthropic.profiles import GENERIC, PROFILES
from reasoning_replay.core.dialects.anthropic.request import read_request
from reasoning_replay.core.history.matching.matches import match_items
from reasoning_replay.core.history.plan import Outcome
from reasoning_replay.core.wire import json_spans

from tests.core.dialects.anthropic.streams import MODEL, Block, call, text, thought
from tests.core.dialects.anthropic.tenant import (
    BOUND,
    REASONING,
    Message,
    Tenant,
    assistant,
    body_of,
    dialect_of,
    dropped,
    user,
)
from tests.core.documents import values
from tests.core.world import drawn
from tests.fast_lane import examples

TEXTS = ["Done.", "It is sunny in Paris today.", "OK"]
# How ids of calls are made: at random, or in the ways in which they recur.
NAMINGS = ["toolu_{drawn}", "call_{k}", "functions.add:{k}", ""]
SHAPES = [
    "RT",
    "RC",
    "RCC",
    "RTC",
    "T",
    "C",
    "RDT",
    "CRC",
    "RTRC",
    "RSRT",
    "TRT",
    "RBT",
    "RBDC",
    "RCR",
    "TDR",
]
UPSTREAMS = st.sampled_from([*PROFILES.values()])
MODELS = st.sampled_from([MODEL, BOUND])

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

    def emit(self, shape: str, words: str) -> list[Block]:
        """Return the next message of upstream; its reasoning is unique."""
        blocks: list[Block] = []
        for k, kind in enumerate(shape):
            name = f"{self.number}x{self.turn}x{k}"
            call_id = self.naming.format(drawn=drawn(name), k=k)
            match kind:
                case "R":
                    blocks.append(thought("", f"R{name}"))
                case "D":
                    blocks.append({"type": "redacted_thinking", "data": f"D{name}"})
                case "T":
                    blocks.append(text(words))
                case "B":
                    blocks.append(text("\n\n"))
                case "S":
                    made = call("web_search", kind="server_tool_use", q=words) | {"id": call_id}
                    found = {"type": "web_search_tool_result", "tool_use_id": call_id}
                    blocks += [made, found | {"content": [{"url": words}]}]
                case _:
                    blocks.append(call("add", q=words, n=k) | {"id": call_id})
        return blocks

    def go_on(self, message: Message, saying: str) -> None:
        """Append a response and what the client adds after it."""
        calls = [block["id"] for block in message["content"] if block["type"] == "tool_use"]
        results = [{"type": "tool_result", "tool_use_id": i, "content": saying} for i in calls]
        self.history += [message, user(results or saying)]
        self.turn += 1


def held(messages: list[Message]) -> list[str]:
    """Return all reasoning in a history, with the index of its message and of its block."""
    return [
        f"{n} {at} {json.dumps(block)}"
        for n, message in enumerate(messages)
        if isinstance(message["content"], list)
        for at, block in enumerate(message["content"])
        if block["type"] in REASONING
    ]


def people(naming: str) -> list[Person]:
    """Return three clients of one tenant."""
    return [Person(n, naming) for n in range(3)]


def partly(messages: list[Message], data: st.DataObject, damages: bool) -> list[Message]:
    """Return a history with some of its reasoning, or with some of it damaged."""
    made: list[Message] = []
    for message in messages:
        kept: list[Block] = []
        for block in message["content"] if message["role"] == "assistant" else ():
            what = data.draw(st.integers(0, 2)) if block["type"] in REASONING else 0
            if what == 1 and damages:
                kept.append({"type": "thinking", "thinking": "", "signature": ""})
            elif what != 1:
                kept.append(block)
        made.append(assistant(*kept) if message["role"] == "assistant" else message)
    return made


@examples(120)
@given(TAPES, MODELS, st.booleans(), st.data())
def test_whatever_a_client_makes_of_its_reasoning_all_of_it_comes_back(
    tape: list[Any], model: str, damages: bool, data: st.DataObject
) -> None:
    """A part, or with damaged blocks, other ones in each request: upstream always sees the same."""
    tenant, person = Tenant(), Person(0, "toolu_{drawn}")
    for _, shape, words, saying in tape:
        sent = partly(person.history, data, damages)
        assert tenant.send(sent, model) == person.history
        person.go_on(tenant.learn(sent, *person.emit(shape, words), model=model), saying)


@examples(150)
@given(TAPES, st.sampled_from(NAMINGS), UPSTREAMS, MODELS, st.sets(st.integers(0, 9)))
def test_the_prefix_is_stable(
    tape: list[Any], naming: str, profile: Any, model: str, failing: set[int]
) -> None:
    """The messages that upstream receives for one turn begin those for the next turn."""
    tenant, person = Tenant(dialect_of(profile)), Person(0, naming)
    before: list[Message] = []
    for n, (_, shape, words, saying) in enumerate(tape):
        sent = dropped(person.history)
        fails = n in failing and model == BOUND
        body = body_of(sent, model)
        seen = json.loads(tenant.decide(body, fails=fails).body)["messages"]
        # A lookup that fails takes away what was injected before.
        if not fails:
            assert seen[: len(before)] == before
            before = seen
        else:
            before = []
        made = tenant.learn(sent, *person.emit(shape, words), model=model, fails=fails)
        person.go_on(made, saying)


@examples(100)
@given(TAPES, st.sampled_from(NAMINGS), st.booleans(), MODELS)
def test_removing_what_was_injected_leaves_the_clients_bytes(
    tape: list[Any], naming: str, as_text: bool, model: str
) -> None:
    """Every client byte survives, and injecting twice is injecting once."""
    tenant, person = Tenant(), Person(0, naming)
    for _, shape, words, saying in tape:
        sent = dropped(person.history)
        for message in sent if as_text else ():
            blocks = message["content"]
            if isinstance(blocks, list) and [b["type"] for b in blocks] == ["text"]:
                message["content"] = blocks[0]["text"]
        body = body_of(sent, model)
        request = read_request(body, {})
        matched = match_items(request, tenant.store.recall(request))
        plan = plan_injection(request, matched, GENERIC)
        got = plan.apply(body)
        for edit in sorted(plan.edits, key=lambda edit: edit.start):
            assert edit.start == edit.end
            assert got[edit.start :].startswith(edit.new)
            got = got[: edit.start] + got[edit.start + len(edit.new) :]
        assert got == body

        again = tenant.decide(plan.apply(body))
        assert Outcome.INJECTED not in again.outcomes
        person.go_on(tenant.learn(sent, *person.emit(shape, words), model=model), saying)


def respelled(message: Message, how: int, model: str) -> Message:
    """
    Return a message as other clients spell it; each bit of `how` is a habit.

    What a bound model reads stays the same: a text or a list of one, marks, null members, order.
    """
    content = message["content"]
    blocks = [text(content)] if isinstance(content, str) else content
    if how & 1:
        mark = {"cache_control": {"type": "ephemeral"}, "citations": None}
        blocks = [*blocks[:-1], blocks[-1] | mark]
    if how & 2:
        blocks = [dict(reversed(block.items())) for block in blocks]
    if how & 4 and message["role"] == "assistant" and model == MODEL:
        blocks = [_respelled(block) for block in blocks]
    if how & 8 and len(blocks) == 1 and [*blocks[0]] == ["type", "text"]:
        return message | {"content": blocks[0]["text"]}
    return message | {"content": blocks}


def _respelled(block: Block) -> Block:
    if "input" in block:
        return block | {"input": dict(reversed(block["input"].items()))}
    return block | {"text": f"\n {block['text']}  "} if block.get("text") else block


@examples(250)
@given(
    TAPES, st.sampled_from(NAMINGS), MODELS, st.lists(st.integers(0, 15), min_size=9, max_size=9)
)
def test_capture_strip_inject_is_the_whole_history(
    tape: list[Any], naming: str, model: str, spellings: list[int]
) -> None:
    """Of three clients at once, also if ids recur, and however each request is spelled."""
    tenant, clients = Tenant(), people(naming)
    for (who, shape, words, saying), how in zip(tape, spellings, strict=False):
        person = clients[who]
        sent = [respelled(message, how, model) for message in dropped(person.history)]
        assert held(tenant.send(sent, model)) == held(person.history)
        person.go_on(tenant.learn(sent, *person.emit(shape, words), model=model), saying)


@examples(150)
@given(TAPES, st.data())
def test_nothing_is_injected_after_an_edit(tape: list[Any], data: st.DataObject) -> None:
    """Where a model binds its reasoning, what the client edits unbinds all that follows."""
    tenant, person = Tenant(), Person(0, "toolu_{drawn}")
    for _, shape, words, saying in tape:
        sent = dropped(person.history)
        person.go_on(tenant.learn(sent, *person.emit(shape, words), model=BOUND), saying)
    edited = data.draw(st.integers(0, len(person.history) - 1))
    history = dropped(person.history)
    history[edited] = history[edited] | {"content": [text("This is something else.")]}
    got = held(tenant.send(history, BOUND))
    before = [each for each in held(person.history) if int(each.split()[0]) < edited]
    # A turn with a short text that recurs may be unclear once the history has changed.
    assert got == [each for each in before if each in got]
    assert tenant.outcomes(history, model=BOUND).get("injected", 0) == len(got)


@examples(120)
@given(TAPES, MODELS, st.data())
def test_merged_and_split_messages_get_nothing_wrong(
    tape: list[Any], model: str, data: st.DataObject
) -> None:
    """
    As the API joins the messages of a client that reshapes them, each turn is whole or bare.

    Or it is a turn with other text before its calls.
    """
    tenant, person = Tenant(), Person(0, data.draw(st.sampled_from(NAMINGS)))
    for _, shape, words, saying in tape:
        sent = dropped(person.history)
        person.go_on(tenant.learn(sent, *person.emit(shape, words), model=model), saying)
    reshaped: list[Message] = []
    for message in dropped(person.history):
        before = reshaped[-1] if reshaped else user("")
        what = data.draw(st.sampled_from(["keep", "keep", "split", "leave out", "merge"]))
        if what == "split" and message["role"] == "assistant" and len(message["content"]) > 1:
            reshaped += [assistant(block) for block in message["content"]]
        elif what == "merge" and message["role"] == before["role"] == "assistant":
            reshaped[-1] = assistant(*before["content"], *message["content"])
        elif what != "leave out":
            reshaped.append(message)
    whole = [message["content"] for message in person.history if message["role"] == "assistant"]
    spoken = [[block for block in blocks if block != text("\n\n")] for blocks in whole]
    spoken += [[block for block in blocks if block["type"] not in REASONING] for blocks in spoken]
    for message, given_ in zip(joined(tenant.send(reshaped, model)), joined(reshaped), strict=True):
        if message != given_:
            blocks = [block for block in message["content"] if block != text("\n\n")]
            silent = [[block for block in turn if block["type"] != "text"] for turn in spoken]
            assert is_made_of(blocks, spoken) or (
                [block for block in blocks if block["type"] != "text"] in silent
            )


def joined(messages: list[Message]) -> list[Message]:
    """Return messages as the API joins them."""
    made: list[Message] = []
    for role, row in itertools.groupby(messages, key=lambda message: message["role"]):
        contents = [message["content"] for message in row]
        blocks = [
            block for content in contents if isinstance(content, list) for block in content
        ] or contents
        made.append({"role": role, "content": blocks})
    return made


def is_made_of(blocks: list[Block], turns: list[list[Block]]) -> bool:
    """Return whether a message is one turn after another."""
    return not blocks or any(
        blocks[: len(turn)] == turn and is_made_of(blocks[len(turn) :], turns)
        for turn in turns
        if turn
    )


@examples(150)
@given(values)
def test_any_messages_are_read(written: Any) -> None:
    """Any JSON value is accepted as the messages, and nothing is injected into unknown ones."""
    tenant = Tenant()
    tenant.learn([user("Hi")], thought("Hm"), text("Hello"))
    for model in (MODEL, BOUND):
        body = b'{"model":"%b","messages":%b}' % (model.encode(), written.text)
        try:
            decided = tenant.decide(body)
        except json_spans.Unspliceable:
            return  # a key occurs twice
        assert decided.body is body
