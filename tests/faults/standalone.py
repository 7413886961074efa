"""Redis server of one test, and the operations that tests do to it."""

import contextlib
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass

from redis import Redis
from redis.exceptions import ResponseError

from tests.redis_server import RedisServer, redis_server
from tests.slow_line import SlowLine, listening

__all__ = ["USER", "Store", "standalone"]

USER = "user app on >old ~* +@all -@dangerous +info"
VALUE_BYTES = 10_000
ROOM = 100


@dataclass(frozen=True, slots=True)
class Store:
    """
    Redis server, and the line to it.

    Attributes:
        operator: Client on its own line, which stays open.
    """

    server: RedisServer
    line: SlowLine
    operator: Redis

    @property
    def url(self) -> str:
        """URL for the proxy, which logs in as the user `app`."""
        return f"redis://app:old@127.0.0.1:{self.line.port}/0"

    def does(self, *commands: str) -> None:
        """Run these commands as the operator."""
        for command in commands:
            self.server.do(*command.split(), by=self.operator)

    def kills_connections(self) -> None:
        """Close every connection of the proxy."""
        self.does("CLIENT KILL TYPE normal")

    def breaks(self) -> None:
        """Reset every connection, old or new."""
        self.line.is_broken = True
        self.line.cut()

    def repairs(self) -> None:
        """Let bytes pass again."""
        self.line.is_broken = False

    def restarts(self) -> None:
        """Kill the server, and start it again at once."""
        self.server.kill()
        self.server.start()

    def delays(self, seconds: float) -> None:
        """Delay each response by this time, in seconds."""
        self.line.delay_s = seconds

    def tightens(self) -> None:
        """Limit the memory to what is used now plus ROOM values of other users."""
        used = int(self.server.told("memory")["used_memory"])
        self.does(f"CONFIG SET maxmemory {used + ROOM * VALUE_BYTES}")

    def fills(self, *, expires: bool) -> None:
        """Write twice as many values as there is room for, as far as they fit."""
        ending = ("EX", 1_000) if expires else ()
        with contextlib.suppress(ResponseError):
            for _ in range(2 * ROOM):
                name = f"theirs:{secrets.token_hex(8)}"
                self.server.do("SET", name, bytes(VALUE_BYTES), *ending, by=self.operator)


@contextlib.asynccontextmanager
async def standalone(
    *directives: str,
    keeps: bool = False,
    kind: str = "redis",
    line_kind: type[SlowLine] = SlowLine,
) -> AsyncIterator[Store]:
    """Run a server with a user `app`; the line to it can be slow, or have the faults of a kind."""
    with (
        redis_server(USER, *directives, keeps=keeps, kind=kind) as server,
        contextlib.closing(server.operator()) as operator,
    ):
        async with listening(line_kind(server.port)) as line:
            yield Store(server, line, operator)
