"""
Encryption of values: SEALED, length of the key's id, the id, 12 random bytes, AES-256-GCM.

An encrypted value is bound to its place (scope, conversation, field): moved elsewhere in the store,
it cannot be decrypted. Plain values are still read, so that encryption can be switched on without
losing data. It protects against reading the store, not against writing to it.
"""

import secrets
from collections.abc import Sequence

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from typing_extensions import override

from reasoning_replay.adapters.stores.base import Codec, Name
from reasoning_replay.adapters.stores.encryption_keys import EncryptionKey

SEALED = b"\xe1"
# Random nonces are safe for 2**32 values of one key (NIST SP 800-38D, 8.3).
NONCE_BYTES = 12


class EncryptedCodec(Codec):
    """Codec that encrypts with the first key, the newest, and decrypts with any key."""

    def __init__(self, keys: Sequence[EncryptionKey]) -> None:
        self._header = _header(keys[0])
        self._first = AESGCM(keys[0].secret)
        self._by_header = {_header(key): AESGCM(key.secret) for key in keys}

    @override
    def encode(self, name: Name, field: bytes, value: bytes) -> bytes:
        nonce = secrets.token_bytes(NONCE_BYTES)
        place = _place(self._header, *name, field)
        return self._header + nonce + self._first.encrypt(nonce, value, place)

    @override
    def decode(self, name: Name, field: bytes, value: bytes) -> bytes | None:
        if value[:1] != SEALED:
            return value
        end = 2 + int.from_bytes(value[1:2])
        header, nonce = value[:end], value[end : end + NONCE_BYTES]
        key = self._by_header.get(header)
        if key is None or len(nonce) < NONCE_BYTES:
            return None
        sealed = memoryview(value)[end + NONCE_BYTES :]
        try:
            return key.decrypt(nonce, sealed, _place(header, *name, field))
        except InvalidTag:
            return None


def _header(key: EncryptionKey) -> bytes:
    name = key.id.encode("ascii")
    return SEALED + bytes([len(name)]) + name


def _place(*parts: bytes) -> bytes:
    """Join byte strings so that different lists never give the same result."""
    return b"".join(len(part).to_bytes(2) + part for part in parts)
