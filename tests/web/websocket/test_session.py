"""
Requests and responses of one WebSocket: which request a response or an error belongs to.

Where that is not certain, nothing is captured by history and nothing is sent again.
"""

import asyncio
from typing import Any

import pytest

from tests.web.sockets import BINARY, CLOSE, KEY, Peer, frame, said, tunnelled
from tests.web.websocket.creates import create, failed, told, turn
from tests.web.wire import ASK, LOST, MESSAGE, NEXT, PAIRING, RS_2, Item, response
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


async def test_an_end_that_is_too_long_to_be_read_is_an_end() -> None:
    """A message that passes unread ends the only response that runs, so a drain does not wait."""
    *begin, _ = told(RS_2, SAID)
    said_all = response(RS_2, MESSAGE | {"content": "x" * 5000})
    end = said({"type": "response.completed", "response": said_all})
    async with world(inspect_max_bytes=4000) as w, tunnelled(w) as (client, upstream):
        await turn(client, upstream, create(ASK), [*begin, end])
        assert w.counted("captures_total", result="too_large") == 1
        await goes_away(w, client)
