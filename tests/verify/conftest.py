"""Fixture: `verify`, as its command line runs it."""

from collections.abc import Callable

import pytest
from reasoning_replay import cli

Verified = Callable[..., tuple[int, str, str]]


@pytest.fixture
def verified(capfd: pytest.CaptureFixture[str]) -> Verified:
    """Run `verify` in this process, whose start takes time; return its exit code and outputs."""

    def run(*words: object) -> tuple[int, str, str]:
        code = cli.main(["verify", *map(str, words)])
        return code, *capfd.readouterr()

    return run
