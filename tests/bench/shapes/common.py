"""Common parts of the shapes of all dialects. All are functions of their arguments."""

import base64
import hashlib
import json
from collections.abc import Callable
from typing import Any

Item = dict[str, Any]

STAMP = b'"obfuscation":"'
"""Text before the 16 digits of a delta's send time, in ns of the monotonic clock."""

HOLE = "#" * 12
"""Text in place of a number; see `numbered`."""

_BLOB_BYTES = 1_200


def compact(value: Any) -> bytes:
    """Write JSON without white space."""
    return json.dumps(value, separators=(",", ":")).encode()


def digits(*of: object, count: int = 48) -> str:
    """Return `count` hexadecimal digits that look random."""
    return hashlib.shake_128(repr(of).encode()).hexdigest(count // 2)


def blob(*of: object, size: int = _BLOB_BYTES) -> str:
    """Return a text in the form of encrypted reasoning, of about `size` characters."""
    raw = hashlib.shake_128(repr(of).encode()).digest(size * 3 // 4)
    return "gAAAAA" + base64.urlsafe_b64encode(raw).decode()


def lines_of(chars: int, *of: object) -> str:
    """Return lines of 60 characters, `chars` in total."""
    words = digits(*of, count=chars)
    return "\n".join(words[at : at + 60] for at in range(0, chars, 60))


def numbered(form: bytes) -> Callable[[int], bytes]:
    """Return a builder that writes a number, of 12 digits, in place of each HOLE."""
    template = form.replace(b"%", b"%%").replace(HOLE.encode(), b"%(n)012d")
    return lambda number: template % {b"n": number}


def stamped(event: bytes) -> bytes:
    """Return an event whose data is an object, with a place for its send time at the end of it."""
    return event.removesuffix(b"}\n\n") + b"," + STAMP + b'%016d"}\n\n'
