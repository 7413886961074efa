"""Models: slow and plain versions of the product's functions, to compare it with."""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from reasoning_replay.core.wire.json_spans import Edit

# Deeper documents are not compared.
_DEPTH_MAX = 150
Json = Any


@dataclass(frozen=True, slots=True)
class Literal:
    """A number, as it is spelled."""

    text: str


class Object(list[tuple[str, Any]]):
    """The members of an object, in order; a key may occur twice."""


class Unclear(ValueError):
    """Not JSON, or JSON that readers may disagree on: its outermost object repeats a key."""


def json_of(document: bytes) -> Json:
    """
    Decode a document that is one object.

    Raises:
        Unclear: It is not an object, or a key occurs twice.
    """
    try:
        tree = json.loads(
            document.decode("utf-8", "surrogateescape"),
            object_pairs_hook=Object,
            parse_float=Literal,
            parse_int=Literal,
            parse_constant=_no_constant,
        )
    except (ValueError, RecursionError) as error:
        raise Unclear(str(error)) from error
    if not isinstance(tree, Object) or len(dict(tree)) < len(tree):
        raise Unclear("not an object, or a key twice")
    return tree


def _no_constant(name: str) -> Json:
    raise ValueError(name)  # NaN and Infinity are not JSON


def meaning(value: bytes) -> Json:
    """Decode any JSON value; the spelling of numbers counts, white space and escapes do not."""
    return json_of(b'{"":' + value + b"}")[0][1]


def is_deep(document: bytes) -> bool:
    """Return whether a document is too deep to compare; brackets in strings count."""
    depth = 0
    for bracket in re.findall(rb"[\[\]{}]", document):
        depth += 1 if bracket in b"[{" else -1
        if depth > _DEPTH_MAX:
            return True
    return False


def less(item: Json, keys: Iterable[str]) -> Json:
    """Return an object without some members."""
    left = set(keys)
    return Object(pair for pair in item if pair[0] not in left)


def spliced(body: bytes, edits: Sequence[Edit]) -> tuple[bytes, bytes]:
    """Return a body with the edits applied one by one, and the body with them undone."""
    done, undone = body, body
    for n, edit in sorted(
        enumerate(edits), key=lambda pair: (pair[1].start, pair[0]), reverse=True
    ):
        assert 0 <= edit.start <= edit.end <= len(body), (n, edit)
        done = done[: edit.start] + edit.new + done[edit.end :]
    at = 0
    kept: list[bytes] = []
    for edit in sorted(edits, key=lambda edit: edit[:2]):
        assert edit.start >= at, "edits overlap"
        kept += [body[at : edit.start], body[edit.start : edit.end]]
        at = edit.end
    undone = b"".join([*kept, body[at:]])
    return done, undone


def data_of(stream: bytes) -> list[bytes]:
    """
    Return the data of every event of a stream, including a last one that was cut off.

    Line by line, as in the standard: https://html.spec.whatwg.org/multipage/server-sent-events.html
    """
    found: list[bytes] = []
    data: list[bytes] = []
    for line in re.split(rb"\r\n|\n|\r", stream.removeprefix(b"\xef\xbb\xbf")):
        if line:
            name, _, value = line.partition(b":")
            if name == b"data":
                data.append(value.removeprefix(b" "))
        elif data:
            found.append(b"\n".join(data))
            data = []
    return [*found, b"\n".join(data)] if data else found
