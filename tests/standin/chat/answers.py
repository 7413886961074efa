"""
Answers: the message of a turn as each family writes it, and the whole JSON of a response.

`message_of` is the one place that says which members reasoning has. deltas.py cuts the same message
into pieces.
"""

import json
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace
from reasoning_replay.strict_api.scenarios import tokens_of

from tests.standin.chat.families import Family, Spelling
from tests.standin.chat.model import Call, Turn

__all__ = ["answer_of", "cut_short", "message_of", "written"]

_SEPARATORS: Mapping[Spelling, tuple[str, str]] = {
    "compact": (",", ":"),
    "spaced": (", ", ": "),
    "ascii": (", ", ": "),
}


def message_of(family: Family, model: str, turn: Turn) -> dict[str, Any]:
    """Return the assistant message of a turn."""
    made: dict[str, Any] = {"role": "assistant", "content": turn.text or None}
    if turn.calls:
        made["tool_calls"] = [_call(family, index, call) for index, call in enumerate(turn.calls)]
    match family.form:
        case "reasoning_content" | "reasoning":
            value = turn.thought or family.unreasoned
            if value is not None:
                made[family.form] = value
        case "details":
            made["reasoning"] = turn.thought or None
            if entries := _details(model, turn):
                made["reasoning_details"] = entries
        case "blocks":
            made |= _blocks(turn) if turn.thought else {}
        case "signatures":
            if turn.signature and not turn.calls:
                made["extra_content"] = _signed(turn.signature)
    return made


def _blocks(turn: Turn) -> dict[str, Any]:
    """Return the members of a turn of Claude: LiteLLM sends its blocks twice."""
    blocks = [{"type": "thinking", "thinking": turn.thought, "signature": turn.signature}]
    fields = {"citations": None, "thinking_blocks": blocks}
    return {
        "reasoning_content": turn.thought,
        "thinking_blocks": blocks,
        "provider_specific_fields": fields,
    }


def _details(model: str, turn: Turn) -> list[dict[str, Any]]:
    """
    Return the `reasoning_details` of a turn, which differ by the vendor of the model.

    Claude signs the text itself. Gemini's entry is encrypted, and names the first call. That of
    OpenAI has an id of its own. Text and encrypted entry may have one index (recorded).
    """
    vendor = model.partition("/")[0]
    if vendor == "anthropic":
        entry = {"type": "reasoning.text", "text": turn.thought, "format": "anthropic-claude-v1"}
        return [entry | {"index": 0, "signature": turn.signature}] if turn.thought else []
    made: list[dict[str, Any]] = []
    if vendor == "openai":
        if turn.thought:
            summary = {"type": "reasoning.summary", "summary": turn.thought}
            blob = {"type": "reasoning.encrypted", "data": turn.signature}
            common = {"format": "openai-responses-v1"}
            made = [
                summary | common | {"index": 0},
                blob | common | {"id": f"rs_{turn.signature[:24].lower()}", "index": 1},
            ]
        return made
    if turn.thought:
        made.append(
            {
                "type": "reasoning.text",
                "text": turn.thought,
                "format": "google-gemini-v1",
                "index": 0,
            }
        )
    if turn.calls and turn.calls[0].signature:
        made.append(
            {
                "type": "reasoning.encrypted",
                "data": turn.calls[0].signature,
                "format": "google-gemini-v1",
                "id": turn.calls[0].id,
                "index": 0,
            }
        )
    return made


def answer_of(
    family: Family, head: Mapping[str, Any], made: dict[str, Any], end: str, asked: int
) -> dict[str, Any]:
    """
    Return the JSON of a response that is not streamed.

    Args:
        family: The vendor.
        head: Its id, its time, and its model.
        made: The message.
        end: How it ends.
        asked: The tokens of the request.
    """
    finish = "tool_calls" if made.get("tool_calls") and not family.calls_stop else "stop"
    choice = {
        "index": 0,
        "message": made,
        "logprobs": None,
        "finish_reason": finish if end == "complete" else end,
    }
    if end == "error":
        choice["error"] = {"code": 502, "message": "Upstream error"}
    said = tokens_of(made)
    usage = {"prompt_tokens": asked, "completion_tokens": said, "total_tokens": asked + said}
    return {**head, "object": "chat.completion", "choices": [choice], "usage": usage}


def cut_short(turn: Turn) -> Turn:
    """Cut the last part of a turn in half, as a token limit does."""
    if not turn.calls:
        return replace(turn, text=turn.text[: len(turn.text) // 2])
    *before, last = turn.calls
    half = replace(last, arguments=last.arguments[: len(last.arguments) // 2])
    return replace(turn, calls=(*before, half))


def written(family: Family, value: object) -> bytes:
    """Return JSON in the spelling of a family."""
    is_ascii = family.spelling == "ascii"
    return json.dumps(
        value, ensure_ascii=is_ascii, separators=_SEPARATORS[family.spelling]
    ).encode()


def _call(family: Family, index: int, call: Call) -> dict[str, Any]:
    made: dict[str, Any] = {
        **({"index": index} if family.call_index == "own" else {}),
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments},
    }
    if family.form == "signatures" and call.signature:
        made["extra_content"] = _signed(call.signature)
    return made


def _signed(signature: str) -> dict[str, Any]:
    return {"google": {"thought_signature": signature}}
