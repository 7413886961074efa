"""The strict API names what a client does to its reasoning, in each dialect."""

import copy
import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from reasoning_replay.strict_api import DIALECTS, QUESTIONS, SCENARIOS, Exchange, Item, Script
from reasoning_replay.strict_api.ledger import Ledger, Part
from reasoning_replay.wires import WIRES

from tests.strict_api.scripted import ASKS, MODELS, TOOL

# A holder of one piece of reasoning, and its key or index there.
Place = tuple[Any, Any]
CALLS_MAX = 10


class Client:
    """A client of one dialect that keeps everything, with its whole history."""

    def __init__(self, dialect: str, scenario: str = "chain", **options: bool) -> None:
        script = Script(SCENARIOS[scenario], is_marked=True)
        self.api = DIALECTS[dialect](script, **options)
        self.wire = WIRES[dialect]
        self.ask = ASKS[dialect]
        self.history = [copy.deepcopy(self.ask)]
        self.more: Item = {
            "model": MODELS[dialect],
            "tools": [self.wire.tool(TOOL)],
            "store": False,
        }
        self.more |= self.wire.demanded(MODELS[dialect])
        self.exchanges: list[Exchange] = []

    def send(self) -> Exchange:
        """Send the history, and append the answer and the results of its calls."""
        body = json.dumps({**self.more, self.wire.history: self.history})  # as the wire has it
        exchange, answer = self.api.serve(json.loads(body), "")
        self.exchanges.append(exchange)
        if exchange.refused is None:
            reply = self.wire.read(json.loads(json.dumps(answer)))
            self.history += [*reply.said, *self.wire.results(reply.calls, "rain")]
            self.calls = reply.calls
        return exchange

    def converse(self) -> None:
        """Send until no tool is called."""
        for _ in range(CALLS_MAX):
            if self.send().refused or not self.calls:
                return

    def places(self) -> list[Place]:
        """Return each piece of reasoning of the history."""
        places: list[Place] = []
        for at, item in enumerate(self.history):
            if item.get("type") == "reasoning":
                places.append((self.history, at))
            if "reasoning_content" in item:
                places.append((item, "reasoning_content"))
            content = item.get("content")
            for number, block in enumerate(content if isinstance(content, list) else ()):
                if block.get("type") == "thinking":
                    places.append((content, number))
            places += [
                (part, "thoughtSignature")
                for part in item.get("parts", ())
                if "thoughtSignature" in part
            ]
        return places


def drop(client: Client) -> None:
    """Lose the second one."""
    holder, key = client.places()[1]
    del holder[key]


def swap(client: Client) -> None:
    """Exchange the first and the second one."""
    (one, a), (other, b) = client.places()[:2]
    one[a], other[b] = other[b], one[a]


def trim(client: Client) -> None:
    """Cut the last character of the second one, or of its signature."""
    holder, key = client.places()[1]
    if isinstance(holder[key], str):
        holder[key] = holder[key].rstrip("=")[:-1]
        return
    member = "signature" if "signature" in holder[key] else "encrypted_content"
    holder[key][member] = holder[key][member][:-1]


def repeat(client: Client) -> None:
    """Send the second one twice."""
    holder, key = client.places()[1]
    holder.insert(key, holder[key])


def turn_round(client: Client) -> None:
    """Send the last one after what it led to."""
    holder, key = client.places()[-1]
    holder.insert(key + 1, holder.pop(key))


def bring_along(client: Client) -> None:
    """Send reasoning of another account before everything else."""
    thinking = {"type": "thinking", "thinking": "Hm.", "signature": "b3RoZXI="}
    text = {"type": "text", "text": "Hm."}
    signed = {"text": "Hm.", "thoughtSignature": "b3RoZXI="}
    foreign: dict[str, list[Item]] = {
        "responses": [{"type": "reasoning", "summary": [], "encrypted_content": "gAAAAother"}],
        "chat": [client.ask, {"role": "assistant", "content": "Hm.", "reasoning_content": "Hm."}],
        "messages": [client.ask, {"role": "assistant", "content": [thinking, text]}],
        "gemini": [client.ask, {"role": "model", "parts": [signed]}],
    }
    client.history[:0] = foreign[client.api.name]


def tell_time(client: Client) -> None:
    """Change the first message, as a clock in it would."""
    first = client.history[0]
    holder, name = (first["parts"][0], "text") if "parts" in first else (first, "content")
    holder[name] += " It is 9:01."


def sort_tools(client: Client) -> None:
    """Declare another tool."""
    client.more["tools"] = [client.wire.tool({**TOOL, "name": "other"}), *client.more["tools"]]


