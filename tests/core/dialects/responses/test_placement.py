"""Placement: where missing reasoning is injected, in which form, and when it is not."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from reasoning_replay.core.dialects.captures import Origin
from reasoning_replay.core.dialects.responses.capture import ResponsesCapture
from reasoning_replay.core.dialects.responses.request import read_request
from reasoning_replay.core.history.plan import Outcome

from tests.core.dialects.responses.notation import history, request_of, rows
from tests.core.world import (
    Item,
    World,
    answer,
    body,
    call,
    drawn,
    input_of,
    message,
    nameless,
    output,
    reasoning,
    user,
)

ASK = user("What is the weather in Paris?")
MORE = user("And tomorrow?")
R1, R2, R3 = reasoning("1"), reasoning("2"), reasoning("3")
C1, C2, C3 = call("1"), call("2", tool="get_time"), call("3", tool="get_news")
SAID = message("1", "It is sunny in Paris today.")


def world_of(*items: Item, **more: Any) -> World:
    """Return a world that captured one response with these items."""
    world = World()
    world.learn(body([ASK], **more.pop("asked", {})), list(items), **more)
    return world


_SETTINGS: Mapping[str, dict[str, Any]] = {
    "unstored": {"store": False},
    "half": {"status": "incomplete"},
    "o4-mini": {"asked": {"model": "o4-mini"}, "model": "o4-mini-2025-04-16"},
}


@pytest.mark.parametrize(("emitted", "request_", "sent", "received", "outcomes"), rows("places.md"))
def test_reasoning_is_injected_at_its_place_and_in_the_form_that_the_request_takes(
    emitted: str, request_: str, sent: str, received: str, outcomes: str
) -> None:
    """Upstream receives what the table says, and each item is counted."""
    items, _, setting = emitted.partition("; ")
    world = world_of(*history(items), **_SETTINGS.get(setting, {}))
    asked = body([ASK, *history(sent)], **request_of(request_))

    assert world.seen(asked) == [ASK, *history(received)]
    decided = world.ask(asked)[2]
    told = [*decided.outcomes.items(), *decided.forms.items()]
    counted = {f"{what}={count}" for what, count in told}
    assert counted == set(filter(None, outcomes.split(", ")))


def deed(kind: str, item_id: str, call_id: str = "", **more: Any) -> Item:
    """Return an action of a model, with the keys that the API gives it."""
    named = {"call_id": f"call_{drawn(call_id)}"} if call_id else {}
    return {"type": kind, "id": f"{item_id}_{drawn(1)}", **named, **more}


# Every item that a model can emit after reasoning
DEEDS = [
    deed("custom_tool_call", "ctc", "0000001a", input="x"),
    deed("web_search_call", "ws", action={"type": "search", "query": "x"}),
    deed("file_search_call", "fs", queries=["x"], results=None),
    deed("code_interpreter_call", "ci", code="1", container_id="c"),
    deed("image_generation_call", "ig", result="iVBO"),
    deed("mcp_call", "mcp", name="ask", arguments="{}"),
    deed("mcp_approval_request", "mcpr", name="ask", arguments="{}"),
    deed("shell_call", "sh", "0000001b", action={}),
    deed("local_shell_call", "lsh", "0000001c", action={}),
    deed("apply_patch_call", "apc", "0000001d"),
    deed("computer_call", "cu", "0000001e", action={}),
    deed("tool_search_call", "tsc", arguments={"q": 1}) | {"call_id": None},
    deed("program", "cm", "0000001f", code="f()"),
    deed("a_new_call", "new", "0000001g"),
]


@pytest.mark.parametrize("item", DEEDS, ids=[item["type"] for item in DEEDS])
def test_reasoning_is_injected_before_every_type_of_item(item: Item) -> None:
    """The follower may be any call, hosted or not, a program, or an item of an unknown type."""
    emitted = {**item, "status": "completed"}
    assert world_of(R1, emitted).seen(body([ASK, item, MORE])) == [ASK, R1, item, MORE]
    if item.get("call_id"):
        bare = nameless(item)
        seen = world_of(R1, emitted).seen(body([ASK, bare, MORE], store=False))
        assert seen == [ASK, nameless(R1), bare, MORE]


def test_readable_reasoning_is_injected_unchanged() -> None:
    """Readable reasoning (DeepSeek, vLLM) is not bound to other ids, so it keeps its own."""
    text = [{"type": "reasoning_text", "text": "The user asks."}]
    said = {"type": "reasoning", "id": "b5a1c9d2-0001", "status": "completed", "content": text}
    sent = body([ASK, nameless(C1)])

    seen = world_of({**said, "summary": []}, C1).seen(sent)

    assert seen[1:] == [
        {key: value for key, value in said.items() if key != "status"} | {"summary": []},
        nameless(C1),
    ]


def test_injected_reasoning_keeps_its_bytes() -> None:
    """Injected bytes are those that upstream wrote, including their spelling and unknown fields."""
    raw = (
        b'{"type" :"reasoning","new":[1.0e0,"\\u00e9"],"status":"completed", "id":"rs_00000001",'
        b'"summary":[ ] , "encrypted_content":"gAAAA\\/x"}'
    )
    world = World()
    asked = read_request(body([ASK]), {})
    capture = ResponsesCapture(Origin(asked.context(), asked.model), 1 << 20)
    whole = answer([], "resp_000000001").replace(b'"output": []', b'"output": [%s,%s]')
    capture.read(whole % (raw, json.dumps(C1).encode()))
    turn = capture.snapshot(1).turn
    assert turn is not None
    world.keep(turn)
    sent = body([ASK, C1])
    anchor = body([C1]).split(b"[")[1].split(b"]")[0]

    got = world.ask(sent)[2].apply(sent)

    went = raw.replace(b'"status":"completed", ', b"")
    assert got == sent.replace(anchor, went + b"," + anchor)


def test_an_alias_and_its_snapshot_are_one_family() -> None:
    """A turn of `gpt-5`, answered by `gpt-5-2025-08-07`, may continue under either name."""
    world = world_of(R1, C1, asked={"model": "gpt-5"}, model="gpt-5-2025-08-07")

    for model in ("gpt-5", "gpt-5-2025-08-07", "openai/gpt-5"):
        assert world.seen(body([ASK, C1], model=model)) == [ASK, R1, C1]


@pytest.mark.parametrize(
    ("model", "sent", "want"),
    [
        pytest.param("gpt-5.6-sol", [C1, output(C1), SAID], {Outcome.MISSED: 2}, id="two-runs"),
        pytest.param("gpt-5.6-sol", [C1, C2, SAID], {Outcome.MISSED: 1}, id="one-run"),
        pytest.param("gpt-5.6-sol", [R1, C1], {}, id="replayed"),
        pytest.param("gpt-4o", [C1], {}, id="does-not-reason"),
        pytest.param("gpt-5.6-sol", [MORE], {}, id="nothing-emitted"),
    ],
)
def test_an_unknown_run_is_counted_as_missed(
    model: str, sent: list[Item], want: dict[Outcome, int]
) -> None:
    """A run of emitted items without reasoning that was never captured is one miss."""
    assert World().ask(body([ASK, *sent], model=model))[2].outcomes == want


def test_many_reasoning_items_without_ids_cost_linear_time() -> None:
    """Twenty thousand items are scanned once, not once for each item."""
    sent = body([{"type": "reasoning"}] * 20_000)

    assert World().ask(sent)[2].edits == ()


def odd(sent: bytes) -> bytes:
    """Return a body in which the call has one key twice."""
    return sent.replace(
        b'"name" : "get_weather"', b'"name" : "get_weather" , "name" : "get_weather"'
    )


def test_an_id_that_cannot_be_removed_stays() -> None:
    """Reasoning of another model is not injected, and the item is not degraded either."""
    world = World()
    world.learn(body([ASK], model="o4-mini"), [R1, C1], model="o4-mini")
    sent = odd(body([ASK, C1, output(C1)]))

    decided = world.ask(sent)[2]

    assert decided.apply(sent) is sent
    assert decided.outcomes == {Outcome.GUARDED_MODEL: 1}


def test_an_id_that_cannot_be_added_is_left_out() -> None:
    """The reasoning is then injected by value, without its id."""
    world = World()
    world.learn(body([ASK]), [R1, C1])
    bare = {key: value for key, value in C1.items() if key != "id"}
    sent = odd(body([ASK, bare, output(C1)]))

    got = world.ask(sent)[2].apply(sent)

    thought = {key: value for key, value in R1.items() if key != "id"}
    assert input_of(got) == [ASK, thought, bare, output(C1)]
    assert got == sent.replace(
        b'{"type" : "function_call" ',
        json.dumps(thought).encode() + b',{"type" : "function_call" ',
        1,
    )
