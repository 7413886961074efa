"""
Costs of saving in the local table: linear in the items of a turn, alone and before a store.

They do not depend on how many conversations there are, share a text, or have expired.
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from msgspec import structs
from reasoning_replay.adapters.resilience.local_table import Alone, LocalTable
from reasoning_replay.adapters.stores.base import Bounds, Name, VersionChange
from reasoning_replay.adapters.stores.contract.turns import SCOPE, Clock, asked, bytes_of, key
from reasoning_replay.core.history.lookup_keys import keys_of_turn
from reasoning_replay.core.history.records import records_of_part
from reasoning_replay.core.history.room import Room
from reasoning_replay.core.history.turns import TurnPart

from tests.adapters.resilience.replicas import MIB, said
from tests.adapters.stores.table_store import TableStore
from tests.core.costs import assert_constant, assert_linear

Saves = list[tuple[dict[bytes, bytes], dict[bytes, bool]]]

Act = Callable[[], Coroutine[Any, Any, object]]


def item_by_item(count: int) -> Saves:
    """Return the records and keys of a turn, as they are saved."""
    whole = said("a", items=count)
    turns = (structs.replace(whole, items=(item,)) for item in whole.items)
    parts = [TurnPart(turn, n, has_head=not n) for n, turn in enumerate(turns)]
    return [(records_of_part(part), keys_of_turn(part.turn)) for part in parts]


def alone(bounds: Bounds, clock: Callable[[], float], max_bytes: int = 1 << 40) -> TableStore:
    """Return an empty table with no store."""
    return TableStore(LocalTable(Room(max_bytes), alone=Alone(bounds, clock)))


@pytest.mark.parametrize("max_bytes", [100 * MIB, 1_000], ids=["room", "a turn over its bound"])
def test_a_table_alone_saves_in_linear_time(max_bytes: int) -> None:
    """A single turn is never trimmed, so it is not looked through either."""

    async def save(saves: Saves) -> None:
        store = alone(Bounds(60, 100, max_bytes), lambda: 0.0)
        for records, keys in saves:
            await store.save((SCOPE, b"c" * 16), records, keys)

    assert_linear(item_by_item, lambda saves: asyncio.run(save(saves)), 1_000)


def test_a_local_copy_takes_items_in_linear_time() -> None:
    """Each save is a batch of its own; the copy is decoded once, by the next lookup."""

    def save(saves: Saves) -> None:
        table, name = LocalTable(Room(100 * MIB)), (SCOPE, b"c" * 16)
        for version, (records, keys) in enumerate(saves, 1):
            row = table.write(name, records, keys)
            assert row is not None
            row.begin_save()
            table.end_save(row, VersionChange(version - 1, version))
        assert row is not None
        row.decoded()

    assert_linear(item_by_item, save, 1_000)


TTL_S = 60
BOUNDS = Bounds(TTL_S, 100, MIB)
KEYS = {key(f"{n}"): True for n in range(4)}
RECORDS = {b"r" * 20: b"x"}


def run_one_turn(work: Coroutine[Any, Any, object]) -> None:
    """Run a coroutine until the event loop would have its turn."""
    with contextlib.suppress(StopIteration):
        work.send(None)
    work.close()


def conversation(number: int) -> Name:
    """Return the name of a conversation."""
    return SCOPE, bytes_of(f"{number}")


def test_a_local_copy_costs_the_same_however_many_share_a_text() -> None:
    """One prompt, and one answer: each key leads to a bounded number of them, as in a store."""

    def filled(count: int) -> Callable[[], None]:
        table, made = LocalTable(Room(100 * MIB)), iter(range(1 << 60))

        def save_and_drop() -> None:
            names = [conversation(next(made)) for _ in range(10)]
            for name in names:
                table.write(name, RECORDS, KEYS)
            for name in names:
                table.discard(name)

        for _ in range(count):
            table.write(conversation(next(made)), RECORDS, KEYS)
        return save_and_drop

    assert_constant(filled, 1_000)


def test_a_local_copy_evicts_at_the_same_cost_however_many_share_a_text() -> None:
    """A full cache drops the oldest with each save."""

    def filled(count: int) -> Callable[[], None]:
        table, made = LocalTable(Room(count * 5_000)), iter(range(1 << 60))

        def save() -> None:
            for _ in range(10):
                table.write(conversation(next(made)), RECORDS, KEYS)

        for _ in range(count * 2):
            save()
        return save

    assert_constant(filled, 100)


@pytest.mark.parametrize("act", ["look_up", "save", "usage", "survey", "forget"])
def test_a_table_alone_costs_the_same_however_many_have_expired(act: str) -> None:
    """Until the event loop has its turn again; after an idle night all of them have expired."""

    def filled(count: int) -> Callable[[], None]:
        clock = Clock()
        store = alone(BOUNDS, clock)

        async def fill() -> None:
            for number in range(count):
                await store.save(conversation(number), RECORDS, [key(f"{number}")])

        asyncio.run(fill())
        clock.now_s += TTL_S
        acts: dict[str, Act] = {
            "look_up": lambda: store.look_up(SCOPE, asked(*KEYS), {}),
            "save": lambda: store.save(conversation(0), RECORDS, [key("0")]),
            "usage": store.usage,
            "survey": lambda: store.survey(bytes_of("none"), "", 10),
            "forget": lambda: store.forget(*conversation(1)),
        }
        return lambda: run_one_turn(acts[act]())

    assert_constant(filled, 4_000, once=True)


@pytest.mark.parametrize("act", ["look_up", "save", "usage", "survey"])
def test_a_table_alone_costs_the_same_however_many_are_stored(act: str) -> None:
    """A page of a survey, too: a walk over all pages costs in proportion to what is there."""

    def filled(count: int) -> Callable[[], None]:
        store = alone(BOUNDS, Clock())

        async def fill() -> None:
            for number in range(count):
                await store.save(conversation(number), RECORDS, [*KEYS, key(f"own {number}")])

        asyncio.run(fill())
        acts: dict[str, Act] = {
            "look_up": lambda: store.look_up(SCOPE, asked(*KEYS), {}),
            "save": lambda: store.save(conversation(0), RECORDS, KEYS),
            "usage": store.usage,
            "survey": lambda: store.survey(None, "", 10),
        }
        return lambda: run_one_turn(acts[act]())

    assert_constant(filled, 1_000)
