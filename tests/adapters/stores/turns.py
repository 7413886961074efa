"""Turns to keep, and the questions that find them again."""

from hashlib import blake2b

from reasoning_replay.core.history.lookup_keys import Lookup
from reasoning_replay.core.history.turns import Context, Emitted, Reasoning, Turn

__all__ = ["SCOPE", "asked", "bytes_of", "key", "turn"]

SCOPE = b"s" * 16


def bytes_of(name: str) -> bytes:
    """Return 16 bytes that stand for a name: an id, a scope or a key."""
    return blake2b(name.encode(), digest_size=16).digest()


key = bytes_of


def turn(name: str, conversation: str = "c", created_ms: int = 0, size: int = 10) -> Turn:
    """Return a turn with one call, led to by reasoning of so many bytes."""
    part = Reasoning(f"rs_{name}", b"x" * size, (b"b" * 16,), has_blob=True)
    call = Emitted("function_call", f"fc_{name}", f"call_{name}", "f", b"d" * 16, (part,))
    return Turn(
        id=bytes_of(name),
        conversation=bytes_of(conversation),
        parent=b"",
        models=("gpt-5.4",),
        is_stored=True,
        created_ms=created_ms,
        context=Context(chain=b"c" * 16, tail=b"t" * 8, depth=1, is_known=True),
        items=(call,),
    )


def asked(*keys: bytes) -> list[Lookup]:
    """Ask for items that have one key each."""
    return [Lookup(place, [key]) for place, key in enumerate(keys)]
