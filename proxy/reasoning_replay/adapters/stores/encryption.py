"""
Turns, encrypted: SEALED, length of the key's id, the id, 12 random bytes, AES-256-GCM of `Plain`.

What is sealed is bound to its place (scope, conversation, turn): moved elsewhere in the store,
it does not open. With keys, plain values are still read, so that encryption can be switched on
without losing anything. It protects against who reads the store, not against who writes to it.
"""

import secrets
from collections.abc import Sequence

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from reasoning_replay.core.history.turns import Turn, decode_turn, encode_turn
from reasoning_replay.settings.encryption_keys import Key

__all__ = ["NONCE_BYTES", "SEALED", "EncryptedCodec"]

SEALED = b"\xe1"
# Random ones are safe for 2**32 values of one key (NIST SP 800-38D, 8.3).
NONCE_BYTES = 12


class EncryptedCodec:
    """Encrypted with the first key, opened with any."""

    def __init__(self, keys: Sequence[Key]) -> None:
        """Take one key or more, the newest first."""
        self._header = _header(keys[0])
        self._first = AESGCM(keys[0].secret)
        self._by_header = {_header(key): AESGCM(key.secret) for key in keys}

    def encode(self, scope: bytes, turn: Turn) -> bytes:
        """As `Codec.encode`."""
        nonce = secrets.token_bytes(NONCE_BYTES)
        place = _place(self._header, scope, turn.conversation, turn.id)
        return self._header + nonce + self._first.encrypt(nonce, encode_turn(turn), place)

    def decode(self, scope: bytes, conversation: bytes, turn_id: bytes, kept: bytes) -> Turn | None:
        """As `Codec.decode`."""
        if kept[:1] != SEALED:
            return decode_turn(kept)
        end = 2 + int.from_bytes(kept[1:2])
        header, nonce = kept[:end], kept[end : end + NONCE_BYTES]
        key = self._by_header.get(header)
        if key is None or len(nonce) < NONCE_BYTES:
            return None
        try:
            opened = key.decrypt(
                nonce,
                memoryview(kept)[end + NONCE_BYTES :],
                _place(header, scope, conversation, turn_id),
            )
        except InvalidTag:
            return None
        return decode_turn(opened)


def _header(key: Key) -> bytes:
    name = key.id.encode("ascii")
    return SEALED + bytes([len(name)]) + name


def _place(*parts: bytes) -> bytes:
    """Join names so that no two lists of them give the same."""
    return b"".join(len(part).to_bytes(2) + part for part in parts)
