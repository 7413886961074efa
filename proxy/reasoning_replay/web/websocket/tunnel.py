"""
A WebSocket that both sides have agreed to: bytes pass both ways as they came, until it ends.

The API's own messages are read on the way. A text message waits until it is whole, and one that
completes an item until that is saved; only `response.create` may go out otherwise than it came.
Whatever cannot be followed passes unread.
"""

import asyncio
import contextlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass

from aiohttp import web

from reasoning_replay.adapters.upstream.response import UpstreamResponse
from reasoning_replay.adapters.upstream.upgraded_transport import (
    LEFT_OVER_S,
    End,
    client_end,
    upstream_end,
)
from reasoning_replay.core.dialects.responses.events import is_worth_reading
from reasoning_replay.core.wire.ws_frames import Messages, Piece, close_frame
from reasoning_replay.web.exchange import Exchange, Limits
from reasoning_replay.web.exchange_log import ExchangeRecorder
from reasoning_replay.web.http.upgrade import FinishedResponse, head_of
from reasoning_replay.web.memory_budget import MemoryBudget, MemoryLease
from reasoning_replay.web.pipeline.replay import Replay
from reasoning_replay.web.websocket.message_reader import Ear
from reasoning_replay.web.websocket.messages import is_worth_preparing
from reasoning_replay.web.websocket.session import Lanes

__all__ = ["tunnel"]

# How long one side may take to end once the other one has.
LINGER_S = 5.0
# How long a close frame may remain without an answer.
CLOSING_S = 30.0
# How soon it is looked again whether a close frame of ours would cut a message in two.
AGAIN_S = 0.1
# So much is read before others have their turn: 5,000 frames at most.
SLICE_BYTES = 32 * 1024
GOING_AWAY = 1001
KEY_BYTES = 4


async def tunnel(  # noqa: PLR0913, PLR0917 (all that takes part in it)
    exchange: Exchange,
    request: web.BaseRequest,
    response: UpstreamResponse,
    replay: Replay | None,
    limits: Limits,
    room: MemoryBudget,
    account: ExchangeRecorder,
    draining: asyncio.Event,
) -> web.StreamResponse:
    """
    Carry a WebSocket until it ends.

    Args:
        exchange: Its outcome is filled in.
        request: The client's upgrade.
        response: Upstream's 101; the caller closes it.
        replay: None leaves all messages unread.
        limits: Of the messages that are held in order to be read.
        room: Where what is held of the client's messages is taken from.
        account: Where each `response.create` is written down.
        draining: Set when the process is about to stop.
    """
    exchange.status = response.status
    upstream = upstream_end(response)
    client = client_end(request)
    try:
        await client.write(head_of(response))
        carried = _Tunnel(exchange, client, upstream, account)
        if replay is not None:
            carried.read_with(replay, request.headers, limits, room)
        await carried.run(draining)
    except ConnectionResetError:
        pass  # the client has left already
    finally:
        client.close()
        upstream.close()
    return FinishedResponse()


@dataclass(slots=True)
class _Way:
    """
    One direction.

    Attributes:
        ended: What it is called when this source ends first.
        ear: None while nobody listens.
    """

    source: End
    sink: End
    ended: str
    ear: Ear | None = None


