"""Fixtures for the tests of the stand-in: any number of stand-ins, with a client each."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from tests.standin.chat import ChatStandIn
from tests.standin.chat.client import Client


@pytest.fixture
async def standins(request: pytest.FixtureRequest) -> AsyncIterator[Callable[..., Any]]:
    """Start stand-ins with a client each, and stop them all at the end."""
    started: list[tuple[ChatStandIn, Client]] = []

    async def start(family: Any = "deepseek", **options: Any) -> tuple[ChatStandIn, Client]:
        standin = await ChatStandIn(family, **options).__aenter__()
        started.append((standin, Client(standin)))
        return started[-1]

    yield start
    for standin, client in started:
        await client.close()
        await standin.__aexit__(None, None, None)
