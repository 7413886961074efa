"""
Diagnosis: the error in a request that a refusal reports.

Texts: Anthropic, the clouds and the vendors with this API, as quoted in issues of their clients.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from reasoning_replay.core.dialects.error_texts import (
    Refusal,
    first_in,
    is_refusal,
    read_error,
    table_of,
)
from reasoning_replay.core.dialects.lenient import decoded


class RefusalKind(StrEnum):
    """The reason for a refusal, as far as it may concern the proxy."""

    LACKS_REASONING = "lacks_reasoning"  # a message without the reasoning that led to it
    BLOB = "blob"  # a block that upstream cannot read: damaged, foreign, or empty
    BINDING = "binding"  # a block after another history than its own
    MODIFIED = "modified"  # the latest message has other blocks than upstream emitted
    SWITCHED_OFF = "switched_off"  # reasoning in a request that has switched it off
    FIELD = "field"  # a type of block that this upstream does not accept
    CACHE_DIAGNOSIS = "cache_diagnosis"  # the `diagnostics` that the proxy added
    INPUT = "input"  # another error about reasoning: the proxy's edits may be the cause
    FORM = "form"  # unknown words, about input that may be at fault
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Diagnosis(Refusal):
    """
    A classified refusal.

    Attributes:
        message: Index of the message that it names; -1 if it names none.
        block: Index of the block in that message; -1 if it names none.
    """

    kind: RefusalKind
    message: int = -1
    block: int = -1


_ANY_BLOCK = r"`?(?:redacted_)?thinking`?"
# What refusals say; the first match decides.
TEXTS = table_of(
    (
        (r"is bound to a different conversation", RefusalKind.BINDING),
        (r"\bset [`'\"]?(?:\w+\.)*prefix_mismatch_behavior", RefusalKind.BINDING),
        (rf"Invalid `?(?:signature|data)`? in {_ANY_BLOCK} block", RefusalKind.BLOB),
        (rf"\.{_ANY_BLOCK}\.(?:signature|data): Field required", RefusalKind.BLOB),
        (r"each thinking block must contain non-whitespace thinking", RefusalKind.BLOB),
        (rf"Expected {_ANY_BLOCK} or {_ANY_BLOCK}, but found", RefusalKind.LACKS_REASONING),
        # DeepSeek and Moonshot.
        (r"in the thinking mode must be passed back", RefusalKind.LACKS_REASONING),
        (r"reasoning_content is missing in assistant", RefusalKind.LACKS_REASONING),
        (r"blocks in the latest assistant message cannot be modified", RefusalKind.MODIFIED),
        (r"When thinking is disabled, an `?assistant`? message", RefusalKind.SWITCHED_OFF),
        # Pydantic and Serde, of servers that know no such block.
        (rf"Input tag '{_ANY_BLOCK}' found using 'type'", RefusalKind.FIELD),
        (rf"unknown variant {_ANY_BLOCK}", RefusalKind.FIELD),
        (rf"Unsupported (?:content|block)(?: block)? type:? '?{_ANY_BLOCK}", RefusalKind.FIELD),
        (r"\bdiagnostics\b|\bprevious_message_id\b", RefusalKind.CACHE_DIAGNOSIS),
        # Anything else about reasoning inside messages. Only the first "messages" of a line counts,
        # or the rest of the line would be read once for each.
        (r"(?m)^(?>.*?\bmessages\b).*\b(?:redacted_)?thinking\b", RefusalKind.INPUT),
        (r"\bthinking`? blocks?\b", RefusalKind.INPUT),
    )
)
# The path of a block: messages.1.content.0, or messages[1].content[0]
_PLACE = re.compile(r"messages[.\[](\d+)\]?(?:\.content[.\[](\d+))?")
_ERROR_TYPE = "invalid_request_error"


def diagnose(status: int, body: bytes) -> Diagnosis:
    """Classify a refusal; an event that is one counts as status 400."""
    if not is_refusal(status):
        return Diagnosis(RefusalKind.OTHER)
    text = read_error(body).message
    kind = first_in(TEXTS, text) or RefusalKind.OTHER
    place = _PLACE.search(text)
    if kind is RefusalKind.OTHER or place is None:
        return Diagnosis(kind)
    return Diagnosis(kind, int(place[1]), int(place[2] or -1))


class _Event(msgspec.Struct):
    """What an event says about a failure."""

    type: object = None
    error: object = None


_EVENT = msgspec.json.Decoder(_Event)


def is_failing_event(data: bytes) -> bool:
    """Return whether a stream that begins with this event has failed, for any reason."""
    event = decoded(_EVENT, data)
    return event is not None and event.type == "error"


def is_refusing_event(data: bytes) -> bool:
    """Return whether a stream that begins with this event failed because of the request."""
    event = decoded(_EVENT, data)
    error = event.error if event is not None and event.type == "error" else None
    return isinstance(error, dict) and error.get("type") == _ERROR_TYPE
