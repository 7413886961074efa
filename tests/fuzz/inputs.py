"""
Inputs: the format of a fuzzer's bytes.

    4 bytes     the dice: seed of the choices, such as cuts of a stream, profile and coding
    the rest    documents, separated by a byte that is not valid in JSON or in an event
"""

import random
from collections.abc import Iterable
from typing import NamedTuple

HEAD_BYTES = 4
SEPARATOR = b"\x1e"  # record separator, as in RFC 7464


class Input(NamedTuple):
    """
    One decoded input.

    Attributes:
        dice: Makes the same choices for the same input.
        payload: All bytes after the head.
    """

    dice: random.Random
    payload: bytes

    @property
    def documents(self) -> list[bytes]:
        """The payload as a list of documents; never empty."""
        return self.payload.split(SEPARATOR)


def read(data: bytes) -> Input:
    """Decode an input; any bytes are valid."""
    return Input(random.Random(data[:HEAD_BYTES]), data[HEAD_BYTES:])  # noqa: S311 (no secret)


def write(documents: Iterable[bytes], head: bytes = b"") -> bytes:
    """Encode an input; without a head, the head is four zero bytes."""
    return head[:HEAD_BYTES].ljust(HEAD_BYTES, b"\0") + SEPARATOR.join(documents)


def cut(dice: random.Random, stream: bytes, most: int = 12) -> list[bytes]:
    """Cut a stream at random places, with empty chunks too; joined, they are the stream."""
    places = sorted(dice.randint(0, len(stream)) for _ in range(dice.randint(0, most)))
    return [stream[a:b] for a, b in zip([0, *places], [*places, len(stream)], strict=True)]
