"""Rules of Responses that no client of the other suites meets: each in the words of the API."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from tests.standin.ledger import Ledger
from tests.standin.rules import judge
from tests.standin.sealing import Sealer
from tests.standin.shapes import Body

Item = dict[str, Any]

ASK: Item = {"role": "user", "content": "What is the weather in Oslo?"}


def message(items: Sequence[Item], **more: Any) -> str:
    """Judge a request; return the text of the refusal, "" if it is accepted."""
    raw = msgspec.json.encode({"model": "gpt-5.4", "input": items, **more})
    body = msgspec.json.decode(raw, type=Body)
    refusal = judge(body, "a", Ledger(), Sealer(b"key")).refusal
    return "" if refusal is None else refusal.message


def a_call(**more: object) -> Item:
    """Return a function call; a member that is None is left out."""
    item = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}", **more}
    return {name: value for name, value in item.items() if value is not None}


def a_custom_call(**more: object) -> Item:
    """Return a call of a custom tool."""
    return {"type": "custom_tool_call", "call_id": "c", "name": "f", "input": "", **more}


def a_thought(**more: object) -> Item:
    """Return reasoning."""
    return {"type": "reasoning", "summary": [], **more}


def a_message(**more: object) -> Item:
    """Return a message."""
    return {"type": "message", "role": "assistant", "content": "x", **more}


LONG = "string too long. Expected a string with maximum length 64, but got a string with length 65"

# (name, one item of the input, the error for it)
SHAPES: list[tuple[str, Item, str]] = [
    (
        "prefix-rs",
        a_thought(id="fc_1", encrypted_content="x"),
        "Invalid 'input[1].id': 'fc_1'. Expected an ID that begins with 'rs'.",
    ),
    (
        "prefix-msg",
        a_message(id="rs_1"),
        "Invalid 'input[1].id': 'rs_1'. Expected an ID that begins with 'msg'.",
    ),
    (
        "prefix-ctc",
        a_custom_call(id="fc_1"),
        "Invalid 'input[1].id': 'fc_1'. Expected an ID that begins with 'ctc'.",
    ),
    (
        "long-id",
        a_message(id="msg_" + "0" * 61, role="user"),
        f"Invalid 'input[1].id': {LONG} instead.",
    ),
    ("long-call-id", a_call(call_id="c" * 65), f"Invalid 'input[1].call_id': {LONG} instead."),
    ("no-call-id", a_call(call_id=None), "Missing required parameter: 'input[1].call_id'."),
    (
        "null-id",
        {**a_call(), "id": None},
        "Invalid type for 'input[1].id': expected a string, but got null instead.",
    ),
    (
        "no-summary",
        {"type": "reasoning", "id": "rs_1", "encrypted_content": "x"},
        "Missing required parameter: 'input[1].summary'.",
    ),
    ("reasoning-without-id-and-blob", a_thought(), "Missing required parameter: 'input[1].id'."),
    (
        "role",
        {"role": "tool", "content": "x"},
        (
            "Invalid value: 'tool'. Supported values are: 'assistant', 'system', 'developer', and"
            " 'user'."
        ),
    ),
    (
        "reference-without-id",
        {"type": "item_reference"},
        "Missing required parameter: 'input[1].id'.",
    ),
    ("no-custom-output", a_custom_call(), "No tool output found for custom tool call c."),
]


@pytest.mark.parametrize(("item", "text"), [pytest.param(*row, id=name) for name, *row in SHAPES])
def test_a_bad_item_is_refused_in_the_words_of_the_api(item: Item, text: str) -> None:
    """One wrong item is enough for a refusal, and the error names its index."""
    assert message([ASK, item]) == text


@pytest.mark.parametrize(
    "model",
    ["gpt-4o", "gpt-4.1-mini", "gpt-3.5-turbo", "gpt-5-chat-latest", "gpt-5.2-chat"],
)
def test_models_without_reasoning_refuse_the_include(model: str) -> None:
    """They have no encrypted content to include."""
    include = ["reasoning.encrypted_content"]
    said = "Encrypted content is not supported with this model."
    assert message([ASK], model=model, include=include) == said
