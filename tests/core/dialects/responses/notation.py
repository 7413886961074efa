"""
Notation for histories: `r1 c1 o1` is reasoning, the call that it led to, and the call's output.

`r1:hollow` is the item with a change, and `c1{"id":"x"}` the item with other members. The tables
places.md, heal/cures.md and heal/repairs.md are written in it.
"""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.core.dialects.responses.heal.played import (
    ASK,
    MORE,
    SCREEN,
    STATEFUL,
    hollow,
    reference,
)
from tests.core.world import Item, call, drawn, message, nameless, output, reasoning, search

_TEXT = {"content": [{"type": "reasoning_text", "text": "Hm."}]}
NAMED: Mapping[str, Item] = {
    **{f"r{n}": reasoning(n) for n in "123"},
    **{f"c{n}": call(n) for n in "123"},
    **{
        f"o{n}": output(call(n), text)
        for n, text in zip("123", ("one", "two", "three"), strict=True)
    },
    "m1": message("1", "Sunny."),
    "m2": message("2", "Rainy."),
    "m3": message("3", "It is sunny in Paris today.", phase="final_answer"),
    "m4": message("4", "I will look at the weather in Paris first.", phase="commentary"),
    "w1": search("1"),
    "s1": SCREEN,
    "so1": output(SCREEN, "iVBO"),
    "u1": ASK,
    "u2": MORE,
    "p1": {"type": "program", "id": f"prog_{drawn(8)}", "code": "1 + 1"},
    "r0": {"type": "reasoning", "summary": []},
    "f1": {"role": "system", "content": "Be brief."},
    "n1": {"type": "message", "role": "user", "id": "msg_9", "content": "Hi"},
    "k1": {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAAAzip"},
    "t1": {"type": "reasoning", "id": f"rs_{drawn(7)}", "summary": []} | _TEXT,
}
"""Reasoning r, calls c, outputs o, messages m, a search, a screenshot, a program, a frame f."""

_CHANGES: Mapping[str, Callable[[Item], Item]] = {
    "noid": nameless,
    "hollow": hollow,
    "ref": reference,
    "bare": lambda item: {"id": item["id"]},
    "badid": lambda item: item | {"id": "x"},
    "easy": lambda item: {"role": "assistant", "content": item["content"][0]["text"]},
    "reworded": lambda item: item | {"content": [item["content"][0] | {"text": "Clouds."}]},
    "recalled": lambda item: item | {"call_id": f"call_{drawn(item['call_id'])}"},
    "nosummary": lambda item: {key: item[key] for key in item if key != "summary"},
    "emptyid": lambda item: item | {"id": ""},
    "null": lambda item: item | {"encrypted_content": None},
    "plain": lambda item: {key: item[key] for key in item if key != "phase"},
    "half": lambda item: item | {"status": "incomplete"},
    "call_0": lambda item: item | {"call_id": "call_0"},
    "damaged": lambda item: item | {"encrypted_content": "gAAAAhalf"},
    "text": lambda item: item | _TEXT,
    "notext": lambda item: {key: item[key] for key in item if key != "content"},
}
_REQUESTS: Mapping[str, dict[str, Any]] = {
    "unstored": {"store": False},
    "stateful": STATEFUL,
    "o4-mini": {"model": "o4-mini"},
}


def history(text: str) -> list[Item]:
    """Return the items that a text in the notation describes."""
    items = []
    for token in text.split():
        name, changes, patch = re.fullmatch(r"(\w+):?([\w+]*)(.*)", token).groups()  # type: ignore[union-attr]
        item = NAMED[name]
        for change in changes.split("+") if changes else ():
            item = _CHANGES[change](item)
        items.append(item | json.loads(patch or "{}"))
    return items


def request_of(text: str) -> dict[str, Any]:
    """Return the other members of a request."""
    found: dict[str, Any] = {}
    for word in filter(None, text.split("; ")):
        key, is_value, value = word.partition("=")
        found |= {key: value} if is_value else _REQUESTS[word]
    return found


def rows(table: str) -> list[Any]:
    """Return the rows of a table below this folder, as parameter sets."""
    lines = (Path(__file__).parent / table).read_text().splitlines()
    cells = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in lines
        if line.startswith("| ") and not line.startswith("| case ")
    ]
    return [pytest.param(*row[1:], id=row[0]) for row in cells]
