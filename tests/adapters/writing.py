"""
Writer process: saves turns in a SQLite file, and prints the number of each saved turn.

    python writing.py <path> <name> <count>
"""

import asyncio
import sys
import time

from reasoning_replay.adapters.stores.base import Bounds
from reasoning_replay.adapters.stores.contract.turns import bytes_of, key, save, turn
from reasoning_replay.adapters.stores.sqlite.store import SqliteStore
from reasoning_replay.core.history.turns import Turn

__all__ = ["BOUNDS", "key_of", "opened", "turn_of"]

BOUNDS = Bounds(ttl_s=86_400, max_turns=1000, max_bytes=1 << 24)


def opened(path: str) -> SqliteStore:
    """Open the file, with a long timeout."""
    return SqliteStore(path, BOUNDS, 1 << 30, 60.0, time.time)


def turn_of(name: str, number: int) -> Turn:
    """Return the turn of a number: ten turns a conversation, of different sizes."""
    return turn(f"{name} {number}", f"{name} {number // 10}", number, size=number % 7 * 3000)


def key_of(name: str, number: int) -> bytes:
    """Return the key that leads to the turn of a number."""
    return key(f"{name} {number}")


async def write(path: str, name: str, count: int) -> None:
    """Save `count` turns, and print the number of each one after its save."""
    store = opened(path)
    for number in range(count):
        await save(store, turn_of(name, number), [key_of(name, number), bytes_of(name)])
        print(number, flush=True)  # noqa: T201 - the test reads it
    await store.close()


if __name__ == "__main__":
    asyncio.run(write(sys.argv[1], sys.argv[2], int(sys.argv[3])))
