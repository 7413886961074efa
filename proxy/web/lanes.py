"""
What is done to the requests on one WebSocket, and learned from their answers.

As over HTTP, with three differences: there are several at once, told apart by their `stream_id`;
an answer names its request by its place in the lane alone; and upstream may begin one unasked.
"""

import asyncio
from collections.abc import Callable, Mapping

from proxy.core.frames import Piece, text_frame
from proxy.core.heal.cure import Cure
from proxy.core.heal.diagnosis import Diagnosis, Fault, diagnose
from proxy.core.spans import Unspliceable
from proxy.web.account import Account
from proxy.web.creates import Create, Lane, Message, read_message
from proxy.web.exchange import Exchange
from proxy.web.replay import Prepared, Replay
from proxy.web.routes import Route

__all__ = ["Lanes", "is_worth_preparing"]

# The API takes 32 lanes on a connection, and runs 16 responses at once; more of them wait.
LANES_MAX = 64
CREATES_MAX = 256

_CREATE = "response.create"
_CREATED = "response.created"
_ENDS = frozenset({"response.completed", "response.incomplete", "response.failed"})
_BAD = 400
_BROKEN = 500


def is_worth_preparing(text: bytes) -> bool:
    """Tell whether a client's message may be one that something is done to."""
    return _CREATE.encode() in text


