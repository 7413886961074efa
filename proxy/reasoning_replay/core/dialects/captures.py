"""
Capture interface: what a dialect reads from one response, and where that response belongs.

The types of the other direction, the request and its cure, are in `base`.
"""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

import msgspec

from reasoning_replay.core.history.seen import Seen
from reasoning_replay.core.history.turns import Context, Turn

__all__ = [
    "NO_NAMES",
    "Capture",
    "CaptureSnapshot",
    "ErrorNames",
    "Origin",
    "Usage",
]


class Origin(msgspec.Struct, frozen=True, gc=False):
    """
    Facts about a request that are stored with the turn of its response.

    Attributes:
        context: As in `Turn`.
        conversation: Id of the conversation that it continues; b"" starts a new one.
        parent: Id of the newest turn matched in its history, else of the turn of the response
            that the request names; b"" if there is neither.
        model: Model that the client requested; "" when unknown (a GET).
        stores: Whether upstream stores the items, according to the request.
        created_ms: Creation time of a turn whose capture began earlier, in ms since the epoch;
            0: the first snapshot sets it.
        seen: As in `Turn`.
        switched_off: As in `Turn`.
        binding: As in `Turn`.
    """

    context: Context
    model: str
    conversation: bytes = b""
    parent: bytes = b""
    stores: bool = True
    created_ms: int = 0
    seen: Seen | None = None
    switched_off: bool = False
    binding: bytes = b""


class CaptureSnapshot(msgspec.Struct, frozen=True, gc=False):
    """
    A response as far as it is known.

    Attributes:
        status: Status in the dialect's own word; "" while unknown.
        turn: Turn to store; None while it has nothing by which it could be matched.
    """

    status: str
    turn: Turn | None


class Usage(msgspec.Struct, frozen=True, gc=False):
    """
    Token counts of a response; None for a count that upstream omits or that is impossible.

    Attributes:
        cached_tokens: Part of `input_tokens`.
        reasoning_tokens: Part of `output_tokens`.
    """

    input_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None


class ErrorNames(NamedTuple):
    """
    Words of an API that name one of its errors; they never quote a request.

    Attributes:
        code: Such as `rate_limit_exceeded`; "" if it has none.
        type: Such as `invalid_request_error`; "" if it has none.
    """

    code: str = ""
    type: str = ""


NO_NAMES = ErrorNames()


class Capture(Protocol):
    """
    The capture of one response. It never raises and never delays the client.

    Call `feed` (chunks of a stream), `hear` (events without framing) or `read` (a whole JSON
    response). If `dirty` is true afterwards, save a snapshot before the client gets those bytes.

    Attributes:
        gave_up: Reason why it stopped following the response; "" while it follows.
        reasoning_items, reasoning_bytes: Count and size of the reasoning in the last snapshot.
        removed: Number of reasoning items that upstream reports it left out, by reason.
        reasoning_context: How much reasoning upstream used, as a fixed word; "" if not reported.
        usage: Token counts that upstream reports at the end; None if it does not.
        error: Names of the error with which upstream reports that the response failed.
    """

    dirty: bool
    gave_up: str
    reasoning_items: int
    reasoning_bytes: int
    removed: Mapping[str, int]
    reasoning_context: str
    usage: Usage | None
    error: ErrorNames

    def feed(self, chunk: bytes) -> None:
        """Process the next bytes of a stream."""
        ...

    def hear(self, data: bytes) -> None:
        """Process the data of one event."""
        ...

    def read(self, answer: bytes) -> None:
        """Process a whole JSON response."""
        ...

    def close(self) -> None:
        """Process the end of the stream."""
        ...

    def snapshot(self, created_ms: int) -> CaptureSnapshot:
        """Return what is known so far, and mark it as saved."""
        ...

    def note_cure(self) -> None:
        """Record that the request was healed: upstream did not see the original decisions."""
        ...

    def successor(self) -> Origin:
        """Return the origin of a response that upstream starts after this one, unrequested."""
        ...

    @property
    def response_id(self) -> str:
        """Response id; "" while unknown."""
        ...

    @property
    def model(self) -> str:
        """Model that responds, as upstream names it; "" while unknown."""
        ...

    @property
    def has_failed(self) -> bool:
        """Whether upstream reports that the response failed or was cancelled."""
        ...
