"""Codec: how a store writes the value of a record, as it is or encrypted (see `encryption`)."""

from collections.abc import Mapping
from typing import Protocol

__all__ = ["Codec", "decoded", "encoded"]


class Codec(Protocol):
    """Writes values and reads them; None in place of a codec: they are written as they are."""

    def encode(self, scope: bytes, conversation: bytes, field: bytes, value: bytes) -> bytes:
        """Return what is written for the value of a record; `field` is the record's name."""
        ...

    def decode(self, scope: bytes, conversation: bytes, field: bytes, value: bytes) -> bytes | None:
        """Return the value that was written there; None for what cannot be read."""
        ...


def encoded(
    codec: Codec | None, scope: bytes, conversation: bytes, records: Mapping[bytes, bytes]
) -> dict[bytes, bytes]:
    """Return records of a conversation as they are written."""
    if codec is None:
        return dict(records)
    return {
        field: codec.encode(scope, conversation, field, value) for field, value in records.items()
    }


def decoded(
    codec: Codec | None, scope: bytes, conversation: bytes, kept: Mapping[bytes, bytes]
) -> dict[bytes, bytes]:
    """Return those records that can be read."""
    if codec is None:
        return dict(kept)
    plain = (
        (field, codec.decode(scope, conversation, field, value)) for field, value in kept.items()
    )
    return {field: value for field, value in plain if value is not None}
