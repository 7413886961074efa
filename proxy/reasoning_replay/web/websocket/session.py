"""
Session on one WebSocket: injection into its requests, and capture of its responses.

It works as over HTTP, with three differences. Several responses run at once and differ by their
`stream_id`. Only the order on a stream shows which request a response belongs to. The upstream may
begin a response that no request asked for. `transitions` has what follows from that.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from time import monotonic

from aiohttp import WSMsgType

from reasoning_replay.core.dialects.attempts import Attempts
from reasoning_replay.core.dialects.base import Bodies
from reasoning_replay.core.dialects.error_texts import error_names, is_refusal
from reasoning_replay.core.dialects.responses.events import is_worth_reading
from reasoning_replay.core.dialects.responses.socket_messages import (
    CREATE,
    Message,
    may_be_request,
    read_message,
)
from reasoning_replay.core.dialects.states import CaptureState, ExchangeOutcome, RequestState, Route
from reasoning_replay.web.errors import amount
from reasoning_replay.web.exchange import Exchange
from reasoning_replay.web.exchange_log import ExchangeLog
from reasoning_replay.web.memory_budget import MemoryLease
from reasoning_replay.web.pipeline.healing_retry import Healer
from reasoning_replay.web.pipeline.replay import Replay
from reasoning_replay.web.websocket.arriving import COUNTED_BYTES
from reasoning_replay.web.websocket.streams import PendingResponse, Refused, Retry, Stream
from reasoning_replay.web.websocket.transitions import TABLE, Do, Event, State

# The API allows 32 streams on a connection and runs 16 responses at once; more requests wait.
STREAMS_MAX = 64
WAITING_MAX = 256

_LAST = (Event.END, Event.INCOMPLETE)  # of a response
_CLIENT_ERRORS = range(400, 500)
_RUNNING = frozenset({State.RUNNING, State.UNSURE_RUNNING})


class Session:
    """
    The requests and responses of one WebSocket.

    Attributes:
        idle: Event, set while no request waits and no response runs.
        lease: Room for a short message that the client has sent, while it is read and forwarded.
        streams: By `stream_id`; "" is the default one.
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
        self.lease = MemoryLease(websocket.lease.budget)
        self._replay = replay
        self._healer = Healer(replay, exchange_log)
        self._exchange_log = exchange_log
        self._headers = headers
        # Of a message that is read, and of all requests that are kept for a healing retry.
        self._read_max_bytes = read_max_bytes
        self._resend = resend
        self._websocket = websocket  # its client and its memory budget are those of each request
        self.streams: dict[str, Stream] = {}
        self._first = State.IDLE  # of a new stream
        self._preparing: PendingResponse | None = None
        self._unread = 0  # number of requests that passed unread
        self._lost = 0  # number of errors that may each have ended a request that still waits

    # --- from the client ---

    async def prepare(self, kind: WSMsgType, text: bytes) -> bytes:
        """Return the message to send to the upstream for a client's message."""
        if kind is WSMsgType.BINARY:
            self._lose_track()
            return text
        if not may_be_request(text):
            return text
        is_short = len(text) <= self._read_max_bytes
        # A long one was counted when it arrived.
        if not is_short or not (len(text) > COUNTED_BYTES or self.lease.reserve(len(text))):
            limit = 0 if is_short else self._read_max_bytes
            return self._skip_request(text, RequestState.BUSY, limit)
        message = read_message(text)
        if message is None or message.kind != CREATE:
            return text
        stream = self._stream(message.stream, makes=True)
        if stream is None or self._waiting() >= WAITING_MAX:
            return self._skip_request(text, RequestState.TOO_LARGE)
        return await self._prepare(stream, message, text)

    async def _prepare(self, stream: Stream, message: Message, text: bytes) -> bytes:
        pending = PendingResponse(self._exchange(len(text)), previous=message.previous)
        self._preparing = pending
        self.idle.clear()
        try:
            bodies = await self._decided(pending.exchange, text)
        finally:
            self._preparing = None
        if self._move(stream, Event.SENT) is not Do.WAIT:
            pending.drop_bodies()
            return text
        pending.exchange.upstream_bytes = len(bodies.sent)
        self._exchange_log.begin(pending.exchange)
        pending.sent_s = monotonic()
        lease, is_room = pending.exchange.lease, self._kept() + len(text) <= self._read_max_bytes
        if self._replay.heals and is_room and lease.reserve(len(text)):
            pending.attempts = Attempts(bodies)
        else:
            lease.resize(0)
        stream.waiting.append(pending)
        return bodies.sent

    def _skip_request(self, text: bytes, asked: str, limit: int = 0) -> bytes:
        """Count a possible request that passes unread, and return it; `limit`: what it is over."""
        self._lose_track()
        exchange = self._exchange(len(text))
        exchange.request.state = asked
        if limit:
            exchange.request.note_too_large(amount(len(text)), limit)
        exchange.outcome = ExchangeOutcome.OK
        # There may be thousands of them, so only the first is logged.
        (self._exchange_log.count if self._unread else self._exchange_log.settle)(exchange)
        self._unread += 1
        return text

    def _lose_track(self) -> None:
        """Record that a request may pass unread, on any stream."""
        self._first = State.UNSURE_IDLE
        for stream in self.streams.values():
            self._move(stream, Event.UNREAD)

    async def _decided(self, exchange: Exchange, text: bytes) -> Bodies:
        started = monotonic()
        try:
            with self._exchange_log.fail_open("replay_failed", exchange, exchange.note_unread):
                return await self._replay.prepare(exchange, text, self._headers)
        finally:
            exchange.times.before_ms = (monotonic() - started) * 1000
        return Bodies(text, text)

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
        stream = None if message is None else self._addressed(message)
        if message is None or stream is None:
            return text
        events = stream.events(message)
        for event in events:
            does = self._move(stream, event)
            if does is Do.READ:
                await self._read(stream, text, is_over=events[-1] in _LAST)
            elif does is Do.LOSE:
                self._note_lost()
            elif does is Do.HEAL or does is Do.REFUSE:
                return await self._refuse(stream, message, text, heals=does is Do.HEAL)
            elif does is not None:
                await self._begin(stream, does, message)
        return text

    def _addressed(self, message: Message) -> Stream | None:
        """Return the stream that a message is about; None if that is not certain."""
        if message.stream or message.kind != "error":
            is_made = message.kind != "error" and self._first is not State.IDLE
            return self._stream(message.stream, makes=is_made)
        busy = [stream for stream in self.streams.values() if stream.is_busy]
        if len(busy) == 1:
            return busy[0]
        waiting = [stream for stream in busy if stream.waiting]
        for stream in waiting:
            self._move(stream, Event.UNCLEAR)
        if waiting:
            self._note_lost()
        return None

    def _skip_event(self) -> None:
        """Record that a message of the upstream passes unread; it may end a response."""
        running = [(one, one.running) for one in self.streams.values() if one.running is not None]
        if len(running) == 1:
            running[0][1].exchange.response.state = CaptureState.TOO_LARGE
            self._move(running[0][0], Event.END)

    async def _read(self, stream: Stream, text: bytes, *, is_over: bool) -> None:
        running = stream.running
        if running is None or (capture := running.exchange.response.capture) is None:
            return
        exchange, came_s = running.exchange, monotonic()
        capture.hear(text)
        await self._replay.save(exchange, is_over=is_over)
        if stream.running is running:  # else the WebSocket has ended meanwhile
            running.count_capture()
        exchange.times.between_ms += (monotonic() - came_s) * 1000

    async def _begin(self, stream: Stream, does: Do, message: Message) -> None:
        if does is Do.BEGIN or does is Do.BEGIN_UNSURE:
            pending = stream.waiting.popleft()
            if does is Do.BEGIN_UNSURE and pending.exchange.response.capture is not None:
                self._replay.follow(pending.exchange, None)
        else:
            pending = PendingResponse(self._exchange())
            self._replay.follow(pending.exchange, stream.successor if does is Do.CONTINUE else None)
        stream.running, stream.last_id = pending, message.response_id
        exchange, retry = pending.exchange, pending.retry
        exchange.status = 200
        if pending.sent_s:
            exchange.times.first_byte_ms = (monotonic() - pending.sent_s) * 1000
        if retry is not None:
            self._healer.note_cured(exchange, retry.refusal, retry.cure)
            await self._healer.learn_from(exchange, retry.refusal, retry.cure)
        pending.drop_bodies()

    async def _refuse(
        self, stream: Stream, message: Message, text: bytes, *, heals: bool
    ) -> bytes | None:
        """Return what the client gets for an error of its oldest request; None: a cure is sent."""
        pending = stream.waiting[0]
        exchange, attempts, tried = pending.exchange, pending.attempts, pending.retry
        passed, retry, refusal = Refused(text, None), None, None
        if heals and attempts is not None and is_refusal(message.http_status):
            refusal = self._healer.diagnose(exchange, message.http_status, "", text)
            passed = Refused(text, refusal)
        if attempts is not None and tried is not None:
            _, cured, cure = tried
            if not self._healer.note_refused(exchange, attempts, cured, cure):
                passed = tried.held
        if attempts is not None and refusal is not None:
            new = await self._healer.next(exchange, attempts, refusal)
            retry = None if new is None else Retry(passed, *new)
        if stream.state is State.CLOSED:
            pending.drop_bodies()
            return None if tried is not None else text  # `close` has told what was held
        # Another request may have been sent in the meantime; it is answered before a retry.
        if retry is not None and stream.may_heal:
            exchange.upstream_bytes = len(retry.cure.body)
            pending.retry = retry
            await self._resend(retry.cure.body)
            return None
        stream.waiting.popleft()
        exchange.response.refusal = error_names(passed.message)
        if passed.refusal is not None:
            exchange.request.note_refusal(passed.refusal)
        exchange.status = message.http_status
        if exchange.response.capture is not None:
            exchange.response.state = CaptureState.REFUSED
        is_at_fault = exchange.status in _CLIENT_ERRORS
        outcome = ExchangeOutcome.REFUSED if is_at_fault else ExchangeOutcome.UPSTREAM_ERROR
        self._settle(pending, outcome)
        self._note_idle()
        return passed.message

    # --- both ---

    def close(self, outcome: str) -> list[bytes]:
        """Record all open exchanges as ended; return the refusals that were held."""
        self.lease.resize(0)
        self._first = State.CLOSED
        held: list[bytes] = []
        for stream in self.streams.values():
            if self._move(stream, Event.CLOSE) is not Do.STOP:
                continue
            self._end(stream, outcome)
            for pending in stream.waiting:
                if pending.retry is not None:
                    held.append(pending.retry.held.message)
                self._settle(pending, outcome)
            stream.waiting.clear()
        self._note_idle()
        return held

    def _move(self, stream: Stream, event: Event) -> Do | None:
        """Change the state of a stream as the table says; return what is to be done."""
        step = TABLE[stream.state].get(event)
        if step is None:
            return None
        if step.ends:
            self._end(stream, step.ends)
        if stream.state is not step.state:
            stream.state = step.state
            self._note_idle()
        return step.do

    def _end(self, stream: Stream, outcome: str) -> None:
        """Record the end of the response that runs, if one does."""
        ended, stream.running = stream.running, None
        if ended is None:
            return
        response, stream.successor = ended.exchange.response, None
        if response.capture is not None:
            stream.successor = response.capture.successor()
            response.state = response.state or CaptureState.NOTHING
        self._settle(ended, outcome)

    def _exchange(self, size: int = 0) -> Exchange:
        exchange = self._exchange_log.new(Route.CREATE)
        exchange.received_bytes = size
        exchange.client = self._websocket.client
        exchange.upstream = self._websocket.upstream
        exchange.lease = MemoryLease(self._websocket.lease.budget)
        self._replay.identify(exchange, self._headers)
        return exchange

    def _stream(self, name: str, *, makes: bool) -> Stream | None:
        if makes and name not in self.streams and len(self.streams) < STREAMS_MAX:
            self.streams[name] = Stream(self._first)
        return self.streams.get(name)

    def _waiting(self) -> int:
        return sum(len(stream.waiting) for stream in self.streams.values())

    def _kept(self) -> int:
        """Return the total size of the requests kept for a healing retry, in bytes."""
        waiting = (pending for stream in self.streams.values() for pending in stream.waiting)
        return sum(len(one.attempts.bodies.received) for one in waiting if one.attempts is not None)

    def _note_lost(self) -> None:
        """Record that one of the requests that wait may have ended."""
        self._lost += 1
        self._note_idle()

    def _note_idle(self) -> None:
        """Set or clear `idle`, after the state of a stream or what waits on it has changed."""
        waiting = self._waiting()
        self._lost = self._lost if waiting else 0
        if any(stream.state in _RUNNING for stream in self.streams.values()):
            self.idle.clear()
        elif self._preparing is None and waiting <= self._lost:
            self.idle.set()

    def _settle(self, pending: PendingResponse, outcome: str) -> None:
        pending.drop_bodies()
        pending.exchange.outcome = outcome
        self._exchange_log.settle(pending.exchange)
