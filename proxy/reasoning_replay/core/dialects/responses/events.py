"""
What is read of an event of the API's, and of the response in it.

Nothing here raises: what is not of the type that it should be counts as absent.
"""

from collections import Counter
from collections.abc import Mapping

import msgspec
from msgspec import UNSET, Raw, UnsetType

from reasoning_replay.core.wire import json_spans
from reasoning_replay.core.wire.json_spans import NONE, LenientDecoder

__all__ = [
    "CONTEXTS",
    "REMOVALS",
    "EventFields",
    "ResponseFields",
    "read_context",
    "read_event",
    "read_removals",
    "read_response",
]

# Why upstream says that it left reasoning out of what it read, and how much it goes by: words of
# the API's (OpenAI Python SDK 3.52, `response.py`, `shared/reasoning.py`); others count as "other".
REMOVALS = (
    "organization_mismatch",
    "end_user_mismatch",
    "model_mismatch",
    "prefix_mismatch",
    "turn_boundary",
    "other",
)
CONTEXTS = ("auto", "current_turn", "all_turns", "other")


class EventFields(msgspec.Struct, gc=False):
    """What matters of an event, each as raw JSON; of a key that occurs twice, the last."""

    type: Raw = NONE
    output_index: Raw = NONE
    item: Raw = NONE
    response: Raw = NONE


class ResponseFields(msgspec.Struct, gc=False):
    """What matters of a response; `output` may be absent, and that is not null."""

    id: str | None = None
    model: str | None = None
    status: str | None = None
    store: bool | None = None
    output: list[Raw] | UnsetType | None = UNSET
    input_transformations: Raw = NONE
    reasoning: Raw = NONE
    usage: Raw = NONE


class _Effort(msgspec.Struct, gc=False):
    """What matters of a response's `reasoning`."""

    context: object = None


_EVENT = msgspec.json.Decoder(EventFields)
_RESPONSE = msgspec.json.Decoder(ResponseFields)
_LOOSE_RESPONSE = LenientDecoder(ResponseFields)
_OUTPUT = msgspec.json.Decoder(list[Raw])
_EFFORT = msgspec.json.Decoder(_Effort)
_STORED = {b"true": True, b"false": False}
_ERRORS = (msgspec.MsgspecError, RecursionError, UnicodeDecodeError)


def read_event(data: bytes) -> EventFields | None:
    """Read an event; None when it is none of this API's: some upstreams send `[DONE]` and pings."""
    try:
        return _EVENT.decode(data)
    except _ERRORS:
        return None


def read_response(response: bytes | Raw) -> ResponseFields | None:
    """Read a response; None when it is none."""
    try:
        return _RESPONSE.decode(response)
    except _ERRORS:
        return _loosely(response)


def _loosely(response: bytes | Raw) -> ResponseFields | None:
    """Read a response of which something is not of the type that it should be."""
    try:
        members = _LOOSE_RESPONSE.decode(response)
    except _ERRORS:
        return None
    output: list[Raw] | UnsetType | None = UNSET
    if members["output"] is not NONE:
        try:
            output = _OUTPUT.decode(members["output"])
        except _ERRORS:
            output = None
    return ResponseFields(
        id=json_spans.text(members["id"]),
        model=json_spans.text(members["model"]),
        status=json_spans.text(members["status"]),
        store=_STORED.get(bytes(members["store"])),
        output=output,
        input_transformations=members["input_transformations"],
        reasoning=members["reasoning"],
        usage=members["usage"],
    )


def read_removals(transformations: Raw) -> Mapping[str, int] | None:
    """Return how many items upstream left out, by one of REMOVALS; None where it does not say."""
    try:
        said = msgspec.json.decode(transformations)
    except _ERRORS:
        return None
    if not isinstance(said, list):
        return None
    reasons = (one.get("reason") for one in said if isinstance(one, dict))
    return Counter(r if r in REMOVALS else "other" for r in reasons)


def read_context(reasoning: Raw) -> str:
    """Return how much reasoning upstream went by, one of CONTEXTS; "" where it does not say."""
    try:
        context = _EFFORT.decode(reasoning).context
    except _ERRORS:
        return ""
    if not isinstance(context, str):
        return ""
    return context if context in CONTEXTS else "other"
