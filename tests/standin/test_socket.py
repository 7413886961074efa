"""WebSocket of the stand-in: the same rules and events as over HTTP, and parallel lanes."""

import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from tests.standin import Refusal, StandIn
from tests.standin.world import MODEL

Item = dict[str, Any]
ASK: Item = {"role": "user", "content": "Where does it rain?"}
RESULT: Item = {"type": "function_call_output", "output": "Oslo"}
ENDS = {"response.completed", "error"}


class Line:
    """A client that sends raw messages."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.socket = socket

    async def ask(self, *items: Item, **more: object) -> list[Item]:
        """Send a request, and return all events of its response."""
        request = {"type": "response.create", "model": MODEL, "input": items, **more}
        return await self.say(json.dumps(request))

    async def say(self, text: str) -> list[Item]:
        """Send a message, and return the response to it."""
        await self.socket.send_str(text)
        events: list[Item] = []
        while not events or events[-1]["type"] not in ENDS:
            events.append(await self.socket.receive_json(timeout=5))
        return events


@pytest.fixture
async def standin() -> AsyncIterator[StandIn]:
    """Start a stand-in that responds with a call first."""
    async with StandIn() as standin:
        yield standin


@pytest.fixture
async def line(standin: StandIn) -> AsyncIterator[Line]:
    """Connect to the stand-in."""
    headers = {"Authorization": "Bearer sk-a"}
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(f"{standin.base_url}/responses", headers=headers) as socket,
    ):
        yield Line(socket)


def items(events: list[Item]) -> list[Item]:
    """Return the items of a response."""
    return [one["item"] for one in events if one["type"] == "response.output_item.done"]


async def test_a_response_is_sent_event_by_event(line: Line, standin: StandIn) -> None:
    """Each event is one message; its lane is echoed, and absent if the request named none."""
    events = await line.ask(ASK)
    named = await line.ask(ASK, stream_id="a.b-c_1")

    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert [item["type"] for item in items(events)] == ["reasoning", "function_call"]
    assert {event.get("stream_id") for event in events} == {None}
    assert {event["stream_id"] for event in named} == {"a.b-c_1"}
    assert [(one.method, one.status) for one in standin.received] == [
        ("GET", 101),
        ("WEBSOCKET", 200),
        ("WEBSOCKET", 200),
    ]


@pytest.mark.parametrize("store", [True, False])
async def test_a_connection_caches_its_responses(line: Line, standin: StandIn, store: bool) -> None:
    """A connection can continue any of its responses; another connection only stored ones."""
    events = await line.ask(ASK, store=store)
    result = RESULT | {"call_id": items(events)[-1]["call_id"]}
    behind = {"previous_response_id": events[-1]["response"]["id"], "store": store}
    headers = {"Authorization": "Bearer sk-a"}
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(f"{standin.base_url}/responses", headers=headers) as socket,
    ):
        other = await Line(socket).ask(result, **behind)
    mine = await line.ask(result, **behind)

    assert mine[-1]["type"] == "response.completed"
    assert other[-1]["type"] == ("response.completed" if store else "error")


async def test_an_error_drops_the_cached_response(line: Line) -> None:
    """A failed continuation drops its response from the cache of the connection, as in the API."""
    events = await line.ask(ASK, store=False)
    behind = {"previous_response_id": events[-1]["response"]["id"], "store": False}
    (error,) = await line.ask(RESULT | {"call_id": "call_x"}, **behind)
    (again,) = await line.ask(RESULT | {"call_id": items(events)[-1]["call_id"]}, **behind)

    assert error["error"]["message"].startswith("No tool call found")
    assert again["error"]["code"] == "previous_response_not_found"


async def test_the_same_rules_hold(line: Line) -> None:
    """A call without its reasoning is refused, on its lane, with the status inside."""
    call = items(await line.ask(ASK))[-1]
    result = RESULT | {"call_id": call["call_id"]}
    (error,) = await line.ask(ASK, call, result, stream_id="a")

    assert (error["status"], error["stream_id"]) == (400, "a")
    assert "required 'reasoning' item" in error["error"]["message"]


@pytest.mark.parametrize(
    ("text", "status", "code"),
    [
        ("{", 400, None),
        ("[]", 400, None),
        ('{"type":"response.create"}', 400, None),
        ('{"type":"response.create","model":"m","tools":5}', 400, None),
        ('{"type":"response.other"}', 400, "invalid_value"),
        ('{"type":"response.create","model":"m","stream_id":""}', 400, "invalid_stream_id"),
    ],
)
async def test_an_invalid_message_is_refused(
    line: Line, text: str, status: int, code: str | None
) -> None:
    """After an invalid message the connection stays open."""
    (error,) = await line.say(text)

    assert (error["type"], error["status"], error["error"]["code"]) == ("error", status, code)
    assert (await line.ask(ASK))[-1]["type"] == "response.completed"


async def test_lanes_are_limited(line: Line) -> None:
    """A connection has at most 32 named lanes; the known ones stay usable."""
    for number in range(32):
        assert len(await line.ask(ASK, stream_id=str(number))) > 1
    (error,) = await line.ask(ASK, stream_id="32")

    assert error["error"]["code"] == "websocket_stream_limit_reached"
    assert len(await line.ask(ASK, stream_id="0")) > 1
    assert len(await line.ask(ASK)) > 1


async def test_the_next_message_or_upgrade_can_be_refused(line: Line, standin: StandIn) -> None:
    """A refusal set by the test answers the next request or the next upgrade."""
    standin.refuse_next(Refusal(500, "Out of order."))
    (error,) = await line.ask(ASK)
    assert (error["status"], error["error"]["message"]) == (500, "Out of order.")

    standin.refuse_next(Refusal(426, "Use HTTP."))
    with pytest.raises(aiohttp.WSServerHandshakeError) as raised:
        async with aiohttp.ClientSession() as session:
            await session.ws_connect(f"{standin.base_url}/responses")
    assert raised.value.status == 426


async def test_an_upgrade_needs_a_credential(standin: StandIn) -> None:
    """An upgrade without a credential is refused."""
    with pytest.raises(aiohttp.WSServerHandshakeError) as raised:
        async with aiohttp.ClientSession() as session:
            await session.ws_connect(f"{standin.base_url}/responses")
    assert raised.value.status == 401


async def test_a_binary_message_closes_the_connection(line: Line) -> None:
    """A binary message closes the connection with code 1003."""
    await line.socket.send_bytes(b"x")
    await line.socket.receive(timeout=5)
    assert line.socket.close_code == 1003


async def test_an_answer_may_be_cut_off(line: Line, standin: StandIn) -> None:
    """A cut connection ends without a close frame."""
    standin.behaviour.end, standin.behaviour.cut_after = "cut", 2
    await line.socket.send_str(
        json.dumps({"type": "response.create", "model": MODEL, "input": [ASK]})
    )
    kinds = [(await line.socket.receive(timeout=5)).type for _ in range(3)]
    text = aiohttp.WSMsgType.TEXT
    assert kinds[:2] == [text, text]
    assert kinds[2] is not text
    assert line.socket.close_code == 1006
