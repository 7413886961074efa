"""
Encryption keys of the store, as an operator writes them.

`id:key` pairs separated by commas; each key is 32 bytes in base64. No message quotes a key.
"""

import base64
import binascii
import re
from typing import Final, NamedTuple

__all__ = ["EncryptionKey", "parse_keys"]

KEY_BYTES: Final = 32


class EncryptionKey(NamedTuple):
    """One key with its short name, which is stored with each value that it encrypts."""

    id: str
    secret: bytes

    def __repr__(self) -> str:
        """Show the name only: keys get into tracebacks."""
        return f"EncryptionKey({self.id!r})"


def parse_keys(written: str) -> tuple[EncryptionKey, ...]:
    """
    Return the keys, the one that encrypts first; () for an empty text.

    Raises:
        ValueError: The text cannot be parsed, or two keys have the same id.
    """
    keys = tuple(
        _key(number, text.strip()) for number, text in enumerate(written.split(","), 1) if written
    )
    if len({key.id for key in keys}) < len(keys):
        raise ValueError("two keys have the same id; give each its own, as 2026-01")
    return keys


def _key(number: int, written: str) -> EncryptionKey:
    way_out = "use id:key, the key from `openssl rand -base64 32`"
    name, colon, encoded = written.partition(":")
    # Without the colon it may all be the key: nothing of it is shown.
    if not colon or not re.fullmatch(r"[A-Za-z0-9_.-]{1,32}", name):
        raise ValueError(f"key {number} has no id of letters, digits, _ . -; {way_out}")
    try:
        plain = encoded.rstrip("=").replace("-", "+").replace("_", "/")
        secret = base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(f"key {number} is not base64; {way_out}") from None
    if len(secret) != KEY_BYTES:
        raise ValueError(f"key {number} has {len(secret)} bytes, not {KEY_BYTES}; {way_out}")
    return EncryptionKey(name, secret)
