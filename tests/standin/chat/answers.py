"""
Answers: the message of a turn as each family writes it, and the whole JSON of a response.

`message` is the one place that says which members reasoning has. deltas.py cuts the same message
into pieces.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from tests.standin.chat.families import Family, Spelling
from tests.standin.chat.messages import reasoning_of, visible
from tests.standin.chat.model import Call, Turn
from tests.standin.common.ledger import Emission
from tests.standin.common.script import Source

__all__ = ["End", "Head", "answer", "cut_short", "details", "due", "finish", "message", "written"]

End = Literal["complete", "length", "error"]
"""How a response ends: as it should, at a token limit, or with an error."""

_SEPARATORS: Mapping[Spelling, tuple[str, str]] = {
    "compact": (",", ":"),
    "spaced": (", ", ": "),
    "ascii": (", ", ": "),
}


class Head(Struct, frozen=True, kw_only=True):
    """The members of a response that are not about its content."""

    id: str
    created: int
    model: str
    usage: Mapping[str, int]


def message(family: Family, model: str, turn: Turn) -> dict[str, Any]:
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
            if entries := details(model, turn):
                made["reasoning_details"] = entries
        case "signatures":
            if turn.signature and not turn.calls:
                made["extra_content"] = _signed(turn.signature)
    return made


def due(family: Family, model: str, caller: str, place: str, made: Mapping[str, Any]) -> Emission:
    """Return the record of an emitted message, with the members that must be sent again."""
    reasoning = reasoning_of(made)
    again = reasoning.keys() - ({"reasoning"} if family.form == "details" else set())
    return Emission(
        caller=caller,
        model=model,
        place=place,
        visible=visible(made),
        reasoning=reasoning,
        due=frozenset(again),
    )


def details(model: str, turn: Turn) -> list[dict[str, Any]]:
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


def answer(
    family: Family, head: Head, messages: Sequence[Mapping[str, Any]], end: End
) -> dict[str, Any]:
    """Return the JSON of a response that is not streamed; one choice for each message."""
    choices = [
        {
            "index": index,
            "message": made,
            "logprobs": None,
            "finish_reason": finish(family, made, end),
        }
        for index, made in enumerate(messages)
    ]
    if end == "error":
        choices[0]["error"] = {"code": 502, "message": "Upstream error"}
    return {
        "id": head.id,
        "object": "chat.completion",
        "created": head.created,
        "model": head.model,
        "choices": choices,
        "usage": dict(head.usage),
    }


def finish(family: Family, made: Mapping[str, Any], end: End) -> str:
    """Return the `finish_reason` of a message."""
    if end in {"length", "error"}:
        return end
    return "tool_calls" if made.get("tool_calls") and not family.calls_stop else "stop"


def cut_short(turn: Turn) -> Turn:
    """Cut the last part of a turn in half, as a token limit does."""
    if not turn.calls:
        return Turn(
            text=turn.text[: len(turn.text) // 2],
            calls=(),
            thought=turn.thought,
            signature=turn.signature,
        )
    *before, last = turn.calls
    half = Call(last.id, last.name, last.arguments[: len(last.arguments) // 2], last.signature)
    return Turn(
        text=turn.text, calls=(*before, half), thought=turn.thought, signature=turn.signature
    )


def written(family: Family, value: object) -> bytes:
    """Return JSON in the spelling of a family."""
    is_ascii = family.spelling == "ascii"
    return json.dumps(
        value, ensure_ascii=is_ascii, separators=_SEPARATORS[family.spelling]
    ).encode()


def head_of(model: str, source: Source, created: int, usage: Mapping[str, int]) -> Head:
    """Return the head of a response."""
    return Head(id=f"chatcmpl-{source.digits('id', 24)}", created=created, model=model, usage=usage)


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
