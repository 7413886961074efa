"""Fixtures for tests of several layers. Shared servers are emptied before use, never killed."""

import gc
from collections.abc import Iterator
from typing import Any

import pytest
import pytest_timeout  # type: ignore[import-untyped]
from hypothesis import HealthCheck, settings
from reasoning_replay.web.http import client_connection

from tests.certificates import Certificates, certificates
from tests.fast_lane import examples
from tests.hang import watch_for_hang
from tests.left_open import watch
from tests.redis_groups import Cluster, Sentinels, redis_cluster, redis_sentinels
from tests.redis_server import RedisServer, redis_server

# No test fails because it is slow: the load of machines varies.
settings.register_profile(
    "untimed", examples(100), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("untimed")

watch()


def pytest_timeout_set_timer(item: Any, settings: Any) -> bool:
    """Limit the time of a test to that in which a processor was free for it."""
    item.cancel_timeout = watch_for_hang(
        settings.timeout, lambda: pytest_timeout.timeout_sigalrm(item, settings)
    )
    return True


def pytest_collection_finish() -> None:
    """Leave the collected tests out of all garbage collections: they are many thousands."""
    gc.freeze()


@pytest.fixture
def leaves_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients of this test leave sooner after their request than real ones do."""
    monkeypatch.setattr(client_connection, "HALF_CLOSE_S", 0.0)


@pytest.fixture(scope="session")
def shared_redis() -> Iterator[RedisServer]:
    """One real Redis for all tests of a worker."""
    with redis_server() as server:
        yield server


@pytest.fixture(scope="session")
def shared_valkey() -> Iterator[RedisServer]:
    """One real Valkey for all tests of a worker."""
    with redis_server(kind="valkey") as server:
        yield server


@pytest.fixture(scope="session")
def shared_certificates() -> Iterator[Certificates]:
    """An authority for servers that require client certificates."""
    with certificates(asks_client=True) as made:
        yield made


@pytest.fixture(scope="session")
def shared_tls_redis(shared_certificates: Certificates) -> Iterator[RedisServer]:
    """One real Redis that accepts only TLS, and only clients with a certificate."""
    with redis_server(tls=shared_certificates) as server:
        yield server


@pytest.fixture(scope="session")
def shared_sentinels() -> Iterator[Sentinels]:
    """A master with one replica and three Sentinels, for all tests of a worker."""
    with redis_sentinels() as group:
        yield group


@pytest.fixture(scope="session")
def shared_cluster() -> Iterator[Cluster]:
    """Three masters, for all tests of a worker."""
    with redis_cluster() as cluster:
        yield cluster


@pytest.fixture
def own_redis() -> Iterator[RedisServer]:
    """A real Redis for one test, which may kill it."""
    with redis_server() as server:
        yield server
