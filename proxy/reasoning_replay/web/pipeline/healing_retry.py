"""Healing retry: a refused request is sent once more, changed by the least edit that cures it."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from reasoning_replay.adapters.upstream.client import UpstreamError, UpstreamResponse
from reasoning_replay.core.dialects.base import Cure, Refusal, RefusedBodies
from reasoning_replay.core.wire.content_coding import Undecodable, decoder_for, is_encoded
from reasoning_replay.core.wire.json_spans import Unspliceable
from reasoning_replay.core.wire.sse import first_event
from reasoning_replay.web.errors import ProxyError
from reasoning_replay.web.exchange import Exchange
from reasoning_replay.web.exchange_log import ExchangeRecorder
from reasoning_replay.web.pipeline.replay import Replay

__all__ = ["Answer", "Healer"]

# An error body longer than this is not one that anything could be read from.
REFUSAL_MAX_BYTES = 256 * 1024
# A stream is held up until its first event is known, and no more of it.
FIRST_EVENT_MAX_BYTES = 64 * 1024
# Nothing is held up for longer than this to be looked at.
LOOK_MAX_S = 5.0
_OK = range(200, 300)

Send = Callable[[bytes], Awaitable[UpstreamResponse]]


@dataclass(slots=True)
class Answer:
    """
    An answer of upstream's.

    Attributes:
        read: What was read of its body already.
        refusal: What it refuses; None when it does not.
        has_failed: Whether it begins with an error, whatever its status.
        cured: What an earlier answer refused, and the cure that this one answers.
    """

    response: UpstreamResponse
    read: bytes = b""
    refusal: Refusal | None = None
    has_failed: bool = False
    cured: tuple[Refusal, Cure] | None = None

    def taken(self) -> bytes:
        """Return what was read already, and keep it no longer: a stream may last."""
        read, self.read = self.read, b""
        return read


class Healer:
    """Looks into refusals, and has what can be cured sent once more: once, if at all."""

    def __init__(self, replay: Replay, recorder: ExchangeRecorder) -> None:
        """
        Keep what is shared by all exchanges.

        Args:
            replay: Decides on the cure, and learns from it.
            recorder: Counts.
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
        Return the answer to forward; the one that is not forwarded is closed.

        Args:
            exchange: Its outcomes are corrected.
            response: The first answer; nothing of it was read or forwarded.
            bodies: What was sent, and what it was made from.
            send: Sends a body as the first was sent; raises ProxyError.
        """
        first = await self._look(exchange, response)
        refusal = first.refusal
        if refusal is None:
            return first
        # A repair before the first attempt was the proxy's own judgement: whatever the refusal is
        # about, the repair may be its cause.
        if not (refusal.is_understood or exchange.request.repairs):
            return first
        cure = await self.cure(exchange, bodies, refusal)
        if cure is None:
            return first
        again = await self._again(exchange, send, cure)
        if again is None:
            self.note_refused(refusal)
            return first
        first.response.close()
        self.note_cured(exchange, refusal, cure)
        again.cured = (refusal, cure)
        return again

    async def learn(self, exchange: Exchange, answer: Answer) -> None:
        """Learn from a cure, once its answer is there whole and is none of a failure."""
        capture = exchange.answer.capture
        if answer.cured is not None and not (capture is not None and capture.has_failed):
            await self.learn_from(exchange, *answer.cured)

    async def learn_from(self, exchange: Exchange, refusal: Refusal, cure: Cure) -> None:
        """Learn from a cure that was taken. Never raises."""
        try:
            await self._replay.learn(exchange, refusal, cure)
        except Exception as error:  # noqa: BLE001 (as below)
            self._recorder.warn("heal_failed", exchange, error)

    async def cure(
        self, exchange: Exchange, bodies: RefusedBodies, refusal: Refusal
    ) -> Cure | None:
        """Return what to send instead; None when there is no cure. Never raises."""
        began_s = self._recorder.clock()
        try:
            return await self._replay.cure(exchange, bodies, refusal)
        except Unspliceable:
            return None  # it went out unread, and stays so
        except Exception as error:  # noqa: BLE001 (fail open: the refusal goes to the client)
            self._recorder.warn("heal_failed", exchange, error)
            return None
        finally:
            exchange.times.before_ms += (self._recorder.clock() - began_s) * 1000

    def note_cured(self, exchange: Exchange, refusal: Refusal, cure: Cure) -> None:
        """Count a cure that was taken."""
        self._count(refusal, "cured")
        exchange.request.note_cure(refusal.kind.value, cure)
        if exchange.answer.capture is not None:
            exchange.answer.capture.note_cure()

    def note_refused(self, refusal: Refusal) -> None:
        """Count a cure that was not."""
        self._count(refusal, "refused")

    def _count(self, refusal: Refusal, result: str) -> None:
        metrics = self._recorder.metrics
        metrics.inc(metrics.heals, refusal.kind.value, result)

    async def _again(self, exchange: Exchange, send: Send, cure: Cure) -> Answer | None:
        """Send the cured request; None when its answer is no better."""
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
        """Read as much of an answer as tells whether it is a refusal."""
        encoding = response.value(b"content-encoding")
        dialect = self._replay.dialect
        if dialect.is_refusal(response.status):
            read = await _read(response, lambda got: len(got) >= REFUSAL_MAX_BYTES)
            refused = self._diagnose(exchange, response.status, encoding, read)
            return Answer(response, read, refused, has_failed=True)
        is_stream = response.content_type == "text/event-stream" and not is_encoded(encoding)
        if response.status not in _OK or not is_stream:
            return Answer(response)
        read = await _read(
            response,
            lambda got: len(got) >= FIRST_EVENT_MAX_BYTES or first_event(got) is not None,
        )
        event = first_event(read) or b""
        if not dialect.is_failing_event(event):
            return Answer(response, read)
        refuses = dialect.is_refusing_event(event)
        refused = self._diagnose(exchange, 400, "", event) if refuses else None
        return Answer(response, read, refused, has_failed=True)

    def _diagnose(
        self, exchange: Exchange, status: int, encoding: str, read: bytes
    ) -> Refusal | None:
        """Return what a refusal is about; None where the diagnosis fails."""
        try:
            with contextlib.suppress(Undecodable):
                plain = decoder_for(encoding, REFUSAL_MAX_BYTES).feed(read)
                return self._understood(status, plain)
            return self._understood(status, b"")
        except Exception as error:  # noqa: BLE001 (fail open: the refusal goes to the client)
            self._recorder.warn("heal_failed", exchange, error)
            return None

    def _understood(self, status: int, plain: bytes) -> Refusal:
        refusal: Refusal = self._replay.dialect.diagnose(status, plain)
        return refusal


async def _read(
    response: UpstreamResponse,
    is_enough: Callable[[bytes], bool],
) -> bytes:
    """Read the beginning of an answer's body; the rest, or a broken end, stays where it is."""
    got = b""
    with contextlib.suppress(TimeoutError, UpstreamError):
        async with asyncio.timeout(LOOK_MAX_S):
            while not is_enough(got) and (chunk := await response.read()):
                got += chunk
    return got
