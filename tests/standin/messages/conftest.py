"""Fixture for the tests of the stand-in: any number of stand-ins."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from tests.standin.messages import MessagesStandIn, ModeName

Start = Callable[..., Awaitable[MessagesStandIn]]


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    """Start stand-ins, and stop them all at the end."""
    async with contextlib.AsyncExitStack() as stack:

        async def started(mode: ModeName = "manual", **options: Any) -> MessagesStandIn:
            return await stack.enter_async_context(MessagesStandIn(mode, **options))

        yield started
