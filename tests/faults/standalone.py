"""A Redis of one test's own, and what may be done to it."""

import contextlib
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass

from redis import Redis
from redis.exceptions import ResponseError

from tests.redis_server import RedisServer, redis_server
from tests.slow_line import SlowLine, slow_line

__all__ = ["Store", "standalone"]

USER = "user app on >old ~* +@all -@dangerous +info"
VALUE_BYTES = 10_000
ROOM = 100


@dataclass(frozen=True, slots=True)
class Store:
    """
    A Redis, and the line to it.

    Attributes:
        operator: A client of it on a line of its own, which stays open.
    """

    server: RedisServer
    line: SlowLine
    operator: Redis

    @property
    def url(self) -> str:
        """Where the proxy finds it, as the user `app`."""
        return f"redis://app:old@127.0.0.1:{self.line.port}/0"

    def does(self, *commands: str) -> None:
        """Do something as the operator."""
        for command in commands:
            self.server.do(*command.split(), by=self.operator)

    def kills_connections(self) -> None:
        """Close every connection of the proxy."""
        self.does("CLIENT KILL TYPE normal")

    def breaks(self) -> None:
        """Let every connection be reset, old or new."""
        self.line.is_broken = True
        self.line.cut()

    def mends(self) -> None:
        """Let bytes pass again."""
        self.line.is_broken = False

    def restarts(self) -> None:
        """Kill it, and have it back at once."""
        self.server.kill()
        self.server.start()

    def delays(self, seconds: float) -> None:
        """Let every answer take so long."""
        self.line.delay_s = seconds

    def tightens(self) -> None:
        """Let there be room for ROOM further values of somebody else's, and no more."""
        used = int(self.server.told("memory")["used_memory"])
        self.does(f"CONFIG SET maxmemory {used + ROOM * VALUE_BYTES}")

    def fills(self, *, expires: bool) -> None:
        """Keep twice as many, as far as they fit."""
        ending = ("EX", 1_000) if expires else ()
        with contextlib.suppress(ResponseError):
            for _ in range(2 * ROOM):
                name = f"theirs:{secrets.token_hex(8)}"
                self.server.do("SET", name, bytes(VALUE_BYTES), *ending, by=self.operator)


@contextlib.asynccontextmanager
async def standalone(
    *directives: str, keeps: bool = False, kind: str = "redis"
) -> AsyncIterator[Store]:
    """Run one with a user `app` behind a line that can be slow."""
    with (
        redis_server(USER, *directives, keeps=keeps, kind=kind) as server,
        contextlib.closing(server.operator()) as operator,
    ):
        async with slow_line(server.port) as line:
            yield Store(server, line, operator)
