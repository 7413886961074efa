"""Redis executors: run many commands in one round trip."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Protocol

from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    BusyLoadingError,
    ConnectionError,  # noqa: A004 - redis-py's
    InvalidResponse,
    ResponseError,
)
from typing_extensions import override

from reasoning_replay.adapters.stores.base import BadCursor
from reasoning_replay.adapters.stores.redis.connections import PooledConnection
from reasoning_replay.adapters.stores.redis.errors import FAILURES, shows_demotion
from reasoning_replay.adapters.stores.redis.pool import Pool

# Refusals of a login: a second one directly after it would be refused, too.
_REFUSED = (AuthenticationError, AuthorizationError, BusyLoadingError)

# The name, its one key, other arguments. EVAL, its script, 1, the key, other arguments.
Command = tuple[str | bytes | int, ...]


class DemotedError(ConnectionError):
    """A kept connection leads to a server that is not the master any more."""


def key_of(command: Command) -> str:
    """Return the key of a command, which determines its node in a Cluster."""
    return str(command[3] if command[0] == "EVAL" else command[1])


class RedisExecutor(Protocol):
    """
    Executor of commands on a Redis. A failure raises one of FAILURES.

    Only connecting has a timeout. The caller cancels a round trip that takes too long; that closes
    its connection.

    Attributes:
        is_in_order: Whether the commands of one round trip run one after another, also those of
            different keys.
    """

    is_in_order: bool = True

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
    One server: standalone, on a Unix socket, a node of a Cluster, or the master of Sentinels.

    An operation whose connection turns out to be lost, or to lead to a server that was demoted, is
    repeated once, on a new connection. One that timed out is not.
    """

    def __init__(self, pool: Pool, *others: "SingleServer") -> None:
        """
        Use a pool of connections to the server.

        Args:
            pool: Closed by `close`.
            others: Servers to close with this one, such as the Sentinels.
        """
        self.pool = pool
        self._others = others

    @override
    async def run(self, commands: Sequence[Command]) -> list[Any]:
        act = partial(_round_trip, self.pool, commands)
        try:
            return await self.pool.use(act)
        except BusyLoadingError:
            self.pool.renew()
            raise
        except _REFUSED:
            raise
        except ConnectionError:
            return await self.pool.use(act, new=True)

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

    async def ask(self, *command: str | bytes | int) -> Any:  # noqa: ANN401 - as the server answers
        """Send one command; return its result, or raise its error."""
        (result,) = await self.run([command])
        if isinstance(result, Exception):
            raise result
        return result

    @override
    async def scan(self, cursor: str, pattern: str, count: int) -> tuple[str, list[bytes]]:
        if ":" in cursor:
            raise BadCursor
        words = ("SCAN", int(cursor or 0), "MATCH", pattern, "COUNT", count)
        after, names = await self.ask(*words)
        return str(int(after)) if int(after) else "", names

    @override
    async def check(self) -> None:
        await self.ask("PING")

    @override
    async def close(self) -> None:
        self.pool.close()
        for other in self._others:
            await other.close()


async def _round_trip(
    pool: Pool, commands: Sequence[Command], connection: PooledConnection
) -> list[Any]:
    """
    Send commands and read the reply of each one.

    Raises:
        DemotedError: A newer connection may lead to another server.
        InvalidResponse: There are more replies than commands, so none of them can be trusted.
    """
    # A pipeline of redis-py does the same with some ten more calls for each command.
    packed = connection.pack_commands(commands)
    results: list[Any] = []
    try:
        await connection.send_packed_command(packed, check_health=False)
        for command in commands:
            try:
                result = await connection.read_response()
            except ResponseError as error:
                results.append(error)
                continue
            results.append(_as_dict(result) if command[0] == "HGETALL" else result)
    except FAILURES:
        raise
    except Exception as error:  # of a connection that is lost, or of a reply that cannot be read
        raise ConnectionError(f"{type(error).__name__} at {connection.place}") from error
    if connection.has_unread:
        raise InvalidResponse(f"{connection.place} sent more replies than it got commands")
    if any(map(shows_demotion, results)) and pool.renew(connection.opened_at):
        raise DemotedError("it is not the master any more")
    return results


def _as_dict(result: Any) -> Any:  # noqa: ANN401 - a reply of any kind
    """Return a hash as RESP3 has it; RESP2 has a flat list."""
    if isinstance(result, list):
        return dict(zip(result[::2], result[1::2], strict=True))
    return result
