"""Healing retry: a refused request is sent once more, with the smallest edit that cures it."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from reasoning_replay.adapters.upstream.client import UpstreamError, UpstreamResponse
from reasoning_replay.core.dialects.base import Cure, Refusal, RefusedBodies
from reasoning_replay.core.dialects.states import Route
from reasoning_replay.core.wire.content_coding import Undecodable, decoder_for, is_encoded
from reasoning_replay.core.wire.json_spans import Unspliceable
from reasoning_replay.core.wire.sse import first_event
from reasoning_replay.web.errors import ProxyError
from reasoning_replay.web.exchange import Exchange
from reasoning_replay.web.exchange_log import ExchangeRecorder
from reasoning_replay.web.pipeline.replay import Replay, Replays

__all__ = ["Answer", "Healer", "Healers", "healers_of"]

# At most this much of an error body is read for its diagnosis.
REFUSAL_MAX_BYTES = 256 * 1024
# A stream is held until its first event is complete, or this size is reached.
FIRST_EVENT_MAX_BYTES = 64 * 1024
# A response is held for its diagnosis for at most this time.
LOOK_MAX_S = 5.0
_OK = range(200, 300)

Send = Callable[[bytes], Awaitable[UpstreamResponse]]


@dataclass(slots=True)
class Answer:
    """
    A response of the upstream, with the findings about it.

    Attributes:
        read: The part of its body that is already read.
        refusal: Its refusal, diagnosed; None if it is not a refusal.
        has_failed: Whether it begins with an error, whatever its status.
        cured: The earlier refusal and the cure that this response accepts; None without a retry.
    """

    response: UpstreamResponse
    read: bytes = b""
    refusal: Refusal | None = None
    has_failed: bool = False
    cured: tuple[Refusal, Cure] | None = None

    def taken(self) -> bytes:
        """Return the part already read, and free it here: a stream may take long."""
        read, self.read = self.read, b""
        return read


class Healer:
    """Diagnosis of refusals, with at most one retry of a request that can be cured."""

    def __init__(self, replay: Replay, recorder: ExchangeRecorder) -> None:
        """
        Keep the parts that all exchanges share.

        Args:
            replay: Decides on cures, and learns from them.
            recorder: Counts the results.
        """
        self._replay = replay
        self._recorder = recorder

    async def heal(
        self,
        exchange: Exchange,
        response: UpstreamResponse,
        bodies: RefusedBodies,
        send: Send,
    ) -> Answer:
        """
        Return the response to forward; the other one, if any, is closed.

        Args:
            exchange: Its outcomes are corrected.
            response: The first response; its body is neither read nor forwarded yet.
            bodies: The request's body, as received and as sent.
            send: Sends another body with the same method, target and headers; raises ProxyError.
        """
        first = await self._look(exchange, response)
        refusal = first.refusal
        if refusal is None:
            return first
        # A repair before the first attempt is the proxy's own decision, so it may be the cause of
        # any refusal, even of one that is not understood.
        if not (refusal.is_understood or exchange.request.repairs):
            return first
        cure = await self.cure(exchange, bodies, refusal)
        if cure is None:
            return first
        again = await self._again(exchange, send, cure)
        if again is None:
            self.note_refused(exchange, refusal)
            return first
        first.response.close()
        self.note_cured(exchange, refusal, cure)
        again.cured = (refusal, cure)
        return again

    async def learn(self, exchange: Exchange, answer: Answer) -> None:
        """Learn from a cure, once its response is complete and has not failed."""
        capture = exchange.answer.capture
        if answer.cured is not None and not (capture is not None and capture.has_failed):
            await self.learn_from(exchange, *answer.cured)

    async def learn_from(self, exchange: Exchange, refusal: Refusal, cure: Cure) -> None:
        """Learn from an accepted cure. Never raises."""
        try:
            await self._replay.learn(exchange, refusal, cure)
        except Exception as error:  # noqa: BLE001 (as below)
            self._recorder.warn("heal_failed", exchange, error)

    async def cure(
        self, exchange: Exchange, bodies: RefusedBodies, refusal: Refusal
    ) -> Cure | None:
        """Return the cure for a refused request; None if there is none. Never raises."""
        began_s = self._recorder.clock()
        try:
            return await self._replay.cure(exchange, bodies, refusal)
        except Unspliceable:
            return None  # it was sent unread, so it cannot be edited
        except Exception as error:  # noqa: BLE001 (fail open: the refusal goes to the client)
            self._recorder.warn("heal_failed", exchange, error)
            return None
        finally:
            exchange.times.before_ms += (self._recorder.clock() - began_s) * 1000

    def note_cured(self, exchange: Exchange, refusal: Refusal, cure: Cure) -> None:
        """Record an accepted cure."""
        self._count(exchange, refusal, "cured")
        exchange.request.note_cure(refusal.kind.value, cure)
        if exchange.answer.capture is not None:
            exchange.answer.capture.note_cure()

    def note_refused(self, exchange: Exchange, refusal: Refusal) -> None:
        """Count a refused cure."""
        self._count(exchange, refusal, "refused")

    def _count(self, exchange: Exchange, refusal: Refusal, result: str) -> None:
        metrics = self._recorder.metrics
        metrics.inc(metrics.heals, exchange.dialect, refusal.kind.value, result)

    async def _again(self, exchange: Exchange, send: Send, cure: Cure) -> Answer | None:
        """Send the cured request; return None if its response is no success."""
        try:
            response = await send(cure.body)
        except ProxyError:
            return None
        try:
            again = await self._look(exchange, response)
        except BaseException:  # the client has left
            response.close()
            raise
        if again.response.status in _OK and not again.has_failed:
            return again
        again.response.close()
        return None

    async def _look(self, exchange: Exchange, response: UpstreamResponse) -> Answer:
        """Read enough of a response to decide whether it is a refusal."""
        encoding = response.value(b"content-encoding")
        dialect = self._replay.dialect
        if dialect.is_refusal(response.status):
            read = await _read(response, lambda got: len(got) >= REFUSAL_MAX_BYTES)
            refused = self._diagnose(exchange, response.status, encoding, read)
            return Answer(response, read, refused, has_failed=True)
        if response.status not in _OK or is_encoded(encoding):
            return Answer(response)
        if response.content_type == "text/event-stream":
            read = await _read(response, _has_event)
            said = first_event(read) or b""
        else:
            read = said = await self._start_of_error(response)
        if not dialect.is_failing_event(said):
            return Answer(response, read)
        exchange.answer.refusal = dialect.error_names(said)
        refuses = dialect.is_refusing_event(said)
        refused = self._diagnose(exchange, 400, "", said) if refuses else None
        return Answer(response, read, refused, has_failed=True)

    async def _start_of_error(self, response: UpstreamResponse) -> bytes:
        """Read a JSON response as far as it may be an error, up to a limit; b"" if it never is."""
        maybe_failing = self._replay.dialect.maybe_failing
        if maybe_failing(b"") is False:
            return b""
        read = await _read(response, lambda got: maybe_failing(got) is not None)
        if not maybe_failing(read):
            return read
        return read + await _read(response, lambda got: len(got) >= REFUSAL_MAX_BYTES)

    def _diagnose(
        self, exchange: Exchange, status: int, encoding: str, read: bytes
    ) -> Refusal | None:
        """Return the diagnosis of a refusal; None if the diagnosis fails."""
        try:
            with contextlib.suppress(Undecodable):
                plain = decoder_for(encoding, REFUSAL_MAX_BYTES).feed(read)
                exchange.answer.refusal = self._replay.dialect.error_names(plain)
                return self._understood(status, plain)
            return self._understood(status, b"")
        except Exception as error:  # noqa: BLE001 (fail open: the refusal goes to the client)
            self._recorder.warn("heal_failed", exchange, error)
            return None

    def _understood(self, status: int, plain: bytes) -> Refusal:
        refusal: Refusal = self._replay.dialect.diagnose(status, plain)
        return refusal


# The healer of each route whose requests may be sent once more.
Healers = Mapping[Route, Healer]


def healers_of(replays: Replays, recorder: ExchangeRecorder) -> Healers:
    """Return the healers; the routes of one dialect share one."""
    of_replay = {id(one): Healer(one, recorder) for one in replays.values() if one.heals}
    return {route: of_replay[id(one)] for route, one in replays.items() if one.heals}


def _has_event(got: bytes) -> bool:
    return len(got) >= FIRST_EVENT_MAX_BYTES or first_event(got) is not None


async def _read(
    response: UpstreamResponse,
    is_enough: Callable[[bytes], bool],
) -> bytes:
    """Read the beginning of a response's body; the rest, or an error, is left to the relay."""
    got = b""
    with contextlib.suppress(TimeoutError, UpstreamError):
        async with asyncio.timeout(LOOK_MAX_S):
            while not is_enough(got) and (chunk := await response.read()):
                got += chunk
    return got
