"""
Conversations of the live test: the requests of each dialect, and how its answers are read, as data.

A new dialect is one entry of CONVERSATIONS.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from reasoning_replay.core.dialects.chat.members import (
    CALL_MEMBERS,
    MESSAGE_MEMBERS,
    reasoning_of,
)
from reasoning_replay.core.dialects.registry import CHAT, MESSAGES, RESPONSES

__all__ = ["CONVERSATIONS", "Conversation", "Item", "Reply"]

Item = dict[str, Any]

RESULT: Final = "a gold ring"
FUNCTION: Final[Item] = {
    "name": "look_into",
    "description": "Tells what is in a box.",
    "parameters": {
        "type": "object",
        "properties": {"box": {"type": "string"}},
        "required": ["box"],
        "additionalProperties": False,
    },
}
# The members that the API declares, and so those that its clients keep.
_OF_MESSAGE: Final = ("role", "content", "tool_calls")
_OF_CALL: Final = ("id", "type", "function")
# Claude up to 4.6 thinks with a budget, as other vendors' models do; later models refuse one.
_HAS_BUDGET: Final = re.compile(r"claude-(?:[123]|[a-z]+-4(?:[-.][0-6])?(?!\d|[-.]\d(?!\d)))")


class Reply(NamedTuple):
    """
    What the live test reads of an answer.

    Attributes:
        kept: The items or messages that a client keeps: all but the reasoning.
        results: The results of the tools that it calls.
        sealed: For each reasoning item, whether it is encrypted or signed.
    """

    kept: list[Item]
    results: list[Item]
    sealed: list[bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """
    The wire format of one dialect.

    Attributes:
        path: Path of its requests.
        history: Member of a request that has the history.
        tool: The tool of each request.
        more: Returns further members of each request for a model.
        headers: Headers of each request, which every client of the API sends.
        read: Reads a JSON answer; raises an error of lookup or type if it has another form.
    """

    path: str
    history: str
    tool: Item
    read: Callable[[Item], Reply]
    more: Callable[[str], Mapping[str, Any]] = lambda _: {}
    headers: Mapping[str, str] = field(default_factory=dict)


def _read_response(answer: Item) -> Reply:
    output: list[Item] = answer["output"]
    kept = [item for item in output if item.get("type") != "reasoning"]
    calls = [item["call_id"] for item in kept if item.get("type") == "function_call"]
    return Reply(
        kept,
        [{"type": "function_call_output", "call_id": call, "output": RESULT} for call in calls],
        [bool(one.get("encrypted_content")) for one in output if one.get("type") == "reasoning"],
    )


def _read_completion(answer: Item) -> Reply:
    message: Item = answer["choices"][0]["message"]
    calls: list[Item] = message.get("tool_calls") or []
    kept = _only(message, _OF_MESSAGE)
    if calls:
        kept["tool_calls"] = [_only(call, _OF_CALL) for call in calls]
    results = [{"role": "tool", "tool_call_id": one["id"], "content": RESULT} for one in calls]
    sealed = [*_sealed(message, MESSAGE_MEMBERS, is_of_call=False)]
    for call in calls:
        sealed += _sealed(call, CALL_MEMBERS, is_of_call=True)
    return Reply([kept], results, sealed)


def _read_message(answer: Item) -> Reply:
    blocks: list[Item] = answer["content"]
    reasoning = [one for one in blocks if one["type"] in {"thinking", "redacted_thinking"}]
    kept = [one for one in blocks if one not in reasoning]
    results = [
        {"type": "tool_result", "tool_use_id": one["id"], "content": RESULT}
        for one in kept
        if one["type"] == "tool_use"
    ]
    return Reply(
        [{"role": "assistant", "content": kept}] if kept else [],
        [{"role": "user", "content": results}] if results else [],
        [bool(one.get("signature") or one.get("data")) for one in reasoning],
    )


def _thinking(model: str) -> Item:
    has_budget = "claude" not in model or _HAS_BUDGET.search(model)
    budget = {"type": "enabled", "budget_tokens": 1024}
    return {"max_tokens": 4096, "thinking": budget if has_budget else {"type": "adaptive"}}


def _only(given: Item, names: Iterable[str]) -> Item:
    return {name: given[name] for name in names if name in given}


def _sealed(given: Item, names: Iterable[str], *, is_of_call: bool) -> Iterator[bool]:
    """Yield for each member with reasoning whether it has a signature."""
    for name in names:
        if given.get(name):
            value = json.dumps(given[name]).encode()
            part = reasoning_of(name, value, is_of_call=is_of_call)
            yield part is not None and part.has_blob


CONVERSATIONS: Final[Mapping[str, Conversation]] = MappingProxyType(
    {
        RESPONSES: Conversation(
            path="/responses",
            history="input",
            tool={"type": "function", **FUNCTION, "strict": True},
            more=lambda _: {"store": False},
            read=_read_response,
        ),
        CHAT: Conversation(
            path="/chat/completions",
            history="messages",
            tool={"type": "function", "function": FUNCTION},
            read=_read_completion,
        ),
        MESSAGES: Conversation(
            path="/messages",
            history="messages",
            tool={
                "name": FUNCTION["name"],
                "description": FUNCTION["description"],
                "input_schema": FUNCTION["parameters"],
            },
            more=_thinking,
            headers={"anthropic-version": "2023-06-01"},
            read=_read_message,
        ),
    }
)
