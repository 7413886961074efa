"""JSON trees that keep repeated keys and literals of any form; and realistic changes of them."""

import json
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

# Deeper documents are not parsed: `mutation` edits their bytes, and no model reads them.
_DEPTH_MAX = 150


@dataclass(frozen=True, slots=True)
class Literal:
    """Text that is kept verbatim: a number, `NaN`, or invalid JSON."""

    text: str


class Object(list[tuple[str, Any]]):
    """The members of an object, in order; a key may occur twice."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A place in a tree: the `at`-th element of an array, or member of an object."""

    holder: list[Any]
    at: int

    @property
    def value(self) -> Any:
        """The value in this place."""
        found = self.holder[self.at]
        return found[1] if isinstance(self.holder, Object) else found

    def put(self, value: Any) -> None:
        """Replace the value in this place."""
        is_member = isinstance(self.holder, Object)
        self.holder[self.at] = (self.holder[self.at][0], value) if is_member else value


@dataclass(frozen=True, slots=True)
class Style:
    """Spelling of a tree: space around commas and colons, and the share of escaped characters."""

    space: str = ""
    escapes: float = 0.0


def parse(document: bytes) -> Any:
    """
    Parse a document to a tree: Object, list, str, bool, None and Literal.

    Raises:
        ValueError: It is not JSON, or nested too deep; its strings may contain any bytes.
    """
    if is_deep(document):
        raise ValueError("nested too deep")
    return json.loads(
        document.decode("utf-8", "surrogateescape"),
        object_pairs_hook=Object,
        parse_float=Literal,
        parse_int=Literal,
        parse_constant=Literal,
        strict=False,
    )


def is_deep(document: bytes) -> bool:
    """Return whether a document is too deep to compare; brackets in strings count."""
    depth = 0
    if document.count(b"[") + document.count(b"{") <= _DEPTH_MAX:
        return False
    for bracket in re.findall(rb"[\[\]{}]", document):
        depth += 1 if bracket in b"[{" else -1
        if depth > _DEPTH_MAX:
            return True
    return False


def spell(tree: Any, style: Style, dice: random.Random) -> bytes:
    """Write a tree as a document."""
    return _spelled(tree, style, dice).encode("utf-8", "surrogateescape")


def _spelled(tree: Any, style: Style, dice: random.Random) -> str:
    comma = f"{style.space},{style.space}"
    match tree:
        case Literal():
            return tree.text
        case str():
            return _string(tree, style, dice)
        case Object():
            members = (
                f"{_string(key, style, dice)}{style.space}:{_spelled(value, style, dice)}"
                for key, value in tree
            )
            return "{" + comma.join(members) + "}"
        case list():
            return "[" + comma.join(_spelled(value, style, dice) for value in tree) + "]"
        case _:
            return json.dumps(tree)


def _string(text: str, style: Style, dice: random.Random) -> str:
    if not style.escapes:
        return '"' + "".join(map(_plain, text)) + '"'
    return (
        '"'
        + "".join(
            _escaped(each) if dice.random() < style.escapes else _plain(each) for each in text
        )
        + '"'
    )


def _plain(each: str) -> str:
    if each in '"\\' or each < " ":
        return json.dumps(each)[1:-1]
    # Bytes that are not UTF-8 stay unchanged; any other half of a pair can only be escaped.
    is_half = "\ud800" <= each <= "\udfff" and not "\udc80" <= each <= "\udcff"
    return f"\\u{ord(each):04x}" if is_half else each


def _escaped(each: str) -> str:
    if "\udc80" <= each <= "\udcff":
        return each
    units = each.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[n : n + 2].hex()}" for n in range(0, len(units), 2))


def slots_of(tree: Any) -> list[Slot]:
    """Return every place in a tree, outer ones first."""
    found: list[Slot] = []
    holders = [tree]
    for holder in holders:
        if isinstance(holder, list):
            here = [Slot(holder, at) for at in range(len(holder))]
            found += here
            holders += [slot.value for slot in here]
    return found


# Changes of one document, as a client or an upstream might make them

_STYLES = (Style(), Style(" "), Style(" \t\r\n"), Style("", 0.1), Style(" ", 1.0))
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
    "reasoning",
    "message",
    "function_call",
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
    Return a document with some values changed, and possibly written in another style.

    Raises:
        ValueError, RecursionError: `parse` cannot read it.
    """
    top = [parse(document)]
    for _ in range(dice.choice((1, 1, 2, 3))):
        if slots := slots_of(top):
            dice.choice(_CHANGES)(slots, dice)
    style = dice.choice(_STYLES) if dice.random() < 0.3 else _STYLES[0]
    return spell(top[0], style, dice) if top else b""


def _leave_out(slots: list[Slot], dice: random.Random) -> None:
    one = dice.choice(slots)
    del one.holder[one.at]


def _swap(slots: list[Slot], dice: random.Random) -> None:
    one, other = dice.choice(slots), dice.choice(slots)
    ours, theirs = one.value, other.value
    if not (_holds(ours, other) or _holds(theirs, one)):
        one.put(theirs)
        other.put(ours)


def _holds(tree: Tree, slot: Slot) -> bool:
    return tree is slot.holder or any(one.holder is slot.holder for one in slots_of(tree))


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


_CHANGES: tuple[_Change, ...] = (
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
