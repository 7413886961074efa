"""Programs that tests run when they are installed, and that CI promises to have installed."""

import os
import shutil

import pytest

__all__ = ["CHROMIUM_FLAGS", "find", "require"]

# A browser that asks nobody on the internet for anything, and runs in a container, too.
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

    Where it is not installed the test is skipped, or fails if CI promised that it is.

    Args:
        what: The word that REPLAY_TEST_REQUIRE has for it, such as `redis`.
        names: Of the program, the first that is found; `what` itself when there are none.
    """
    names = names or (what,)
    if path := find(*names):
        return path
    if what in os.environ.get("REPLAY_TEST_REQUIRE", "").split(","):
        pytest.fail(f"{names[0]} is not installed, and REPLAY_TEST_REQUIRE names {what}")
    pytest.skip(f"{names[0]} is not installed")
