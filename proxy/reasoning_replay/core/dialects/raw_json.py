"""Raw JSON: strings, arrays and objects put together from JSON, none of which is decoded."""

from collections.abc import Iterable, Mapping

from msgspec import json

__all__ = ["array_of", "body_of", "object_of", "string_of"]


def body_of(value: bytes) -> bytes:
    """Return the body of a string, as it is written; b"" for another value."""
    return value[1:-1] if value[:1] == b'"' else b""


def string_of(body: bytes | bytearray) -> bytes:
    """Return the string with this body."""
    return b'"' + body + b'"'


def array_of(values: Iterable[bytes]) -> bytes:
    """Return the array of these values."""
    return b"[" + b",".join(values) + b"]"


def object_of(members: Mapping[str, bytes]) -> bytes:
    """Return the object with these members."""
    return b"{" + b",".join([json.encode(name) + b":" + members[name] for name in members]) + b"}"
