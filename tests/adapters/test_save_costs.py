"""Costs of saving: linear in the items of a turn, in an embedded store and in a local copy."""

import asyncio

import pytest
from msgspec import structs
from reasoning_replay.adapters.resilience.conversation_cache import ConversationCache
from reasoning_replay.adapters.stores.base import Bounds, VersionChange
from reasoning_replay.adapters.stores.memory import MemoryStore
from reasoning_replay.adapters.telemetry.metrics import Metrics
from reasoning_replay.core.history.lookup_keys import keys_of_turn
from reasoning_replay.core.history.records import records_of_part
from reasoning_replay.core.history.turns import TurnPart

from tests.adapters.resilience.replicas import MIB, said
from tests.adapters.stores.turns import SCOPE
from tests.core.costs import assert_linear

Saves = list[tuple[dict[bytes, bytes], list[bytes]]]


def item_by_item(count: int) -> Saves:
    """Return the records and keys of a turn, as they are saved."""
    whole = said("a", items=count)
    turns = (structs.replace(whole, items=(item,)) for item in whole.items)
    parts = [TurnPart(turn, n, has_head=not n) for n, turn in enumerate(turns)]
    return [(records_of_part(part), keys_of_turn(part.turn)) for part in parts]


@pytest.mark.parametrize("max_bytes", [100 * MIB, 1_000], ids=["room", "a turn over its bound"])
def test_an_embedded_store_saves_in_linear_time(max_bytes: int) -> None:
    """A single turn is never trimmed, so it is not looked through either."""

    async def save(saves: Saves) -> None:
        store = MemoryStore(Bounds(60, 100, max_bytes), 1 << 40, lambda: 0.0)
        for records, keys in saves:
            await store.save((SCOPE, b"c" * 16), records, keys)

    assert_linear(item_by_item, lambda saves: asyncio.run(save(saves)), 1_000)


def test_a_local_copy_takes_items_in_linear_time() -> None:
    """Each save is a batch of its own; the copy is decoded once, by the next lookup."""

    def save(saves: Saves) -> None:
        cache, name = ConversationCache(100 * MIB, Metrics()), (SCOPE, b"c" * 16)
        for version, (records, keys) in enumerate(saves, 1):
            entry = cache.add(name, records, keys)
            entry.begin_save()
            cache.end_save(name, entry, VersionChange(version - 1, version))
        entry.decoded(name[1])

    assert_linear(item_by_item, save, 1_000)
