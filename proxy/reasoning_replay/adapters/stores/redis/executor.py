"""Redis executors: run many commands in one round trip, on one server or on a Cluster."""

import asyncio
from collections.abc import Sequence
from typing import Any, Protocol

from redis.asyncio import Redis

__all__ = ["Command", "RedisExecutor", "SingleServer", "ask"]

Command = tuple[str | bytes | int, ...]  # the name, then the one key it is about, then the rest


class RedisExecutor(Protocol):
    """The way to a Redis. What fails is one of `errors.FAILURES`."""

    async def run(self, commands: Sequence[Command]) -> list[Any]:
        """Return the result of each command; one that was refused leaves its ResponseError."""
        ...

    async def read(
        self, names: Sequence[str], commands: Sequence[Command]
    ) -> tuple[list[Any], list[Any]]:
        """
        Read strings and run commands in the same round trip.

        Returns:
            The strings of these names, None where there is none; all of them, or it raises. And
            the results of the commands, as of `run`.
        """
        ...

    async def scan(self, cursor: str, pattern: str, count: int) -> tuple[str, list[bytes]]:
        """
        Return the next names that match, and what to go on with.

        Args:
            cursor: "" to begin, then what came with the names before; "" means that was all.
            pattern: As Redis has them.
            count: How many names are looked at, about.

        Raises:
            ValueError: No such cursor.
        """
        ...

    async def check(self) -> None:
        """Raise unless it answers."""
        ...

    async def close(self) -> None:
        """Close the connections."""
        ...


class SingleServer:
    """One server: standalone, behind a socket, or the master that Sentinels name."""

    def __init__(self, redis: "Redis", *others: "Redis", timeout_s: float | None = None) -> None:
        """
        Use an open client.

        Args:
            redis: It returns bytes; closed by `close`.
            others: Closed with it.
            timeout_s: For each operation; None: no timeout.
        """
        self._timeout_s = timeout_s
        self._redis = redis
        self._others = others

    async def run(self, commands: Sequence[Command]) -> list[Any]:
        """As `RedisExecutor.run`."""
        async with (
            asyncio.timeout(self._timeout_s),
            self._redis.pipeline(transaction=False) as pipe,
        ):
            for command in commands:
                pipe.execute_command(*command)
            return await pipe.execute(raise_on_error=False)

    async def read(
        self, names: Sequence[str], commands: Sequence[Command]
    ) -> tuple[list[Any], list[Any]]:
        """As `RedisExecutor.read`."""
        if not names:
            return [], await self.run(commands)
        strings, *results = await self.run([("MGET", *names), *commands])
        if isinstance(strings, Exception):
            raise strings
        return strings, results

    async def scan(self, cursor: str, pattern: str, count: int) -> tuple[str, list[bytes]]:
        """As `RedisExecutor.scan`."""
        async with asyncio.timeout(self._timeout_s):
            after, names = await self._redis.scan(int(cursor or 0), match=pattern, count=count)
        return str(after) if int(after) else "", [name for name in names if isinstance(name, bytes)]

    async def check(self) -> None:
        """As `RedisExecutor.check`."""
        async with asyncio.timeout(self._timeout_s):
            await ask(self._redis, "PING")

    async def close(self) -> None:
        """As `RedisExecutor.close`."""
        for redis in (self._redis, *self._others):
            await redis.aclose()


async def ask(redis: "Redis", *command: str) -> Any:  # noqa: ANN401 - as the server answers
    """Send one command to one server."""
    return await redis.execute_command(*command)  # type: ignore[no-untyped-call]
