"""Changes of one JSON document as a client might make them: of items, and of any values."""

import random
from collections.abc import Callable
from typing import Any, TypeVar

from tests.fuzz.trees import Literal, Object, Slot, Style, parse, slots_of, spell

__all__ = ["tree_changed"]

_STYLES = (Style(), Style(" "), Style(" \t\r\n"), Style("", 0.1), Style(" ", 1.0))
_TYPES = (
    "reasoning",
    "message",
    "function_call",
    "function_call_output",
    "custom_tool_call",
    "web_search_call",
    "computer_call",
    "item_reference",
    "compaction",
    "program",
    "mcp_approval_request",
    "from_the_future_call",
    "",
)
_KEYS = (
    "id",
    "type",
    "call_id",
    "name",
    "role",
    "status",
    "content",
    "summary",
    "encrypted_content",
    "arguments",
    "input",
    "output",
    "action",
    "include",
    "store",
    "model",
    "instructions",
    "previous_response_id",
    "conversation",
    "background",
    "prompt_cache_key",
    "output_index",
    "response",
    "item",
    "error",
    "message",
    "param",
    "code",
    "created_by",
    "input_transformations",
    "sequence_number",
)
_ODD: tuple[Any, ...] = (
    None,
    True,
    False,
    "",
    "x",
    "assistant",
    "user",
    "system",
    "in_progress",
    "incomplete",
    "failed",
    "reasoning.encrypted_content",
    "gpt-5",
    "gpt-4o",
    "\ud83d",
    "\ude00\ud83d",
    "\U0001f600",
    "\udcff\udc80",  # two bytes that are not UTF-8
    "\x00",
    '\\\\"\u2028',
    "a" * 1025,
    "call_0",
    Literal("0"),
    Literal("-1"),
    Literal("1e400"),
    Literal("-0.0"),
    Literal("9" * 30),
    Literal("1" + "0" * 5000),
    Literal("NaN"),
    Literal("-Infinity"),
    Literal("01"),
    Literal("tru"),
    Literal('"\\u12"'),
    Literal('"\\ud83d'),
    Literal("[" * 200 + "]" * 200),
    Literal("[" * 3000),
    Literal('{"a":' * 1500 + "1" + "}" * 1500),
    Literal(""),
)
# Largest number of values or characters that are repeated; repeated ones may be repeated again.
_REPEATED_MAX = 2000
Tree = Any
_Change = Callable[[list[Slot], random.Random], None]


def tree_changed(document: bytes, dice: random.Random) -> bytes:
    """
    Return a document with some items or values changed, and possibly written in another style.

    Raises:
        ValueError, RecursionError: `parse` cannot read it.
    """
    top = [parse(document)]
    for _ in range(dice.choice((1, 1, 2, 3))):
        items = _items_of(top)
        if items and dice.random() < 0.5:
            dice.choice(_ITEM_CHANGES)(items, dice)
        elif slots := slots_of(top):
            dice.choice(_VALUE_CHANGES)(slots, dice)
    style = dice.choice(_STYLES) if dice.random() < 0.3 else _STYLES[0]
    return spell(top[0], style, dice) if top else b""


def _items_of(tree: Tree) -> list[Slot]:
    """Return the objects in arrays: items, or their parts."""
    return [
        slot
        for slot in slots_of(tree)
        if isinstance(slot.value, Object) and not isinstance(slot.holder, Object)
    ]


def _copy(items: list[Slot], dice: random.Random) -> None:
    one = dice.choice(items)
    to = dice.choice(items)
    to.holder.insert(to.at, _copied(one.value))


def _leave_out(slots: list[Slot], dice: random.Random) -> None:
    one = dice.choice(slots)
    del one.holder[one.at]


def _leave_kind_out(items: list[Slot], dice: random.Random) -> None:
    kind = dict(dice.choice(items).value).get("type")
    for slot in reversed(items):
        # A repeated value occurs in the tree twice, and is the same list.
        if slot.at < len(slot.holder) and dict(slot.value).get("type") == kind:
            del slot.holder[slot.at]


