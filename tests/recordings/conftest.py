"""Fixture of the tests that need the recordings."""

import pytest

from tests.recordings import wire


@pytest.fixture(scope="session")
def recordings() -> None:
    """Skip the test if the recordings are not available."""
    if wire.root() is None:
        pytest.skip("no recordings found: set REPLAY_TEST_RECORDED to their folder")
