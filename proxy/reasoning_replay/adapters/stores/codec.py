"""
How a turn is written into a store: as it is, or encrypted (see `sealed`).

As `core.turns.encode_turn` gives it, its first byte is the format's version.
"""

from typing import Protocol

from reasoning_replay.core.history.turns import Turn, decode_turn, encode_turn

__all__ = ["Codec", "PlainCodec"]


class Codec(Protocol):
    """Writes turns and reads them."""

    def encode(self, scope: bytes, turn: Turn) -> bytes:
        """Return what is kept of a turn."""
        ...

    def decode(self, scope: bytes, conversation: bytes, turn_id: bytes, kept: bytes) -> Turn | None:
        """Return the turn that was kept there; None for what cannot be read."""
        ...


class PlainCodec:
    """As it is."""

    def encode(self, scope: bytes, turn: Turn) -> bytes:  # noqa: ARG002 - as the other takes it
        """As `Codec.encode`."""
        return encode_turn(turn)

    def decode(
        self,
        scope: bytes,  # noqa: ARG002
        conversation: bytes,  # noqa: ARG002
        turn_id: bytes,  # noqa: ARG002
        kept: bytes,
    ) -> Turn | None:
        """As `Codec.decode`."""
        return decode_turn(kept)
