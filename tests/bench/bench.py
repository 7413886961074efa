"""Shared parts of all rows of a run."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Bench:
    """
    One run.

    Attributes:
        upstream_port: Port of the only upstream.
        folder: Folder for files; removed at the end.
        is_quick: Whether figures may be rougher, so that a whole run takes ten minutes.
        numbers: Source of numbers that make all exchanges of a run different.
        profile: Prefix of py-spy's files, one for each process of the product; None: no profile.
    """

    upstream_port: int
    folder: Path
    is_quick: bool
    numbers: Iterator[int]
    profile: Path | None = None

    def either(self, quick: int, else_: int) -> int:
        """Return the size for a quick run, or the other one."""
        return quick if self.is_quick else else_
