"""
Contract of stores, as tests that any store can run, also one that is not in this package.

Needs pytest and pytest-asyncio (`asyncio_mode = auto`). Nothing else imports it.

    class TestMyStore(StoreContract):
        @pytest.fixture
        async def tested(self) -> AsyncIterator[StoreUnderTest]:
            ...
            yield StoreUnderTest(opens, passes)
"""

from reasoning_replay.adapters.stores.contract.keeping import KeepingContract
from reasoning_replay.adapters.stores.contract.listing import ListingContract
from reasoning_replay.adapters.stores.contract.sharing import SharingContract
from reasoning_replay.adapters.stores.contract.under_test import StoreUnderTest

__all__ = [
    "KeepingContract",
    "ListingContract",
    "SharingContract",
    "StoreContract",
    "StoreUnderTest",
]


class StoreContract(KeepingContract, ListingContract, SharingContract):
    """Contract of a store that the local table may have; a subclass has a fixture `tested`."""
