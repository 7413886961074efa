"""
Binding: the history that a block of reasoning was made after, as its signature remembers it.

Two spellings of one history are equal here: a string and one text block, cache marks, and null
members.
"""

import hashlib
import json
from collections.abc import Iterator
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict
from reasoning_replay.strict_api import Item
from reasoning_replay.strict_api.messages import blocks_of, is_reasoning, joined_by_role

__all__ = ["Bound", "bound_to", "flaws"]


class Bound(Struct, frozen=True):
    """
    What one block is bound to, as digests.

    Attributes:
        content: Its text; "" if it shows none.
        model: The model.
        account: The credential.
        messages: The messages before it, without their reasoning.
        thinking: The last block of reasoning before it; "" without any.
    """

    content: str
    model: str
    account: str
    system: str
    tools: str
    messages: str
    thinking: str


def bound_to(body: Item, account: str) -> Iterator[list[Bound]]:
    """Yield, for each message, what each of its blocks would be bound to; and one block more."""
    system, tools = (
        _digest(_normal_list(body.get("system"))),
        _digest(_normal_list(body.get("tools"))),
    )
    history = thinking = ""
    for message in joined_by_role(body["messages"]):
        made = []
        for block in [*blocks_of(message), {}]:
            shown = str(block.get("thinking") or "")
            known = system, tools, history, thinking
            made.append(Bound(shown, str(body.get("model")), account, *known))
            if message.get("role") == "assistant" and is_reasoning(block):
                thinking = _digest(_normal(block))
            elif block:
                history = _digest([history, message.get("role"), _normal(block)])
        yield made


def flaws(emitted: Bound | None, found: Bound) -> set[str]:
    """Return the members in which a block differs from what was emitted with its signature."""
    if emitted is None:
        return {"content"}
    was, now = asdict(emitted), asdict(found)
    differing = {name for name in was if was[name] != now[name]}
    # Reasoning may be missing from the start of a history.
    return differing if found.thinking else differing - {"thinking"}


def _normal_list(value: Any) -> Any:
    if isinstance(value, str):
        return [{"text": value, "type": "text"}]
    return [_normal(one) for one in value] if isinstance(value, list) else value


def _normal(block: Any) -> Any:
    """Return a block in one order, without marks and null members; its input stays as it is."""
    if not isinstance(block, dict):
        return block
    return {
        name: _normal_list(block[name]) if name == "content" else block[name]
        for name in sorted(block)
        if block[name] is not None and name != "cache_control"
    }


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:16]
