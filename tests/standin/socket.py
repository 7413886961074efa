"""
WebSocket of the stand-in: `response.create` in, the same events as in a stream out.

Requests are answered one after the other, in the order of their messages, on all lanes; the API
runs lanes in parallel.
"""

import asyncio
import json
import re
from collections.abc import Callable, Container

from aiohttp import WSMsgType, web
from reasoning_replay.strict_api import Item
from reasoning_replay.strict_api.dialect import Refused, Rule
from reasoning_replay.strict_api.responses_words import UNSUPPORTED
from reasoning_replay.strict_api.server import read_body

from tests.standin.exchange import (
    BODY_BYTES_MAX,
    DELAY_S_MAX,
    UNREADABLE,
    Exchange,
    Received,
    error_of,
)

__all__ = ["Socket"]

LANES_MAX = 32
UNSUPPORTED_DATA = 1003
_CREATE = "response.create"
_LANE = re.compile(r"[A-Za-z0-9_.-]{1,256}")

INVALID_LANE = Rule(
    "Invalid 'stream_id': expected 1 to 256 letters, digits, underscores, dots or dashes.",
    "not confirmed",
    "2026-11",
    param="stream_id",
    code="invalid_stream_id",
)
LANE_LIMIT = Rule(
    "This WebSocket connection has reached its stream limit.",
    "github.com/openai/openai-openapi",
    "2026-08",
    param="stream_id",
    code="websocket_stream_limit_reached",
)


class Socket:
    """
    Server of one connection.

    Args:
        exchange: The handshake.
        answer: Returns the events for a request, given the responses that this connection caches;
            raises Refused.
        delay_s: Returns the current pause after each event.
        note: Records each request.
    """

    def __init__(
        self,
        exchange: Exchange,
        answer: Callable[[Item, Container[str]], list[Item]],
        delay_s: Callable[[], float],
        note: Callable[[Received], None],
    ) -> None:
        self._exchange = exchange
        self._answer = answer
        self._delay_s = delay_s
        self._note = note
        self._cached: set[str] = set()
        self._lanes: set[str] = set()
        self._socket = web.WebSocketResponse(max_msg_size=BODY_BYTES_MAX, compress=False)

    async def serve(self) -> web.WebSocketResponse:
        """Accept the upgrade, and answer until the client leaves."""
        socket, received = self._socket, self._exchange.received
        await socket.prepare(self._exchange.request)
        received.status = 101
        async for message in socket:
            if message.type is not WSMsgType.TEXT:
                await socket.close(code=UNSUPPORTED_DATA)
                break
            await self._hear(message.data)
        received.finished = True
        return socket

    async def _hear(self, text: str) -> None:
        handshake = self._exchange.received
        received = Received(
            method="WEBSOCKET",
            path=handshake.path,
            body=text.encode(),
            headers=handshake.headers,
        )
        lane: Item = {}
        try:
            received.json = command = _command(text)
            lane = self._lane(command)
            self._note(received)
            await self._create(read_body(text.encode(), "input"), lane, received)
        except Refused as refused:
            received.status, received.finished = refused.status, True
            failure = {"type": "error", "status": refused.status, "error": error_of(refused)}
            await self._socket.send_json(failure | lane)

    async def _create(self, body: Item, lane: Item, received: Received) -> None:
        try:
            events = self._answer(body, self._cached)
        except Refused:
            self._cached.discard(body.get("previous_response_id") or "")
            raise
        self._cached.add(events[0]["response"]["id"])
        received.status = 200
        for event in events:
            await self._socket.send_json(event | lane)
            await asyncio.sleep(min(self._delay_s(), DELAY_S_MAX))
        received.finished = True

    def _lane(self, command: Item) -> Item:
        """
        Check and record the lane of a message; return it as events name it.

        Raises:
            Refused: The name is invalid, or it is one lane too many, or the type of the message is
                not served here.
        """
        if command.get("type") != _CREATE:
            raise UNSUPPORTED("type", command.get("type"), f"'{_CREATE}'")
        if "stream_id" not in command:
            return {}
        name = command["stream_id"]
        if not isinstance(name, str) or _LANE.fullmatch(name) is None:
            raise INVALID_LANE(name)
        if name not in self._lanes and len(self._lanes) >= LANES_MAX:
            raise LANE_LIMIT(name)
        self._lanes.add(name)
        return {"stream_id": name}


def _command(text: str) -> Item:
    try:
        command = json.loads(text)
    except ValueError as error:
        raise UNREADABLE(error) from error
    if not isinstance(command, dict):
        raise UNREADABLE("no object")
    return command
