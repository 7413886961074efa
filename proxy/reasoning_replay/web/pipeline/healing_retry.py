"""
Healing retry: a refused request is sent again, at most twice; `attempts` says what is sent.

No request ends in a refusal that it would not have had without the proxy.

A response with a status of success is looked at before its head is forwarded, because its beginning
may be a refusal. That takes LOOK_MAX_S at most: comments and white space, which servers send so
that clients see life, pass after that time, and a refusal that follows them is not healed.
A response with the status of a refusal, or one that began as an error, is read to its end instead.
That may take longer, REFUSAL_MAX_S in all, because no client can use an error before its end.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from time import monotonic

from reasoning_replay.adapters.runtime.fail_open import FailOpen
from reasoning_replay.adapters.upstream.client import UpstreamError, UpstreamResponse
from reasoning_replay.core.dialects.attempts import Attempts
from reasoning_replay.core.dialects.base import Bodies, Cure
from reasoning_replay.core.dialects.error_texts import Refusal, error_names, is_refusal
from reasoning_replay.core.dialects.path_faults import fault_in_refusal
from reasoning_replay.core.dialects.states import RequestState
from reasoning_replay.core.history.turns import Lesson
from reasoning_replay.core.wire.content_coding import Undecodable, decoder_for, is_encoded
from reasoning_replay.core.wire.json_spans import Unspliceable
from reasoning_replay.core.wire.sse import Events, data_of
from reasoning_replay.web.errors import ProxyError
from reasoning_replay.web.exchange import Exchange
from reasoning_replay.web.exchange_log import ExchangeLog
from reasoning_replay.web.pipeline.replay import Replay

# At most this much of an error body is read for its diagnosis, in at most this time.
REFUSAL_MAX_BYTES = 256 * 1024
REFUSAL_MAX_S = 5.0
# A response that may be an error is held until its beginning shows it, or this size or this time
# is reached.
LOOK_MAX_BYTES = 64 * 1024
LOOK_MAX_S = 0.3
_OK = range(200, 300)
_DECIDED = frozenset({RequestState.PLANNED, RequestState.STATEFUL})

Send = Callable[[Cure], Awaitable[UpstreamResponse]]


@dataclass(slots=True)
class CheckedResponse:
    """
    A response of the upstream, with the findings about it.

    Attributes:
        read: The part of its body that is already read.
        refusal: Its refusal, diagnosed; None if it is not a refusal.
        has_failed: Whether it begins with an error, whatever its status.
        learns: Learns from the cure that this response accepts; None without a retry.
    """

    response: UpstreamResponse
    read: bytes = b""
    refusal: Refusal | None = None
    has_failed: bool = False
    learns: Callable[[], Awaitable[None]] | None = None

    @property
    def is_success(self) -> bool:
        """Whether upstream accepted the request."""
        return self.response.status in _OK and not self.has_failed

    def taken(self) -> bytes:
        """Return the part already read, and free it here: a stream may take long."""
        read, self.read = self.read, b""
        return read

    async def learn(self, exchange: Exchange) -> None:
        """Learn from the cure, if any, once this response is complete and has not failed."""
        capture = exchange.response.capture
        if self.learns is not None and not (capture is not None and capture.has_failed):
            learns, self.learns = self.learns, None
            await learns()


@dataclass(frozen=True, slots=True)
class Healer:
    """
    Diagnosis of refusals, and the retries of a request that can be cured: two at most.

    Attributes:
        replay: Decides on cures, and learns from them.
        exchange_log: Counts the results.
    """

    replay: Replay
    exchange_log: ExchangeLog

    async def heal(
        self,
        exchange: Exchange,
        response: UpstreamResponse,
        bodies: Bodies,
        send: Send,
    ) -> CheckedResponse:
        """
        Return the response to forward; the others, if any, are closed.

        If no attempt is accepted, that is the response to the client's own bytes. If they were not
        sent, it is the newest one.

        Args:
            exchange: Its outcomes are corrected.
            response: The first response; its body is neither read nor forwarded yet.
            bodies: The request's body, as received and as sent.
            send: Sends a cure with the same method, target and other headers; raises ProxyError.
        """
        answer = newest = await self._look(exchange, response)
        attempts = Attempts(bodies)
        while newest.refusal is not None:
            tried = await self.next(exchange, attempts, newest.refusal)
            if tried is None:
                break
            refusal, cure = tried
            again = await self._again(exchange, send, cure)
            if again is None:
                self.exchange_log.count_heal(exchange, refusal, "refused")
                break
            if again.is_success:
                answer.response.close()
                self.note_cured(exchange, refusal, cure)
                # Without what is not counted any more: the response may take long.
                kept = replace(cure, body=b"", matched=None)
                again.learns = partial(self.learn_from, exchange, refusal, kept)
                return again
            newest = again
            if self.note_refused(exchange, attempts, refusal, cure):
                answer.response.close()
                answer = again
            else:
                again.response.close()
        return answer

    async def next(
        self, exchange: Exchange, attempts: Attempts, refusal: Refusal
    ) -> tuple[Refusal, Cure] | None:
        """Return what is sent after a refusal, and what it shall cure; None: nothing."""
        for wish in attempts.wishes(refusal):
            cure = wish.cure
            if wish.bodies is not None:
                cure = await self.cure(
                    exchange, wish.bodies, wish.refusal, without_reasoning=wish.without_reasoning
                )
            if cure is not None and attempts.is_new(cure):
                return wish.refusal, attempts.note(wish, cure)
        return None

    async def learn_from(self, exchange: Exchange, refusal: Refusal, cure: Cure) -> None:
        """Learn from an accepted cure. Never raises."""
        with self._fail_open(exchange):
            await self.replay.learn(exchange, refusal, cure)

    async def cure(
        self,
        exchange: Exchange,
        bodies: Bodies,
        refusal: Refusal,
        *,
        without_reasoning: bool = False,
    ) -> Cure | None:
        """Return the cure for a refused request; None if there is none. Never raises."""
        began_s = monotonic()
        try:
            # Unspliceable: it was sent unread, so it cannot be edited.
            with self._fail_open(exchange), contextlib.suppress(Unspliceable):
                return await self.replay.cure(
                    exchange, bodies, refusal, without_reasoning=without_reasoning
                )
        finally:
            exchange.times.before_ms += (monotonic() - began_s) * 1000
        return None

    def note_cured(self, exchange: Exchange, refusal: Refusal, cure: Cure) -> None:
        """Record an accepted cure."""
        self.exchange_log.count_heal(exchange, refusal, "cured")
        exchange.request.note_cure(refusal.kind.value, cure)
        if exchange.response.capture is not None and not cure.is_same_history:
            lessons: tuple[Lesson, ...] = ()
            continues = None
            # A cure of what the store could not tell teaches nothing: it may tell soon.
            is_known = exchange.request.state in _DECIDED
            if is_known and not self.replay.store.has_failed_lately:
                lessons = self.replay.engine.lessons(refusal, cure, exchange.request.model)
                continues = cure.origin
            exchange.response.capture.note_cure(
                cure.binding, lessons, continues, is_decided=cure.matched is not None
            )

    def note_refused(
        self, exchange: Exchange, attempts: Attempts, refusal: Refusal, cure: Cure
    ) -> bool:
        """Record a refused cure; return whether the client gets its refusal, not the one before."""
        self.exchange_log.count_heal(exchange, refusal, "refused")
        if cure.is_clients_own:
            exchange.request.note_own_sent()
        return cure.is_clients_own or not attempts.has_tried_own

    async def _again(self, exchange: Exchange, send: Send, cure: Cure) -> CheckedResponse | None:
        """Send the cured request; return None if there is no response."""
        try:
            response = await send(cure)
        except ProxyError:
            return None
        try:
            return await self._look(exchange, response)
        except BaseException:  # the client has left
            response.close()
            raise

    async def _look(self, exchange: Exchange, response: UpstreamResponse) -> CheckedResponse:
        """Read enough of a response to decide whether it is a refusal."""
        encoding = response.value(b"content-encoding")
        readers = self.replay.engine.readers
        if is_refusal(response.status):
            read = await _read_error(response)
            refused = self.diagnose(exchange, response.status, encoding, read)
            return CheckedResponse(response, read, refused, has_failed=True)
        if response.status not in _OK or is_encoded(encoding):
            return CheckedResponse(response)
        if response.content_type == "text/event-stream":
            read, said = await _first_event(response, readers.is_opening)
        else:
            read = said = await self._start_of_error(response)
        if not said or not readers.is_failing(said):
            return CheckedResponse(response, read)
        exchange.response.refusal = error_names(said)
        refuses = readers.is_refusing(said)
        refused = self.diagnose(exchange, 0, "", said) if refuses else None
        return CheckedResponse(response, read, refused, has_failed=True)

    async def _start_of_error(self, response: UpstreamResponse) -> bytes:
        """Read a JSON response as far as it may be an error, up to a limit; b"" if it never is."""
        maybe_failing = self.replay.engine.readers.maybe_failing
        if maybe_failing is None:
            return b""
        read = await _read(
            response,
            lambda got, _: len(got) >= LOOK_MAX_BYTES or maybe_failing(bytes(got)) is not None,
            LOOK_MAX_S,
        )
        return await _read_error(response, read) if maybe_failing(read) else read

    def diagnose(
        self, exchange: Exchange, status: int, encoding: str, read: bytes
    ) -> Refusal | None:
        """Return the diagnosis of a refusal; None if it fails. An event has the status 0."""
        with self._fail_open(exchange):
            with contextlib.suppress(Undecodable):
                plain = decoder_for(encoding, REFUSAL_MAX_BYTES).feed(read)
                exchange.response.refusal = error_names(plain)
                exchange.wrong_path = fault_in_refusal(plain) or ""
                return self.replay.engine.diagnose(status or 400, plain, is_certain=bool(status))
            return self.replay.engine.diagnose(status or 400, b"")
        return None

    def _fail_open(self, exchange: Exchange) -> FailOpen:
        """Return the context of a step without which the refusal goes to the client."""
        return self.exchange_log.fail_open("heal_failed", exchange)


async def _first_event(
    response: UpstreamResponse, is_opening: Callable[[bytes], bool] | None
) -> tuple[bytes, bytes]:
    """
    Read a stream up to its first event that may be an error.

    Returns:
        The part read, and the data of that event; b"" without one.
    """
    events = Events(LOOK_MAX_BYTES)
    found = b""

    def is_enough(got: bytearray, chunk: bytes) -> bool:
        nonlocal found
        for frame in events.frames(chunk):
            said = data_of(frame)
            if said and not (is_opening is not None and is_opening(said)):
                found = said
                return True
        return len(got) >= LOOK_MAX_BYTES

    read = await _read(response, is_enough, LOOK_MAX_S)
    return read, found


async def _read_error(response: UpstreamResponse, read: bytes = b"") -> bytes:
    """Return an error's body, up to a limit; `read` is the part that is already read."""
    left = REFUSAL_MAX_BYTES - len(read)
    return read + await _read(response, lambda got, _: len(got) >= left, REFUSAL_MAX_S)


async def _read(
    response: UpstreamResponse,
    is_enough: Callable[[bytearray, bytes], bool],
    most_s: float,
) -> bytes:
    """
    Read the beginning of a response's body; the rest, or an error, is left to the relay.

    Args:
        response: Its body is read from where it is.
        is_enough: Called with all that is read, and with the newest piece of it.
        most_s: Longest time. What has arrived by then is read, also if the event loop was busy.
    """
    got = bytearray()
    with contextlib.suppress(UpstreamError):
        while response.is_ready and (chunk := await response.read()):  # without a timer
            got += chunk
            if is_enough(got, chunk):
                return bytes(got)
        try:
            async with asyncio.timeout(most_s):
                while chunk := await response.read():
                    got += chunk
                    if is_enough(got, chunk):
                        break
        except TimeoutError:
            if response.is_ready:
                got += (chunk := await response.read())
                is_enough(got, chunk)
    return bytes(got)
