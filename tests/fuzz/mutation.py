"""
Mutations: realistic changes of an input, because random bytes rarely get past a parser.

Most changes apply to the tree of one JSON document, or to the events of one stream; the others to
bytes. `mutated` is pure: one seed, one change.
"""

import random
import re

from tests.fuzz.inputs import HEAD_BYTES, SEPARATOR, read, write
from tests.fuzz.trees import tree_changed

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
_END = re.compile(rb"((?:\r\n|\n|\r){2,})")


def mutated(data: bytes, seed: int, max_bytes: int) -> bytes:
    """Return an input that is similar to this one; both have the format of `inputs.read`."""
    dice = random.Random(seed)  # noqa: S311 (no secret)
    given = read(data)
    head, documents = data[:HEAD_BYTES], given.documents
    for _ in range(dice.choice((1, 1, 1, 2, 4))):
        chance = dice.random()
        if chance < 0.05:
            head = dice.randbytes(HEAD_BYTES)
        elif chance < 0.12:
            _rearrange(documents, dice)
        else:
            at = dice.randrange(len(documents))
            documents[at] = _changed(documents[at], dice)
    return write(documents, head)[:max_bytes]


def _rearrange(documents: list[bytes], dice: random.Random) -> None:
    at, to = dice.randrange(len(documents)), dice.randrange(len(documents))
    match dice.randrange(4):
        case 0:
            documents.insert(to, documents[at])
        case 1 if len(documents) > 1:
            del documents[at]
        case 2:
            documents[at], documents[to] = documents[to], documents[at]
        case _:
            documents[at] = documents[to]


def _changed(document: bytes, dice: random.Random) -> bytes:
    if dice.random() < 0.15:
        return _bytes_changed(document, dice)
    try:
        return tree_changed(document, dice)
    except (ValueError, RecursionError):
        pass
    return (
        _stream_changed(document, dice) if b"data:" in document else _bytes_changed(document, dice)
    )


def _bytes_changed(document: bytes, dice: random.Random) -> bytes:
    a, b = sorted(dice.randint(0, len(document)) for _ in range(2))
    b = min(b, a + dice.choice((0, 1, 4, 64, 4096)))
    match dice.randrange(6):
        case 0:
            new = b""
        case 1:
            new = document[a:b] * 2
        case 2:
            new = dice.choice(_BYTES) + document[a:b]
        case 3:
            new = bytes(byte ^ (1 << dice.randrange(8)) for byte in document[a : a + 1])
            b = min(a + 1, len(document))
        case 4:
            c = dice.randint(0, len(document))
            new = document[c : c + dice.choice((1, 8, 64))]
        case _:
            new = dice.randbytes(dice.choice((1, 2, 9)))
    return document[:a] + new.replace(SEPARATOR, b"") + document[b:]


def _stream_changed(stream: bytes, dice: random.Random) -> bytes:
    pieces = _END.split(stream)  # event, its end, event, its end, ...
    ends = range(1, len(pieces), 2)
    at = dice.randrange(len(pieces))
    to = dice.randrange(len(pieces))
    match dice.randrange(10):
        case 0:
            pieces[at : at + 2] = []
        case 1:
            pieces[to - to % 2 : to - to % 2] = [pieces[at - at % 2], b"\n\n"]
        case 2:
            pieces[at], pieces[to] = pieces[to], pieces[at]
        case 3:
            pieces.insert(at, dice.choice(_LINES))
        case 4:
            new = dice.choice((b"\r\n", b"\r", b"\n"))
            if dice.random() < 0.5:
                return re.sub(rb"\r\n|\n|\r", new, stream)
            for end in ends:
                pieces[end] = dice.choice((b"\n\n", b"\r\r", b"\r\n\r\n", b"\n\r\n", b"\r\n\n"))
        case 5:
            return b"".join(pieces[: at + 1])
        case _:
            begun, data, rest = pieces[at].partition(b"data:")
            if data:
                pieces[at] = begun + data + _changed_line(rest, dice)
    return b"".join(pieces)


def _changed_line(line: bytes, dice: random.Random) -> bytes:
    try:
        changed = tree_changed(line, dice)
    except (ValueError, RecursionError):
        return _bytes_changed(line, dice)
    # White space may contain line breaks; then each line needs its own prefix.
    return re.sub(rb"\r\n|\n|\r", b"\ndata:", changed)