def _swap(slots: list[Slot], dice: random.Random) -> None:
    one, other = dice.choice(slots), dice.choice(slots)
    ours, theirs = one.value, other.value
    if not (_holds(ours, other) or _holds(theirs, one)):
        one.put(theirs)
        other.put(ours)


def _holds(tree: Tree, slot: Slot) -> bool:
    return tree is slot.holder or any(one.holder is slot.holder for one in slots_of(tree))


def _retag(items: list[Slot], dice: random.Random) -> None:
    one = dice.choice(items).value
    one[:] = [("type", dice.choice(_TYPES)), *(pair for pair in one if pair[0] != "type")]


def _strip(items: list[Slot], dice: random.Random) -> None:
    key = dice.choice(("id", "call_id", "encrypted_content", "status", "type", "content"))
    for slot in items if dice.random() < 0.5 else [dice.choice(items)]:
        slot.value[:] = [pair for pair in slot.value if pair[0] != key]


def _borrow(items: list[Slot], dice: random.Random) -> None:
    """Copy a member of one item to another: its id, its `call_id`, its text."""
    one, other = dice.choice(items).value, dice.choice(items).value
    if other:
        key, value = dice.choice(other)
        one[:] = [*(pair for pair in one if pair[0] != key), (key, _copied(value))]


_Any = TypeVar("_Any")


def _outer(found: list[_Any], dice: random.Random) -> _Any:
    """Choose one, more often an early one, because the product reads the outer values."""
    return found[int(len(found) * dice.random() ** 3)]


def _spoil(slots: list[Slot], dice: random.Random) -> None:
    _outer(slots, dice).put(dice.choice(_ODD))


def _wrap(slots: list[Slot], dice: random.Random) -> None:
    one = dice.choice(slots)
    value = one.value
    for _ in range(dice.choice((1, 2, 120))):
        value = Object([("a", value)]) if dice.random() < 0.5 else [value]
    one.put(value)


def _repeat(slots: list[Slot], dice: random.Random) -> None:
    one = dice.choice(slots)
    value = one.value
    if isinstance(value, str):
        one.put(value[:_REPEATED_MAX] * dice.choice((0, 2, 40)))
    elif len(slots) < _REPEATED_MAX:
        count = dice.choice((2, 2, 30))
        one.holder[one.at : one.at + 1] = [one.holder[one.at]] * count


def _add_member(slots: list[Slot], dice: random.Random) -> None:
    objects = [slot.value for slot in slots if isinstance(slot.value, Object)]
    if objects:
        one = _outer(objects, dice)
        value = dice.choice(_ODD) if dice.random() < 0.5 else dice.choice(slots).value
        one.insert(dice.randint(0, len(one)), (dice.choice(_KEYS), _copied(value)))


def _rename(slots: list[Slot], dice: random.Random) -> None:
    members = [slot for slot in slots if isinstance(slot.holder, Object)]
    if members:
        one = dice.choice(members)
        one.holder[one.at] = (dice.choice((*_KEYS, "", "\ud83d", "i\u0064")), one.value)


def _reorder(slots: list[Slot], dice: random.Random) -> None:
    dice.shuffle(dice.choice(slots).holder)


def _copied(tree: Tree) -> Tree:
    match tree:
        case Object():
            return Object((key, _copied(value)) for key, value in tree)
        case list():
            return [_copied(value) for value in tree]
        case _:
            return tree


_ITEM_CHANGES: tuple[_Change, ...] = (
    _copy,
    _copy,
    _leave_out,
    _leave_out,
    _leave_kind_out,
    _swap,
    _retag,
    _strip,
    _strip,
    _borrow,
    _borrow,
)
_VALUE_CHANGES: tuple[_Change, ...] = (
    _leave_out,
    _swap,
    _spoil,
    _spoil,
    _spoil,
    _wrap,
    _repeat,
    _add_member,
    _add_member,
    _rename,
    _reorder,
)
