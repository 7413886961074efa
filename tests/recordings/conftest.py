"""What the tests with recordings need: the recordings."""

import pytest

from tests.recordings import tape


@pytest.fixture(scope="session")
def recordings() -> None:
    """Skip where the recordings are not at hand."""
    if tape.root() is None:
        pytest.skip("no recordings in ../shared/recorded, and REPLAY_TEST_RECORDED names none")
