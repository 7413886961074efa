"""What the store knows is injected, whatever other evidence, failures or clients do to it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from hashlib import sha256
from itertools import cycle, pairwise
from typing import Any

import pytest
from reasoning_replay.adapters.stores.base import StoreError, StoreResult
from reasoning_replay.core.history.lookup_keys import Lookup
from reasoning_replay.core.history.turns import turn_of_record

from tests.redis_server import RedisServer
from tests.web.wire import CALL, LOST, PAIRING, RS, as_json, error, response, whole
from tests.web.world import Hooked, World, world

Item = dict[str, Any]
Start = Callable[..., contextlib.AbstractAsyncContextManager[World]]

INCLUDE = "reasoning.encrypted_content"
BLOB = RS["encrypted_content"]
SECRET = "one for all replicas"


@pytest.fixture(params=["memory", "redis"])
def start(request: pytest.FixtureRequest) -> Start:
    """Start a proxy and its upstream, with an empty store of either kind."""
    url = "memory://"
    if request.param == "redis":
        redis: RedisServer = request.getfixturevalue("shared_redis")
        redis.do("FLUSHALL")
        url = redis.url

    @contextlib.asynccontextmanager
    async def started(**more: Any) -> AsyncIterator[World]:
        async with world(store_url=url, scope_secret=SECRET, **more) as w:
            yield w

    return started


def drawn(name: str) -> str:
    """Return what upstream could have drawn at random."""
    return sha256(name.encode()).hexdigest()[:24]


def thought(name: str, **more: object) -> Item:
    """Return reasoning as upstream emits it, with a blob."""
    blob = {"encrypted_content": f"gAAAA{name}"}
    return {"id": f"rs_{drawn(name)}", "type": "reasoning", "summary": []} | blob | more


def said(name: str, text: str) -> Item:
    """Return a message as upstream emits it."""
    part = {"type": "output_text", "text": text, "annotations": []}
    fixed = {"id": f"msg_{drawn(name)}", "type": "message", "status": "completed"}
    return fixed | {"role": "assistant", "content": [part]}


def call(name: str) -> Item:
    """Return a call as upstream emits it."""
    fixed = {"id": f"fc_{drawn(name)}", "type": "function_call", "call_id": f"call_{drawn(name)}"}
    return fixed | {"name": "look", "arguments": as_json({"at": name}).decode()}


def result(of: Item) -> Item:
    """Return what a call brought."""
    return {"type": "function_call_output", "call_id": of["call_id"], "output": "There it is."}


def asked(text: str) -> Item:
    """Return what a user says."""
    return {"role": "user", "content": text}


def nameless(item: Item) -> Item:
    """Return an item without its id."""
    return {key: value for key, value in item.items() if key != "id"}


async def exchange(
    w: World, sent: Sequence[Item], *emitted: Item, **more: object
) -> list[Item]:  # fmt: skip
    """Have a history answered; return the input that upstream saw."""
    name = f"resp_{drawn(str(emitted))}"
    w.upstream.answers(whole(as_json(response(*emitted, rid=name))))
    answer = await w.turn(*sent, **more)
    assert answer.status == 200
    seen: list[Item] = w.sent()["input"]
    return seen


def reasons(items: Sequence[Item]) -> list[str]:
    """Return the blobs in an input."""
    return [item["encrypted_content"] for item in items if item.get("type") == "reasoning"]


async def test_what_a_client_names_by_half_of_a_run_stands_in_its_order(start: Start) -> None:
    """Point 7: the half that is a reference stays behind the other, as it was emitted."""
    one, two, deed = thought("one"), thought("two"), call("deed")
    reference = {"type": "item_reference", "id": two["id"]}
    sent = [asked("Look."), reference, deed, result(deed)]
    async with start() as w:
        await exchange(w, [asked("Look.")], one, two, deed)
        seen = await exchange(w, sent, said("end", "Done."))

    assert seen == [asked("Look."), one, *sent[1:]]


async def test_a_chat_in_the_easy_form_is_asked_for_blobs(start: Start) -> None:
    """Point 10: items that can have no id go by blobs, so these are asked for once one is seen."""
    history: list[Item] = [asked("Hi, what can you do?")]
    included, seen = [], []
    async with start() as w:
        for n in range(4):
            words = f"This is answer {n}, and it is not like any of the other answers."
            blob = thought(f"{n}") if n else thought(f"{n}", encrypted_content=None)
            seen = await exchange(w, history, blob, said(f"{n}", words))
            included.append(INCLUDE in w.sent().get("include", ()))
            history += [{"role": "assistant", "content": words}, asked(f"And then, {n}?")]

    assert included == [False, True, True, True]
    assert reasons(seen) == ["gAAAA1", "gAAAA2"]  # of the first, upstream gave no blob


async def test_a_stock_phrase_does_not_crowd_out_what_is_certain(start: Start) -> None:
    """Point 11: six others said what went past the proxy last; the call names its conversation."""
    mine = call("mine")
    sent = [asked("Look."), nameless(mine), result(mine), nameless(said("past", "Done."))]
    async with start() as w:
        for n in range(6):
            await exchange(w, [asked(f"Begin {n}.")], thought(f"x{n}"), said(f"x{n}", "Done."))
        await exchange(w, [asked("Look.")], thought("mine"), mine)
        seen = await exchange(w, [*sent, asked("Go on.")], said("e", "Yes."))

    assert reasons(seen) == ["gAAAAmine"]


async def test_calls_behind_the_response_that_is_named_get_their_reasoning(start: Start) -> None:
    """Point 12: each step names the round before, and sends this round's calls by value."""
    first, second = call("first"), call("second")
    by_value: list[Item] = [asked("And now look.")]
    async with start() as w:
        await exchange(w, [asked("Hi.")], thought("hi"), said("hi", "Hello!"))
        named = {
            "previous_response_id": f"resp_{drawn(str((thought('hi'), said('hi', 'Hello!'))))}"
        }
        await exchange(w, by_value, thought("first"), first, **named)
        by_value += [first, result(first)]
        one = await exchange(w, by_value, thought("second"), second, **named)
        by_value += [second, result(second)]
        two = await exchange(w, by_value, said("end", "Done."), **named)

    assert one == [by_value[0], thought("first"), *by_value[1:3]]
    assert two == [*one, thought("second"), *by_value[3:]]


