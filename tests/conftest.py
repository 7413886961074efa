"""What tests of more than one floor share."""

from collections.abc import Iterator

import pytest

from tests.redis_server import RedisServer, redis_server


@pytest.fixture(scope="session")
def shared_redis() -> Iterator[RedisServer]:
    """One real Redis for all tests of a worker: empty it before use, never kill it."""
    with redis_server() as server:
        yield server


@pytest.fixture
def own_redis() -> Iterator[RedisServer]:
    """A real Redis for one test, which may kill it."""
    with redis_server() as server:
        yield server
