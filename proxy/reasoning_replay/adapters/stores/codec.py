"""Codec: how a store writes the value of a record, as it is or encrypted (see `encryption`)."""

from typing import Protocol

__all__ = ["Codec", "PlainCodec"]


class Codec(Protocol):
    """Writes values and reads them."""

    def encode(self, scope: bytes, conversation: bytes, field: bytes, value: bytes) -> bytes:
        """Return what is written for the value of a record; `field` is the record's name."""
        ...

    def decode(self, scope: bytes, conversation: bytes, field: bytes, value: bytes) -> bytes | None:
        """Return the value that was written there; None for what cannot be read."""
        ...


class PlainCodec:
    """Values as they are."""

    def encode(
        self,
        scope: bytes,  # noqa: ARG002 - as the other takes it
        conversation: bytes,  # noqa: ARG002
        field: bytes,  # noqa: ARG002
        value: bytes,
    ) -> bytes:
        """As `Codec.encode`."""
        return value

    decode = encode