async def test_what_the_named_response_has_is_left_to_upstream(start: Start) -> None:
    """Point 12: a call of its own chain is in the history that upstream holds already."""
    deed, sent = call("deed"), [asked("Look.")]
    async with start() as w:
        await exchange(w, sent, thought("deed"), deed)
        named = {"previous_response_id": f"resp_{drawn(str((thought('deed'), deed)))}"}
        again = [deed, result(deed)]
        assert await exchange(w, again, said("end", "Done."), **named) == again


async def test_turns_whose_lookup_failed_are_found_again(start: Start) -> None:
    """Point 17: one lookup in two fails, and in the end nothing of a long chat is missing."""
    turns, fails = 24, cycle([False, True])
    history: list[Item] = [asked("Hi, what can you do?")]

    async def before(operation: str) -> None:
        if operation == "recall" and next(fails):
            raise StoreError("away")

    async with start() as w:
        w.app.store.inner = Hooked(w.app.store.inner, before)
        for n in range(turns):
            answer = said(f"{n}", f"This is answer {n}, and it is not like the other answers.")
            seen = await exchange(w, history, thought(f"{n}"), answer, store=False)
            history += [nameless(answer), asked(f"And then, {n}?")]

    assert reasons(seen) == [f"gAAAA{n}" for n in range(turns - 1)]


class Lagging(Hooked):
    """
    A store that has not got the newest turn yet.

    Attributes:
        lags: How many lookups still find it so.
    """

    lags = 1

    async def look_up(
        self, scope: bytes, lookups: Sequence[Lookup], held: Mapping[bytes, int]
    ) -> StoreResult:
        """As the store, less a turn."""
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
    """Start a proxy whose second lookup comes too early for the first turn."""

    async def before(_: str) -> None:
        pass

    async with start(recent_max_bytes=0) as w:
        w.app.store.inner = Lagging(w.app.store.inner, before)
        yield w


async def test_what_upstream_did_without_it_does_without(start: Start) -> None:
    """A turn that was saved late: the prefix that upstream has seen stays as it is."""
    one, two = call("one"), call("two")
    sent = [asked("Look."), one, result(one), two, result(two)]
    async with lagging(start) as w:
        await exchange(w, sent[:1], thought("one"), one, store=False)
        seen = await exchange(w, sent[:3], thought("two"), two, store=False)
        assert seen == sent[:3]
        assert reasons(await exchange(w, sent, store=False)) == ["gAAAAtwo"]


async def test_what_upstream_refused_to_do_without_comes_back_for_good(start: Start) -> None:
    """A cure decides anew, and the next request goes on from what upstream saw then."""
    two = call("two")
    sent = [*LOST, two, result(two)]
    async with lagging(start) as w:
        await exchange(w, sent[:1], RS, CALL, store=False)
        w.upstream.answers(error(PAIRING, "input"))
        assert reasons(await exchange(w, LOST, thought("two"), two, store=False)) == [BLOB]
        assert reasons(await exchange(w, sent, store=False)) == [BLOB, "gAAAAtwo"]
        assert len(w.upstream.received) == 4


async def late(_: str) -> None:
    """Take longer than a request waits."""
    await asyncio.sleep(0.1)


async def test_replicas_without_the_store_agree(shared_redis: RedisServer) -> None:
    """Point 19: none restores a half that only it knows, so the prefix stays as it is."""
    shared_redis.do("FLUSHALL")
    given: dict[str, Any] = {
        "store_url": shared_redis.url,
        "scope_secret": SECRET,
        "store_budget_ms": 20,
    }
    history: list[Item] = [asked("Look.")]
    seen: list[list[Item]] = []
    async with world(**given) as one, world(**given) as other:
        for w in (one, other):
            w.app.store.inner = Hooked(w.app.store.inner, late)
        for n, w in zip(range(8), cycle([one, other]), strict=False):
            deed = call(f"{n}")
            seen.append(await exchange(w, history, thought(f"{n}"), deed, store=False))
            history += [nameless(deed), result(deed)]

    for now, then in pairwise(seen):
        assert then[: len(now)] == now
