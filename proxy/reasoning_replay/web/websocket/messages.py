"""One `response.create` on a WebSocket: what is kept of it until upstream begins its answer."""

from collections import deque
from dataclasses import dataclass, field

import msgspec
from msgspec import Raw

from reasoning_replay.core.dialects.base import Cure, Origin, Refusal, RefusedBodies
from reasoning_replay.core.wire import json_spans
from reasoning_replay.core.wire.ws_frames import Piece
from reasoning_replay.web.exchange import Exchange

__all__ = ["CREATE", "Create", "Lane", "Message", "is_worth_preparing", "read_message"]

CREATE = "response.create"
STATUS_DIGITS = 3


class _Response(msgspec.Struct):
    id: Raw = Raw(b"")
    previous_response_id: Raw = Raw(b"")


class Message(msgspec.Struct):
    """
    The head of a message, the client's or upstream's, as raw JSON.

    Attributes:
        stream_id: The lane; absent on the default one.
        response: In upstream's messages.
        previous_response_id: In the client's.
    """

    type: Raw = Raw(b"")
    stream_id: Raw = Raw(b"")
    status: Raw = Raw(b"")
    response: Raw = Raw(b"")
    previous_response_id: Raw = Raw(b"")

    @property
    def kind(self) -> str:
        """Its type; "" when it has none."""
        return json_spans.text(self.type) or ""

    @property
    def lane(self) -> str:
        """Its lane; "" is the default one."""
        return json_spans.text(self.stream_id) or ""

    @property
    def http_status(self) -> int:
        """The status that an error has over HTTP; 0 when it has none."""
        status = bytes(self.status)
        return int(status) if len(status) == STATUS_DIGITS and status.isdigit() else 0

    @property
    def previous(self) -> str:
        """The response that this one continues; "" when upstream holds no history of it."""
        answer = self._answer
        given = self.previous_response_id if answer is None else answer.previous_response_id
        return json_spans.text(given) or ""

    @property
    def response_id(self) -> str:
        """Which response this is about; "" when it does not say."""
        answer = self._answer
        return "" if answer is None else json_spans.text(answer.id) or ""

    @property
    def _answer(self) -> _Response | None:
        if bytes(self.response)[:1] != b"{":
            return None
        return msgspec.json.decode(self.response, type=_Response)


@dataclass(slots=True)
class Create:
    """
    One request for a response, and its answer.

    Attributes:
        previous: The response that it continues, if upstream holds its history.
        sent_s: When it was sent on.
        mine: What came, while it may have to be sent once more; None when that cannot be.
        bodies: What went out, as long.
        refusal: Upstream's answer to it, held back while it is tried again, cured.
        refused: What that was for.
        has_failed: Whether an error came while it was answered, and nothing behind that as yet.
    """

    exchange: Exchange
    previous: str = ""
    sent_s: float = 0.0
    mine: Piece | None = None
    bodies: RefusedBodies | None = None
    refusal: bytes = b""
    refused: Refusal | None = None
    cure: Cure | None = None
    has_failed: bool = False

    def hold(self, refusal: bytes, refused: Refusal, cure: Cure) -> None:
        """Keep the refusal back: the request went out once more, cured."""
        self.refusal, self.refused, self.cure = refusal, refused, cure

    def let_go(self) -> None:
        """Keep no bytes of it any longer."""
        self.mine = self.bodies = None


@dataclass(slots=True)
class Lane:
    """
    What is under way on one lane; upstream answers its creates one by one, in their order.

    Attributes:
        waiting: Sent, and not begun.
        last: The response that came last.
        behind: What an answer that continues it comes behind.
        is_cut_short: Whether it ended incomplete, as one does that is steered.
        is_unsure: Whether an error came that may have ended one of several: from then on, no
            answer is known for certain to belong to a request.
    """

    waiting: deque[Create] = field(default_factory=deque)
    running: Create | None = None
    last: str = ""
    behind: Origin | None = None
    is_cut_short: bool = False
    is_unsure: bool = False

    @property
    def is_running(self) -> bool:
        """Whether an answer is under way."""
        return self.running is not None and not self.running.has_failed

    def next(self, previous: str) -> Create | None:
        """Return whose answer begins; None when upstream goes on by itself, after steering."""
        if self.waiting and (not previous or self.waiting[0].previous == previous):
            return self.waiting.popleft()
        return None

    def origin(self, previous: str) -> Origin | None:
        """Return what an answer comes behind that was not asked for; None when that is unknown."""
        continues = previous == self.last if previous else self.is_cut_short
        return self.behind if continues else None


def is_worth_preparing(text: bytes) -> bool:
    """Tell whether a client's message may be a request, however its letters are spelled."""
    return CREATE.encode() in text or b"\\u" in text


def read_message(text: bytes) -> Message | None:
    """Read the head of a message; None when it is no JSON object."""
    try:
        return msgspec.json.decode(text, type=Message)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return None
