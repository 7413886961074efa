"""Fail open: what ends a step, and what it does not end."""

import asyncio

import pytest
from reasoning_replay.adapters.runtime.fail_open import FailOpen


def test_an_exception_ends_the_step_alone() -> None:
    """It is told with the name of the step, and the step can be run again."""
    told: list[tuple[str, Exception]] = []
    step = FailOpen("heal_failed", lambda name, error: told.append((name, error)))
    error = ZeroDivisionError("a bug")
    with step:
        raise error
    assert (told, step.has_failed) == ([("heal_failed", error)], True)
    with step:
        pass
    assert (len(told), step.has_failed) == (1, False)


@pytest.mark.parametrize("error", [asyncio.CancelledError, KeyboardInterrupt, SystemExit])
def test_an_end_of_the_task_is_no_failure(error: type[BaseException]) -> None:
    """What cancels the task, or ends the process, passes untold."""
    told: list[str] = []
    with pytest.raises(error), FailOpen("heal_failed", lambda name, _: told.append(name)):
        raise error
    assert told == []
