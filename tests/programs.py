"""Programs that tests run if they are installed; CI requires that they are."""

import os
import shutil

import pytest

__all__ = ["CHROMIUM_FLAGS", "ends_with_tests", "find", "require"]

# These flags prevent requests to the internet, and allow the browser to run in a container.
CHROMIUM_FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
)


def find(*names: str) -> str | None:
    """Return the path of the first of these programs that is installed."""
    return next((path for name in names if (path := shutil.which(name))), None)


def require(what: str, *names: str) -> str:
    """
    Return the path of a program.

    If it is not installed, the test is skipped, or fails if REPLAY_TEST_REQUIRE names it.

    Args:
        what: The program's word in REPLAY_TEST_REQUIRE, such as `redis`.
        names: Names of the program; the first that is installed counts. Default: `what`.
    """
    names = names or (what,)
    if path := find(*names):
        return path
    if what in os.environ.get("REPLAY_TEST_REQUIRE", "").split(","):
        pytest.fail(f"{names[0]} is not installed, and REPLAY_TEST_REQUIRE names {what}")
    pytest.skip(f"{names[0]} is not installed")


def ends_with_tests() -> list[str]:
    """
    Return the words before a command line whose process must not outlive the tests.

    On Linux, it is killed when the thread that started it ends, even by SIGKILL. Elsewhere, only a
    test run that ends by itself ends it.
    """
    path = find("setpriv")
    return [path, "--pdeathsig", "KILL", "--"] if path else []
