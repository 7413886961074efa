"""
What a fuzzer's bytes mean: a few that choices are drawn by, and documents behind them.

    4 bytes     the dice: where streams are cut, which profile, which coding
    the rest    documents, separated by a byte that no JSON and no event may hold as it is
"""

import random
from collections.abc import Iterable, Mapping
from typing import NamedTuple

__all__ = ["HEAD_BYTES", "Input", "cut", "read", "read_records", "write", "write_records"]

HEAD_BYTES = 4
SEPARATOR = b"\x1e"  # record separator, as in RFC 7464


class Input(NamedTuple):
    """
    One input, taken apart.

    Attributes:
        dice: Gives the same choices for the same input.
        payload: Everything behind the head.
    """

    dice: random.Random
    payload: bytes

    @property
    def documents(self) -> list[bytes]:
        """What the payload consists of, where it consists of documents; never empty."""
        return self.payload.split(SEPARATOR)


def read(data: bytes) -> Input:
    """Take an input apart; any bytes are one."""
    return Input(random.Random(data[:HEAD_BYTES]), data[HEAD_BYTES:])  # noqa: S311 (no secret)


def write(documents: Iterable[bytes], head: bytes = b"") -> bytes:
    """Put an input together; without a head, all choices are those of zeros."""
    return head[:HEAD_BYTES].ljust(HEAD_BYTES, b"\0") + SEPARATOR.join(documents)


def cut(dice: random.Random, stream: bytes, most: int = 12) -> list[bytes]:
    """Cut a stream at some places, empty chunks included; joined, it is the stream."""
    places = sorted(dice.randint(0, len(stream)) for _ in range(dice.randint(0, most)))
    return [stream[a:b] for a, b in zip([0, *places], [*places, len(stream)], strict=True)]


def read_records(kept: bytes) -> dict[bytes, bytes]:
    """Take apart what `write_records` wrote; any bytes are records."""
    records: dict[bytes, bytes] = {}
    while kept:
        name_bytes, value_bytes = kept[0], int.from_bytes(kept[1:4])
        rest = kept[4:]
        records[rest[:name_bytes]] = rest[name_bytes : name_bytes + value_bytes]
        kept = rest[name_bytes + value_bytes :]
    return records


def write_records(records: Mapping[bytes, bytes]) -> bytes:
    """Write records, each behind the length of its name and of its value."""
    return b"".join(
        bytes([len(name)]) + len(value).to_bytes(3) + name + value
        for name, value in records.items()
    )
