"""Codec: the stored form of the values of records, plain or encrypted (see `encryption`)."""

from collections.abc import Mapping
from typing import Protocol


class Codec(Protocol):
    """Encoder and decoder of values. None in place of a codec: values are stored plain."""

    def encode(self, scope: bytes, conversation: bytes, field: bytes, value: bytes) -> bytes:
        """Return the stored form of a record's value; `field` is the record's name."""
        ...

    def decode(self, scope: bytes, conversation: bytes, field: bytes, value: bytes) -> bytes | None:
        """Return the value of a stored form; None if it cannot be decoded."""
        ...


def encoded(
    codec: Codec | None, scope: bytes, conversation: bytes, records: Mapping[bytes, bytes]
) -> dict[bytes, bytes]:
    """Return records of a conversation in their stored form."""
    if codec is None:
        return dict(records)
    return {
        field: codec.encode(scope, conversation, field, value) for field, value in records.items()
    }


def decoded(
    codec: Codec | None, scope: bytes, conversation: bytes, kept: Mapping[bytes, bytes]
) -> dict[bytes, bytes]:
    """Return the records that can be decoded; others are omitted."""
    if codec is None:
        return dict(kept)
    plain = (
        (field, codec.decode(scope, conversation, field, value)) for field, value in kept.items()
    )
    return {field: value for field, value in plain if value is not None}
