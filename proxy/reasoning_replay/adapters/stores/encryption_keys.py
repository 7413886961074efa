"""
Encryption keys of the store: parsed from the text of the setting `encryption_keys`.

The text has `id:key` pairs separated by commas; each key is 32 bytes in base64. No error message
quotes a key.
"""

import base64
import binascii
import re
from typing import Final, NamedTuple

KEY_BYTES: Final = 32


class EncryptionKey(NamedTuple):
    """One key with its short name, which is stored with each value that it encrypts."""

    id: str
    secret: bytes

    def __repr__(self) -> str:
        """Show only the id, because tracebacks may contain this."""
        return f"EncryptionKey({self.id!r})"


def parse_keys(written: str) -> tuple[EncryptionKey, ...]:
    """
    Return the keys, with the encrypting key first; () for an empty string.

    Raises:
        ValueError: The text cannot be parsed, or two keys have the same id.
    """
    keys = tuple(
        _key(number, text.strip()) for number, text in enumerate(written.split(","), 1) if written
    )
    if len({key.id for key in keys}) < len(keys):
        raise ValueError("two keys have the same id; use different ids, such as 2026-01")
    return keys


def _key(number: int, written: str) -> EncryptionKey:
    way_out = "use id:key, with a key from `openssl rand -base64 32`"
    name, colon, encoded = written.partition(":")
    # Without a colon the whole text may be the key: no part of it is shown.
    if not colon or not re.fullmatch(r"[A-Za-z0-9_.-]{1,32}", name):
        raise ValueError(f"key {number} has no id (letters, digits, _ . -); {way_out}")
    try:
        plain = encoded.rstrip("=").replace("-", "+").replace("_", "/")
        secret = base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(f"key {number} is not base64; {way_out}") from None
    if len(secret) != KEY_BYTES:
        raise ValueError(f"key {number} has {len(secret)} bytes, not {KEY_BYTES}; {way_out}")
    return EncryptionKey(name, secret)
