"""World: one proxy in front of a scripted upstream, and what tests do with the two."""

import asyncio
import contextlib
import json
import time
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterator,
    Mapping,
    Sequence,
)
from typing import Any
from unittest import mock

import pytest
from reasoning_replay.adapters.resilience.safe_store import SafeStore
from reasoning_replay.adapters.stores.base import (
    Codec,
    Name,
    Page,
    Store,
    StoreResult,
    StoreUsage,
    VersionChange,
)
from reasoning_replay.core.history.lookup_keys import Lookup
from reasoning_replay.settings.model import Settings
from reasoning_replay.web import wiring
from reasoning_replay.web.app import App, running

from tests.adapters.stores.dictionary import DictStore
from tests.patience import SOON_S
from tests.web.line import Answer, line_to, request
from tests.web.scripted import Upstream, scripted
from tests.web.wire import as_json

MODEL = "gpt-5.4"


class World:
    """
    Proxy and its upstream.

    Attributes:
        app: The running proxy.
        upstream: Its scripted upstream.
    """

    def __init__(self, app: App, upstream: Upstream) -> None:
        self.app = app
        self.upstream = upstream

    @property
    def store(self) -> Store:
        """The store of its local table."""
        assert self.app.store.inner is not None
        return self.app.store.inner

    async def ask(self, data: bytes) -> Answer:
        """Send bytes on a new connection, and read the complete response."""
        async with line_to(self.app.url) as line:
            return await line.ask(data)

    async def get(self, target: str, *headers: str) -> Answer:
        """Send a GET with a key."""
        return await self.ask(request("GET", target, "Authorization: Bearer sk-a", *headers))

    async def post(self, body: bytes | Mapping[str, object], *headers: str) -> Answer:
        """Send a POST to `/v1/responses`, with a key unless headers are given."""
        return await self.ask(post(body, *headers))

    async def turn(self, *items: Mapping[str, object], **more: object) -> Answer:
        """Request a response to this history."""
        return await self.post({"model": MODEL, "input": items} | more)

    async def ask_admin(self, target: str) -> Answer:
        """Send a GET to the admin port."""
        async with line_to(self.app.admin_url) as line:
            return await line.ask(request("GET", target))

    def sent(self, index: int = -1) -> dict[str, Any]:
        """Return the JSON body that upstream received."""
        body: dict[str, Any] = json.loads(self.upstream.received[index].body)
        return body

    def counted(self, name: str, **labels: str) -> float:
        """Return the sum of a metric's samples with these labels; 0 if there are none."""
        samples = (
            sample
            for family in self.app.metrics.registry.collect()
            for sample in family.samples
            if sample.name == "reasoning_replay_" + name
        )
        return sum(s.value for s in samples if labels.items() <= s.labels.items())


def post(body: bytes | Mapping[str, object], *headers: str) -> bytes:
    """Return a POST request to `/v1/responses`."""
    given = headers or ("Authorization: Bearer sk-a", "Content-Type: application/json")
    data = body if isinstance(body, bytes) else as_json(body)
    return request("POST", "/v1/responses", *given, body=data)


@contextlib.contextmanager
def a_dictionary() -> Iterator[None]:
    """Give the local table a store also with `memory://`, which a test may hook."""
    real = wiring.safe_store

    def safe_store(settings: Settings, metrics: Any, log: Any, offloader: Any) -> SafeStore:
        if settings.store_url != "memory://":
            return real(settings, metrics, log, offloader)
        store = DictStore(wiring._bounds(settings), time.monotonic, wiring.codec(settings))
        with mock.patch.object(wiring, "bare_store", return_value=store):
            other = settings.model_copy(update={"store_url": "sqlite:///not-opened"})
            return real(other, metrics, log, offloader)

    with mock.patch("reasoning_replay.web.app.safe_store", safe_store):
        yield


@contextlib.asynccontextmanager
async def world(base: str = "/v1", name: str = "", **settings: Any) -> AsyncIterator[World]:
    """
    Run both.

    Args:
        base: The path of the upstream's URL.
        name: The name of the upstream, which the host of all requests here chooses; "": it is the
            only one, and has none.
        settings: The settings of the proxy, and `has_store`: whether its local table has a store
            also with `memory://`.
    """
    has_store = settings.pop("has_store", False)
    async with contextlib.AsyncExitStack() as stack:
        upstream = await stack.enter_async_context(scripted())
        if has_store:
            stack.enter_context(a_dictionary())
        given: dict[str, Any] = {
            "upstream_url": upstream.url + base,
            "listen": "127.0.0.1:0",
            "admin_listen": "127.0.0.1:0",
            "log_format": "json",
            "store_budget_ms": int(1000 * SOON_S),
        }
        if name:
            url = given.pop("upstream_url")
            given["upstreams"] = {name: {"url": url, "hosts": "proxy.test"}}
        app = await stack.enter_async_context(running(Settings(**(given | settings))))
        yield World(app, upstream)


class Hooked(Store):
    """Store that lets a test wait, count or raise before each operation."""

    codec: Codec | None = None

    def __init__(self, inner: Store | None, before: Callable[[str], Awaitable[None]]) -> None:
        assert inner is not None
        self._inner = inner
        self._before = before

    async def look_up(
        self, scope: bytes, lookups: Sequence[Lookup], held: Mapping[bytes, int]
    ) -> StoreResult:
        """Call the hook, then look up."""
        await self._before("recall")
        return await self._inner.look_up(scope, lookups, held)

    async def save(
        self,
        name: Name,
        records: Mapping[bytes, bytes],
        keys: Collection[bytes],
        mark: bytes | None = None,
        *,
        is_stored: bool = True,
    ) -> VersionChange:
        """Call the hook, then save."""
        await self._before("save")
        return await self._inner.save(name, records, keys, mark, is_stored=is_stored)

    async def survey(self, scope: bytes | None, cursor: str, limit: int) -> Page:
        """Call the hook, then survey."""
        await self._before("survey")
        return await self._inner.survey(scope, cursor, limit)

    async def forget(self, scope: bytes, conversation: bytes, *, is_final: bool = False) -> bool:
        """Call the hook, then delete."""
        await self._before("forget")
        return await self._inner.forget(scope, conversation, is_final=is_final)

    async def mark(self, scope: bytes) -> bytes:
        """Call the hook, then mark."""
        await self._before("mark")
        return await self._inner.mark(scope)

    async def usage(self) -> StoreUsage | None:
        """As the store, afterwards."""
        await self._before("usage")
        return await self._inner.usage()

    async def check(self) -> None:
        """Call the hook, then check."""
        await self._before("check")
        await self._inner.check()

    async def close(self) -> None:
        """Close the store."""
        await self._inner.close()


Logged = pytest.CaptureFixture[str]


def logged(capsys: Logged, *events: str) -> list[dict[str, Any]]:
    """Return the log lines since the last call, of these events if any are named."""
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return [line for line in lines if not events or line["event"] in events]


async def eventually(holds: Callable[[], bool]) -> None:
    """Wait until a condition holds; fail if it does not soon."""
    deadline = time.monotonic() + SOON_S
    while not holds():
        assert time.monotonic() < deadline, "it never came true"
        await asyncio.sleep(0.005)
