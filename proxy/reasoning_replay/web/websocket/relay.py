"""
WebSocket relay: forwards messages both ways between a client and the upstream, until one side ends.

The messages of the Responses API are read. Only a `response.create` may be edited, and a message
that completes an item waits until the item is saved. All other messages are forwarded unchanged and
in order.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import aiohttp
from aiohttp import WSMsgType, web

from reasoning_replay.adapters.runtime.fail_open import FailOpen
from reasoning_replay.adapters.runtime.frames import clear_frames
from reasoning_replay.adapters.runtime.tcp import LOOK_S, WriteProgress, is_gone
from reasoning_replay.adapters.upstream.client import UpstreamWebSocket
from reasoning_replay.core.dialects.states import ExchangeOutcome
from reasoning_replay.web.errors import BUG
from reasoning_replay.web.exchange import Exchange
from reasoning_replay.web.exchange_log import ExchangeLog
from reasoning_replay.web.websocket.arriving import ArrivingMessages
from reasoning_replay.web.websocket.session import Session

# How long a close waits for the close frame of the peer.
CLOSE_S = 5.0
# After this many messages in a row, the relay yields to other exchanges.
TURN = 64
# Number of checks for a stalled peer within its timeout.
LOOKS = 4

_NORMAL, _GOING_AWAY = 1000, 1001
_DATA = frozenset({WSMsgType.TEXT, WSMsgType.BINARY})
_PASSED = _DATA | {WSMsgType.PING, WSMsgType.PONG}

# Returns the message to forward for a text or binary message; None: forward nothing.
_Read = Callable[[Session, WSMsgType, bytes], Awaitable[bytes | None]]


@dataclass(frozen=True, slots=True)
class Peer:
    """
    One end of the relay.

    Attributes:
        stall_s: Longest time in which it may read nothing while data is pending.
        gone: Outcome if it leaves without a close frame.
        stalled: Outcome if it is cut off because it reads nothing.
        arriving: Counts its messages while they arrive.
    """

    socket: web.WebSocketResponse[bool] | UpstreamWebSocket
    transport: asyncio.Transport
    stall_s: float
    gone: str
    stalled: str
    arriving: ArrivingMessages

    async def receive(self) -> tuple[WSMsgType, Any, Any]:
        """Return the next message: its kind, data and reason; it counts until `relayed`."""
        kind, data, reason = await self.socket.receive()
        if kind in _DATA:
            self.arriving.received(len(data))
        return kind, data, reason

    def relayed(self, kind: WSMsgType) -> None:
        """Free the oldest message that was received."""
        if kind in _DATA:
            self.arriving.relayed()

    async def send(self, data: bytes, kind: WSMsgType = WSMsgType.TEXT) -> bool:
        """Send a message, and wait while the write buffer is full; False: the peer has left."""
        try:
            await self.socket.send_frame(data, kind)
        except (OSError, aiohttp.ClientError) as error:
            clear_frames(error)  # aiohttp's future keeps it
            return False
        return True

    async def close(self, code: int, reason: bytes) -> None:
        """Send a close frame, wait for the peer's, and close the connection."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                await self.socket.close(code=code, message=reason)


@dataclass(frozen=True, slots=True)
class _End:
    """
    The end of a relay.

    Attributes:
        outcome: Outcome of the responses that still run.
        code: Code of the close frame for both sides; 0: the connections end without one.
        is_whole: Whether it ended as the protocol defines.
    """

    outcome: str
    code: int = 0
    reason: bytes = b""
    is_whole: bool = False


