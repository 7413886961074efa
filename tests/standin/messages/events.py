"""Events: a response as the API streams it, block by block, and with pings between them."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tests.standin.common.script import pieces
from tests.standin.messages.behaviour import End
from tests.standin.messages.blocks import Block
from tests.standin.messages.refusals import OVERLOADED

__all__ = ["framed", "stream"]

_STREAMED = {"text": ("text_delta",), "thinking": ("thinking_delta", "signature_delta")}
_MEMBERS = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}


def stream(answer: Mapping[str, Any], end: End) -> Iterator[bytes]:
    """Yield the frames of a response; after an error, the end is missing."""
    start: dict[str, Any] = {
        "content": [],
        "stop_reason": None,
        "usage": {**answer["usage"], "output_tokens": 1},
    }
    yield framed("message_start", message={**answer, **start})
    yield framed("ping")
    for index, block in enumerate(answer["content"]):
        yield framed("content_block_start", index=index, content_block=_emptied(block))
        for delta in _deltas(block):
            yield framed("content_block_delta", index=index, delta=delta)
        yield framed("content_block_stop", index=index)
        yield framed("ping")
    if end == "error":
        yield framed("error", error=OVERLOADED["error"])
        return
    said = {"stop_reason": answer["stop_reason"], "stop_sequence": None}
    usage = {"output_tokens": answer["usage"]["output_tokens"]}
    yield framed("message_delta", delta=said, usage=usage)
    yield framed("message_stop")


def framed(type: str, **members: Any) -> bytes:  # noqa: A002 (the name of the member)
    """Return one event."""
    data = json.dumps({"type": type, **members}, ensure_ascii=False, separators=(",", ":"))
    return f"event: {type}\ndata: {data}\n\n".encode()


def _emptied(block: Block) -> dict[str, Any]:
    """Return a block as its first event has it: what deltas bring is empty."""
    brought: dict[str, Any] = {
        _MEMBERS[delta]: "" for delta in _STREAMED.get(block["type"], ())
    } | ({"input": {}} if "input" in block else {})
    return {name: brought.get(name, value) for name, value in block.items()}


def _deltas(block: Block) -> Iterator[dict[str, Any]]:
    """Yield texts and input in pieces, and a signature as a whole."""
    for kind in _STREAMED.get(block["type"], ()):
        name = _MEMBERS[kind]
        if name == "signature":
            if name in block:
                yield {"type": kind, name: block[name]}
            continue
        for piece in pieces(block[name], halves=False):
            yield {"type": kind, name: piece}
    if "input" in block:
        kind = "input_json_delta"
        yield {"type": kind, "partial_json": ""}
        for piece in pieces(json.dumps(block["input"], ensure_ascii=False), halves=False):
            yield {"type": kind, "partial_json": piece}
