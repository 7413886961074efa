"""Files that a setting names."""

from pathlib import Path

__all__ = ["why_unreadable"]


def why_unreadable(path: str) -> str:
    """Say why a file cannot be read, without its path; "" when it can."""
    try:
        with Path(path).open("rb"):
            return ""
    except (OSError, ValueError) as error:
        return getattr(error, "strerror", None) or "not a path"
