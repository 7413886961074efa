"""
Block dropping: a request that asks the API to leave out the reasoning that it would refuse.

Documented for reasoning after another history than its own (platform.claude.com, prefix checks on
thinking blocks). The clouds, whose bodies name an `anthropic_version`, have no such header.
"""

import msgspec

from reasoning_replay.core.dialects.anthropic.request import MessagesRequest
from reasoning_replay.core.wire import json_spans
from reasoning_replay.core.wire.json_spans import Edit

__all__ = ["BETA", "asking_to_drop"]

# Header of the request, and its value.
BETA = (b"anthropic-beta", b"thinking-binding-controls-2026-08-01")
_MEMBER = b',"block_binding":{"prefix_mismatch_behavior":"drop_block"}'


class _Thinking(msgspec.Struct):
    """The members of `thinking` that matter."""

    type: str
    block_binding: msgspec.Raw | None = None


def asking_to_drop(request: MessagesRequest) -> bytes | None:
    """Return the body that asks for it; None if thinking is not on, or the request says how."""
    raw = request.raw("thinking")
    try:
        thinking = msgspec.json.decode(raw, type=_Thinking)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return None
    is_off = thinking.type == "disabled" or thinking.block_binding is not None
    if is_off or request.raw("anthropic_version"):
        return None
    at = json_spans.place_of(request.values, request.body, "thinking").end - 1
    return json_spans.apply(request.body, [Edit(at, at, _MEMBER)])
