"""
Event fields: the fields of a streamed event, and of the response in it, that capture needs.

Nothing here raises: a value of an unexpected type counts as absent.
"""

import re

import msgspec
from msgspec import UNSET, Raw, UnsetType

from reasoning_replay.core.dialects.lenient import LenientDecoder, decoded, members_of
from reasoning_replay.core.wire import json_spans
from reasoning_replay.core.wire.json_spans import NONE

# How much reasoning upstream used: words of the API (OpenAI Python SDK 3.52,
# `shared/reasoning.py`). Any other word counts as "other".
CONTEXTS = ("auto", "current_turn", "all_turns", "other")


class EventFields(msgspec.Struct, gc=False):
    """The fields of an event that capture reads, as raw JSON; of a repeated key, the last value."""

    type: Raw = NONE
    output_index: Raw = NONE
    item: Raw = NONE
    response: Raw = NONE


class ResponseFields(msgspec.Struct, gc=False):
    """The fields of a response that capture reads; an absent `output` is not a null one."""

    id: str | None = None
    model: str | None = None
    status: str | None = None
    store: bool | None = None
    output: list[Raw] | UnsetType | None = UNSET
    input_transformations: Raw = NONE
    reasoning: Raw = NONE
    usage: Raw = NONE
    prompt_cache_diagnostics: Raw = NONE


_EVENT = msgspec.json.Decoder(EventFields)
read_response = LenientDecoder(ResponseFields).decode


# Text in every event that is worth reading: whole items, or the start or end of a response.
# Two searches, each with a literal prefix, take a tenth of the time of one regex for both.
_WORTH = re.compile(
    rb"response\.(?:output_item\.(?:done|added)|completed|incomplete|failed|created|queued|"
    rb"in_progress)"
)
_ERROR = b'"error"'


def is_worth_reading(data: bytes) -> bool:
    """Return whether an event, or a chunk of events, may contain data for a capture."""
    return _WORTH.search(data) is not None or _ERROR in data


def read_event(data: bytes) -> EventFields | None:
    """Decode an event; None if it is not of this API: some upstreams send `[DONE]` and pings."""
    return decoded(_EVENT, data)


def read_context(reasoning: Raw) -> str:
    """Return how much reasoning upstream used, one of CONTEXTS; "" if not reported."""
    context = json_spans.text(members_of(reasoning).get("context", NONE))
    if context is None:
        return ""
    return context if context in CONTEXTS else "other"
