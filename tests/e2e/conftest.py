"""Fixtures of the end-to-end tests: a store of either type for each test."""

import secrets
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.e2e.chats import Replicas, Tenant
from tests.web.world import World, world


@pytest.fixture(params=["memory", "redis"])
def store(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The settings of a store that no other test uses."""
    url = "memory://"
    if request.param == "redis":
        redis = request.getfixturevalue("shared_redis").url
        url = f"{redis}?prefix=rr-{secrets.token_hex(8)}"
    return {"store_url": url, "log_level": "error"}


@pytest.fixture
async def tenant(store: dict[str, Any]) -> AsyncIterator[Tenant]:
    """A tenant of a running proxy, or of two on one Redis."""
    async with world(**store) as one:
        if store["store_url"].startswith("memory"):
            yield Tenant(one)
        else:
            async with world(upstream_url=f"{one.upstream.url}/v1", **store) as other:
                yield Replicas(one, World(other.app, one.upstream))
