"""
Requests and responses of one WebSocket: which request a response or an error belongs to.

Where that is not certain, nothing is captured by history and nothing is sent again.
"""

import asyncio
from typing import Any

import pytest
from reasoning_replay.adapters.stores.base import Name, Store, VersionChange
from reasoning_replay.core.history.records import turns_of
from reasoning_replay.core.history.turns import Turn

from tests.web.sockets import BINARY, CLOSE, KEY, Peer, frame, said, tunnelled
from tests.web.websocket.creates import create, failed, told, turn
from tests.web.wire import ASK, CALL, LOST, MESSAGE, NEXT, PAIRING, RS, RS_2, Item, response
from tests.web.world import Hooked, World, eventually, world

SAID = MESSAGE | {"content": [{"type": "output_text", "text": "Two.", "annotations": []}]}
BARE = {name: SAID[name] for name in SAID if name != "id"}


class SlowOnce:
    """A store whose first lookup waits until the test opens it."""

    def __init__(self, w: World) -> None:
        self.asked = 0
        self._may = asyncio.Event()
        w.app.store.inner = Hooked(w.app.store.inner, self._before)

    async def _before(self, operation: str) -> None:
        if operation == "recall":
            self.asked += 1
            if self.asked == 1:
                await self._may.wait()

    def opens(self) -> None:
        """Let the first lookup go on."""
        self._may.set()


class Saves:
    """The turns that are saved."""

    def __init__(self, w: World) -> None:
        self.turns: list[Turn] = []
        self._inner: Store = w.store
        self._save, self._inner.save = self._inner.save, self._noted  # type: ignore[method-assign]

    async def _noted(self, name: Name, records: Any, *more: Any, **given: Any) -> VersionChange:
        self.turns += turns_of(name[1], records)  # the head comes too, since it is saved first
        return await self._save(name, records, *more, **given)


async def gets_reasoning(client: Peer, upstream: Peer, *history: Item) -> bool:
    """Return whether upstream receives reasoning with this history, on a separate stream."""
    seen = await turn(client, upstream, create(*history, stream_id="z"), told(stream="z", rid="z"))
    return has_reasoning(seen)


async def goes_away(w: World, client: Peer) -> None:
    """Assert that no request is pending: a drain closes the WebSocket at once."""
    w.app.handler.drain()
    assert await client.message() == (CLOSE, b"\x03\xe9")


def has_reasoning(seen: dict[str, list[Item]]) -> bool:
    """Return whether the request has reasoning."""
    return any(item.get("type") == "reasoning" for item in seen["input"])


async def test_a_refused_request_is_not_retried_after_a_later_request() -> None:
    """A refused request is not retried if the client sends another request in the meantime."""
    refusal, answer = failed(PAIRING), told(RS_2, SAID, rid="resp_2")
    async with world(has_store=True) as w, tunnelled(w) as (client, upstream):
        await client.send(create(*LOST))
        await upstream.event()
        store = SlowOnce(w)
        await upstream.send(refusal)
        await eventually(lambda: store.asked == 1)
        await client.send(create(NEXT))
        assert (await upstream.event())["input"] == [NEXT]
        store.opens()
        await client.gets(refusal)
        assert await upstream.is_silent()
        await upstream.send(b"".join(answer))
        await client.gets(*answer)
        await client.send(create(*LOST, BARE, NEXT))
        assert not has_reasoning(await upstream.event())
        assert w.counted("heals_total", diagnosis="lacks_reasoning", result="cured") == 0


# --- errors without a stream ---


@pytest.mark.parametrize("stream", ["a", ""])
async def test_an_error_without_a_stream_ends_the_only_request(stream: str) -> None:
    """An error without a `stream_id` ends the only pending request; the next one is captured."""
    refusal, answer = failed("overloaded", 500), told(RS_2, SAID, stream=stream, rid="resp_2")
    on: Any = {"stream_id": stream} if stream else {}
    async with world() as w, tunnelled(w) as (client, upstream):
        await turn(client, upstream, create(ASK, **on), [refusal])
        await turn(client, upstream, create(NEXT, **on), answer)
        assert await gets_reasoning(client, upstream, NEXT, BARE, ASK)
        assert not await gets_reasoning(client, upstream, ASK, BARE, NEXT)
        assert w.counted("exchanges_total", route="create", outcome="upstream_error") == 1
        assert w.counted("captures_total", result="refused") == 1
        await goes_away(w, client)


