"""Faulty line: a relay to a Redis with one fault at one point of the conversation."""

import asyncio
import contextlib
from typing import Literal

from hiredis import ProtocolError, Reader

from tests.slow_line import SlowLine, reset_now

__all__ = ["EFFECTS", "ERRORS", "STORE_TIMEOUT_S", "FaultyLine", "Point"]

# As long as the tests' operations may take; a delay is longer.
STORE_TIMEOUT_S = 1.0
DELAY_S = 1.3
IDLE_S = 0.2
REPLIES_MAX = 10_000
Point = Literal["connect", "login", "between", "inside", "idle"]
# Of a pipeline's replies, these stand in for those that are left.
ERRORS = {
    "LOADING": b"-LOADING Redis is loading the dataset in memory\r\n",
    "READONLY": b"-READONLY You can't write against a read only replica.\r\n",
    "OOM": b"-OOM command not allowed when used memory > 'maxmemory'.\r\n",
    "NOAUTH": b"-NOAUTH Authentication required.\r\n",
    "WRONGPASS": b"-WRONGPASS invalid username-password pair or user is disabled.\r\n",
    "maxclients": b"-ERR max number of clients reached\r\n",
}
# These are in addition to the replies.
INSERTED = {"garbage": b"\x00\xff{garbage}\r\n", "a reply too many": b"$5\r\nalien\r\n"}
EFFECTS = ("reset", "FIN", "silence", "delay", *INSERTED, *ERRORS)


class FaultyLine(SlowLine):
    """
    A relay with one fault at one point, on every connection.

    Attributes:
        fault: The point and the effect; None: all passes.
        hits: How often it happened.
    """

    def __init__(self, to_port: int) -> None:
        super().__init__(to_port)
        self.fault: tuple[Point, str] | None = None
        self.hits = 0
        self._logged_in: set[asyncio.StreamWriter] = set()
        self._heard_at: dict[asyncio.StreamWriter, float] = {}

    def begins(self, point: Point, effect: str) -> None:
        """Begin a fault; one of new connections ends those that are open."""
        self.fault, self.hits = (point, effect), 0
        if point in ("connect", "login"):
            self.cut()

    def ends(self) -> None:
        """End the fault; connections that it made silent stay so."""
        self.fault = None

    async def accepts(self, client: asyncio.StreamWriter) -> None:
        """Do it before anything is read."""
        if self._is_at("connect"):
            client.write(await self._does(b"", client))
            if self.fault is not None and self.fault[1] in ERRORS:
                client.close()
                raise ConnectionAbortedError

    async def asks(self, data: bytes, client: asyncio.StreamWriter) -> bytes:
        """Do it when a client uses a connection that was idle."""
        now = asyncio.get_running_loop().time()
        before = self._heard_at.get(client, now)
        self._heard_at[client] = now
        if now - before < IDLE_S or not self._is_at("idle"):
            return data
        assert self.fault is not None
        if self.fault[1] in ERRORS:
            client.write(await self._does(data, client))
            return b""
        return await self._does(data, client, answers=False)

    async def answers(self, data: bytes, client: asyncio.StreamWriter) -> bytes:
        """Do it to a response."""
        self._heard_at[client] = asyncio.get_running_loop().time()
        is_login = client not in self._logged_in
        self._logged_in.add(client)
        if is_login:
            return await self._does(data, client) if self._is_at("login") else data
        if self._is_at("inside"):
            half = len(data) // 2
            client.write(data[:half])
            return await self._does(data[half:], client)
        if self.fault is None or self.fault[0] != "between":
            return data
        first = _first(data)
        if first < len(data) and self._is_at("between"):
            client.write(data[:first])
            return await self._does(data[first:], client)
        return data

    def _is_at(self, point: Point) -> bool:
        is_at = self.fault is not None and self.fault[0] == point
        self.hits += is_at
        return is_at

    async def _does(
        self, data: bytes, client: asyncio.StreamWriter, *, answers: bool = True
    ) -> bytes:
        """Return what passes instead of these bytes."""
        assert self.fault is not None
        effect = self.fault[1]
        if effect in ERRORS:
            return ERRORS[effect] * (_count(data) or 1)
        if effect in INSERTED:
            if answers:
                return INSERTED[effect] + data
            client.write(INSERTED[effect])
            return data
        await client.drain()
        if effect == "silence":
            await asyncio.Event().wait()
        if effect == "delay":
            await asyncio.sleep(DELAY_S)
            return data
        await asyncio.sleep(0.01)  # a reset discards what the other side has not read
        if effect == "reset":
            reset_now(client.transport)
        else:
            client.close()
        raise ConnectionAbortedError


def _count(data: bytes) -> int:
    """Return the number of replies, or of commands, that begin in these bytes; 0 if within one."""
    reader = Reader(notEnoughData=StopIteration)
    reader.feed(data)
    with contextlib.suppress(ProtocolError):
        for count in range(REPLIES_MAX):
            if reader.gets() is StopIteration:
                return count + reader.has_data()
    return 0


def _first(data: bytes) -> int:
    """Return the length of the first reply; all, if the bytes begin within one."""
    reader = Reader(notEnoughData=StopIteration)
    with contextlib.suppress(ProtocolError):
        for end in range(len(data)):
            reader.feed(data[end : end + 1])
            if reader.gets() is not StopIteration:
                return end + 1
    return len(data)
