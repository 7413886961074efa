"""Report: the findings of a check."""

from typing import Literal, NamedTuple


class Finding(NamedTuple):
    """
    One line of the report.

    Attributes:
        grade: A problem prevents correct service; a warning does not.
        subject: The part that was checked.
        words: The result and, unless it is ok, the way out. They contain no secret.
    """

    grade: Literal["ok", "warning", "problem"]
    subject: Literal["settings", "clients", "ports", "upstream", "store", "proof"]
    words: str
