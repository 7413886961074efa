"""
What is done to the requests on one WebSocket, and learned from their answers.

As over HTTP, with three differences: there are several at once, told apart by their `stream_id`;
an answer names its request by its place in the lane alone; and upstream may begin one unasked.
"""

import asyncio
from collections.abc import Callable, Mapping

from reasoning_replay.core.dialects.base import Cure, Refusal, RefusedBodies
from reasoning_replay.core.dialects.states import Route
from reasoning_replay.core.wire.ws_frames import Piece, text_frame
from reasoning_replay.web.exchange import Exchange
from reasoning_replay.web.exchange_log import ExchangeRecorder
from reasoning_replay.web.pipeline.healing_retry import Healer
from reasoning_replay.web.pipeline.replay import Replay
from reasoning_replay.web.websocket.messages import CREATE, Create, Lane, Message, read_message

__all__ = ["Lanes"]

# The API takes 32 lanes on a connection, and runs 16 responses at once; more of them wait.
LANES_MAX = 64
CREATES_MAX = 256

_CREATED = "response.created"
_INCOMPLETE = "response.incomplete"
_ENDS = frozenset({"response.completed", _INCOMPLETE, "response.failed"})
_BAD = 400
_BROKEN = 500


class Lanes:
    """
    Follows both directions of one WebSocket.

    Attributes:
        idle: Set while nothing is under way.
    """

    def __init__(
        self,
        replay: Replay,
        account: ExchangeRecorder,
        headers: Mapping[str, str],
        keep_max_bytes: int,
        resend: Callable[[bytes], bool],
    ) -> None:
        """
        Start behind the handshake.

        Args:
            replay: Prepares and saves.
            account: Where each answered request is written down.
            headers: The handshake's.
            keep_max_bytes: Of requests, until upstream begins their answers.
            resend: Sends a message to upstream again; False when that cannot be.
        """
        self.idle = asyncio.Event()
        self.idle.set()
        self._replay = replay
        self._healer = Healer(replay, account)
        self._account = account
        self._headers = headers
        self._keep_max_bytes = keep_max_bytes
        self._resend = resend
        self._lanes: dict[str, Lane] = {}
        self._preparing = 0
        self._is_blind = False  # there may be requests that we have not read
        self._has_overlooked = False
        self._doubts = 0  # so many errors came that may each have ended one that still waits

    # From the client...

    async def prepare(self, piece: Piece) -> bytes:
        """Return a client's message as it shall go out."""
        text = piece.text or b""
        message = read_message(text)
        if message is None or message.kind != CREATE:
            return piece.raw
        lane = self._lane(message.lane, makes=True)
        if lane is None or self._under_way() >= CREATES_MAX:
            self.overlook(piece)
            return piece.raw
        create = Create(self._exchange(len(text)), previous=message.previous)
        self._preparing += 1
        self.idle.clear()
        try:
            bodies = await self._prepare(create.exchange, text)
        finally:
            self._preparing -= 1
        self._account.begin(create.exchange)
        create.sent_s = self._account.clock()
        if self._replay.heals and self._kept() + len(text) <= self._keep_max_bytes:
            create.mine, create.bodies = piece, bodies
        lane.waiting.append(create)
        if bodies.sent is text:
            return piece.raw
        return piece.between + text_frame(bodies.sent, piece.key)

    def overlook(self, piece: Piece) -> None:
        """Note that a message passed unread that may have been a request."""
        self._is_blind = True
        if piece.is_binary:
            return
        exchange = self._exchange()
        exchange.asked = "busy" if piece.is_let_pass else "too_large"
        exchange.outcome = "ok"
        # There may be thousands, which are one line of log.
        (self._account.count if self._has_overlooked else self._account.settle)(exchange)
        self._has_overlooked = True

    async def _prepare(self, exchange: Exchange, text: bytes) -> RefusedBodies:
        started = self._account.clock()
        try:
            sent = await self._replay.prepare(exchange, text, self._headers)
            return RefusedBodies(text, sent)
        except Exception as error:  # noqa: BLE001 (fail open: a bug of ours is not the client's)
            self._account.warn("replay_failed", exchange, error)
            exchange.forget()
            return RefusedBodies(text, text)
        finally:
            exchange.before_ms = (self._account.clock() - started) * 1000

    # From upstream...

    async def hear(self, piece: Piece) -> bytes:
        """Learn from upstream's message, and save; return what the client gets for it."""
        text = piece.text or b""
        message = read_message(text)
        if message is None:
            return piece.raw
        if message.kind == "error":
            lane = self._blamed(message)
            return piece.raw if lane is None else await self._refused(lane, message, piece)
        lane = self._lane(message.lane, makes=self._is_blind)
        if lane is None:
            return piece.raw
        if message.kind == _CREATED:
            await self._begin(lane, message)
        if lane.running is None:
            return piece.raw
        if lane.running.has_failed:
            lane.running.has_failed = False  # the error was another's
            self.idle.clear()
        exchange = lane.running.exchange
        if exchange.capture is not None:
            came_s = self._account.clock()
            exchange.capture.hear(text)
            await self._replay.save(exchange)
            exchange.between_ms += (self._account.clock() - came_s) * 1000
        if message.kind in _ENDS:
            self._end(lane, "ok")
            lane.is_cut_short = message.kind == _INCOMPLETE
        return piece.raw

    def miss(self, piece: Piece) -> None:
        """Note that a message of upstream's passed unread, which may have ended an answer."""
        if piece.is_binary:
            return
        running = [(lane, lane.running.exchange) for lane in self._lanes.values() if lane.running]
        if len(running) == 1:
            lane, exchange = running[0]
            exchange.captured = "too_large"
            self._end(lane, "ok")

    def close(self, outcome: str) -> bytes:
        """Write down what is under way as ended; return what was held back from the client."""
        held = b""
        for lane in self._lanes.values():
            self._end(lane, outcome)
            for create in lane.waiting:
                held += create.refusal
                self._settle(create, outcome)
            lane.waiting.clear()
        self._tell_idle()
        return held

    async def _begin(self, lane: Lane, message: Message) -> None:
        self._end(lane, "cut_off")  # its end was never seen
        is_blind = self._is_blind or lane.is_unsure
        create = lane.next(message.previous)
        if create is None:
            create = Create(self._exchange())
            self._replay.follow(
                create.exchange, None if is_blind else lane.origin(message.previous)
            )
        elif is_blind and create.exchange.capture is not None:
            self._replay.follow(create.exchange, None)  # it may be the answer to another one
        exchange = create.exchange
        exchange.status = 200
        if create.sent_s:
            exchange.first_byte_ms = (self._account.clock() - create.sent_s) * 1000
        if create.cure is not None and create.refused is not None:
            self._healer.note_cured(exchange, create.refused, create.cure)
            await self._healer.learn_from(exchange, create.refused, create.cure)
        create.let_go()
        lane.running, lane.last = create, message.response_id
        self.idle.clear()

    def _blamed(self, message: Message) -> Lane | None:
        """Return the lane that an error is about; None when it may be any of several, or none."""
        if message.lane:
            return self._lanes.get(message.lane)
        busy = [lane for lane in self._lanes.values() if lane.running or lane.waiting]
        if len(busy) == 1:
            return busy[0]
        self._doubt(busy)
        return None

    def _doubt(self, lanes: list[Lane]) -> None:
        """Note that an error ended one of what is under way there, and it is not known which."""
        waiting = [lane for lane in lanes if lane.waiting]
        for lane in waiting:
            lane.is_unsure = True
        self._doubts += bool(waiting)
        self._tell_idle()

    async def _refused(self, lane: Lane, message: Message, piece: Piece) -> bytes:
        """Take an error: where no answer runs, the lane's oldest request has failed."""
        if lane.running:
            lane.running.has_failed |= not lane.waiting
            self._doubt([lane])
        if lane.running or not lane.waiting:
            return piece.raw
        lane.is_unsure = lane.is_unsure or len(lane.waiting) > 1
        create = lane.waiting[0]
        status, passed, text = message.http_status, piece.raw, piece.text or b""
        if create.refusal and create.refused is not None:
            self._healer.note_refused(create.refused)
            passed = create.refusal
        elif self._is_certain(lane):
            refused = self._replay.dialect.diagnose(status, text)
            cure = await self._cure(create, refused)
            # Meanwhile another one may have gone out, which upstream will answer first.
            again = text_frame(cure.body, create.mine.key) if cure and create.mine else b""
            if cure and again and self._is_certain(lane) and self._resend(again):
                create.hold(piece.raw, refused, cure)
                return b""
        lane.waiting.popleft()
        create.exchange.status = status
        if create.exchange.capture is not None:
            create.exchange.captured = "refused"
        self._settle(create, "refused" if _BAD <= status < _BROKEN else "upstream_error")
        self._tell_idle()
        return passed

    async def _cure(self, create: Create, refused: Refusal) -> Cure | None:
        """Return what to send instead of a request that was refused; None where that is all."""
        if create.bodies is None or not refused.is_understood or not self._replay.heals:
            return None
        return await self._healer.cure(create.exchange, create.bodies, refused)

    def _is_certain(self, lane: Lane) -> bool:
        """Tell whether what comes on a lane can only be for the one request that waits there."""
        return len(lane.waiting) == 1 and not (self._is_blind or lane.is_unsure)

    def _end(self, lane: Lane, outcome: str) -> None:
        if lane.running is None:
            return
        exchange = lane.running.exchange
        lane.behind, lane.is_cut_short = None, False
        if exchange.capture is not None:
            lane.behind = exchange.capture.successor()
            exchange.captured = exchange.captured or "nothing"
        self._settle(lane.running, "upstream_error" if lane.running.has_failed else outcome)
        lane.running = None
        self._tell_idle()

    # Both...

    def _exchange(self, size: int = 0) -> Exchange:
        exchange = Exchange(Route.CREATE, self._account.clock(), received_bytes=size)
        self._replay.identify(exchange, self._headers)
        return exchange

    def _lane(self, name: str, *, makes: bool) -> Lane | None:
        if makes and name not in self._lanes and len(self._lanes) < LANES_MAX:
            self._lanes[name] = Lane()
        return self._lanes.get(name)

    def _under_way(self) -> int:
        return sum(len(lane.waiting) for lane in self._lanes.values())

    def _kept(self) -> int:
        """Return how many bytes are kept in order to send them again."""
        waiting = (create for lane in self._lanes.values() for create in lane.waiting)
        return sum(len(create.mine.raw) for create in waiting if create.mine is not None)

    def _tell_idle(self) -> None:
        waiting = self._under_way()
        if not waiting:
            self._doubts = 0
        running = any(lane.is_running for lane in self._lanes.values())
        if not (self._preparing or running) and waiting <= self._doubts:
            self.idle.set()

    def _settle(self, create: Create, outcome: str) -> None:
        create.let_go()
        create.exchange.outcome = outcome
        self._account.settle(create.exchange)
