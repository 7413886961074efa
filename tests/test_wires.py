"""The wires send what the client of an API must send."""

import pytest
from reasoning_replay.core.dialects.registry import GEMINI, MESSAGES
from reasoning_replay.wires import WIRES


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
    assert WIRES[MESSAGES].demanded(model)["thinking"]["type"] == thinking


def test_a_client_of_gemini_keeps_parts_without_their_signatures() -> None:
    """Thoughts and bare signatures are dropped; a result has the name and the id of its call."""
    call = {"functionCall": {"name": "look", "args": {}, "id": "k3f9x2ab"}}
    parts = [
        {"text": "Hm", "thought": True},
        {**call, "thoughtSignature": "Eg=="},
        {"text": "", "thoughtSignature": "Eh=="},
    ]
    wire = WIRES[GEMINI]
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
