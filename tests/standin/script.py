"""
Script: the words of the scripted models, which follow from a seed and a place alone.

A loop is written as one string per response. It restarts with every user message; its position
follows from the results since then, so a model needs no state.
"""

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

__all__ = [
    "CALLS",
    "TOPIC_CHARS",
    "Cue",
    "Source",
    "arguments",
    "part_of",
    "pieces",
    "subject",
    "words",
]

TOPIC_CHARS = 40
CALLS = frozenset({"fc", "ctc"})
"""The signs of calls in a loop."""
PIECE_CHARS = 9
_SIGNATURE_BYTES = 180
_REPEATED = "rain"


class Cue(Struct, frozen=True, kw_only=True):
    """
    The facts of a request that the next turn depends on.

    Attributes:
        answered: Results of tools since the last user message.
        round: Questions of the user.
        topic: The start of the last one.
        tools: The functions that may be called.
        thinks: Whether thinking is on.
    """

    answered: int
    round: int
    topic: str
    tools: Sequence[Mapping[str, Any]]
    thinks: bool


class Source:
    """Digits, ids and thoughts of one response, which follow from its seed."""

    def __init__(self, seed: bytes) -> None:
        self._seed = seed

    def digits(self, label: str, count: int) -> str:
        """Return hexadecimal digits for a label."""
        return hashlib.shake_256(self._seed + label.encode()).hexdigest(count)[:count]

    def signature(self, label: str) -> str:
        """Return a signature: standard base64, with all of its characters."""
        raw = hashlib.shake_256(self._seed + label.encode()).digest(_SIGNATURE_BYTES)
        return base64.b64encode(raw + b"\xfb\xff\xfe.").decode()

    def thought(self, topic: str) -> str:
        """Return reasoning in words, with characters that JSON escapes in different ways."""
        return (
            f"Thought {self.digits('thought', 12)} about “{topic}”.\n\n"
            'A "quoted" word, a path C:\\tmp, 7 °C, 雨, a tab\t, a slash / and '
        ) + "\U0001f327" * 10  # so many that pieces of any odd size end inside one of them


def part_of(loop: Sequence[str], answered: int) -> str:
    """Return the response of a loop after as many calls as were answered; later, its last one."""
    *rounds, last = loop
    called = 0
    for parts in rounds:
        if answered <= called:
            return parts
        called += sum(part in CALLS for part in parts.split())
    return last


def subject(cue: Cue, index: int, *, repeats: bool) -> str:
    """Return what a call is about."""
    if repeats:
        return f"{_REPEATED} {index}"
    return f"{cue.topic}, round {cue.round}, step {cue.answered}, part {index}"


def arguments(schema: Mapping[str, Any], subject: str, index: int) -> dict[str, object]:
    """Return a value for each argument of a tool with this schema; `query` if it has none."""
    wanted = schema.get("properties") or {"query": {"type": "string"}}
    values: Mapping[str, object] = {"integer": index, "number": index, "boolean": True}
    return {name: values.get(_type_of(schema), subject) for name, schema in wanted.items()}


def _type_of(schema: object) -> str:
    """Return the type that a schema names, the first one of a list; "None" without any."""
    named = schema.get("type") if isinstance(schema, Mapping) else None
    return str(named[0] if isinstance(named, list) and named else named)


def words(cue: Cue, *, calls: bool, repeats: bool) -> str:
    """Return the text of a response."""
    what = _REPEATED if repeats else f"{cue.topic}, round {cue.round}, step {cue.answered}"
    return f"Let me look into {what}." if calls else f"Here is the answer about {what}."


def pieces(text: str | None, halves: bool) -> Iterator[str]:
    """Yield a text in pieces of some characters, or of UTF-16 units if pieces may be halves."""
    if not halves:
        for at in range(0, len(text or ""), PIECE_CHARS):
            yield (text or "")[at : at + PIECE_CHARS]
        return
    units = (text or "").encode("utf-16-le")
    for at in range(0, len(units), 2 * PIECE_CHARS):
        yield units[at : at + 2 * PIECE_CHARS].decode("utf-16-le", "surrogatepass")
