"""Fail open: a step whose failure is told, and ends nothing else."""

from collections.abc import Callable
from types import TracebackType
from typing import Self


class FailOpen:
    """
    Context of one step; it may be entered again.

        with FailOpen("replay_failed", tell) as step:
            return await prepare()
        return unchanged

    Attributes:
        step: Name of the step, mostly that of its log event.
        has_failed: Whether the last run raised an exception.
    """

    __slots__ = ("_tell", "has_failed", "step")

    def __init__(self, step: str, tell: Callable[[str, Exception], None]) -> None:
        """Name the step; `tell` gets the name and the exception, and logs or counts it."""
        self.step, self._tell, self.has_failed = step, tell, False

    def __enter__(self) -> Self:
        self.has_failed = False
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if not isinstance(error, Exception):
            return False  # it was cancelled, or the process ends
        self.fail(error)
        return True

    def fail(self, error: Exception) -> None:
        """Record a failure; only for a step that runs too often for a context."""
        self.has_failed = True
        self._tell(self.step, error)
