"""
Redis connection pool: open connections to one server, ready for the next command.

A connection returns to the pool only if every reply to what was sent on it was read. Else a later
operation, perhaps of another tenant, would read that reply as its own.

The pool holds no closed connection, so one that was refused hides none that works: while a server
refuses more connections (`maxclients`, a changed password), operations wait for those that are
open. redis-py's pools keep the closed ones, and give the last one out first.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from redis.exceptions import InvalidResponse

from reasoning_replay.adapters.stores.redis.connections import PooledConnection
from reasoning_replay.adapters.stores.redis.errors import FAILURES, SilentError, closed_error

# After a refused connection, no other one is opened for this time while any is open.
REFUSED_PAUSE_S = 1.0
# All connections are replaced at most this often: a server may stay read-only for long.
RENEW_PAUSE_S = 1.0
# A connection that was not used for this time is closed: after a burst the number shrinks.
IDLE_MAX_S = 60.0

_Got = TypeVar("_Got")


class Pool:
    """
    Pool of connections to one server.

    Closing and releasing are synchronous, so a cancelled operation cannot lose a connection.
    """

    def __init__(
        self, makes: Callable[[], Awaitable[PooledConnection]], most: int, timeout_s: float
    ) -> None:
        """
        Start without a connection.

        Args:
            makes: Returns a connection that is not open yet; it may ask where to connect to.
            most: Limit of connections; further operations wait for one.
            timeout_s: Timeout of opening one, from its address to its login.
        """
        self._makes = makes
        self._most = most
        self._timeout_s = timeout_s
        self._free: list[PooledConnection] = []  # the least recently used first
        self._used: set[PooledConnection] = set()
        self._opening = 0
        self._place = ""
        self._refused_at = float("-inf")
        self._renewed_at = float("-inf")
        self._changed = asyncio.Event()
        self._keeps = True

    async def use(
        self, act: Callable[[PooledConnection], Awaitable[_Got]], *, new: bool = False
    ) -> _Got:
        """
        Act on a connection, which is closed unless that ends well.

        Args:
            act: Reads every reply to what it sends, or raises.
            new: Whether to open a connection rather than use one that was idle, if possible.
        """
        connection = await self._take(new=new)
        try:
            return await act(connection)
        except BaseException:
            connection.end()
            raise
        finally:
            self._release(connection)

    def renew(self, opened_at: float = float("-inf")) -> bool:
        """
        Replace all connections, now those that are free: the address may lead elsewhere by now.

        Args:
            opened_at: When a connection was opened that shows this.

        Returns:
            Whether a new connection is newer than that one's renewal.
        """
        now = time.monotonic()
        if now - self._renewed_at >= RENEW_PAUSE_S:
            self._renewed_at = now
            self._end_free()
        return opened_at < self._renewed_at

    def retire(self) -> None:
        """Close all connections, each as soon as it is free."""
        self._keeps = False
        self._end_free()

    def close(self) -> None:
        """Close all connections, also those in use."""
        self.retire()
        for connection in self._used:
            connection.end()

    async def _take(self, *, new: bool) -> PooledConnection:
        while True:
            if not self._keeps:
                raise closed_error()
            if not new and (connection := self._newest_free()) is not None:
                self._used.add(connection)
                return connection
            if new and self._free and self._is_full:
                self._free.pop(0).end()
            if self._may_open():
                try:
                    return await self._open()
                except FAILURES:
                    if not (self._free or self._used):
                        raise
                    self._refused_at = time.monotonic()
            elif not self._free:
                await self._changed.wait()
            new = False

    def _newest_free(self) -> PooledConnection | None:
        while self._free:
            connection = self._free.pop()
            if connection.is_open and not connection.has_unread:
                return connection
            connection.end()
        return None

    @property
    def _is_full(self) -> bool:
        return len(self._free) + len(self._used) + self._opening >= self._most

    def _may_open(self) -> bool:
        if self._is_full:
            return False
        has_open = bool(self._free or self._used)
        return not has_open or time.monotonic() - self._refused_at >= REFUSED_PAUSE_S

    async def _open(self) -> PooledConnection:
        opened_at = time.monotonic()
        connection: PooledConnection | None = None
        self._opening += 1
        try:
            async with asyncio.timeout(self._timeout_s):
                connection = await self._makes()
                self._follow(connection.place)
                await connection.connect()  # type: ignore[no-untyped-call]
        except BaseException as error:
            if connection is not None:
                connection.end()
            if isinstance(error, TimeoutError):
                place = connection.place if connection is not None else "it"
                raise SilentError(f"connecting to {place}") from error
            if isinstance(error, FAILURES) or not isinstance(error, Exception):
                raise
            raise InvalidResponse("it answers a login as no Redis does") from error
        finally:
            self._opening -= 1
            self._notify()
        connection.opened_at = opened_at
        self._used.add(connection)
        if not self._keeps:
            connection.end()
            self._release(connection)
            raise closed_error()
        return connection

    def _follow(self, place: str) -> None:
        """Replace the connections to another server than this one, which is the master now."""
        if self._place not in ("", place):
            self._renewed_at = time.monotonic()
            self._end_free()
        self._place = place

    def _release(self, connection: PooledConnection) -> None:
        self._used.discard(connection)
        now = connection.used_at = time.monotonic()
        is_current = self._keeps and connection.opened_at >= self._renewed_at
        if is_current and connection.is_open:
            self._free.append(connection)
        else:
            connection.end()
        while self._free and now - self._free[0].used_at >= IDLE_MAX_S:
            self._free.pop(0).end()
        self._notify()

    def _end_free(self) -> None:
        while self._free:
            self._free.pop().end()
        self._notify()

    def _notify(self) -> None:
        """Wake every operation that waits for a connection."""
        self._changed.set()
        self._changed = asyncio.Event()
