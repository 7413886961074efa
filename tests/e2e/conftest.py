"""Fixtures of the end-to-end tests: a store of either type for each test."""

import secrets
from typing import Any

import pytest


@pytest.fixture(params=["memory", "redis"])
def store(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The settings of a store that no other test uses."""
    url = "memory://"
    if request.param == "redis":
        redis = request.getfixturevalue("shared_redis").url
        url = f"{redis}?prefix=rr-{secrets.token_hex(8)}"
    return {"store_url": url, "log_level": "error"}
