"""Rules of Responses that no client of the other suites meets: each in the words of the API."""

from typing import Any

import pytest
from reasoning_replay.strict_api import DIALECTS, Item, Script

ASK: Item = {"role": "user", "content": "What is the weather in Oslo?"}
CALL: Item = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
CUSTOM: Item = {"type": "custom_tool_call", "call_id": "c", "name": "f", "input": ""}
THOUGHT: Item = {"type": "reasoning", "summary": []}
SAID: Item = {"type": "message", "role": "assistant", "content": "x"}
LONG = "string too long. Expected a string with maximum length 64, but got a string with length 65"


def message(*items: Item, **more: Any) -> str:
    """Judge a request; return the text of the refusal, "" if it is accepted."""
    api = DIALECTS["responses"](Script())
    exchange, _ = api.serve({"model": "gpt-5.4", "input": [ASK, *items], **more}, "")
    return "" if exchange.refused is None else exchange.refused.message


# (one item of the input, the error for it)
SHAPES: dict[str, tuple[Item, str]] = {
    "prefix-rs": (
        THOUGHT | {"id": "fc_1", "encrypted_content": "x"},
        "Invalid 'input[1].id': 'fc_1'. Expected an ID that begins with 'rs'.",
    ),
    "prefix-msg": (
        SAID | {"id": "rs_1"},
        "Invalid 'input[1].id': 'rs_1'. Expected an ID that begins with 'msg'.",
    ),
    "prefix-ctc": (
        CUSTOM | {"id": "fc_1"},
        "Invalid 'input[1].id': 'fc_1'. Expected an ID that begins with 'ctc'.",
    ),
    "characters": (
        SAID | {"id": ""},
        (
            "Invalid 'input[1].id': ''. Expected an ID that contains letters, numbers, underscores,"
            " or dashes, but this value contained additional characters."
        ),
    ),
    "long-id": (
        {**SAID, "role": "user", "id": "msg_" + "0" * 61},
        f"Invalid 'input[1].id': {LONG} instead.",
    ),
    "long-call-id": (CALL | {"call_id": "c" * 65}, f"Invalid 'input[1].call_id': {LONG} instead."),
    "no-call-id": (CALL | {"call_id": None}, "Missing required parameter: 'input[1].call_id'."),
    "null-id": (
        CALL | {"id": None},
        "Invalid type for 'input[1].id': expected a string, but got null instead.",
    ),
    "no-summary": (
        {"type": "reasoning", "id": "rs_1", "encrypted_content": "x"},
        "Missing required parameter: 'input[1].summary'.",
    ),
    "status": (THOUGHT | {"status": "completed"}, "Unknown parameter: 'input[1].status'."),
    "content": (
        THOUGHT | {"id": "rs_1", "content": [{"type": "reasoning_text", "text": "Hm."}]},
        (
            "Invalid 'input[1].content': array too long. Expected an array with maximum length 0,"
            " but got an array with length 1 instead."
        ),
    ),
    "reasoning-without-id-and-blob": (THOUGHT, "Missing required parameter: 'input[1].id'."),
    "role": (
        {"role": "tool", "content": "x"},
        (
            "Invalid value: 'tool'. Supported values are: 'assistant', 'system', 'developer', and"
            " 'user'."
        ),
    ),
    "reference-without-id": (
        {"type": "item_reference"},
        "Missing required parameter: 'input[1].id'.",
    ),
    "no-custom-output": (CUSTOM, "No tool output found for custom tool call c."),
}


@pytest.mark.parametrize("name", SHAPES)
def test_a_bad_item_is_refused_in_the_words_of_the_api(name: str) -> None:
    """One wrong item is enough for a refusal, and the error names its index."""
    item, text = SHAPES[name]
    assert message(item) == text


@pytest.mark.parametrize(
    "model", ["gpt-4o", "gpt-4.1-mini", "gpt-3.5-turbo", "gpt-5-chat-latest", "gpt-5.2-chat"]
)
def test_models_without_reasoning_refuse_it(model: str) -> None:
    """They have no encrypted content to include, and take no reasoning."""
    include = ["reasoning.encrypted_content"]
    said = "Encrypted content is not supported with this model."
    assert message(model=model, include=include) == said
    thought = THOUGHT | {"encrypted_content": "gAAAAother"}
    assert message(thought, model=model).startswith("Reasoning input items can only be provided")
    assert message(SAID, model=model) == ""


def test_hosted_calls_have_no_output_and_named_outputs_no_call_id() -> None:
    """An output without `call_id` answers the calls of its name."""
    hosted = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    output = {"type": "function_call_output", "name": "f", "output": "x"}
    assert message(hosted) == ""
    assert message(CALL, output) == ""
    assert message(CALL, output | {"name": "g"}).startswith("No tool output found for function")
