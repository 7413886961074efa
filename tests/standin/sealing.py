"""
Blobs (`encrypted_content`), made and checked: opaque to clients, bound to their user.

They look like real ones (Fernet: base64url, first byte 0x80, eight bytes of creation time, so they
start with `gAAAA`, as recorded) and behave like them: bound to the caller, to the model family and
to the item. They protect nothing of value: the key is the stand-in's own.
"""

import base64
import binascii
import hashlib
import hmac
from typing import Literal

import msgspec
from msgspec import Struct

__all__ = ["Binding", "Sealer", "Which"]

Which = Literal["done", "completed"]
"""The event that carries a blob: two events, two blobs of one length, both valid."""

_VERSION = b"\x80"
_TIME_BYTES = 8
_NONCE_BYTES = 16
_TAG_BYTES = 32
_HEAD_BYTES = len(_VERSION) + _TIME_BYTES + _NONCE_BYTES
_SNAPSHOT_BYTES = 600
_PLAIN_BYTES = 700
"""Plain sizes in bytes. Sealed, they give about 860 and 1,000 characters, as recorded."""


class Binding(Struct, frozen=True):
    """The caller, the model family and the item that one blob is valid for."""

    caller: str
    family: str
    item_id: str


class Sealer:
    """Issuer and reader of blobs; two sealers with one key open each other's blobs."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def seal(self, binding: Binding, which: Which, issued_s: int) -> str:
        """
        Issue the blob of a finished reasoning item.

        Args:
            binding: The caller, the model family and the item it is for.
            which: The event that carries it; decides the bytes, not the meaning.
            issued_s: Unix time, seconds.
        """
        plain = msgspec.json.encode(binding).ljust(_PLAIN_BYTES)
        head = self._head(binding.item_id, which, issued_s)
        body = head + self._veil(plain, head)
        return base64.urlsafe_b64encode(body + self._tag(body)).decode()

    def snapshot(self, item_id: str, issued_s: int) -> str:
        """Issue the shorter blob of `output_item.added`: well-formed, and never accepted."""
        head = self._head(item_id, "added", issued_s)
        body = head + self._veil(b" " * _SNAPSHOT_BYTES, head)
        return base64.urlsafe_b64encode(body + self._tag(body)[::-1]).decode()

    def maybe_open(self, blob: str) -> Binding | None:
        """Read a blob; return None if it is damaged, a snapshot, or not issued with this key."""
        try:
            sealed = base64.b64decode(blob.encode(), altchars=b"-_", validate=True)
        except (binascii.Error, UnicodeEncodeError):
            return None
        # Decoders accept "+" for "-", "/" for "_" and any padding bits; only the issued form opens.
        if base64.urlsafe_b64encode(sealed).decode() != blob:
            return None
        body, tag = sealed[:-_TAG_BYTES], sealed[-_TAG_BYTES:]
        if not hmac.compare_digest(tag, self._tag(body)):
            return None
        return msgspec.json.decode(self._veil(body[_HEAD_BYTES:], body[:_HEAD_BYTES]), type=Binding)

    def _head(self, item_id: str, which: str, issued_s: int) -> bytes:
        nonce = self._digest(f"{item_id}/{which}".encode())[:_NONCE_BYTES]
        return _VERSION + issued_s.to_bytes(_TIME_BYTES, "big") + nonce

    def _veil(self, text: bytes, head: bytes) -> bytes:
        """XOR with a stream derived from the key and the head; its own inverse."""
        veil = hashlib.shake_256(self._key + head).digest(len(text))
        return bytes(a ^ b for a, b in zip(text, veil, strict=True))

    def _tag(self, body: bytes) -> bytes:
        return self._digest(b"tag" + body)

    def _digest(self, text: bytes) -> bytes:
        return hmac.digest(self._key, text, "sha256")
