"""A client of the inspector's event stream."""

import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

from tests.web.line import Broken, Line, line_to
from tests.web.world import World, world

PATH = "/inspector/events"
Json = dict[str, Any]


def to_watch(*headers: str, host: str = "127.0.0.1") -> bytes:
    """Return a request for the stream."""
    return "\r\n".join([f"GET {PATH} HTTP/1.1", f"Host: {host}", *headers, "", ""]).encode()


class Watching:
    """An open event stream, and its lines so far."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._rest = b""
        self.lines: list[Json] = []

    async def until(self, kind: str, count: int = 1) -> list[Json]:
        """Read until there are this many lines of one type, and return them."""
        while len(found := [line[kind] for line in self.lines if kind in line]) < count:
            some = await self._line.some()
            if not some:
                raise Broken("it ended")
            *lines, self._rest = (self._rest + some).split(b"\n")
            self.lines += map(json.loads, lines)
        return found

    async def ended(self, count: int) -> Json:
        """Read until so many exchanges have ended, and return the newest of them."""
        seen = 0
        while True:
            found = await self.until("exchange", seen + 1)
            seen = len(found)
            if len(ended := [one for one in found if not one["open"]]) >= count:
                return dict(ended[count - 1])


@contextlib.asynccontextmanager
async def watched(**settings: Any) -> AsyncIterator[tuple[World, Watching]]:
    """Run a proxy in front of a scripted upstream, and watch it."""
    async with world(**settings) as w, watching(w.app.admin_url) as page:
        yield w, page


@contextlib.asynccontextmanager
async def watching(admin_url: str, *headers: str) -> AsyncIterator[Watching]:
    """Open the event stream of a proxy; `headers` carry the credential."""
    async with line_to(admin_url) as line:
        await line.send(to_watch(*headers))
        head = await line.head()
        assert (head.status, head.values("content-type")) == (200, ["application/x-ndjson"])
        assert head.values("cache-control") == ["no-store"]
        yield Watching(line)
