"""One proxy in front of a scripted upstream, and what tests ask of the two."""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any

from reasoning_replay.adapters.stores.base import Page, Store, StoreResult
from reasoning_replay.core.history.lookup_keys import Lookup
from reasoning_replay.settings.model import Settings
from reasoning_replay.web.app import App, running

from tests.web.line import Answer, line_to, request
from tests.web.scripted import Upstream, scripted
from tests.web.wire import as_json

__all__ = ["Hooked", "World", "eventually", "world"]

MODEL = "gpt-5.4"
SOON_S = 5.0


class World:
    """
    A proxy and its upstream.

    Attributes:
        app: The running proxy.
        upstream: What it talks to.
    """

    def __init__(self, app: App, upstream: Upstream) -> None:
        self.app = app
        self.upstream = upstream

    async def ask(self, data: bytes) -> Answer:
        """Send bytes on a connection of their own, and read the whole answer."""
        async with line_to(self.app.url) as line:
            return await line.ask(data)

    async def get(self, target: str, *headers: str) -> Answer:
        """Get something as a client with a key."""
        return await self.ask(request("GET", target, "Authorization: Bearer sk-a", *headers))

    async def post(self, body: bytes | Mapping[str, object], *headers: str) -> Answer:
        """Ask for a response, as a client with a key unless headers are given."""
        return await self.ask(post(body, *headers))

    async def turn(self, *items: Mapping[str, object], **more: object) -> Answer:
        """Ask for a response to a history."""
        return await self.post({"model": MODEL, "input": items} | more)

    async def ask_admin(self, target: str) -> Answer:
        """Ask the operators' port."""
        async with line_to(self.app.admin_url) as line:
            return await line.ask(request("GET", target))

    def sent(self, index: int = -1) -> dict[str, Any]:
        """Return the JSON that upstream received."""
        body: dict[str, Any] = json.loads(self.upstream.received[index].body)
        return body

    def counted(self, name: str, **labels: str) -> float:
        """Return the sum of a metric's samples with these labels, 0 when there is none."""
        samples = (
            sample
            for family in self.app.metrics.registry.collect()
            for sample in family.samples
            if sample.name == "reasoning_replay_" + name
        )
        return sum(s.value for s in samples if labels.items() <= s.labels.items())


def post(body: bytes | Mapping[str, object], *headers: str) -> bytes:
    """Spell a request for a response."""
    given = headers or ("Authorization: Bearer sk-a", "Content-Type: application/json")
    data = body if isinstance(body, bytes) else as_json(body)
    return request("POST", "/v1/responses", *given, body=data)


@contextlib.asynccontextmanager
async def world(base: str = "/v1", **settings: Any) -> AsyncIterator[World]:
    """Run both; `base` is the path of the upstream's URL, and any setting may be given."""
    async with scripted() as upstream:
        given: dict[str, Any] = {
            "upstream_url": upstream.url + base,
            "listen": "127.0.0.1:0",
            "admin_listen": "127.0.0.1:0",
            "log_format": "json",
            "store_timeout_ms": 1000,
            "store_budget_ms": 5000,
        }
        async with running(Settings(**(given | settings))) as app:
            yield World(app, upstream)


class Hooked:
    """A store that lets a test do something before each operation: wait, count or raise."""

    is_embedded = False

    def __init__(self, inner: Store, before: Callable[[str], Awaitable[None]]) -> None:
        self._inner = inner
        self._before = before

    async def look_up(
        self, scope: bytes, lookups: Sequence[Lookup], held: Mapping[bytes, int]
    ) -> StoreResult:
        """As the store, afterwards."""
        await self._before("recall")
        return await self._inner.look_up(scope, lookups, held)

    async def save(
        self,
        scope: bytes,
        conversation: bytes,
        records: Mapping[bytes, bytes],
        keys: Sequence[bytes],
    ) -> int:
        """As the store, afterwards."""
        await self._before("save")
        return await self._inner.save(scope, conversation, records, keys)

    async def survey(self, scope: bytes | None, cursor: str, limit: int) -> Page:
        """As the store, afterwards."""
        await self._before("survey")
        return await self._inner.survey(scope, cursor, limit)

    async def forget(self, scope: bytes, conversation: bytes) -> bool:
        """As the store, afterwards."""
        await self._before("forget")
        return await self._inner.forget(scope, conversation)

    async def check(self) -> None:
        """As the store, afterwards."""
        await self._before("check")
        await self._inner.check()

    async def close(self) -> None:
        """As the store."""
        await self._inner.close()


async def eventually(holds: Callable[[], bool], within_s: float = SOON_S) -> None:
    """Wait until something holds; fail when it does not in time."""
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline, "it never came true"
        await asyncio.sleep(0.005)
