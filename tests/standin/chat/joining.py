"""
Joining: a streamed message as the vendors' own SDKs assemble it, reasoning included.

It is the opposite of deltas.py, and independent of it.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from tests.standin.chat.messages import joined

__all__ = ["join"]

_TEXTS = ("content", "reasoning_content", "reasoning")
_LISTS = {"reasoning_details", "thinking_blocks"}


def join(chunks: Iterable[Mapping[str, Any]], choice: int = 0) -> dict[str, Any]:
    """Return the message of one choice; a member that no chunk had is absent."""
    message: dict[str, Any] = {"role": "assistant", "content": None}
    calls: list[dict[str, Any]] = []
    for chunk in chunks:
        for one in chunk.get("choices") or ():
            if one["index"] == choice:
                _add(message, calls, one.get("delta") or {})
    if calls:
        message["tool_calls"] = calls
    for name in _LISTS & message.keys():
        message[name] = joined(message[name])
    # Halves of a character, which two chunks brought, become one again.
    whole: dict[str, Any] = json.loads(json.dumps(message))
    return whole


def _add(message: dict[str, Any], calls: list[dict[str, Any]], delta: Mapping[str, Any]) -> None:
    for name, value in delta.items():
        if value is None or name == "role":
            continue
        if name == "tool_calls":
            for fragment in value:
                _add_call(calls, fragment)
        elif name in _TEXTS or name in _LISTS:
            message[name] = value if message.get(name) is None else message[name] + value
        else:
            message[name] = value
    if message["content"] == "":
        message["content"] = None


def _add_call(calls: list[dict[str, Any]], fragment: Mapping[str, Any]) -> None:
    """Begin a call where a fragment has a name, else continue the last one of its index."""
    function = fragment.get("function") or {}
    if function.get("name"):
        calls.append({**fragment, "function": dict(function)})
        return
    index = fragment.get("index")
    call = next(one for one in reversed(calls) if one.get("index") == index)
    call["function"]["arguments"] += function.get("arguments") or ""
    call.update({name: value for name, value in fragment.items() if name not in {"function", "id"}})
