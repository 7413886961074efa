"""Clients: they send what an API demands, and keep all of an answer but the reasoning."""

from collections.abc import Mapping
from typing import Any

import pytest
from reasoning_replay.core.dialects.anthropic.client import WIRE as MESSAGES
from reasoning_replay.core.dialects.chat.client import WIRE as CHAT
from reasoning_replay.core.dialects.client_wire import Wire
from reasoning_replay.core.dialects.gemini.client import WIRE as GEMINI
from reasoning_replay.core.dialects.registry import DIALECTS
from reasoning_replay.core.dialects.responses.client import WIRE as RESPONSES

LOOK = {"name": "look", "description": "Looks", "parameters": {"type": "object"}}
THOUGHT = {"type": "thinking", "thinking": "Hm", "signature": "Eg=="}
USE = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}
SEEN = {"type": "reasoning", "id": "rs_1", "encrypted_content": "gAAAA"}
CALL = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "look"}
TOOL = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
SIGNED = TOOL | {"index": 0, "thought_signature": "Eg=="}

# The client, an answer, what it keeps, and for each piece of reasoning whether it is encrypted.
ANSWERS: list[tuple[Wire, Any, list[Any], list[bool]]] = [
    (RESPONSES, {"output": [SEEN, CALL]}, [CALL], [True]),
    (
        CHAT,
        {
            "choices": [
                {"message": {"role": "assistant", "reasoning": "Hm", "tool_calls": [SIGNED]}}
            ]
        },
        [{"role": "assistant", "tool_calls": [TOOL]}],
        [False, True],
    ),
    (
        CHAT,
        {"choices": [{"message": {"role": "assistant", "content": "Hi", "refusal": None}}]},
        [{"role": "assistant", "content": "Hi"}],
        [],
    ),
    (
        MESSAGES,
        {"content": [THOUGHT, USE]},
        [{"role": "assistant", "content": [USE]}],
        [True],
    ),
    (MESSAGES, {"content": [THOUGHT]}, [], [True]),
]


@pytest.mark.parametrize(("wire", "answer", "kept", "sealed"), ANSWERS)
def test_all_but_the_reasoning_is_kept(
    wire: Wire, answer: Any, kept: list[Any], sealed: list[bool]
) -> None:
    """The results of the calls name them."""
    reply = wire.read(answer)
    assert (reply.kept, reply.sealed) == (kept, sealed)
    results = wire.results(reply.calls, "a ring")
    assert len(results) == len(reply.calls)
    assert all(str(call) in str(results) for call in reply.calls)


@pytest.mark.parametrize("wire", [entry.client for entry in DIALECTS])
def test_a_request_has_the_history_and_the_tools(wire: Wire) -> None:
    """The model is in the path or in the body."""
    history = [wire.says("Hi")]
    request: Mapping[str, Any] = wire.request("glm/5", history, LOOK)
    assert (request[wire.history], len(request["tools"])) == (history, 1)
    assert "look" in str(request["tools"])
    assert ("glm%2F5" in wire.path_of("glm/5")) is ("model" not in request)


@pytest.mark.parametrize(
    ("model", "thinking"),
    [
        ("claude-3-7-sonnet-20250219", "enabled"),
        ("anthropic.claude-sonnet-4-20250514-v1:0", "enabled"),
        ("anthropic/claude-opus-4.6", "enabled"),
        ("claude-haiku-4-5", "enabled"),
        ("claude-opus-4-7", "adaptive"),
        ("claude-sonnet-5", "adaptive"),
        ("claude-fable-5-1", "adaptive"),
        ("deepseek-v4-flash", "enabled"),
    ],
)
def test_a_model_is_asked_to_think_in_its_own_way(model: str, thinking: str) -> None:
    """Older models need a budget, which newer ones refuse."""
    assert MESSAGES.demanded(model)["thinking"]["type"] == thinking


def test_a_client_of_gemini_keeps_parts_without_their_signatures() -> None:
    """Thoughts and bare signatures are dropped; a result has the name and the id of its call."""
    call = {"functionCall": {"name": "look", "args": {}, "id": "k3f9x2ab"}}
    parts = [
        {"text": "Hm", "thought": True},
        {**call, "thoughtSignature": "Eg=="},
        {"text": "", "thoughtSignature": "Eh=="},
    ]
    wire = GEMINI
    reply = wire.read({"candidates": [{"content": {"parts": parts}}]})

    assert reply.said == [{"role": "model", "parts": parts}]
    assert reply.kept == [{"role": "model", "parts": [call]}]
    assert reply.sealed == [True, True]
    result = {"name": "look", "id": "k3f9x2ab", "response": {"result": "a ring"}}
    content = {"role": "user", "parts": [{"functionResponse": result}]}
    assert wire.results(reply.calls, "a ring") == [content]
    assert wire.results([], "a ring") == []
    bare = wire.read({"candidates": [{"content": {"parts": parts[:1]}}]})
    assert (bare.kept, bare.sealed) == ([], [])
