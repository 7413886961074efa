"""Commands of the store: run on an executor, with results read and each failure a StoreError."""

from collections.abc import Sequence
from typing import Any

from reasoning_replay.adapters.stores.base import StoreError
from reasoning_replay.adapters.stores.redis.errors import FAILURES, store_error
from reasoning_replay.adapters.stores.redis.executor import Command, RedisExecutor

ID_BYTES = 16


class Commands:
    """Runs commands of a store."""

    def __init__(self, link: RedisExecutor) -> None:
        """Use an executor, which stays open."""
        self._link = link

    async def run(self, commands: Sequence[Command]) -> list[Any]:
        """Run commands; the result of a rejected command is its error."""
        if not commands:
            return []
        try:
            return await self._link.run(commands)
        except FAILURES as error:
            raise store_error(error) from error

    async def all(self, commands: Sequence[Command]) -> list[Any]:
        """Run commands; raise StoreError if any is rejected."""
        results = await self.run(commands)
        raise_first(results)
        return results


def ids_of(answer: bytes | str | None) -> list[bytes]:
    """Return the ids that a key has, oldest first."""
    value = answer if isinstance(answer, bytes) else b""
    return [value[at : at + ID_BYTES] for at in range(0, len(value), ID_BYTES)]


def hash_of(answer: object) -> dict[bytes, bytes]:
    """Return a result of HGETALL; raise StoreError if it has the form of another protocol."""
    if not isinstance(answer, dict):
        raise StoreError("it answers in another protocol version than requested")
    return answer


def number_of(value: bytes) -> int:
    """Return a counter; raise StoreError if another program has written something else there."""
    try:
        return int(value)
    except ValueError:
        raise StoreError("a counter of a conversation is not a number", is_local=True) from None


def fault_when_full(told: bytes | str) -> str:
    """Return what `Store.when_full` does, from `INFO memory` of one server."""
    text = told.decode("utf-8", "replace") if isinstance(told, bytes) else told
    facts = dict(line.partition(":")[::2] for line in text.splitlines())
    most = facts.get("maxmemory", "0")
    if facts.get("maxmemory_policy") != "noeviction" or most == "0":
        return ""
    room = facts.get("maxmemory_human", most)
    return (
        f"its maxmemory is {room} and its maxmemory-policy is noeviction, so it will refuse to "
        "save when it is full: set maxmemory-policy to volatile-ttl"
    )


def raise_first(results: Sequence[Any]) -> None:
    """Raise the first error among results as a StoreError."""
    for result in results:
        if isinstance(result, Exception):
            raise store_error(result) from result
