"""Streams: the requests and responses with one `stream_id` on a WebSocket, in order."""

from collections import deque
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from reasoning_replay.core.dialects.attempts import Attempts
from reasoning_replay.core.dialects.base import Cure, RefusedBodies
from reasoning_replay.core.dialects.captures import Origin
from reasoning_replay.core.dialects.error_texts import Refusal
from reasoning_replay.core.dialects.states import CaptureState
from reasoning_replay.web.exchange import Exchange


class Retry(NamedTuple):
    """
    A cured request that is tried, and the refusal that is held meanwhile.

    Attributes:
        message: The upstream's error that the client gets if the cure is refused, as it arrived.
        refusal: What it shall cure.
        cure: The cure that was sent.
    """

    message: bytes
    refusal: Refusal
    cure: Cure


@dataclass(slots=True)
class PendingResponse:
    """
    One request for a response, and the response while it runs.

    Attributes:
        previous: Id of the response that it continues.
        sent_s: When it was sent to the upstream; 0.0 if the upstream began it without a request.
        bodies: The request as received and as sent, while it may be sent once more; else None.
        attempts: Its retries; None if it was sent once.
        retry: The newest of them.
    """

    exchange: Exchange
    previous: str = ""
    sent_s: float = 0.0
    bodies: RefusedBodies | None = None
    attempts: Attempts | None = None
    retry: Retry | None = None

    def drop_bodies(self) -> None:
        """Free the request in all its forms: it is not sent once more."""
        self.bodies = self.attempts = self.retry = None
        self.exchange.lease.resize(0)

    def count_capture(self) -> None:
        """Count the memory of the running capture; free it if there is no room for it."""
        response, lease = self.exchange.response, self.exchange.lease
        capture = response.capture
        if capture is None or capture.is_freed:
            return
        if not capture.gave_up and lease.resize(capture.held_bytes):
            return
        response.state = CaptureState.TOO_LARGE if capture.gave_up else CaptureState.BUSY
        capture.free()
        lease.resize(0)


class StreamState(Enum):
    """State of the newest response on a stream."""

    IDLE = "it has ended, or there was no response yet"
    CUT_SHORT = "it has ended incomplete, as a steered response does"
    RUNNING = "it runs"
    IN_DOUBT = "an error arrived while it ran, and no event of it since: it may have ended"


@dataclass(slots=True)
class Stream:
    """
    The requests and responses with one `stream_id`; the upstream answers them in order.

    Attributes:
        waiting: Requests that are sent; the upstream has not begun their responses.
        running: The response that runs; set in the states RUNNING and IN_DOUBT only.
        last_id: Id of the newest response.
        successor: Origin of a response that continues the newest one.
        is_ambiguous: Whether an error may have ended one of several requests. From then on it is
            not certain which response belongs to which request.
    """

    waiting: deque[PendingResponse] = field(default_factory=deque)
    running: PendingResponse | None = None
    state: StreamState = StreamState.IDLE
    last_id: str = ""
    successor: Origin | None = None
    is_ambiguous: bool = False

    @property
    def is_busy(self) -> bool:
        """Whether a request waits or a response runs."""
        return self.running is not None or bool(self.waiting)

    def next_waiting(self, previous: str) -> PendingResponse | None:
        """Remove and return the request of a response that begins; None if none asked for it."""
        if self.waiting and (not previous or self.waiting[0].previous == previous):
            return self.waiting.popleft()
        return None

    def origin(self, previous: str) -> Origin | None:
        """Return the origin of a response that no request asked for; None if it is unknown."""
        is_cut_short = self.state is StreamState.CUT_SHORT
        continues = previous == self.last_id if previous else is_cut_short
        return self.successor if continues else None
