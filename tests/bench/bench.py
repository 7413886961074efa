"""What all rows of a run share."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Bench"]


@dataclass(frozen=True, slots=True)
class Bench:
    """
    One run.

    Attributes:
        upstream_port: Of the one upstream.
        folder: For files; removed in the end.
        is_quick: Whether figures may be rougher, so that all are had in two minutes.
        numbers: So that no two exchanges of a run are alike.
        profile: Where py-spy's record of each process of the product begins; none: no record.
    """

    upstream_port: int
    folder: Path
    is_quick: bool
    numbers: Iterator[int]
    profile: Path | None = None

    def either(self, quick: int, else_: int) -> int:
        """Choose a size."""
        return quick if self.is_quick else else_
