"""The findings of `check` as lines, with an assertion that they show no secret."""

from collections.abc import AsyncIterator

import pytest
from reasoning_replay.check.local import Finding

KEY = "sk-hunter2-hunter2"


async def found(probe: AsyncIterator[Finding]) -> list[str]:
    """Return the findings of one probe as `grade: words`."""
    lines = [f"{finding.grade}: {finding.words}" async for finding in probe]
    for line in lines:
        assert "hunter2" not in line
        assert "\n" not in line
    return lines


def report(capsys: pytest.CaptureFixture[str], subject: str) -> list[str]:
    """Return the printed lines on one subject as `grade: words`."""
    text = capsys.readouterr().out
    assert "hunter2" not in text
    lines = [line.split(maxsplit=2) for line in text.splitlines()]
    return [f"{grade}: {words}" for grade, about, words in lines if about == subject]
