"""
Notation for histories: `u1 r1 c1 o1` is a question, reasoning, its call, and the call's output.

u is a user message, r reasoning, m an assistant message, c a call, w a web search and o an output.
Each is numbered in the order of the honest history, which has every item whole. `r1:hollow` is the
item r1 with a change.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

Item = dict[str, Any]

_LETTERS = {
    "reasoning": "r",
    "function_call": "c",
    "custom_tool_call": "c",
    "web_search_call": "w",
    "function_call_output": "o",
    "custom_tool_call_output": "o",
}


class Past:
    """
    One honest history.

    Attributes:
        items: Every item whole, in order.
        added: Item id of each `done` event -> id in its `added` event.
        completed: Item id -> the item as in the last event.
        responses: Ids of the responses, in order.
    """

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.added: dict[str, str] = {}
        self.completed: dict[str, Item] = {}
        self.responses: list[str] = []

    @property
    def named(self) -> dict[str, Item]:
        """Every item by its letter and number."""
        found: dict[str, Item] = {}
        count: defaultdict[str, int] = defaultdict(int)
        for item in self.items:
            letter = _LETTERS.get(item.get("type", ""), "u" if item.get("role") == "user" else "m")
            count[letter] += 1
            found[f"{letter}{count[letter]}"] = item
        return found


def written(text: str, past: Past, more: Mapping[str, Item]) -> list[Item]:
    """
    Return the items that a text in the notation describes.

    Args:
        text: A history in the notation of this module.
        past: The honest history that the items come from.
        more: Items in addition to those of the honest history, by name.
    """
    named = past.named | dict(more)
    items = []
    for token in text.split():
        name, _, changes = token.partition(":")
        item = json.loads(json.dumps(named[name]))
        for change in changes.split("+") if changes else ():
            item = _CHANGES[change](item, past)
        items.append(item)
    return items


def _without(*names: str) -> Callable[[Item, Past], Item]:
    return lambda item, _: {name: value for name, value in item.items() if name not in names}


def _with(**members: Any) -> Callable[[Item, Past], Item]:
    return lambda item, _: item | members


def _said(text: str) -> Callable[[Item, Past], Item]:
    return lambda item, _: item | {"content": [item["content"][0] | {"text": text}]}


def _easy(item: Item, _: Past) -> Item:
    """Return a message in the easy form, as many clients keep it."""
    return {"role": "assistant", "content": _texts(item["content"])}


def _texts(parts: Iterable[Mapping[str, str]]) -> str:
    return "".join(part["text"] for part in parts)


_CHANGES: Mapping[str, Callable[[Item, Past], Item]] = {
    "noid": _without("id"),
    "hollow": _without("encrypted_content"),
    "null": _with(encrypted_content=None),
    "ref": lambda item, _: {"type": "item_reference", "id": item["id"]},
    "bare": lambda item, _: {"id": item["id"]},
    "emptyid": _with(id=""),
    "callid": lambda item, _: item | {"id": item["call_id"]},
    "dotted": lambda item, _: item | {"id": item["id"].replace("_", ".")},
    "addedid": lambda item, past: item | {"id": past.added[item["id"]]},
    "final": lambda item, past: past.completed[item["id"]],
    "status": _with(status="completed"),
    "text": _with(content=[{"type": "reasoning_text", "text": "It rains in Oslo."}]),
    "notext": _with(content=[]),
    "nocontent": _without("content"),
    "damaged": lambda item, _: item | {"encrypted_content": item["encrypted_content"][::-1]},
    "reworded": _said("Something else."),
    "easy": _easy,
    "phased": lambda item, past: _easy(item, past) | {"phase": item["phase"]},
    "reasked": _with(call_id="call_Reasked7Qx2", arguments='{"query":"again"}'),
    "again": _with(call_id="call_Reasked7Qx2"),
}
