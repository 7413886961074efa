"""
WebSocket of the strict Responses API: `response.create` in, the same events as in a stream out.

Requests are answered one after the other, in the order of their messages, on all lanes; the API
runs lanes in parallel.
"""

import asyncio
from typing import TYPE_CHECKING, Any

from aiohttp import WSMsgType, web
from reasoning_replay.strict_api import Item
from reasoning_replay.strict_api.dialect import Refused
from reasoning_replay.strict_api.responses_words import UNSUPPORTED

from tests.strict.upstream import BODY_BYTES_MAX, Received

if TYPE_CHECKING:
    from tests.strict.responses import ResponsesApi, StrictResponses

__all__ = ["Socket"]

UNSUPPORTED_DATA = 1003
CREATE = "response.create"


class Socket:
    """One connection of a caller."""

    def __init__(
        self,
        upstream: "StrictResponses",
        request: web.Request,
        received: Received,
        api: "ResponsesApi",
    ) -> None:
        self._upstream, self._request, self._received, self._api = upstream, request, received, api
        self._cached: set[str] = set()  # responses that exist on this connection only
        self._socket = web.WebSocketResponse(max_msg_size=BODY_BYTES_MAX, compress=False)

    async def serve(self) -> web.WebSocketResponse:
        """Accept the upgrade, and answer until the client leaves."""
        socket = self._socket
        await socket.prepare(self._request)
        self._received.status = 101
        async for message in socket:
            if message.type is not WSMsgType.TEXT:
                await socket.close(code=UNSUPPORTED_DATA)
                break
            await self._hear(message.data)
        self._received.finished = True
        return socket

    async def _hear(self, text: str) -> None:
        handshake = self._received
        received = Received(
            method="WEBSOCKET", path=handshake.path, body=text.encode(), headers=handshake.headers
        )
        self._upstream.note(received)
        lane: Item = {}
        try:
            body = self._upstream.read(received, self._api)
            lane = {name: body[name] for name in ("stream_id",) if name in body}
            if body.get("type") != CREATE:
                raise UNSUPPORTED("type", body.get("type"), f"'{CREATE}'")
            await self._create(body, lane, received)
        except Refused as refused:
            received.status, received.finished = refused.status, True
            error = self._api.error(refused)
            failure = {"type": "error", "status": refused.status, **error}
            await self._socket.send_json(failure | lane)

    async def _create(self, body: Item, lane: Item, received: Received) -> None:
        self._api.cached = self._cached
        try:
            answer = self._upstream.serve(received, body, self._api)
        except Refused:
            self._cached.discard(body.get("previous_response_id") or "")
            raise
        finally:
            self._api.cached = ()
        self._cached.add(answer["id"])
        received.status = 200
        for number, event in enumerate(self._api.steps(answer)):
            told: Any = {**event, "sequence_number": number} | lane
            await self._socket.send_json(told)
            await asyncio.sleep(self._upstream.behaviour.delay_s)
        received.finished = True
