"""The last line of the report counts, and repeats the worst finding."""

import pytest
from reasoning_replay.check import check
from reasoning_replay.settings.model import Settings

MISSING = "sqlite:///nowhere/replay.db"


@pytest.mark.parametrize(
    ("changed", "code", "want"),
    [
        ({}, 0, "ok       summary   no problem, no warning"),
        (
            {"mode": "shadow"},
            0,
            "warning  summary   1 warning: settings mode is shadow: no request is changed, only",
        ),
        (
            {"mode": "shadow", "store_url": MISSING},
            1,
            f"problem  summary   1 problem, 3 warnings: store {MISSING} cannot be used: ",
        ),
        (
            {
                "tls_cert_file": "/nowhere/a.pem",
                "tls_key_file": "/nowhere/a.key",
                "store_url": MISSING,
            },
            1,
            "problem  summary   2 problems, 2 warnings: settings ",
        ),
    ],
)
async def test_the_worst_comes_last(
    settings: Settings,
    capsys: pytest.CaptureFixture[str],
    changed: dict[str, object],
    code: int,
    want: str,
) -> None:
    """Under many lines, the reader finds it at the end, in the words of its own line."""
    assert await check(settings.model_copy(update=changed), {}) == code
    *lines, last = capsys.readouterr().out.splitlines()
    assert last.startswith(want)
    worst = last.partition(": ")[2]
    assert any(" ".join(line.split()).endswith(worst) for line in lines)
