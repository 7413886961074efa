"""Distortions: every change of an honest history in one place, by dropping, swapping or editing."""

from collections.abc import Iterator, Sequence

__all__ = ["distorted"]

_CHANGES = {
    "r": ("noid", "hollow", "null", "ref", "bare", "status", "text", "emptyid", "dotted"),
    "c": ("noid", "ref", "emptyid", "callid", "dotted"),
    "m": ("noid", "ref", "bare", "emptyid", "dotted", "easy", "reworded"),
    "w": ("noid", "ref", "emptyid", "dotted"),
}


def distorted(names: Sequence[str]) -> Iterator[list[str]]:
    """
    Yield each history that differs from an honest one in one place.

    Args:
        names: Items of the honest history, in order and in the notation.
    """
    given = list(names)
    for at, name in enumerate(given):
        before, after = given[:at], given[at + 1 :]
        if at:
            yield before + after
        if after:
            yield [*before, after[0], name, *after[1:]]
        yield [*before, name, name, *after]
        yield [*given, name]
        for change in _CHANGES.get(name[0], ()):
            yield [*before, f"{name}:{change}", *after]
