"""
WebSocket of the stand-in: `response.create` in, the same events as in a stream out.

Requests are answered one after the other, in the order of their messages, on all lanes; the API
runs lanes in parallel.
"""

import asyncio
import re
from collections.abc import Callable, Container

import msgspec
from aiohttp import WSMsgType, web
from msgspec import UNSET, Struct, UnsetType

from tests.standin import refusals
from tests.standin.answering import Behaviour, View
from tests.standin.events import tell
from tests.standin.exchange import (
    BODY_BYTES_MAX,
    DELAY_S_MAX,
    Exchange,
    Received,
    RefusedError,
)
from tests.standin.refusals import ErrorBody, Refusal
from tests.standin.shapes import Body

__all__ = ["Socket"]

LANES_MAX = 32
UNSUPPORTED_DATA = 1003
_CREATE = "response.create"
_LANE = re.compile(r"[A-Za-z0-9_.-]{1,256}")


class Command(Struct):
    """The head of a client's message."""

    type: str
    stream_id: str | UnsetType = UNSET


class Failure(Struct, kw_only=True):
    """An error on a WebSocket: the same as over HTTP, with the status inside."""

    type: str = "error"
    status: int
    error: ErrorBody
    stream_id: str | UnsetType = UNSET


class Socket:
    """
    Server of one connection.

    Args:
        exchange: The handshake.
        answer: Judges and answers a request, given the responses that this connection caches;
            raises RefusedError.
        behaviour: Returns the current behaviour.
        note: Records each request.
    """

    def __init__(
        self,
        exchange: Exchange,
        answer: Callable[[Body, Container[str]], View],
        behaviour: Callable[[], Behaviour],
        note: Callable[[Received], None],
    ) -> None:
        self._exchange = exchange
        self._answer = answer
        self._behaviour = behaviour
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
            await self._hear(message.data.encode())
        received.finished = True
        return socket

    async def _hear(self, text: bytes) -> None:
        handshake = self._exchange.received
        received = Received(
            method="WEBSOCKET", path=handshake.path, body=text, headers=handshake.headers
        )
        lane: str | UnsetType = UNSET
        try:
            received.json = msgspec.json.decode(text)
            command = msgspec.json.decode(text, type=Command)
            lane = self._lane(command)
            self._note(received)
            await self._create(text, command, received)
        except msgspec.MsgspecError as error:
            await self._refuse(refusals.unreadable_body(str(error)), lane, received)
        except RefusedError as error:
            await self._refuse(error.refusal, lane, received)

    async def _create(self, text: bytes, command: Command, received: Received) -> None:
        body = msgspec.json.decode(text, type=Body)
        body.declared_tools()
        body.detach()
        behaviour = self._behaviour()
        try:
            view = self._answer(body, self._cached)
        except RefusedError:
            self._cached.discard(body.previous_response_id or "")
            raise
        answer = view.turn.answer
        self._cached.add(answer.id)
        received.status = 200
        for event in tell(answer, view.telling(behaviour, obfuscates=False)):
            event.stream_id = command.stream_id
            await self._socket.send_str(msgspec.json.encode(event).decode())
            await asyncio.sleep(min(behaviour.delay_s, DELAY_S_MAX))
        received.finished = True

    def _lane(self, command: Command) -> str | UnsetType:
        """
        Check and record the lane of a message.

        Raises:
            RefusedError: The name is invalid, or it is one lane too many, or the type of the
                message is not served here.
        """
        if command.type != _CREATE:
            raise RefusedError(refusals.unsupported_value("type", command.type, (_CREATE,)))
        name = command.stream_id
        if isinstance(name, UnsetType):
            return name
        if _LANE.fullmatch(name) is None:
            raise RefusedError(refusals.invalid_stream_id())
        if name not in self._lanes and len(self._lanes) >= LANES_MAX:
            raise RefusedError(refusals.stream_limit())
        self._lanes.add(name)
        return name

    async def _refuse(self, refusal: Refusal, lane: str | UnsetType, received: Received) -> None:
        received.status, received.finished = refusal.status, True
        failure = Failure(status=refusal.status, error=refusal.envelope.error, stream_id=lane)
        await self._socket.send_str(msgspec.json.encode(failure).decode())