class _Tunnel:
    """Both directions of one WebSocket."""

    def __init__(
        self, exchange: Exchange, client: End, upstream: End, account: ExchangeRecorder
    ) -> None:
        self._exchange = exchange
        self._account = account
        self._up = _Way(client, upstream, "client_gone")
        self._down = _Way(upstream, client, "cut_off")
        self._lanes: Lanes | None = None
        self._ended = ""  # by whom, once that is known
        self._said_close = asyncio.Event()  # set when a close frame has passed
        self._is_leaving = False  # we have closed it: nothing is passed on any more

    def read_with(
        self, replay: Replay, headers: Mapping[str, str], limits: Limits, room: MemoryBudget
    ) -> None:
        """Read the messages; `headers` are the handshake's."""
        longest = limits.inspect_max_bytes
        lanes = Lanes(replay, self._account, headers, longest, self._resend)
        self._lanes = lanes
        mine = (Messages(longest), is_worth_preparing, lanes.prepare, lanes.overlook)
        self._up.ear = Ear(*mine, MemoryLease(room))
        answers = Messages(limits.capture_max_bytes)
        self._down.ear = Ear(answers, is_worth_reading, lanes.hear, lanes.miss)

    async def run(self, draining: asyncio.Event) -> None:
        """Pass bytes on until both sides have ended."""
        pumps = {asyncio.ensure_future(self._pump(way)) for way in (self._up, self._down)}
        ends = (self._up.source.ended.wait(), self._down.source.ended.wait())
        others = (self._leave(draining), self._wait_for_a_close(), *ends)
        tasks = {*pumps, *(asyncio.ensure_future(other) for other in others)}
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            await self._linger(pumps)
        finally:
            for task in tasks:
                task.cancel()
            for result in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(result, Exception):
                    reason, whose = type(result).__name__, self._exchange
                    self._account.log.error(
                        "bug", request_id=whose.id, route=whose.route, reason=reason
                    )
            self._settle()

    async def _linger(self, pumps: set[asyncio.Task[None]]) -> None:
        """Wait until all is passed on, for as long as any is taken of what was left behind."""
        taken = -1
        while True:
            before = taken
            sinks = [way.sink for way in (self._up, self._down) if way.source.ended.is_set()]
            taken = sum(sink.taken_bytes for sink in sinks)
            timeout = LEFT_OVER_S if any(sink.is_held_up for sink in sinks) else LINGER_S
            if taken <= before or not (await asyncio.wait(pumps, timeout=timeout))[1]:
                return

    def _settle(self) -> None:
        if self._up.ear is not None and self._up.ear.share is not None:
            self._up.ear.share.resize(0)
        ended = self._ended or self._exchange.outcome
        if self._lanes is not None:
            self._lanes.close(ended)
        is_unread = self._lanes is None and bool(self._ended)  # there, a close frame is not seen
        self._exchange.outcome = "ok" if self._said_close.is_set() or is_unread else ended

    # --- bytes ---

    async def _pump(self, way: _Way) -> None:
        try:
            while data := await way.source.read():
                if way is self._up:
                    self._exchange.received_bytes += len(data)
                await self._pass(way, data)
            self._end(way)
            await self._write(way, self._rest(way))
            way.sink.end()
        except ConnectionResetError:
            self._end(self._down if way is self._up else self._up)
            # A client that we close while it writes would be reset, and might never read why.
            while way is self._up and await way.source.read():
                pass

    async def _pass(self, way: _Way, data: bytes) -> None:
        ear = way.ear
        if ear is None:
            await self._write(way, data)
            return
        for at in range(0, len(data), SLICE_BYTES):
            if at:
                await asyncio.sleep(0)
            await self._pass_messages(way, ear, data[at : at + SLICE_BYTES])
        if ear.messages.is_closed:
            self._said_close.set()
            self._end(way)
        elif ear.messages.is_over:
            self._stop_reading("frames")

    async def _pass_messages(self, way: _Way, ear: Ear, data: bytes) -> None:
        out: list[bytes] = []
        for piece in ear.feed(data):
            if piece.is_long or piece.is_binary:
                self._skip(ear, piece)
            if piece.text is None or not ear.is_worth(piece.text):
                out.append(piece.raw)
                continue
            await self._write(way, b"".join(out))  # not to wait for what is done to this one
            out = [await self._read(ear, piece)]
        await self._write(way, b"".join(out))

    async def _write(self, way: _Way, data: bytes) -> None:
        if not data or self._is_leaving:
            return
        if way is self._down:
            self._exchange.sent_bytes += len(data)
        await way.sink.write(data)

    def _end(self, way: _Way) -> None:
        self._ended = self._ended or way.ended

    def _rest(self, way: _Way) -> bytes:
        """Return what was held of a direction that has ended."""
        if way.ear is None:
            return b""
        refusals = self._lanes.close(self._ended) if self._lanes and way is self._down else b""
        return refusals + way.ear.messages.rest()

    # --- messages ---

    async def _read(self, ear: Ear, piece: Piece) -> bytes:
        if ear.messages.is_over and not ear.messages.is_closed:
            return piece.raw
        try:
            return await ear.read(piece)
        except Exception as error:  # noqa: BLE001 (fail open: the message passes as it came)
            self._stop_reading(type(error).__name__)
            return piece.raw

    def _skip(self, ear: Ear, piece: Piece) -> None:
        try:
            ear.skip(piece)
        except Exception as error:  # noqa: BLE001 (as above)
            self._stop_reading(type(error).__name__)

    def _stop_reading(self, reason: str) -> None:
        """Let everything pass unread from here on, in both directions."""
        if self._lanes is None or self._up.ear is None or self._down.ear is None:
            return
        may_write = self._down.ear.messages.is_between
        for messages in (self._up.ear.messages, self._down.ear.messages):
            messages.is_over = True
        refusals = self._lanes.close("ok")
        if refusals and may_write:
            with contextlib.suppress(ConnectionResetError):
                self._down.sink.put(refusals)
        self._lanes = None
        self._account.log.warning("websocket_unread", request_id=self._exchange.id, reason=reason)

    def _resend(self, message: bytes) -> bool:
        """Send upstream a message of the client's once more, without waiting."""
        if self._up.ear is None or not self._up.ear.messages.is_between:
            return False
        with contextlib.suppress(ConnectionResetError):
            self._up.sink.put(message)
            return True
        return False

    # --- leaving ---

    async def _leave(self, draining: asyncio.Event) -> None:
        """Once the process is about to stop: close as soon as no answer is under way."""
        await draining.wait()
        while not await self._is_free():  # noqa: ASYNC110 (frames know no events)
            await asyncio.sleep(AGAIN_S)
        self._is_leaving = True
        self._said_close.set()
        self._ended = self._ended or "ok"
        for way, key in ((self._down, b""), (self._up, secrets.token_bytes(KEY_BYTES))):
            if way.ear is None or way.ear.messages.is_closed:
                continue  # its source has said so itself
            with contextlib.suppress(ConnectionResetError):
                way.sink.put(close_frame(GOING_AWAY, key))
        self._down.sink.end()

    async def _wait_for_a_close(self) -> None:
        await self._said_close.wait()
        await asyncio.sleep(CLOSING_S)

    async def _is_free(self) -> bool:
        if self._lanes is None or self._up.ear is None or self._down.ear is None:
            return False  # unread: it may last for as long as the process does
        both = (self._up.ear.messages, self._down.ear.messages)
        if not any(messages.is_closed for messages in both):
            await self._lanes.idle.wait()
        return all(messages.is_closed or messages.is_between for messages in both)