# (fault, states other than whole, what moved, the words of the vendors in the order of DIALECTS);
# the vendor accepts it in silence if it has no words, and None is impossible in that dialect.
FAULTS: list[tuple[Callable[[Client], None], dict[str, int], str, tuple[str | None, ...]]] = [
    (
        drop,
        {"missing": 1},
        "here",
        ("without its required", "must be passed", "Expected `th", "missing a thought_"),
    ),
    (swap, {"misplaced": 2}, "here", ("required following item", "", "", "")),
    (trim, {"damaged": 1}, "here", ("could not be verified", "", "Invalid `sig", "Corrupted")),
    (repeat, {"repeated": 1}, "here", ("Duplicate item found", None, "", None)),
    (turn_round, {"misplaced": 1}, "", ("without its required", None, "Expected `th", None)),
    (bring_along, {"foreign": 1}, "here", ("could not be ver", "", "Invalid `sig", "Corrupted")),
    (tell_time, {}, "here", ("", "", "", "")),
    (sort_tools, {}, "tools or instructions", ("", "", "", "")),
]


@pytest.mark.parametrize(
    ("dialect", "fault", "states", "moved", "words"),
    [
        pytest.param(dialect, fault, states, moved, words, id=f"{dialect}-{fault.__name__}")
        for fault, states, moved, said in FAULTS
        for dialect, words in zip(DIALECTS, said, strict=True)
        if words is not None
    ],
)
def test_each_fault_is_named(
    dialect: str,
    fault: Callable[[Client], None],
    states: dict[str, int],
    moved: str,
    words: str,
) -> None:
    """What is lost, damaged, misplaced or foreign, where the prefix moved, and what is refused."""
    client = Client(dialect)
    for _ in range(3):
        client.send()
    fault(client)
    exchange = client.send()
    judgement = exchange.judgement
    assert judgement is not None
    assert Counter(one.state for one in judgement.lost) == states
    whole = 3 - sum(count for state, count in states.items() if state != "foreign")
    assert len(judgement.findings) - len(judgement.lost) == whole
    place = judgement.moved
    assert place == moved if moved != "here" else place.startswith(client.wire.history)
    assert judgement.cached < judgement.known
    assert (exchange.refused is None) == (words == "")
    if exchange.refused is not None:
        assert words in exchange.refused.message
        assert exchange.refused.source.startswith("github.com/")


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_client_that_keeps_everything_loses_nothing(dialect: str, scenario: str) -> None:
    """In each scenario all reasoning is whole, and all that was there before is cached."""
    client = Client(dialect, scenario, is_strict=True)
    for _ in range(QUESTIONS.get(scenario, 1)):
        client.converse()
        client.history.append(client.ask)
    client.send()
    emitted = 0
    for exchange in client.exchanges:
        judgement = exchange.judgement
        assert judgement is not None
        assert exchange.refused is None
        assert [one.state for one in judgement.findings] == ["whole"] * emitted
        assert (judgement.moved, judgement.cached) == ("", judgement.known)
        emitted += exchange.emitted
    assert emitted > 1


@pytest.mark.parametrize("is_strict", [True, False])
def test_a_loss_without_ids_is_refused_by_strict_only(is_strict: bool) -> None:
    """The API cannot tell that reasoning is missing if the ids are missing as well."""
    client = Client("responses", is_strict=is_strict)
    client.send()
    del client.history[1]
    del client.history[1]["id"]
    exchange = client.send()
    assert exchange.judgement is not None
    assert [one.state for one in exchange.judgement.lost] == ["missing"]
    assert (exchange.refused is None) != is_strict
    if exchange.refused is not None:
        assert exchange.refused.message.startswith("Reasoning of turn 1 is missing at input[1].")


def test_words_are_recognised_without_ids() -> None:
    """They say which turn it is; reasoning with another id is damaged."""
    client = Client("responses", "text-first")
    client.converse()
    for item in client.history:
        item.pop("id", None)
    judgement = client.send().judgement
    assert judgement is not None
    assert [one.state for one in judgement.findings] == ["whole", "whole"]
    client.history[1]["id"] = "rs_another"
    exchange = client.send()
    assert exchange.judgement is not None
    assert exchange.judgement.findings[0].state == "damaged"
    assert exchange.refused is not None
    assert "item_id did not match" in exchange.refused.message


def test_a_bare_id_is_enough_only_if_it_is_stored() -> None:
    """With `store: false` the id stands for nothing."""
    for stores, states in ((True, ["whole"]), (False, ["damaged"])):
        client = Client("responses", "one-call")
        client.more["store"] = stores
        client.send()
        client.history[1].pop("encrypted_content", None)
        exchange = client.send()
        assert exchange.judgement is not None
        assert [one.state for one in exchange.judgement.findings] == states
        assert (exchange.refused is None) == stores