class Lanes:
    """
    Follows both directions of one WebSocket.

    Attributes:
        idle: Set while nothing is under way.
    """

    def __init__(
        self,
        replay: Replay,
        account: Account,
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
        self._account = account
        self._headers = headers
        self._keep_max_bytes = keep_max_bytes
        self._resend = resend
        self._lanes: dict[str, Lane] = {}
        self._preparing = 0
        self._is_blind = False  # there may be requests that we have not read

    # From the client...

    async def prepare(self, piece: Piece) -> bytes:
        """Return a client's message as it shall go out."""
        text = piece.text or b""
        message = read_message(text)
        if message is None or message.kind != _CREATE:
            return piece.raw
        lane = self._lane(message.lane, makes=True)
        if lane is None or self._under_way() >= CREATES_MAX:
            self.overlook()
            return piece.raw
        create = Create(self._exchange(), previous=message.previous)
        self._preparing += 1
        self.idle.clear()
        try:
            prepared = await self._prepare(create.exchange, text)
        finally:
            self._preparing -= 1
        create.sent_s = self._account.clock()
        if self._replay.heals and self._kept() + len(text) <= self._keep_max_bytes:
            create.mine, create.prepared = piece, prepared
        lane.waiting.append(create)
        if prepared.body is text:
            return piece.raw
        return piece.between + text_frame(prepared.body, piece.key)

    def overlook(self) -> None:
        """Note that a message passed unread that may have been a request."""
        self._is_blind = True
        exchange = self._exchange()
        exchange.asked, exchange.outcome = "too_large", "ok"
        self._account.settle(exchange)

    async def _prepare(self, exchange: Exchange, text: bytes) -> Prepared:
        started = self._account.clock()
        try:
            return await self._replay.prepare(exchange, text, self._headers)
        except Exception as error:  # noqa: BLE001 (fail open: a bug of ours is not the client's)
            self._account.log.warning("replay_failed", reason=type(error).__name__)
            exchange.forget()
            return Prepared(text, text)
        finally:
            exchange.before_ms = (self._account.clock() - started) * 1000

    # From upstream...

    async def hear(self, piece: Piece) -> bytes:
        """Learn from upstream's message, and save; return what the client gets for it."""
        text = piece.text or b""
        message = read_message(text)
        lane = self._lane(message.lane, makes=self._is_blind) if message is not None else None
        if message is None or lane is None:
            return piece.raw
        if message.kind == "error":
            return await self._refused(lane, message, piece)
        if message.kind == _CREATED:
            await self._begin(lane, message)
        if lane.running is None:
            return piece.raw
        exchange = lane.running.exchange
        if exchange.capture is not None:
            exchange.capture.hear(text)
            await self._replay.save(exchange)
        if message.kind in _ENDS:
            self._end(lane, "ok")
        return piece.raw

    def miss(self) -> None:
        """Note that a message of upstream's passed unread, which may have ended an answer."""
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
            self._replay.follow(create.exchange, None if is_blind else lane.behind)
        elif is_blind and create.exchange.capture is not None:
            self._replay.follow(create.exchange, None)  # it may be the answer to another one
        exchange = create.exchange
        exchange.status = 200
        if create.sent_s:
            exchange.first_byte_ms = (self._account.clock() - create.sent_s) * 1000
        if create.cure is not None:
            self._count_heal(create, "cured")
            cure, fault = create.cure, create.fault
            exchange.heal(fault.value, cure.injected, takes_back=cure.takes_back)
            await self._replay.learn(exchange, fault, cure)
        create.let_go()
        lane.running = create
        self.idle.clear()

    async def _refused(self, lane: Lane, message: Message, piece: Piece) -> bytes:
        """Take an error: where no answer runs, the lane's oldest request has failed."""
        if lane.running or not lane.waiting:
            lane.is_unsure = lane.is_unsure or bool(lane.waiting)
            return piece.raw
        create = lane.waiting[0]
        status, passed, text = message.http_status, piece.raw, piece.text or b""
        if create.refusal:
            self._count_heal(create, "refused")
            passed = create.refusal
        elif len(lane.waiting) == 1 and not (self._is_blind or lane.is_unsure):
            diagnosis = diagnose(status, text)
            cure = await self._cure(create, diagnosis)
            # Meanwhile another one may have gone out, which upstream will answer first.
            is_alone = len(lane.waiting) == 1 and not (self._is_blind or lane.is_unsure)
            if cure and is_alone and self._sends_again(create, cure):
                create.hold(piece.raw, diagnosis.fault, cure)
                return b""
        lane.waiting.popleft()
        create.exchange.status = status
        if create.exchange.capture is not None:
            create.exchange.captured = "refused"
        self._settle(create, "refused" if _BAD <= status < _BROKEN else "upstream_error")
        self._tell_idle()
        return passed

    async def _cure(self, create: Create, diagnosis: Diagnosis) -> Cure | None:
        """Return what to send instead of a request that was refused; None where that is all."""
        if create.prepared is None or diagnosis.fault is Fault.OTHER or not self._replay.heals:
            return None
        try:
            return await self._replay.cure(create.exchange, create.prepared, diagnosis)
        except Unspliceable:
            return None
        except Exception as error:  # noqa: BLE001 (fail open: the refusal goes to the client)
            self._account.log.warning("heal_failed", reason=type(error).__name__)
            return None

    def _sends_again(self, create: Create, cure: Cure) -> bool:
        mine = create.mine
        return mine is not None and self._resend(text_frame(cure.body, mine.key))

    def _end(self, lane: Lane, outcome: str) -> None:
        if lane.running is None:
            return
        exchange = lane.running.exchange
        lane.behind = None
        if exchange.capture is not None:
            lane.behind = exchange.capture.successor()
            exchange.captured = exchange.captured or "nothing"
        self._settle(lane.running, outcome)
        lane.running = None
        self._tell_idle()

    # Both...

    def _exchange(self) -> Exchange:
        exchange = Exchange(Route.CREATE, self._account.clock())
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
        busy = any(lane.running or lane.waiting for lane in self._lanes.values())
        if not self._preparing and not busy:
            self.idle.set()

    def _count_heal(self, create: Create, result: str) -> None:
        self._account.metrics.heals.labels(create.fault.value, result).inc()

    def _settle(self, create: Create, outcome: str) -> None:
        create.let_go()
        create.exchange.outcome = outcome
        self._account.settle(create.exchange)
