"""Judge of the recordings: it accepts the allowed additions, and names every other difference."""

import json
from typing import Any

import pytest

from tests.recordings.client import Take, Variant, take
from tests.recordings.judge import Result, judge
from tests.recordings.responses import Json, Responses, Rule
from tests.recordings.tape import Exchange, Recording

RESPONSES = Responses()

ASK: Json = {"role": "user", "content": "Weather?"}
CALL: Json = {"type": "function_call", "id": "fc_1", "call_id": "call_a", "name": "weather"}
DONE: Json = {"type": "function_call_output", "call_id": "call_a", "output": "Sun."}
THOUGHT: Json = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gDONE"}
OTHER: Json = {"type": "reasoning", "id": "rs_9", "summary": [], "encrypted_content": "gNINE"}
FORGED: Json = {**THOUGHT, "encrypted_content": "gFORGED"}
BARE: Json = {"type": "reasoning", "summary": [], "encrypted_content": "gDONE"}
BARE_CALL: Json = {name: value for name, value in CALL.items() if name != "id"}


def wire(*items: Json, store: bool = False, include: list[str] | None = None) -> bytes:
    """Write a request with odd spacing, so that a re-encoded one differs."""
    rest = json.dumps({"store": store} | ({} if include is None else {"include": include}))[1:]
    inputs = " ,\n".join(json.dumps(item) for item in items)
    return ('{ "model":"gpt-5", "input": [' + inputs + " ], " + rest).encode()


def taken(*recorded: Json, store: bool = False) -> Take:
    """Record a call, then a request that replays it, and return how a client plays the latter."""
    output = [THOUGHT, {**CALL, "status": "completed"}]
    said = RESPONSES.answers(json.dumps({"output": output}).encode(), is_stream=False)
    at = next(n for n, item in enumerate(recorded) if item.get("type") == "function_call")
    at -= sum(item["type"] == "reasoning" for item in recorded[:at] if "type" in item)
    body = wire(*recorded, store=store)
    rest: Any = ({}, 200, "", "", b"", "full", 1, {}, {at: (1, 1)})
    second = Exchange("tape", 2, "", "", body, *rest)
    answers = {(1, index): one for index, one in said.items()}
    recording = Recording("tape", "oracle", "openai", "openai", (second,), answers)
    return take(RESPONSES, recording, second, Variant.DROPPED)


@pytest.mark.parametrize(
    ("arrived", "result"),
    [
        pytest.param([ASK, THOUGHT, CALL, DONE], Result.INJECTED, id="with both ids"),
        pytest.param([ASK, BARE, BARE_CALL, DONE], Result.INJECTED, id="with neither id"),
        pytest.param([ASK, CALL, DONE], Result.LACKING, id="nothing added"),
        pytest.param([ASK, BARE_CALL, DONE], Result.LACKING, id="id left out"),
        pytest.param([ASK, CALL, THOUGHT, DONE], Result.WRONG, id="too late"),
        pytest.param([THOUGHT, ASK, CALL, DONE], Result.WRONG, id="too early"),
        pytest.param([ASK, THOUGHT, THOUGHT, CALL, DONE], Result.WRONG, id="twice"),
        pytest.param([ASK, CALL, DONE, THOUGHT], Result.WRONG, id="at the end"),
        pytest.param([ASK, OTHER, CALL, DONE], Result.WRONG, id="of another conversation"),
        pytest.param([ASK, THOUGHT, OTHER, CALL, DONE], Result.WRONG, id="one too many"),
        pytest.param([ASK, FORGED, CALL, DONE], Result.WRONG, id="unknown blob"),
        pytest.param([ASK, THOUGHT, BARE_CALL, DONE], Result.WRONG, id="id of the reasoning only"),
        pytest.param([ASK, BARE, CALL, DONE], Result.WRONG, id="id of the call only"),
        pytest.param([ASK, {**THOUGHT, "summary": 1}, CALL, DONE], Result.WRONG, id="changed"),
        pytest.param([ASK, THOUGHT, {**CALL, "id": "fc_2"}, DONE], Result.WRONG, id="made-up id"),
        pytest.param([ASK, THOUGHT, CALL], Result.WRONG, id="item lost"),
        pytest.param([DONE, ASK, CALL], Result.WRONG, id="another order"),
        pytest.param([ASK, ASK, CALL, DONE], Result.WRONG, id="extra item"),
    ],
)
def test_the_received_input_is_judged(arrived: list[Json], result: Result) -> None:
    """The recorded input counts as injected; anything a proxy must never do is wrong."""
    assert judge(RESPONSES, taken(ASK, THOUGHT, CALL, DONE), wire(*arrived)).result is result


@pytest.mark.parametrize(
    "arrived",
    [
        pytest.param(wire(ASK, CALL, DONE, store=True), id="field changed"),
        pytest.param(wire(ASK, CALL, DONE).replace(b"{ ", b"{"), id="space lost"),
        pytest.param(wire(ASK, CALL, DONE, include=["x"]), id="another include"),
        pytest.param(wire(ASK, CALL, DONE)[:-9], id="cut short"),
    ],
)
def test_all_other_bytes_are_the_clients(arrived: bytes) -> None:
    """Any other difference is a fault, even a single space."""
    assert judge(RESPONSES, taken(ASK, THOUGHT, CALL, DONE), arrived).result is Result.WRONG


@pytest.mark.parametrize(
    ("ids", "stores", "right"),
    [
        pytest.param("together", False, [True, False, False, True], id="together"),
        pytest.param("kept", False, [True, False, False, False], id="kept"),
        pytest.param("dropped", False, [False, False, False, True], id="dropped"),
        pytest.param("required", False, [True, True, False, False], id="required"),
        pytest.param("required", True, [True, False, False, False], id="required-stored"),
    ],
)
def test_ids_follow_the_rule(ids: str, stores: bool, right: list[bool]) -> None:
    """Of the four forms of a pair, exactly those that the upstream accepts are right."""
    this = taken(ASK, THOUGHT, CALL, DONE, store=stores)
    pairs = [(THOUGHT, CALL), (THOUGHT, BARE_CALL), (BARE, CALL), (BARE, BARE_CALL)]
    arrived = [wire(ASK, *pair, DONE, store=stores) for pair in pairs]

    assert [not judge(Responses(Rule(ids)), this, body).wrong for body in arrived] == right
