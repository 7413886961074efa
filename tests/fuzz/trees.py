"""JSON trees that keep repeated keys and literals of any form, which a decoder would lose."""

import json
import random
import re
from dataclasses import dataclass
from typing import Any

__all__ = ["Literal", "Object", "Slot", "Style", "is_deep", "parse", "slots_of", "spell"]

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
