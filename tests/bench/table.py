"""Table of the figures, with their bounds and results."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from tests.bench.runs import Rounds

NAMES = ("direct", "nginx", "bare", "proxy")
HEAD = ("row", "figure", *NAMES, "bound", "result")


@dataclass(frozen=True, slots=True)
class Figure:
    """
    One line of the table.

    Attributes:
        row: Name of its row.
        what: The measured quantity, with its unit.
        of: Contender -> value in that unit.
        reach: The bound, in words; empty if there is none and the line is for information only.
        got: The value to compare with `limit`: usually a ratio of two measured ones.
        limit: Largest value within the bound, which guards against a regression.
    """

    row: str
    what: str
    of: Mapping[str, float] = field(default_factory=dict)
    reach: str = ""
    got: float | None = None
    limit: float | None = None

    @property
    def is_met(self) -> bool:
        """Whether the value is within its bound; true without one."""
        return self.got is None or self.limit is None or self.got <= self.limit

    @property
    def verdict(self) -> str:
        """The value, and whether it is within its bound."""
        got = "" if self.got is None else _number(self.got)
        if self.limit is None:
            return got
        return f"{got} {'ok' if self.is_met else 'BEYOND'}"


def bounded(row: str, what: str, of: Mapping[str, float], limit: float) -> Figure:
    """Build the figure of a value of the product that has a bound."""
    return Figure(row, what, of, f"<= {limit:g}", of["proxy"], limit)


def against_bare(
    row: str, what: str, rounds: Rounds, measure: str, limit: float | None = None
) -> Figure:
    """Build the figure of the product's cost as a multiple of the bare pass-through's."""
    reach = "" if limit is None else f"<= {limit:g} x bare"
    return Figure(row, what, rounds.medians(measure), reach, rounds.ratio(measure), limit)


def table(figures: Sequence[Figure]) -> str:
    """Format the figures, one per line."""
    lines = [HEAD, *map(_cells, figures)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if 2 <= at < 2 + len(NAMES) else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def as_json(figures: Sequence[Figure]) -> list[dict[str, Any]]:
    """Return the figures as plain values."""
    return [{**asdict(figure), "is_met": figure.is_met} for figure in figures]


def _cells(figure: Figure) -> tuple[str, ...]:
    measured = (_number(figure.of[name]) if name in figure.of else "-" for name in NAMES)
    return (figure.row, figure.what, *measured, figure.reach, figure.verdict)


def _number(value: float) -> str:
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
