"""
Diagnosis: what the classified refusals of all dialects have in common.

One table of each dialect decides, from the text that upstream sends; nothing is guessed from a
status alone.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

ValueT = TypeVar("ValueT")
Table = tuple[tuple[re.Pattern[str], ValueT], ...]


@dataclass(frozen=True, slots=True)
class ClassifiedRefusal:
    """A refusal and the reason for it, as far as it may concern the proxy."""

    kind: StrEnum

    @property
    def is_understood(self) -> bool:
        """Whether the refusal was classified, so that a cure can be tried."""
        return self.kind != "other"


def table_of(rows: Iterable[tuple[str, ValueT]]) -> Table[ValueT]:
    """Return a table of what texts mean; they are found in any case."""
    return tuple((re.compile(text, re.IGNORECASE), meaning) for text, meaning in rows)


def first_in(table: Table[ValueT], text: str) -> ValueT | None:
    """Return what the first matching row means; None if no row matches."""
    return next((meaning for said, meaning in table if said.search(text) is not None), None)
