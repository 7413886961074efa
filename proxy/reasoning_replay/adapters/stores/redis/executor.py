"""Redis executors: run many commands in one round trip, and name their failures."""

import re
from collections.abc import Sequence
from functools import partial
from typing import Any, Protocol

from redis.asyncio import Redis
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    ClusterDownError,
    ConnectionError,  # noqa: A004 - redis-py's
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisClusterException,
    RedisError,
    ResponseError,
    SlotNotCoveredError,
)
from redis.exceptions import TimeoutError as RedisTimeoutError
from typing_extensions import override

from reasoning_replay.adapters.stores.base import BadCursor, StoreError

FAILURES = (RedisError, RedisClusterException, OSError, TimeoutError)
_WORDS: tuple[tuple[type[BaseException], str], ...] = (
    (AuthenticationError, "it refuses the user or the password"),
    (NoPermissionError, "its ACL does not allow this user to do that"),
    (ReadOnlyError, "it is a replica, which accepts no writes"),
    (OutOfMemoryError, "it is full, and its eviction policy makes no room"),
    (BusyLoadingError, "it is still loading its data"),
    (ClusterDownError, "the Cluster is down, or a part of it"),
    (SlotNotCoveredError, "some slots of the Cluster have no node"),
    (RedisClusterException, "no node of the Cluster can be used"),
    (RedisTimeoutError, "it did not answer in time"),
    (TimeoutError, "it did not answer in time"),
    (ConnectionError, "it cannot be reached"),
    (OSError, "it cannot be reached"),
)

# The name, its one key, other arguments. EVAL, its script, 1, the key, other arguments.
Command = tuple[str | bytes | int, ...]


def key_of(command: Command) -> str:
    """Return the key of a command, which determines its node in a Cluster."""
    return str(command[3] if command[0] == "EVAL" else command[1])


class RedisExecutor(Protocol):
    """
    Executor of commands on a Redis. A failure raises one of FAILURES.

    Only connecting has a timeout. The caller cancels a round trip that takes too long; that closes
    its connection.
    """

    async def run(self, commands: Sequence[Command]) -> list[Any]:
        """Return the result of each command; that of a rejected command is its ResponseError."""
        ...

    async def read(
        self, names: Sequence[str], commands: Sequence[Command]
    ) -> tuple[list[Any], list[Any]]:
        """
        Read strings and run commands in the same round trip.

        Returns:
            The string of each name, None if it does not exist, and the results of the commands, as
            of `run`. If any string cannot be read, this raises.
        """
        ...

    async def scan(self, cursor: str, pattern: str, count: int) -> tuple[str, list[bytes]]:
        """
        Return the cursor of the next call, and the next names that match.

        Args:
            cursor: "" for the first call, then the returned one; a returned "" means the end.
            pattern: Glob-style pattern of Redis.
            count: Approximate number of names to examine.

        Raises:
            BadCursor: The cursor has the form of another kind of Redis, or names no node.
        """
        ...

    async def check(self) -> None:
        """Raise unless the Redis responds."""
        ...

    async def close(self) -> None:
        """Close the connections."""
        ...


class SingleServer(RedisExecutor):
    """
    One server: standalone, on a Unix socket, or the master that Sentinels name.

    `close` also closes the `others`, the clients of the Sentinels.
    """

    def __init__(self, redis: "Redis", *others: "Redis") -> None:
        self._redis = redis
        self._forms = dict(redis.response_callbacks)
        self._others = others

    @override
    async def run(self, commands: Sequence[Command]) -> list[Any]:
        # A pipeline of redis-py does the same with some ten more calls for each command.
        pool = self._redis.connection_pool
        connection = await pool.get_connection()  # type: ignore[no-untyped-call]
        try:
            results: list[Any] = await connection.retry.call_with_retry(
                partial(self._round_trip, connection, commands),
                lambda _: connection.disconnect(),
            )
        finally:
            await pool.release(connection)
        return results

    @override
    async def read(
        self, names: Sequence[str], commands: Sequence[Command]
    ) -> tuple[list[Any], list[Any]]:
        if not names:
            return [], await self.run(commands)
        strings, *results = await self.run([("MGET", *names), *commands])
        if isinstance(strings, Exception):
            raise strings
        return strings, results

    async def _round_trip(
        self, connection: AbstractConnection, commands: Sequence[Command]
    ) -> list[Any]:
        """Run commands on one connection; redis-py closes it if that fails or is cancelled."""
        await connection.send_packed_command(connection.pack_commands(commands))
        results: list[Any] = []
        for command in commands:
            try:
                result = await connection.read_response()
            except ResponseError as error:
                results.append(error)
                continue
            form = self._forms.get(str(command[0]))
            results.append(result if form is None else form(result))
        return results

    @override
    async def scan(self, cursor: str, pattern: str, count: int) -> tuple[str, list[bytes]]:
        if ":" in cursor:
            raise BadCursor
        after, names = await self._redis.scan(int(cursor or 0), match=pattern, count=count)
        return str(after) if int(after) else "", [name for name in names if isinstance(name, bytes)]

    @override
    async def check(self) -> None:
        await ask(self._redis, "PING")

    @override
    async def close(self) -> None:
        for redis in (self._redis, *self._others):
            await redis.aclose()


async def ask(redis: "Redis", *command: str) -> Any:  # noqa: ANN401 - as the server answers
    """Send one command to one server."""
    return await redis.execute_command(*command)  # type: ignore[no-untyped-call]


def store_error(error: Exception) -> StoreError:
    """Return a StoreError without the stored values, keys and passwords that an error may quote."""
    while isinstance(error, RedisClusterException):  # it wraps another error
        told = error.__cause__ or error.__context__
        if not isinstance(told, FAILURES):
            break
        error = told
    name = type(error).__name__
    if type(error) is ResponseError:  # not its subclasses, which concern the whole store
        code = re.match(r"[A-Z]+\b", str(error))
        reason = f"it refused a command ({code[0] if code else 'ERR'})"
        return StoreError(f"{name}: {reason}", is_local=code is not None and code[0] == "WRONGTYPE")
    words = next((words for kind, words in _WORDS if isinstance(error, kind)), "it failed")
    # These quote an address and the system's message about it, such as a certificate error.
    cause = f": {error}"[:300] if isinstance(error, ConnectionError | NoPermissionError) else ""
    return StoreError(f"{name}: {words}{cause}")
