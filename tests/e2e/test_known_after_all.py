"""Known reasoning: it is injected in spite of other evidence, failures and unusual clients."""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import partial
from itertools import cycle, pairwise
from typing import Any

import pytest
from reasoning_replay.adapters.stores.base import StoreError, StoreResult
from reasoning_replay.core.history.lookup_keys import Lookup
from reasoning_replay.core.history.records import turn_of_record

from tests.core.world import Item, call, drawn, message, nameless, output, reasoning, user
from tests.redis_server import RedisServer
from tests.web.wire import CALL, LOST, PAIRING, RS, as_json, error, response, whole
from tests.web.world import Hooked, World, world

Start = Callable[..., contextlib.AbstractAsyncContextManager[World]]


BLOB = RS["encrypted_content"]


@pytest.fixture
def start(store: dict[str, Any]) -> Start:
    """A function that starts a proxy and its upstream."""
    return partial(world, has_store=True, **store)


def response_id(*emitted: Item) -> str:
    """Return the id of the response that has these items."""
    return f"resp_{drawn(emitted)}"


async def exchange(
    w: World, sent: Sequence[Item], *emitted: Item, **more: object
) -> list[Item]:  # fmt: skip
    """Send a history, answer it, and return the input that upstream received."""
    w.upstream.answers(whole(as_json(response(*emitted, rid=response_id(*emitted)))))
    answer = await w.turn(*sent, **more)
    assert answer.status == 200
    seen: list[Item] = w.sent()["input"]
    return seen


def reasons(items: Sequence[Item]) -> list[str]:
    """Return the blobs in an input."""
    return [item["encrypted_content"] for item in items if item.get("type") == "reasoning"]


async def test_turns_after_a_failed_lookup_are_found_again(start: Start) -> None:
    """Each failed lookup begins a conversation, and requests find the turns of six of them."""
    turns, sent = 24, 0
    history: list[Item] = [user("Hi, what can you do?")]

    async def before(operation: str) -> None:
        if operation == "recall" and sent % 4 == 2 and sent < 20:
            raise StoreError("away")

    async with start() as w:
        w.app.store.inner = Hooked(w.app.store.inner, before)
        for n in range(turns):
            sent = n
            answer = message(f"{n}", f"This is answer {n}, and it is not like the other answers.")
            seen = await exchange(w, history, reasoning(f"{n}"), answer, store=False)
            history += [nameless(answer), user(f"And then, {n}?")]
        assert len((await w.app.store.survey(None, "", 100)).conversations) == 6

    assert reasons(seen) == [f"gAAAA{n}" for n in range(turns - 1)]


async def test_what_an_outage_missed_is_found_after_it(start: Start) -> None:
    """A local copy that began during an outage is no reason to miss older turns for good."""
    history: list[Item] = [user("Hi, what can you do?")]
    is_away = False

    async def before(operation: str) -> None:
        if operation == "recall" and is_away:
            raise StoreError("away")

    async with start() as w:
        w.app.store.inner = Hooked(w.app.store.inner, before)
        for n in range(6):
            is_away = n in (2, 3)
            answer = message(f"{n}", f"This is answer {n}, and it is not like the other answers.")
            seen = await exchange(w, history, reasoning(f"{n}"), answer, store=False)
            history += [nameless(answer) if n < 2 else answer, user(f"And then, {n}?")]

    assert reasons(seen) == [f"gAAAA{n}" for n in range(5)]


class Lagging(Hooked):
    """
    A store in which the newest turn is not visible yet.

    Attributes:
        lags: The number of lookups that do not find it.
    """

    lags = 1

    async def look_up(
        self, scope: bytes, lookups: Sequence[Lookup], held: Mapping[bytes, int]
    ) -> StoreResult:
        """Look up in the inner store, without the newest turn while it lags."""
        result = await self._inner.look_up(scope, lookups, held)
        if not self.lags or not result.conversations:
            return result
        self.lags -= 1
        (one,) = result.conversations
        records = one.records or {}
        newest = max(map(turn_of_record, records))
        older = {name: value for name, value in records.items() if turn_of_record(name) != newest}
        return StoreResult([one._replace(records=older)])


@contextlib.asynccontextmanager
async def lagging(start: Start) -> AsyncIterator[World]:
    """Start a proxy whose second lookup comes before the first turn is visible."""

    async def before(_: str) -> None:
        pass

    async with start(local_max_bytes=0) as w:
        w.app.store.inner = Lagging(w.app.store.inner, before)
        yield w


async def test_reasoning_that_upstream_required_stays_in(start: Start) -> None:
    """
    Reasoning that upstream required is injected in the retry and in all later turns.

    A cure decides anew, and the next request continues from the input that upstream accepted.
    """
    two = call("two")
    sent = [*LOST, two, output(two)]
    async with lagging(start) as w:
        await exchange(w, sent[:1], RS, CALL, store=False)
        w.upstream.answers(error(PAIRING, "input"))
        assert reasons(await exchange(w, LOST, reasoning("two"), two, store=False)) == [BLOB]
        assert reasons(await exchange(w, sent, store=False)) == [BLOB, "gAAAAtwo"]
        assert len(w.upstream.received) == 4


async def late(_: str) -> None:
    """Wait longer than a request waits for the store."""
    await asyncio.sleep(0.1)


async def test_replicas_without_the_store_agree(shared_redis: RedisServer) -> None:
    """
    Replicas with a store that is too slow keep the same prefix.

    No replica injects reasoning that only it knows.
    """
    given: dict[str, Any] = {
        "store_url": f"{shared_redis.url}?prefix=rr-{secrets.token_hex(8)}",
        "scope_secret": "one for all replicas",
        "store_budget_ms": 20,
    }
    history: list[Item] = [user("Look.")]
    seen: list[list[Item]] = []
    async with world(**given) as one, world(**given) as other:
        for w in (one, other):
            w.app.store.inner = Hooked(w.app.store.inner, late)
        for n, w in zip(range(8), cycle([one, other]), strict=False):
            deed = call(f"{n}")
            seen.append(await exchange(w, history, reasoning(f"{n}"), deed, store=False))
            history += [nameless(deed), output(deed)]

    for now, then in pairwise(seen):
        assert then[: len(now)] == now
