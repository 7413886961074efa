"""One `response.create` on a WebSocket: what is kept of it until upstream begins its answer."""

from collections import deque
from dataclasses import dataclass, field

import msgspec
from msgspec import Raw

from proxy.core import spans
from proxy.core.capture import Origin
from proxy.core.frames import Piece
from proxy.core.heal.cure import Cure
from proxy.core.heal.diagnosis import Fault
from proxy.web.exchange import Exchange
from proxy.web.replay import Prepared

__all__ = ["Create", "Lane", "Message", "read_message"]


class _Response(msgspec.Struct):
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
        return spans.text(self.type) or ""

    @property
    def lane(self) -> str:
        """Its lane; "" is the default one."""
        return spans.text(self.stream_id) or ""

    @property
    def http_status(self) -> int:
        """The status that an error has over HTTP; 0 when it has none."""
        status = bytes(self.status)
        return int(status) if status.isdigit() else 0

    @property
    def previous(self) -> str:
        """The response that this one continues; "" when upstream holds no history of it."""
        given = self.previous_response_id
        if self.response:
            given = msgspec.json.decode(self.response, type=_Response).previous_response_id
        return spans.text(given) or ""


@dataclass(slots=True)
class Create:
    """
    One request for a response, and its answer.

    Attributes:
        previous: The response that it continues, if upstream holds its history.
        sent_s: When it was sent on.
        mine: What came, while it may have to be sent once more; None when that cannot be.
        prepared: What went out, as long.
        refusal: Upstream's answer to it, held back while it is tried again, cured.
        fault: What that was for.
    """

    exchange: Exchange
    previous: str = ""
    sent_s: float = 0.0
    mine: Piece | None = None
    prepared: Prepared | None = None
    refusal: bytes = b""
    fault: Fault = Fault.OTHER
    cure: Cure | None = None

    def hold(self, refusal: bytes, fault: Fault, cure: Cure) -> None:
        """Keep the refusal back: the request went out once more, cured."""
        self.refusal, self.fault, self.cure = refusal, fault, cure

    def let_go(self) -> None:
        """Keep no bytes of it any longer."""
        self.mine = self.prepared = None


@dataclass(slots=True)
class Lane:
    """
    What is under way on one lane; upstream answers its creates one by one, in their order.

    Attributes:
        waiting: Sent, and not begun.
        behind: What an answer is taken to continue that upstream begins unasked.
        is_unsure: Whether an error came that may have ended one of several: from then on, no
            answer is known for certain to belong to a request.
    """

    waiting: deque[Create] = field(default_factory=deque)
    running: Create | None = None
    behind: Origin | None = None
    is_unsure: bool = False

    def next(self, previous: str) -> Create | None:
        """Return whose answer begins; None when upstream goes on by itself, after steering."""
        if self.waiting and (not previous or self.waiting[0].previous == previous):
            return self.waiting.popleft()
        return None


def read_message(text: bytes) -> Message | None:
    """Read the head of a message; None when it is no JSON object."""
    try:
        return msgspec.json.decode(text, type=Message)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return None
