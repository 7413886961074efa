"""Digest: the hash function for fingerprints, lookup keys and hints, and the bytes of a text."""

from hashlib import sha256

import msgspec

DIGEST_BYTES = 16
# Injective: two different sequences of byte strings never pack to the same bytes. Packing in C is
# the cheapest way to distinguish ("ab", "c") from ("a", "bc").
_PACK = msgspec.msgpack.Encoder().encode


def digest(*parts: bytes) -> bytes:
    """Return a 16-byte digest of a sequence of byte strings; the boundaries between them count."""
    return sha256(_PACK(parts)).digest()[:DIGEST_BYTES]


def utf8(text: str) -> bytes:
    """Return the bytes of a text, which may hold lone surrogates."""
    return text.encode("utf-8", "surrogatepass")