@dataclass(slots=True)
class Relay:
    """Both directions of one WebSocket; without `session`, no message is read."""

    exchange: Exchange
    client: Peer
    upstream: Peer
    exchange_log: ExchangeLog
    session: Session | None

    async def run(self, draining: asyncio.Event) -> None:
        """Relay until one side ends, then end the other."""
        up = asyncio.ensure_future(self._pump(self.client, self.upstream, Session.prepare))
        down = asyncio.ensure_future(self._pump(self.upstream, self.client, Session.capture))
        others = (self._drain(draining), _stall(self.client), _stall(self.upstream))
        tasks = (*map(asyncio.ensure_future, others), down, up)  # the most likely cause first
        end = _End(BUG.code)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            ends = (task.result() for task in tasks if task.done() and not task.exception())
            end = max(ends, key=lambda one: one.is_whole, default=end)
            await self._finish(end, up)
        except asyncio.CancelledError:
            end = _End(self.client.gone)
            raise
        finally:
            for task in tasks:
                task.cancel()
            for result in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(result, Exception):
                    self.exchange_log.failed(self.exchange, result)
            if self.session is not None:
                self.session.close(end.outcome)
            self.client.arriving.end()
            self.upstream.arriving.end()
            self.exchange.outcome = ExchangeOutcome.OK if end.is_whole else end.outcome

    async def _finish(self, end: _End, up: "asyncio.Future[_End]") -> None:
        """End both sides; `up` forwards the client's messages."""
        transport = self.client.transport
        await self._stop_reading(end.outcome)
        if end.code:
            up.cancel()  # else aiohttp would close before the client reads the reason
            await asyncio.wait({up})
            closes = (peer.close(end.code, end.reason) for peer in (self.client, self.upstream))
            await asyncio.gather(*closes)
        elif not up.done() and transport.can_write_eof() and not transport.is_closing():
            # A close would reset a client that still sends, and it might lose the last messages.
            transport.write_eof()
            await asyncio.wait({up}, timeout=CLOSE_S)
        transport.close()

    async def _drain(self, draining: asyncio.Event) -> _End:
        """Return once the process is about to stop and no response runs."""
        await draining.wait()
        if self.session is not None:
            await self.session.idle.wait()
        if self.session is None:
            await asyncio.Event().wait()  # unread: it may last until the process ends
        return _End(ExchangeOutcome.OK, _GOING_AWAY, is_whole=True)

    # --- messages ---

    async def _pump(self, source: Peer, sink: Peer, read: _Read) -> _End:
        """Forward messages until their source ends."""
        passed, has_sink = 0, True
        while True:
            kind, data, reason = await source.receive()
            if kind not in _PASSED:
                return _end_of(source, kind, data, reason)
            passed += 1
            if not passed % TURN:
                await asyncio.sleep(0)
            if has_sink:  # else the other direction is about to detect how it ended
                has_sink = await self._forward(source, sink, read, kind, data)
            del data  # before its memory is free for others
            source.relayed(kind)

    async def _forward(
        self, source: Peer, sink: Peer, read: _Read, kind: WSMsgType, given: bytes
    ) -> bool:
        """Forward a message; return whether the sink may still be there."""
        has_sink = True
        data = await self._read(read, kind, given)
        if data is not None:
            has_sink = await sink.send(data, kind)
        if source is self.client:
            self.exchange.received_bytes += len(given)
            if self.session is not None:
                self.session.lease.resize(0)
        elif data is not None:
            self.exchange.sent_bytes += len(data)
        return has_sink

    async def _read(self, read: _Read, kind: WSMsgType, data: bytes) -> bytes | None:
        """Return the message to forward for a message; None: forward nothing."""
        if self.session is None or kind is WSMsgType.PING or kind is WSMsgType.PONG:
            return data
        with FailOpen("websocket_unread", self._warn):
            return await read(self.session, kind, data)
        await self._stop_reading(ExchangeOutcome.OK)
        return data

    def _warn(self, event: str, error: Exception) -> None:
        if self.session is not None:  # else the other direction has failed before
            self.exchange_log.warn(event, self.exchange, error)

    async def _stop_reading(self, outcome: str) -> None:
        """Forward all further messages unread; send the held refusals to the client."""
        session, self.session = self.session, None
        if session is not None:
            for refusal in session.close(outcome):
                await self.client.send(refusal)


def _end_of(source: Peer, kind: WSMsgType, data: object, reason: str | None) -> _End:
    if kind is WSMsgType.CLOSE:
        code = data if isinstance(data, int) and data else _NORMAL
        return _End(source.gone, code, (reason or "").encode(), is_whole=True)
    if isinstance(data, aiohttp.WebSocketError):
        return _End(source.gone, data.code)
    return _End(source.gone)


async def _stall(peer: Peer) -> _End:
    """
    Cut a peer off once it is gone, or has read nothing for `stall_s` while data is pending.

    So is one that sends too little of a long message in that time, while others wait for room.
    """
    loop = asyncio.get_running_loop()
    progress = WriteProgress(peer.transport)
    while progress.stalled_s(loop.time()) < peer.stall_s:
        if is_gone(peer.transport):
            peer.transport.abort()
            return _End(peer.gone)
        if peer.arriving.must_yield(peer.stall_s):
            break
        await asyncio.sleep(min(peer.stall_s / LOOKS, LOOK_S))
    peer.transport.abort()
    return _End(peer.stalled)
