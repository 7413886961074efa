"""Report: the findings of a check."""

from typing import Literal, NamedTuple

__all__ = ["Finding"]


class Finding(NamedTuple):
    """
    One line of the report.

    Attributes:
        grade: A problem keeps the proxy from serving as it should; a warning does not.
        subject: What was checked.
        words: What was found and, unless it is ok, what to do. They hold no secret.
    """

    grade: Literal["ok", "warning", "problem"]
    subject: Literal["settings", "ports", "upstream", "store", "proof"]
    words: str
