"""
Mutations: realistic changes of an input, because random bytes rarely get past a parser.

A change finds parts of a document (JSON values and members, events of a stream, or any bytes) and
puts something else in the place of one. It works on the text, so repeated keys, odd literals and
JSON inside of a stream need no tree. `mutated` is pure: one seed, one change.
"""

import random
import re
from collections import defaultdict
from typing import NamedTuple

from tests.fuzz.inputs import HEAD_BYTES, SEPARATOR, read, write

_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}:,]|[^\s\[\]{}:,"]+', re.DOTALL)
_EVENT = re.compile(rb".+?(?:(?:\r\n|\n|\r){2,}|\Z)", re.DOTALL)
_LINE_END = re.compile(rb"\r\n|\n|\r")
_ENDS = (b"\n\n", b"\r\r", b"\r\n\r\n", b"\n\r\n", b"\r\n\n", b"\n", b"")
_BYTES = (b"\xef\xbb\xbf", b"\xff", b"\x00", b"\r", b"\n", b"\r\n", b"\\", b'"', b"{", b"]", b",")
_LINES = (
    b"data: [DONE]\n\n",
    b": keepalive\n\n",
    b"event: ping\ndata: {}\n\n",
    b"data:\n\n",
    b"id: 1\nretry: 5\n",
    b"data: \n",
    b"\n",
    b"\r\n\r",
    b"\xef\xbb\xbf",
    b"data: response.completed\n\n",
)
# Separated by spaces.
_KEYS = (
    b"id type call_id name role status content summary encrypted_content arguments input output "
    b"action include store model instructions previous_response_id conversation background "
    b"prompt_cache_key output_index response item error message param code created_by "
    b"input_transformations sequence_number \\u0069d \\ud83d"
)
_WORDS = (
    b"reasoning message function_call assistant user system in_progress incomplete failed "
    b"reasoning.encrypted_content gpt-5 gpt-4o call_0 \xff\x80 \x00 \\u0000 \\ud83d "
    b'\\ude00\\ud83d \\u12 \\\\\\" \xf0\x9f\x98\x80 \xe2\x80\xa8'
)
_ODD = (
    *(b'"%b"' % word for word in (*_WORDS.split(b" "), b"", b"a" * 1025)),
    *(b"null", b"true", b"false", b"0", b"-1", b"1e400", b"-0.0", b"9" * 30, b"1" + b"0" * 5000),
    *(b"NaN", b"-Infinity", b"01", b"tru", b"", b'"\\ud83d'),
    *(b"[" * 200 + b"]" * 200, b"[" * 3000, b'{"a":' * 1500 + b"1" + b"}" * 1500),
)
# Longest part that is repeated; a repeated one may be repeated again.
_REPEATED_MAX = 2000


class _Part(NamedTuple):
    start: int
    end: int


def mutated(data: bytes, seed: int, max_bytes: int) -> bytes:
    """Return an input that is similar to this one; both have the format of `inputs.read`."""
    dice = random.Random(seed)  # noqa: S311 (no secret)
    head, documents = data[:HEAD_BYTES], read(data).documents
    for _ in range(dice.choice((1, 1, 1, 2, 4))):
        chance = dice.random()
        at, to = dice.randrange(len(documents)), dice.randrange(len(documents))
        if chance < 0.05:
            head = dice.randbytes(HEAD_BYTES)
        elif chance < 0.09:
            documents.insert(to, documents[at])
        elif chance < 0.12 and len(documents) > 1:
            del documents[at]
        else:
            documents[at] = _changed(documents[at], dice).replace(SEPARATOR, b"")
    return write(documents, head)[:max_bytes]


def _changed(document: bytes, dice: random.Random) -> bytes:
    """Change one kind of part: an event of a stream, a value of JSON, or any bytes."""
    chance = dice.random()
    if b"data:" in document and chance < 0.4:
        return _event_changed(document, dice)
    values = _values(document) if chance < 0.85 else []
    return _value_changed(document, values, dice) if values else _bytes_changed(document, dice)


def _put(document: bytes, part: _Part, new: bytes) -> bytes:
    return document[: part.start] + new + document[part.end :]


def _swapped(document: bytes, one: _Part, other: _Part) -> bytes:
    """Exchange two parts, or copy one over the other if they overlap."""
    one, other = sorted((one, other))
    mine, theirs = document[slice(*one)], document[slice(*other)]
    if one.end > other.start:
        return _put(document, one, theirs)
    return _put(_put(document, other, mine), one, theirs)


# JSON


def _values(document: bytes) -> list[_Part]:
    """Locate the values, keys and members of all JSON in a text, outer ones first."""
    by_depth: defaultdict[int, list[_Part]] = defaultdict(list)
    opened: list[int] = []
    keys: dict[int, int] = {}  # depth -> start of the key whose value follows
    for token in _TOKEN.finditer(document):
        part = _Part(*token.span())
        match token[0]:
            case b"{" | b"[":
                opened.append(part.start)
                continue
            case b",":
                continue
            case b":":
                if by_depth[len(opened)]:
                    keys[len(opened)] = by_depth[len(opened)][-1].start
                continue
            case b"}" | b"]":
                if not opened:
                    continue
                part = _Part(opened.pop(), part.end)
        here = by_depth[len(opened)]
        here.append(part)
        if len(opened) in keys:
            here.append(_Part(keys.pop(len(opened)), part.end))
    return [part for depth in sorted(by_depth) for part in by_depth[depth]]


def _value_changed(document: bytes, values: list[_Part], dice: random.Random) -> bytes:
    one = dice.choice(values)
    raw = document[slice(*one)]
    # More often an early one, because the product reads the outer values.
    outer = values[int(len(values) * dice.random() ** 3)]
    chance = dice.randrange(12)
    if chance == 0:
        rest = document[one.end :].lstrip()
        return document[: one.start] + rest.removeprefix(b",")
    if chance < 3:
        return _swapped(document, one, dice.choice(values))
    if chance < 6:
        return _put(document, outer, dice.choice(_ODD))
    if chance == 6:
        space = dice.choice((b" ", b" \t\r\n"))
        return _put(document, outer, _TOKEN.sub(rb"\g<0>" + space, document[slice(*outer)]))
    return _put(document, one, _grown(raw, dice) if chance < 11 else _key(dice))


def _grown(raw: bytes, dice: random.Random) -> bytes:
    """Repeat a value or its text, wrap it, add a member to it, or write it with escapes."""
    value = dice.choice(_ODD) if dice.random() < 0.5 else raw
    if raw[:1] == b"{" and dice.random() < 0.7:
        return b"{" + _key(dice) + b":" + value + b"," + raw[1:]
    if raw[:1] == b'"' and raw[-1:] == b'"' and dice.random() < 0.7:
        share = dice.choice((0.1, 1.0, 0))
        inner = raw[1:-1]
        if share:
            return b'"' + _escaped(inner, share, dice) + b'"'
        return b'"' + inner[:_REPEATED_MAX] * dice.choice((0, 2, 40)) + b'"'
    if dice.random() < 0.5:
        depth = dice.choice((1, 2, 120))
        left, right = dice.choice(((b"[", b"]"), (b'{"a":', b"}")))
        return left * depth + raw + right * depth
    return b",".join([raw] * (dice.choice((2, 2, 30)) if len(raw) < _REPEATED_MAX else 2))


def _key(dice: random.Random) -> bytes:
    return b'"%b"' % dice.choice(_KEYS.split(b" "))


def _escaped(text: bytes, share: float, dice: random.Random) -> bytes:
    r"""Write some letters and digits as `\u0061`; those after a backslash stay."""

    def one(found: re.Match[bytes]) -> bytes:
        return b"\\u%04x" % found[0][0] if dice.random() < share else found[0]

    return re.sub(rb"(?<![\\\w])\w", one, text) if share else text


# Streams and bytes


def _event_changed(stream: bytes, dice: random.Random) -> bytes:
    events = [_Part(*found.span()) for found in _EVENT.finditer(stream)]
    one = dice.choice(events)
    raw = stream[slice(*one)]
    if dice.random() < 0.3:
        return _swapped(stream, one, dice.choice(events))
    middle = dice.randint(0, len(raw))
    ends = dice.choice(_ENDS)
    every = b"".join(stream[slice(*each)].rstrip(b"\r\n") + ends for each in events)
    new = (
        _put(stream, one, b""),
        _put(stream, one, raw * 2),
        _put(stream, one, raw + dice.choice(_LINES)),
        _put(stream, one, raw[:middle] + b"\ndata: " + raw[middle:]),
        every,
        _LINE_END.sub(dice.choice((b"\r\n", b"\r", b"\n")), stream),
        stream[: one.end],
    )
    return dice.choice(new)


def _bytes_changed(document: bytes, dice: random.Random) -> bytes:
    start = dice.randint(0, len(document))
    part = _Part(start, min(len(document), start + dice.choice((0, 1, 4, 64, 4096))))
    raw = document[slice(*part)]
    other = dice.randint(0, len(document))
    new = (
        b"",
        raw * 2,
        dice.choice(_BYTES) + raw,
        bytes(byte ^ (1 << dice.randrange(8)) for byte in raw[:1]) + raw[1:],
        document[other : other + dice.choice((1, 8, 64))],
        dice.randbytes(dice.choice((1, 2, 9))),
    )
    return _put(document, part, dice.choice(new))