async def test_an_error_without_a_stream_is_ambiguous_if_two_requests_wait() -> None:
    """Nothing is sent again; later responses are captured by their ids, and by no history."""
    refusal = failed(f"Item with id '{RS['id']}' not found.", 404)
    async with world() as w, tunnelled(w) as (client, upstream):
        await turn(client, upstream, create(ASK), told(RS, CALL))
        await client.send(create(*LOST) + create(NEXT, stream_id="a"))
        await upstream.event()
        await upstream.event()
        await upstream.send(refusal)
        await client.gets(refusal)
        assert await upstream.is_silent()
        answer = told(RS_2, SAID, stream="a", rid="resp_2")
        await upstream.send(b"".join(answer))
        await client.gets(*answer)
        assert not await gets_reasoning(client, upstream, NEXT, BARE, ASK)
        assert await gets_reasoning(client, upstream, NEXT, SAID, ASK)  # by its id
        await goes_away(w, client)


async def test_a_refusal_is_ambiguous_if_two_requests_wait_on_a_stream() -> None:
    """Upstream may have refused the last of them at once."""
    answer = told(RS_2, SAID, rid="resp_2")
    async with world() as w, tunnelled(w) as (client, upstream):
        await client.send(create(ASK) + create(NEXT))
        await upstream.event()
        await upstream.event()
        await upstream.send(failed("too many", 429) + b"".join(answer))
        await client.gets(failed("too many", 429), *answer)
        for history in ([ASK, BARE, NEXT], [NEXT, BARE, ASK]):
            assert not await gets_reasoning(client, upstream, *history)
        await goes_away(w, client)


# --- errors while a response runs ---


async def test_an_error_may_end_the_running_response() -> None:
    """An error that ends the running response leaves no request pending."""
    begin, error = told(RS)[0], failed("server error", 500)
    async with world() as w, tunnelled(w) as (client, upstream):
        await turn(client, upstream, create(ASK), [begin, error])
        await goes_away(w, client)
        client.leave()
        upstream.leave()
        await eventually(lambda: w.app.handler.admission.count == 0)
        assert w.counted("exchanges_total", route="create", outcome="upstream_error") == 1


async def test_an_error_may_be_about_something_else() -> None:
    """A response that goes on after an error is captured, and a drain waits for it."""
    begin, *more, end = told(RS, CALL)
    async with world() as w, tunnelled(w) as (client, upstream):
        await turn(client, upstream, create(ASK), [begin, failed("no such thing to steer"), *more])
        w.app.handler.drain()
        assert await client.is_silent()
        await upstream.send(end)
        await client.gets(end)
        assert await client.message() == (CLOSE, b"\x03\xe9")
        assert w.counted("captures_total", result="saved") == 1
        assert w.counted("exchanges_total", route="create", outcome="ok") == 1


# --- responses without a known request ---


def begun(previous: str) -> bytes:
    """Return the first event of a response that continues another one."""
    behind = response(rid="resp_2", previous_response_id=previous)
    return said({"type": "response.created", "response": behind})


LAST = "resp_0c1d2e3f4a5b6071"


@pytest.mark.parametrize(
    ("begin", "ends", "is_known"),
    [
        pytest.param(begun(LAST), "response.completed", True, id="it-names-it"),
        pytest.param(begun("resp_9"), "response.completed", False, id="it-names-another"),
        pytest.param(begun("resp_9"), "response.incomplete", False, id="steered-and-names-another"),
        pytest.param(told(rid="resp_2")[0], "response.incomplete", True, id="steered"),
        pytest.param(told(rid="resp_2")[0], "response.completed", False, id="it-names-none"),
    ],
)
async def test_a_response_without_a_request_gets_no_uncertain_parent(
    begin: bytes, ends: str, is_known: bool
) -> None:
    """The parent is evidence for later lookups, so the last response is no default for it."""
    first = [*told(RS, CALL)[:-1], said({"type": ends, "response": response()})]
    async with world(has_store=True) as w, tunnelled(w) as (client, upstream):
        store = Saves(w)
        await turn(client, upstream, create(ASK), first)
        await turn(client, upstream, create(ASK, generate=False), [failed("no", 500)])
        answer = [begin, *told(RS_2, SAID, rid="resp_2")[1:]]
        await upstream.send(b"".join(answer))
        await client.gets(*answer)
        assert (store.turns[-1].parent == store.turns[0].id) == is_known
        assert (store.turns[-1].conversation == store.turns[0].conversation) == is_known


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(said(rb'{"type":"response\u002ecreate","input":[]}', key=KEY), id="escaped"),
        pytest.param(frame(BINARY, b'{"type":"response.create"}', key=KEY), id="binary"),
    ],
)
async def test_a_request_in_an_unusual_spelling_is_not_overlooked(request_: bytes) -> None:
    """The response to a request in an unusual spelling is not captured for the next request."""
    answer = told(RS_2, SAID, rid="resp_2")
    async with world() as w, tunnelled(w) as (client, upstream):
        await client.send(request_ + create(NEXT))
        await upstream.gets(request_)
        await upstream.event()
        await upstream.send(b"".join(answer))
        await client.gets(*answer)
        assert not await gets_reasoning(client, upstream, NEXT, BARE, ASK)
