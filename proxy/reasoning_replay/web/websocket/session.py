"""
Response streams of one WebSocket: injection into its requests, and capture of its responses.

It works as over HTTP, with three differences. Several responses run at once and differ by their
`stream_id`. Only the order on a stream shows which request a response belongs to. The upstream may
begin a response that no request asked for.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from aiohttp import WSMsgType

from reasoning_replay.core.dialects.attempts import Attempts
from reasoning_replay.core.dialects.base import RefusedBodies
from reasoning_replay.core.dialects.error_texts import error_names, is_refusal
from reasoning_replay.core.dialects.responses.events import is_worth_reading
from reasoning_replay.core.dialects.responses.socket_messages import (
    CREATE,
    Message,
    may_be_request,
    read_message,
)
from reasoning_replay.core.dialects.states import Route
from reasoning_replay.web.errors import amount
from reasoning_replay.web.exchange import Exchange
from reasoning_replay.web.exchange_log import ExchangeLog
from reasoning_replay.web.memory_budget import MemoryLease
from reasoning_replay.web.pipeline.healing_retry import Healer
from reasoning_replay.web.pipeline.replay import Replay
from reasoning_replay.web.websocket.arriving import COUNTED_BYTES
from reasoning_replay.web.websocket.streams import PendingResponse, Retry, Stream, StreamState

# The API allows 32 streams on a connection and runs 16 responses at once; more requests wait.
STREAMS_MAX = 64
WAITING_MAX = 256

_CREATED = "response.created"
_INCOMPLETE = "response.incomplete"
_ENDS = frozenset({"response.completed", _INCOMPLETE, "response.failed"})
_CLIENT_ERRORS = range(400, 500)


class ResponseStreams:
    """
    The requests and responses of one WebSocket.

    Attributes:
        idle: Event, set while no request waits and no response runs.
        lease: Room for a short message that the client has sent, while it is read and forwarded.
    """

    def __init__(  # noqa: PLR0913, PLR0917 (all parts of a session)
        self,
        websocket: Exchange,
        replay: Replay,
        exchange_log: ExchangeLog,
        headers: Mapping[str, str],
        read_max_bytes: int,
        resend: Callable[[bytes], Awaitable[object]],
    ) -> None:
        """Start without requests; `headers` are those of the handshake, `resend` is for retries."""
        self.idle = asyncio.Event()
        self.idle.set()
        self._replay = replay
        self._healer = Healer(replay, exchange_log)
        self._exchange_log = exchange_log
        self._headers = headers
        # Of a message that is read, and of all requests that are kept for a healing retry.
        self._read_max_bytes = read_max_bytes
        self._resend = resend
        self._websocket = websocket  # its client and its memory budget are those of each request
        self.lease = MemoryLease(websocket.lease.budget)
        self._streams: dict[str, Stream] = {}
        self._preparing = 0
        self._is_blind = False  # requests may have passed unread
        self._has_logged_unread = False
        self._is_closed = False
        self._ambiguous_errors = 0  # each may have ended a request that still waits

    # --- from the client ---

    async def prepare(self, kind: WSMsgType, text: bytes) -> bytes:
        """Return the message to send to the upstream for a client's message."""
        self._is_blind = self._is_blind or kind is WSMsgType.BINARY
        if kind is WSMsgType.BINARY or not may_be_request(text):
            return text
        is_short = len(text) <= self._read_max_bytes
        # A long one was counted when it arrived.
        if not is_short or not (len(text) > COUNTED_BYTES or self.lease.reserve(len(text))):
            limit = 0 if is_short else self._read_max_bytes
            return self._skip_request(text, "busy", limit)
        message = read_message(text)
        if message is None or message.kind != CREATE:
            return text
        stream = self._stream(message.stream, makes=True)
        if stream is None or self._waiting() >= WAITING_MAX:
            return self._skip_request(text, "too_large")
        return await self._prepare(stream, message, text)

    async def _prepare(self, stream: Stream, message: Message, text: bytes) -> bytes:
        pending = PendingResponse(self._exchange(len(text)), previous=message.previous)
        self._preparing += 1
        self.idle.clear()
        try:
            bodies = await self._decided(pending.exchange, text)
        finally:
            self._preparing -= 1
        if self._is_closed:
            pending.drop_bodies()
            return text
        pending.exchange.upstream_bytes = len(bodies.sent)
        self._exchange_log.begin(pending.exchange)
        pending.sent_s = self._exchange_log.clock()
        lease, is_room = pending.exchange.lease, self._kept() + len(text) <= self._read_max_bytes
        if self._replay.heals and is_room and lease.reserve(len(text)):
            pending.bodies = bodies
        else:
            lease.resize(0)
        stream.waiting.append(pending)
        return bodies.sent

    def _skip_request(self, text: bytes, asked: str, limit: int = 0) -> bytes:
        """Count a possible request that passes unread, and return it; `limit`: what it is over."""
        self._is_blind = True
        exchange = self._exchange()
        exchange.request.state = asked
        if limit:
            exchange.request.note_too_large(amount(len(text)), limit)
        exchange.outcome = "ok"
        # There may be thousands of them, so only the first is logged.
        (self._exchange_log.count if self._has_logged_unread else self._exchange_log.settle)(
            exchange
        )
        self._has_logged_unread = True
        return text

    async def _decided(self, exchange: Exchange, text: bytes) -> RefusedBodies:
        started = self._exchange_log.clock()
        try:
            return await self._replay.prepare(exchange, text, self._headers)
        except Exception as error:  # noqa: BLE001 (fail open: it is forwarded unchanged)
            self._exchange_log.warn("replay_failed", exchange, error)
            exchange.note_unread()
            return RefusedBodies(text, text)
        finally:
            exchange.times.before_ms = (self._exchange_log.clock() - started) * 1000

    # --- from the upstream ---

    async def capture(self, kind: WSMsgType, text: bytes) -> bytes | None:
        """
        Capture a message of the upstream, and save the items that it completes.

        Returns:
            The message for the client; None if a refusal is held.
        """
        if kind is WSMsgType.BINARY or not is_worth_reading(text):
            return text
        if len(text) > self._read_max_bytes:
            self._skip_event()
            return text
        message = read_message(text)
        return text if message is None else await self._capture(message, text)

    async def _capture(self, message: Message, text: bytes) -> bytes | None:
        if message.kind == "error":
            failed = self._failed_stream(message)
            return text if failed is None else await self._refuse(failed, message, text)
        stream = self._stream(message.stream, makes=self._is_blind)
        if stream is None:
            return text
        if message.kind == _CREATED:
            await self._begin(stream, message)
        if stream.running is None:
            return text
        if stream.state is StreamState.IN_DOUBT:
            stream.state = StreamState.RUNNING  # the error was about another request
            self.idle.clear()
        exchange = stream.running.exchange
        if exchange.response.capture is not None:
            came_s = self._exchange_log.clock()
            exchange.response.capture.hear(text)
            await self._replay.save(exchange, is_last=message.kind in _ENDS)
            stream.running.count_capture()
            exchange.times.between_ms += (self._exchange_log.clock() - came_s) * 1000
        if message.kind in _ENDS:
            self._end(stream, "ok")
            if message.kind == _INCOMPLETE:
                stream.state = StreamState.CUT_SHORT
        return text

    def _skip_event(self) -> None:
        """Record that a message of the upstream passes unread; it may end a response."""
        running = [stream for stream in self._streams.values() if stream.running]
        if len(running) == 1 and running[0].running is not None:
            running[0].running.exchange.response.state = "too_large"
            self._end(running[0], "ok")

    def close(self, outcome: str) -> list[bytes]:
        """Record all open exchanges as ended; return the refusals that were held."""
        self._is_closed = True
        self.lease.resize(0)
        held: list[bytes] = []
        for stream in self._streams.values():
            self._end(stream, outcome)
            for pending in stream.waiting:
                if pending.retry is not None:
                    held.append(pending.retry.message)
                self._settle(pending, outcome)
            stream.waiting.clear()
        self._set_idle()
        return held

    async def _begin(self, stream: Stream, message: Message) -> None:
        self._end(stream, "cut_off")  # no message ended the previous response
        is_ambiguous = self._is_blind or stream.is_ambiguous
        pending = stream.next_waiting(message.previous)
        if pending is None:
            pending = PendingResponse(self._exchange())
            origin = None if is_ambiguous else stream.origin(message.previous)
            self._replay.follow(pending.exchange, origin)
        elif is_ambiguous and pending.exchange.response.capture is not None:
            self._replay.follow(pending.exchange, None)  # it may answer another request
        exchange = pending.exchange
        exchange.status = 200
        if pending.sent_s:
            exchange.times.first_byte_ms = (self._exchange_log.clock() - pending.sent_s) * 1000
        if pending.retry is not None:
            self._healer.note_cured(exchange, pending.retry.refusal, pending.retry.cure)
            await self._healer.learn_from(exchange, pending.retry.refusal, pending.retry.cure)
        pending.drop_bodies()
        stream.running, stream.last_id = pending, message.response_id
        stream.state = StreamState.RUNNING
        self.idle.clear()

    def _failed_stream(self, message: Message) -> Stream | None:
        """Return the stream that an error is about; None if that is not certain."""
        if message.stream:
            return self._streams.get(message.stream)
        busy = [stream for stream in self._streams.values() if stream.is_busy]
        if len(busy) == 1:
            return busy[0]
        self._note_ambiguous(busy)
        return None

    def _note_ambiguous(self, streams: list[Stream]) -> None:
        """Record that an error ended a request on one of these streams, without certainty which."""
        waiting = [stream for stream in streams if stream.waiting]
        for stream in waiting:
            stream.is_ambiguous = True
        self._ambiguous_errors += bool(waiting)
        self._set_idle()

    async def _refuse(self, stream: Stream, message: Message, text: bytes) -> bytes | None:
        """Handle an error: if no response runs, the oldest waiting request has failed."""
        if stream.running:
            if not stream.waiting:
                stream.state = StreamState.IN_DOUBT
            self._note_ambiguous([stream])
        if stream.running or not stream.waiting:
            return text
        stream.is_ambiguous = stream.is_ambiguous or len(stream.waiting) > 1
        pending = stream.waiting[0]
        exchange, tried, passed = pending.exchange, pending.retry, text
        if tried is not None:
            self._healer.note_refused(exchange, tried.refusal)
            is_own = pending.attempts is None or not pending.attempts.has_tried_own
            if not (is_own or tried.cure.is_clients_own):
                passed = tried.message
        retry = await self._next_retry(stream, pending, message, text, passed)
        if retry is not None:
            pending.retry = retry
            exchange.upstream_bytes = len(retry.cure.body)
            await self._resend(retry.cure.body)
            return None
        stream.waiting.popleft()
        exchange.response.refusal = error_names(passed)
        exchange.status = message.http_status
        if exchange.response.capture is not None:
            exchange.response.state = "refused"
        is_refusal = exchange.status in _CLIENT_ERRORS
        self._settle(pending, "refused" if is_refusal else "upstream_error")
        self._set_idle()
        return passed

    async def _next_retry(
        self, stream: Stream, pending: PendingResponse, message: Message, text: bytes, passed: bytes
    ) -> Retry | None:
        """Return what is tried after a refusal; None: nothing. `passed`: what is held meanwhile."""
        bodies = pending.bodies
        if bodies is None or not self._is_certain(stream):
            return None
        if not is_refusal(message.http_status):
            return None
        refusal = self._replay.engine.diagnose(message.http_status, text)
        pending.attempts = pending.attempts or Attempts(bodies)
        tried = await self._healer.next(pending.exchange, pending.attempts, refusal)
        # Another request may have been sent in the meantime; it is answered before a retry.
        if tried is None or not self._is_certain(stream):
            return None
        pending.exchange.response.refusal = error_names(text)
        return Retry(passed, *tried)

    def _is_certain(self, stream: Stream) -> bool:
        """Return whether a message on this stream can only be about its one waiting request."""
        return len(stream.waiting) == 1 and not (self._is_blind or stream.is_ambiguous)

    def _end(self, stream: Stream, outcome: str) -> None:
        if stream.running is None:
            return
        exchange = stream.running.exchange
        stream.successor = None
        if exchange.response.capture is not None:
            stream.successor = exchange.response.capture.successor()
            exchange.response.state = exchange.response.state or "nothing"
        if stream.state is StreamState.IN_DOUBT:
            outcome = "upstream_error"
        self._settle(stream.running, outcome)
        stream.running, stream.state = None, StreamState.IDLE
        self._set_idle()

    # --- both ---

    def _exchange(self, size: int = 0) -> Exchange:
        exchange = self._exchange_log.new(Route.CREATE)
        exchange.received_bytes = size
        exchange.client = self._websocket.client
        exchange.upstream = self._websocket.upstream
        exchange.lease = MemoryLease(self._websocket.lease.budget)
        self._replay.identify(exchange, self._headers)
        return exchange

    def _stream(self, name: str, *, makes: bool) -> Stream | None:
        if makes and name not in self._streams and len(self._streams) < STREAMS_MAX:
            self._streams[name] = Stream()
        return self._streams.get(name)

    def _waiting(self) -> int:
        return sum(len(stream.waiting) for stream in self._streams.values())

    def _kept(self) -> int:
        """Return the total size of the requests kept for a healing retry, in bytes."""
        waiting = (pending for stream in self._streams.values() for pending in stream.waiting)
        return sum(len(one.bodies.given) for one in waiting if one.bodies is not None)

    def _set_idle(self) -> None:
        waiting = self._waiting()
        if not waiting:
            self._ambiguous_errors = 0
        runs = any(stream.state is StreamState.RUNNING for stream in self._streams.values())
        if not (self._preparing or runs) and waiting <= self._ambiguous_errors:
            self.idle.set()

    def _settle(self, pending: PendingResponse, outcome: str) -> None:
        pending.drop_bodies()
        pending.exchange.outcome = outcome
        self._exchange_log.settle(pending.exchange)
