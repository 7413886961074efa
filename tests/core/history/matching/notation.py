"""
Notation for what was captured and what a client sends: `u1 => r1 c1 / .. o1 => r2 m2"Sunny."`.

matches.md is written in it, and says what it means.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.core.world import (
    Item,
    World,
    body,
    call,
    drawn,
    dropped,
    message,
    nameless,
    output,
    reasoning,
    search,
    user,
)

_ASKED = {"1": "What is the weather in Paris?", "2": "And tomorrow?"}
RECURRING = "call_a8K2mPqZ7Lx93Qw5Rt61Vb4c"
TEXTS = {
    "REFUSAL": "I'm sorry, but I can't help with that request. If there is anything else that you"
    " would like to know, please ask.",
    "GREETING": "Hello! How can I help you with your taxes today?",
    "BEES": "Bees are insects, and everybody likes their honey.",
    "CODE": "def price(tea):\n    if tea:\n        return 1\n    return <b>2</b>\n",
}
_CHANGES: Mapping[str, Callable[[Item], Item]] = {
    "ref": lambda item: {"type": "item_reference", "id": item["id"]},
    "bare": lambda item: {"id": item["id"]},
    "rec": lambda item: item | {"call_id": RECURRING},
    "trim": lambda item: item | {"arguments": '{"city":"…"}'},
    "custom": lambda item: item | {"type": "custom_tool_call"},
    "tool": lambda item: item | {"name": "other_tool"},
    "flat": lambda item: message("", " ".join(item["content"][0]["text"].split())),
}
# Name, changes, text or arguments, and other members.
_TOKEN = re.compile(r'\s*([a-z]\w*)((?::\w+)*)(?:"([^"]*)")?({(?:[^{}"]|"(?:[^"\\]|\\.)*")*})?\s*')
_OPTION = re.compile(r'\s*(says|hint|after|conversation)=(?:"([^"]*)"|(\S*))\s*')
_FIELDS = {"says": "instructions", "hint": "prompt_cache_key", "conversation": "conversation"}


def _read(text: str, calls: dict[str, Item], *, keeps_ids: bool) -> list[Item]:
    """Return the items of a text; a client drops the ids of those without `:id`."""
    items: list[Item] = []
    at = 0
    while at < len(text):
        token = _TOKEN.match(text, at)
        assert token, text[at:]
        at = token.end()
        name, changes, words, more = token.groups()
        kind, rest = name[0], name[1:]
        said = TEXTS.get(words or "", words or "")
        item = _item(kind, rest, said, calls.get(rest))
        for change in changes.split(":")[1:]:
            item = _CHANGES[change](item) if change != "id" else item
        item |= json.loads(more or "{}")
        if kind == "c":
            calls[rest] = item
        is_named = keeps_ids or ":id" in changes or ":ref" in changes or ":bare" in changes
        items.append(item if is_named or kind == "r" else nameless(item))
    return items


def _item(kind: str, name: str, text: str, of: Item | None) -> Item:
    made: Mapping[str, Callable[[], Item]] = {
        "u": lambda: user(_ASKED[name] if name else text),
        "f": lambda: {"role": "system", "content": text},
        "d": lambda: {"role": "developer", "content": text},
        "r": lambda: reasoning(name),
        "m": lambda: message(name, text),
        "w": lambda: search(name),
        "c": lambda: call(name) | ({"arguments": json.dumps({"q": text})} if text else {}),
        "o": lambda: output(of or call(name), text or "sunny"),
    }
    return made[kind]()


def _request_of(
    text: str, told: Sequence[Item], calls: dict[str, Item]
) -> tuple[list[Item], dict[str, Any]]:
    """Return the items and the other members of a request; `..` is the history told so far."""
    members: dict[str, Any] = {}
    while option := _OPTION.match(text):
        name, value = option[1], option[2] if option[2] is not None else option[3]
        if name == "after":
            members["previous_response_id"] = f"resp_{drawn(value)}"
        else:
            members[_FIELDS[name]] = value
        text = text[option.end() :]
    goes_on = text.startswith("..")
    items = _read(text.removeprefix("..").strip(), calls, keeps_ids=False)
    return [*(told if goes_on else ()), *items], members


def captured(text: str) -> World:
    """Return the world after these turns."""
    world, told, calls = World(), list[Item](), dict[str, Item]()
    for turn in filter(None, text.split(" / ")):
        times = re.match(r"x(\d+) ", turn)
        for n in range(1, 1 + int(times[1] if times else 1)):
            asked, _, said = (
                turn[times.end() if times else 0 :].replace("#", f"{n}").partition("=>")
            )
            items, members = _request_of(asked.strip(), told, calls)
            made = _read(said.strip(), calls, keeps_ids=True)
            world.learn(body(items, store=False, **members), made)
            told = [*items, *map(nameless, dropped(made))]
    return world


def injected(world: World, text: str) -> str:
    """Return what is injected, each with the index of what it leads, and what is unclear."""
    items, members = _request_of(text, (), {})
    sent = body(items, store=False, **members)
    found: list[str] = []
    at = 0
    for item in world.seen(sent):
        if items[at : at + 1] == [item]:
            at += 1
        else:
            found.append(f"{item['encrypted_content'].removeprefix('gAAAA')}@{at}")
    assert at == len(items)
    return " ".join([*found, *(f"?{n}" for n in sorted(world.ask(sent)[1].ambiguous))])


def rows(table: str) -> list[Any]:
    """Return the rows of a table in this folder, as parameter sets; an empty cell repeats."""
    lines = (Path(__file__).parent / table).read_text().splitlines()
    made: list[Any] = []
    before = ""
    for line in lines:
        if line.startswith("| ") and not line.startswith("| case "):
            case, turns, sent, want = (cell.strip() for cell in line.split("|")[1:-1])
            before = turns or before
            made.append(pytest.param(before, sent, want, id=case))
    return made
