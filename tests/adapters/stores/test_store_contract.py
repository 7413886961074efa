"""Every kind of store keeps the contract of stores."""

from collections.abc import AsyncIterator

import pytest
from reasoning_replay.adapters.stores.contract import (
    KeepingContract,
    ListingContract,
    StoreContract,
    StoreUnderTest,
)

from tests.adapters.stores.kinds import BEHIND, on_kind


class TestTheLocalTable(KeepingContract, ListingContract):
    """With `memory://`, the table of a process has all there is; no other process sees it."""

    @pytest.fixture
    async def tested(self, request: pytest.FixtureRequest) -> AsyncIterator[StoreUnderTest]:
        """Yield an empty table."""
        async with on_kind("table", request.getfixturevalue) as store:
            yield store


class TestEveryStore(StoreContract):
    """All stores that the local table may have."""

    @pytest.fixture(params=BEHIND)
    async def tested(self, request: pytest.FixtureRequest) -> AsyncIterator[StoreUnderTest]:
        """Yield an empty store of each kind."""
        async with on_kind(request.param, request.getfixturevalue) as store:
            yield store
