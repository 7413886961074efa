"""
Units: sizes and durations of settings, read from text such as `64MiB` or `7d`, and shown as such.

The end of a setting's name is its unit, in which a plain number is read: `_bytes`, `_s` or `_ms`.
"""

import re
from fractions import Fraction
from typing import Final, NamedTuple


class Kind(NamedTuple):
    """
    One kind of amount.

    Attributes:
        metavar: Placeholder for a value.
        unit: Unit of a plain number, in words.
        size: Size of that unit, as in `factors`.
        factors: Spelling of a unit -> its size; the largest that divides a number shows it. Upper
            and lower case are equal when a value is read.
        example: A value with a unit.
    """

    metavar: str
    unit: str
    size: int
    factors: dict[str, int]
    example: str


_SIZES: Final = {
    "TiB": 2**40,
    "TB": 10**12,
    "GiB": 2**30,
    "GB": 10**9,
    "MiB": 2**20,
    "MB": 10**6,
    "KiB": 2**10,
    "kB": 10**3,
    "B": 1,
}
_MILLISECONDS: Final = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}


_KINDS: Final = {
    "_bytes": Kind("SIZE", "bytes", 1, _SIZES, "64MiB"),
    "_s": Kind("DURATION", "seconds", 1000, _MILLISECONDS, "10m"),
    "_ms": Kind("DURATION", "milliseconds", 1, _MILLISECONDS, "250ms"),
}


def kind_of(name: str) -> Kind | None:
    """Return the kind of a setting's value; None if it is no size and no duration."""
    return next((kind for end, kind in _KINDS.items() if name.endswith(end)), None)


def read(name: str, written: object) -> object:
    """
    Return a text with a unit as a number in the unit of the setting's name; others unchanged.

    A size is rounded down to whole bytes.

    Raises:
        ValueError: The text is no number with or without a unit; the message has the units.
    """
    kind = kind_of(name)
    if kind is None or not isinstance(written, str):
        return written
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*", written, re.ASCII)
    if match is None:
        try:
            float(written)
        except ValueError:
            reason = f"not a {kind.metavar.lower()}"
            raise ValueError(f"{reason}; {_remedy(kind)}") from None
        return written
    number, unit = match.groups()
    by_lower = {spelling.lower(): factor for spelling, factor in kind.factors.items()}
    factor = by_lower.get(unit.lower())
    if factor is None:
        raise ValueError(f'"{unit}" is not a unit of a {kind.metavar.lower()}; {_remedy(kind)}')
    amount = Fraction(number) * factor / kind.size
    return int(amount) if kind.unit == "bytes" or amount.denominator == 1 else float(amount)


def shown(name: str, number: float) -> str:
    """Return a number with its largest unit that keeps it whole; a number without unit as it is."""
    kind = kind_of(name)
    if kind is not None and number:
        amount = Fraction(str(number)) * kind.size
        for unit, factor in kind.factors.items():
            if amount % factor == 0:
                return f"{amount / factor}{unit}"
    return str(number).removesuffix(".0")


def _remedy(kind: Kind) -> str:
    *units, last = reversed(kind.factors)
    return (
        f"use {', '.join(units)} or {last}, such as {kind.example}; a plain number is in "
        f"{kind.unit}"
    )