def test_the_latest_message_has_all_of_its_blocks() -> None:
    """One of two thinking blocks of it cannot be left out."""
    client = Client("messages", "interleaved")
    client.send()
    holder, key = client.places()[1]
    del holder[key]
    exchange = client.send()
    assert exchange.refused is not None
    assert "cannot be modified" in exchange.refused.message


@pytest.mark.parametrize(
    ("dialect", "words"),
    [
        ("responses", "No tool output found for function call call_"),
        ("chat", "must be followed by tool messages"),
        ("messages", "`tool_use` ids were found without `tool_result` blocks"),
        ("gemini", "the number of function response parts is equal to the number of function call"),
    ],
)
def test_a_call_needs_its_result(dialect: str, words: str) -> None:
    """A client that loses a result is refused as well."""
    client = Client(dialect)
    client.send()
    client.history.pop()
    exchange = client.send()
    assert exchange.refused is not None
    assert words in exchange.refused.message


def test_a_result_needs_its_call() -> None:
    """A client that loses a call and its reasoning is refused."""
    client = Client("responses")
    client.send()
    del client.history[1:3]
    exchange = client.send()
    assert exchange.refused is not None
    assert "No tool call found" in exchange.refused.message


def test_kimi_demands_all_rounds() -> None:
    """A message with calls needs its reasoning after a new question as well."""
    client = Client("chat", "one-call")
    client.more["model"] = "kimi-k3"
    client.converse()
    del client.history[1]["reasoning_content"]
    client.history.append(client.ask)
    exchange = client.send()
    assert exchange.refused is not None
    assert exchange.refused.message.endswith("tool call message at index 1")


def test_the_place_tells_turns_that_look_alike() -> None:
    """With the same words and ids in each turn, reasoning of another turn is misplaced."""

    def turn(thought: str) -> list[Part]:
        return [Part("reasoning", "", thought), Part("said", "", "look", ("call_0",))]

    ledger, ask, result = Ledger(), Part("given", "", "Rain?"), Part("given", "", "7 degrees")
    ledger.record("", [ask], turn("one"))
    ledger.record("", [ask, *turn("one"), result], turn("two"))
    ledger.record("", [ask], turn("again"))  # the same question in another conversation
    for thoughts, states in (
        ("one two", ["whole", "whole"]),
        ("again two", ["whole", "whole"]),
        ("two one", ["misplaced", "misplaced"]),
        ("one one", ["repeated", "missing"]),
    ):
        first, second = thoughts.split()
        sent = [ask, *turn(first), result, *turn(second)]
        found = [one.state for one in ledger.judge("", sent).findings]
        assert found == states, thoughts
    _, call = turn("one")
    own = Part("said", "", "words of the client")
    assert not ledger.judge("", [ask, Part("reasoning", "", "one"), own, call]).lost
    late = ledger.judge("", [ask, Part("reasoning", "", "one"), result, call])
    assert [one.state for one in late.findings] == ["misplaced"]


def test_reasoning_at_the_end_of_an_answer() -> None:
    """It led to nothing, so nothing is due; where it was emitted, it is whole."""
    ledger, ask, result = Ledger(), Part("given", "", "Rain?"), Part("given", "", "7 degrees")
    thought, call = Part("reasoning", "", "one"), Part("said", "", "look", ("call_0",))
    end = [Part("reasoning", "", "two"), Part("reasoning", "", "three")]
    ledger.record("", [ask], [thought, call, *end])
    for said, states in (
        ([thought, call, *end], ["whole"] * 3),
        ([thought, call], ["whole"]),
        ([thought, call, *end[::-1]], ["whole", "misplaced", "misplaced"]),
        ([thought, *end, call], ["whole", "misplaced", "misplaced"]),
    ):
        found = [one.state for one in ledger.judge("", [ask, *said, result]).findings]
        assert found == states


def test_the_ledger_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest turn is dropped entirely: what it emitted is foreign then."""
    monkeypatch.setattr("reasoning_replay.strict_api.ledger.TURNS_MAX", 1)
    monkeypatch.setattr("reasoning_replay.strict_api.ledger.PREFIXES_MAX", 2)
    ledger = Ledger()
    turns = [[Part("reasoning", "", f"r{n}"), Part("said", "", f"s{n}")] for n in range(2)]
    for turn in turns:
        ledger.record("", [], turn)
    assert [one.state for one in ledger.judge("", turns[0]).findings] == ["foreign"]
    assert [one.state for one in ledger.judge("", turns[1]).findings] == ["whole"]
