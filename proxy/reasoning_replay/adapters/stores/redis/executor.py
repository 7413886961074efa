"""What is asked of Redis, whether it is one server or many: many commands, in one round trip."""

from collections.abc import Sequence
from typing import Any, Protocol

from redis.asyncio import Redis

__all__ = ["Command", "RedisExecutor", "SingleServer", "ask", "run_on", "scan_on"]

Command = tuple[str | bytes | int, ...]  # the name, then the one key it is about, then the rest


class RedisExecutor(Protocol):
    """The way to a Redis. What fails is a RedisError, an OSError or a TimeoutError."""

    async def run(self, commands: Sequence[Command]) -> list[Any]:
        """Return what came of each; one that was refused leaves its ResponseError."""
        ...

    async def get_all(self, names: Sequence[str]) -> list[Any]:
        """Return the strings of these names, None where there is none; all of them, or raise."""
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
        """Let go of the connections."""
        ...


class SingleServer:
    """One server: standalone, behind a socket, or the master that Sentinels name."""

    def __init__(self, redis: "Redis", *others: "Redis") -> None:
        """Use an open client that returns bytes; `close` closes it, and the others."""
        self._redis = redis
        self._others = others

    async def run(self, commands: Sequence[Command]) -> list[Any]:
        """As `RedisExecutor.run`."""
        return await run_on(self._redis, commands)

    async def get_all(self, names: Sequence[str]) -> list[Any]:
        """As `RedisExecutor.get_all`."""
        return list(await self._redis.mget(names))

    async def scan(self, cursor: str, pattern: str, count: int) -> tuple[str, list[bytes]]:
        """As `RedisExecutor.scan`."""
        return await scan_on(self._redis, int(cursor or 0), pattern, count)

    async def check(self) -> None:
        """As `RedisExecutor.check`."""
        await ask(self._redis, "PING")

    async def close(self) -> None:
        """As `RedisExecutor.close`."""
        for redis in (self._redis, *self._others):
            await redis.aclose()


async def ask(redis: "Redis", *command: str) -> Any:  # noqa: ANN401 - as the server answers
    """Send one command to one server."""
    return await redis.execute_command(*command)  # type: ignore[no-untyped-call]


async def run_on(redis: "Redis", commands: Sequence[Command]) -> list[Any]:
    """Send commands to one server in one round trip; as `RedisExecutor.run`."""
    async with redis.pipeline(transaction=False) as pipe:
        for command in commands:
            pipe.execute_command(*command)
        return await pipe.execute(raise_on_error=False)


async def scan_on(redis: "Redis", at: int, pattern: str, count: int) -> tuple[str, list[bytes]]:
    """Scan one server; as `RedisExecutor.scan`."""
    after, names = await redis.scan(at, match=pattern, count=count)
    return str(after) if int(after) else "", [name for name in names if isinstance(name, bytes)]
