"""One who watches what passes, by the stream that the page reads."""

import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

from tests.web.line import Broken, Line, line_to

__all__ = ["Watching", "to_watch", "watching"]

PATH = "/inspector/events"
Json = dict[str, Any]


def to_watch(*headers: str, host: str = "127.0.0.1") -> bytes:
    """Spell a request for the stream."""
    return "\r\n".join([f"GET {PATH} HTTP/1.1", f"Host: {host}", *headers, "", ""]).encode()


class Watching:
    """One who watches."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._rest = b""
        self.lines: list[Json] = []

    async def until(self, kind: str, count: int = 1) -> list[Json]:
        """Read on until there have been so many lines of a kind, and return those."""
        while len(found := [line[kind] for line in self.lines if kind in line]) < count:
            some = await self._line.some()
            if not some:
                raise Broken("it ended")
            *lines, self._rest = (self._rest + some).split(b"\n")
            self.lines += map(json.loads, lines)
        return found


@contextlib.asynccontextmanager
async def watching(admin_url: str, *headers: str) -> AsyncIterator[Watching]:
    """Watch a proxy; headers are for who may."""
    async with line_to(admin_url) as line:
        await line.send(to_watch(*headers))
        head = await line.head()
        assert (head.status, head.values("content-type")) == (200, ["application/x-ndjson"])
        assert head.values("cache-control") == ["no-store"]
        yield Watching(line)
