"""Digest: the one hash that fingerprints, lookup keys and hints are made with."""

from hashlib import sha256

import msgspec

__all__ = ["DIGEST_BYTES", "digest"]

DIGEST_BYTES = 16
# Injective: no other sequence of byte strings packs to the same bytes. This is the cheapest way in
# C to keep ("ab", "c") and ("a", "bc") apart.
_PACK = msgspec.msgpack.Encoder().encode


def digest(*parts: bytes) -> bytes:
    """Return a 16-byte digest of a sequence of byte strings; ("ab", "c") and ("a", "bc") differ."""
    return sha256(_PACK(parts)).digest()[:DIGEST_BYTES]
