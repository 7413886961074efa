"""Streams: the requests and responses with one `stream_id` on a WebSocket, in order."""

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from reasoning_replay.core.dialects.attempts import Attempts
from reasoning_replay.core.dialects.base import Cure
from reasoning_replay.core.dialects.captures import Origin
from reasoning_replay.core.dialects.error_texts import Refusal
from reasoning_replay.core.dialects.responses.socket_messages import Message
from reasoning_replay.core.dialects.states import CaptureState
from reasoning_replay.web.exchange import Exchange
from reasoning_replay.web.websocket.transitions import TABLE, Do, Event, State

_FAULTS = (Event.ERROR, Event.REFUSAL, Event.FAILURE)  # by the number of requests that wait
_EVENTS = {
    "response.completed": (Event.EVENT, Event.END),
    "response.failed": (Event.EVENT, Event.END),
    "response.incomplete": (Event.EVENT, Event.INCOMPLETE),
}


class Refused(NamedTuple):
    """
    An error of the upstream, as it arrived.

    Attributes:
        refusal: Its diagnosis; None if it is no refusal, or not worth one.
    """

    message: bytes
    refusal: Refusal | None


class Retry(NamedTuple):
    """
    A cured request that is tried, and the refusal that is held meanwhile.

    Attributes:
        held: What the client gets if the cure is refused.
        refusal: What it shall cure.
        cure: The cure that was sent.
    """

    held: Refused
    refusal: Refusal
    cure: Cure


@dataclass(slots=True)
class PendingResponse:
    """
    One request for a response, and the response while it runs.

    Attributes:
        previous: Id of the response that it continues.
        sent_s: When it was sent to the upstream; 0.0 if the upstream began it without a request.
        attempts: The request as received and as sent, and its retries; None if it is not healed.
        retry: The newest of them.
    """

    exchange: Exchange
    previous: str = ""
    sent_s: float = 0.0
    attempts: Attempts | None = None
    retry: Retry | None = None

    def drop_bodies(self) -> None:
        """Free the request in all its forms: it is not sent again."""
        self.attempts = self.retry = None
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


@dataclass(slots=True)
class Stream:
    """
    The requests and responses with one `stream_id`; the upstream answers them in order.

    Attributes:
        waiting: Requests that are sent; the upstream has not begun their responses.
        running: The response that runs, if the state says that one does.
        last_id: Id of the newest response.
        successor: Origin of a response that continues the newest one.
    """

    state: State = State.IDLE
    waiting: deque[PendingResponse] = field(default_factory=deque)
    running: PendingResponse | None = None
    last_id: str = ""
    successor: Origin | None = None

    @property
    def is_busy(self) -> bool:
        """Whether a request waits or a response runs."""
        return self.running is not None or bool(self.waiting)

    @property
    def may_heal(self) -> bool:
        """Whether a refusal can only be about the one request that waits."""
        step = TABLE[self.state].get(Event.REFUSAL)
        return len(self.waiting) == 1 and step is not None and step.do is Do.HEAL

    def events(self, message: Message) -> tuple[Event, ...]:
        """Return what a message of the upstream on this stream is."""
        if message.kind == "error":
            return (_FAULTS[min(len(self.waiting), 2)],)
        if message.kind == "response.created":
            return self._beginning(message.previous), Event.EVENT
        return _EVENTS.get(message.kind, (Event.EVENT,))

    def _beginning(self, previous: str) -> Event:
        if self.waiting and (not previous or self.waiting[0].previous == previous):
            return Event.ANSWER
        if not previous:
            return Event.UNNAMED
        return Event.SUCCESSOR if previous == self.last_id else Event.STRANGER
