"""Said: one item of a history, and the items that a client with some habits keeps of its own."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import zip_longest

from tests.core.world import Item
from tests.core.worlds.habits import Habits


@dataclass
class Said:
    """
    One item of a history.

    Attributes:
        item: The item as upstream or the client wrote it.
        kind: R, M or C of the model; U, O, E or F of the client (user, output, environment, frame).
            A message that the client wrote in the model's name is M, without a response.
        response, k: Response and index in it; -1 for an item of the client.
        after: Kind of the item before it in its response.
    """

    item: Item
    kind: str
    response: int = -1
    k: int = -1
    after: str = ""

    @property
    def visible(self) -> tuple[object, ...]:
        """Its content without names."""
        keys = ("type", "role", "content", "arguments", "output", "name")
        return tuple(json.dumps(self.item.get(key)) for key in keys)


def saying(text: str) -> Item:
    """Return a message in the model's name."""
    part = {"type": "output_text", "text": text}
    return {"type": "message", "role": "assistant", "content": [part]}


def hashed(*of: object) -> str:
    """Return what looks like an id drawn at random; the same for the same content."""
    return sha256(repr(of).encode()).hexdigest()[:24]


def kept(habits: Habits, history: Sequence[Said]) -> list[Said]:
    """Return the part of its history that a client with these habits kept."""
    items = [said for said in history if said.kind != "R"]
    if habits.lacks:
        items = _lacking(items)
    if habits.renumbers:
        items = _renumbered(items)
    if habits.renews:
        items = _renumbered(items, hashed(len(history)))
    if habits.interleaves:
        items = _interleaved(items)
    if habits.keeps:
        items = _without_rounds(items, only_finals=habits.keeps == "finals")
    if habits.tells:
        items = _told(items)
    items = _cut(habits, items)
    if habits.drops:
        items = [one for one, after in zip_longest(items, items[1:]) if not _leads(one, after)]
    outputs = [n for n, said in enumerate(items) if said.kind == "O"]
    items = [
        replace(said, item=_rewritten(said, habits, is_old=n in outputs[:-2]))
        for n, said in enumerate(items)
    ]
    return _noted(habits, items)


def _cut(habits: Habits, items: list[Said]) -> list[Said]:
    users = [n for n, said in enumerate(items) if said.kind == "U"]
    if habits.window:
        items = items[users[-habits.window :][0] :]
    if habits.cut:
        items = items[-habits.cut :]
    if habits.summary and len(users) > 3:
        summary = Said({"role": "user", "content": f"Summary of {len(users)} turns."}, "E")
        items = [items[users[0]], summary, *items[users[-2] :]]
    return items


def _rewritten(said: Said, habits: Habits, *, is_old: bool) -> Item:
    item = said.item
    if habits.ids == "dropped" and said.response >= 0:
        item = {key: value for key, value in item.items() if key != "id"}
    if habits.contradicts and "id" in item:
        item = {**item, "id": f"{item['id'].partition('_')[0]}_{hashed(said.response, said.k)}"}
    if habits.clears and is_old:
        item = {**item, "output": "[cleared]"}
    if habits.rewrites and said.kind == "M":
        (part,) = item["content"]
        item = {**item, "content": [{**part, "text": part["text"].rstrip(".")}]}
    return item


def _noted(habits: Habits, items: list[Said]) -> list[Said]:
    note = Said({"type": "message", "role": "developer", "content": "Be brief."}, "F")
    if habits.notes == "gathered":
        return [note for said in items if said.kind == "M"] + items
    if habits.notes:
        return [each for said in items for each in ([said, note] if said.kind == "M" else [said])]
    return items


def _leads(said: Said, after: Said | None) -> bool:
    """Return whether an item is a message directly before a call of its response."""
    is_before = said.kind == "M" and after is not None and after.kind == "C"
    return is_before and after is not None and after.response == said.response


def _lacking(items: list[Said]) -> list[Said]:
    """Leave an item out of every other response with several, and its output."""
    parts: dict[int, list[Said]] = {}
    for said in items:
        if said.response >= 0:
            parts.setdefault(said.response, []).append(said)
    lost = [
        said[int(hashed(response), 16) // 2 % len(said)]
        for response, said in parts.items()
        if len(said) > 1 and int(hashed(response), 16) % 2
    ]
    left: list[Said] = []
    names: set[str] = set()
    for said in items:
        if any(said is each for each in lost):
            names.add(said.item.get("call_id", "-"))
        elif said.kind != "O" or said.item["call_id"] not in names:
            left.append(said)
        else:
            names.remove(said.item["call_id"])
    return left


def _renumbered(items: list[Said], key: str = "") -> list[Said]:
    """Number the calls and rename their outputs; an output belongs to the newest equal call."""
    names: dict[str, str] = {}
    made: list[Said] = []
    for n, said in enumerate(items):
        if said.kind == "C":
            names[said.item["call_id"]] = f"call_{hashed(key, n) if key else n}"
        if said.kind in "CO":
            named = {"call_id": names.get(said.item["call_id"], "call_lost")}
            made.append(replace(said, item=said.item | named))
        else:
            made.append(said)
    return made


def _interleaved(items: list[Said]) -> list[Said]:
    """Place each output after its call."""
    made: list[Said] = []
    for said in items:
        at = len(made)
        if said.kind == "O":
            call_id = said.item["call_id"]
            calls = [n for n, each in enumerate(made) if each.item.get("call_id") == call_id]
            at = calls[-1] + 1 if calls else at
        made.insert(at, said)
    return made


def _newest(items: Sequence[Said]) -> int:
    """Return the index of the user's newest message."""
    return max((n for n, said in enumerate(items) if said.kind == "U"), default=0)


def _without_rounds(items: list[Said], *, only_finals: bool) -> list[Said]:
    """Leave the calls of finished turns out, and with `only_finals` the items with them."""
    calling = {said.response for said in items if said.kind == "C"} if only_finals else set()
    old, new = items[: _newest(items)], items[_newest(items) :]
    return [s for s in old if s.kind not in "CO" and s.response not in calling] + new


def _told(items: list[Said]) -> list[Said]:
    """Tell the calls of finished turns, and their outputs, in messages."""
    newest, made = _newest(items), list[Said]()
    for n, said in enumerate(items):
        if n >= newest or said.kind not in "CO":
            made.append(said)
        elif said.kind == "C":
            made.append(Said(saying(f"[I called {said.item['arguments']}]"), "M"))
        else:
            made.append(Said({"role": "user", "content": f"[{said.item['output']}]"}, "E"))
    return made
