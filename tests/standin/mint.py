"""Ids in the real format, from a seed and a counter: unique, and repeatable in a test."""

import hashlib

__all__ = ["LINEAGE_DIGITS", "Ids", "Mint", "lineage_of"]

LINEAGE_DIGITS = 16
_TAIL_DIGITS = 22
_CALL_DIGITS = 24


class Mint:
    """Source of random-looking digits; the same seed gives the same digits in the same order."""

    def __init__(self, seed: bytes) -> None:
        self._seed = seed
        self._made = 0

    def digits(self, count: int) -> str:
        """Return `count` new hexadecimal digits, 64 at most."""
        self._made += 1
        return hashlib.sha256(self._seed + self._made.to_bytes(8, "big")).hexdigest()[:count]


class Ids:
    """
    The ids of one response: `<prefix>_` and 48 digits.

    The digits are the lineage, "00", unix time and a random tail. The lineage is the same in every
    id of a conversation that replays ids or chains responses, as recorded.
    """

    def __init__(self, mint: Mint, lineage: str, now_s: int) -> None:
        self._mint = mint
        self._head = f"{lineage}00{now_s:08x}"

    def item(self, prefix: str) -> str:
        """Return the id of a response or of an item."""
        return f"{prefix}_{self._head}{self._mint.digits(_TAIL_DIGITS)}"

    def call(self) -> str:
        """Return a `call_id`: it has another format, and no lineage."""
        return f"call_{self._mint.digits(_CALL_DIGITS)}"


def lineage_of(item_id: str) -> str:
    """Return the lineage in an id that Ids made."""
    return item_id.partition("_")[2][:LINEAGE_DIGITS]
