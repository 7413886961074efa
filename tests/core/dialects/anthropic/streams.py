"""Streams of the Messages API, and turns captured from them."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from reasoning_replay.core.dialects.anthropic.capture import MessagesCapture
from reasoning_replay.core.dialects.captures import Origin
from reasoning_replay.core.history.turns import Context, Turn

from tests.core.streams import heard

MODEL = "claude-sonnet-4-6"
Block = dict[str, Any]


def text(words: str, **more: Any) -> Block:
    """Return a text block."""
    return {"type": "text", "text": words, **more}


def thought(words: str, signature: str | None = "Eg==") -> Block:
    """Return a thinking block; None: without the field."""
    block = {"type": "thinking", "thinking": words}
    return block if signature is None else block | {"signature": signature}


def call(name: str, call_id: str = "", kind: str = "tool_use", **given: Any) -> Block:
    """Return a call."""
    return {"type": kind, "id": call_id or f"toolu_{name}", "name": name, "input": given}


THOUGHT = thought("Hm")
REDACTED = {"type": "redacted_thinking", "data": "Em=="}


def event(kind: str, **fields: Any) -> bytes:
    """Return one event."""
    data = json.dumps({"type": kind, **fields})
    return f"event: {kind}\ndata: {data}\n\n".encode()


def started(**more: Any) -> bytes:
    """Return the first event of a stream."""
    usage = {"input_tokens": 7, "cache_read_input_tokens": 3, "output_tokens": 1}
    message = {"id": "msg_1", "type": "message", "model": MODEL, "content": [], "usage": usage}
    return event("message_start", message=message | more)


def start(index: Any, block: Any) -> bytes:
    """Return the event that starts a block."""
    return event("content_block_start", index=index, content_block=block)


def delta(index: Any, **fields: Any) -> bytes:
    """Return a delta of a block."""
    return event("content_block_delta", index=index, delta=fields)


def ended(reason: Any = "end_turn", *, stops: bool = True, **more: Any) -> bytes:
    """Return the last events of a stream."""
    said = event("message_delta", delta={"stop_reason": reason}, **more)
    return said + (event("message_stop") if stops else b"")


def _cut(words: str, at: int = 3) -> Iterator[str]:
    yield from (words[n : n + at] for n in range(0, len(words), at))


def pieces_of(index: int, block: Block) -> bytes:
    """Return the events of one block, as the API sends them."""
    kind = block["type"]
    if kind == "thinking":
        made = [start(index, block | {"thinking": "", "signature": ""})]
        made += [
            delta(index, type="thinking_delta", thinking=words) for words in _cut(block["thinking"])
        ]
        if signature := block.get("signature"):
            made.append(delta(index, type="signature_delta", signature=signature))
    elif kind == "text":
        made = [start(index, block | {"text": ""})]
        made += [delta(index, type="text_delta", text=words) for words in _cut(block["text"])]
    elif kind.endswith("tool_use"):
        made = [start(index, block | {"input": {}}), event("ping")]
        given = json.dumps(block["input"]) if block["input"] else ""
        made += [
            delta(index, type="input_json_delta", partial_json=part) for part in ("", *_cut(given))
        ]
    else:
        made = [start(index, block)]
    return b"".join([*made, event("content_block_stop", index=index)])


def stream(*blocks: Block, reason: Any = "end_turn", **more: Any) -> bytes:
    """Return a whole stream of these blocks."""
    made = [pieces_of(index, block) for index, block in enumerate(blocks)]
    return started(**more) + b"".join(made) + ended(reason, usage={"output_tokens": 9})


def answer(*blocks: Any, reason: Any = "end_turn", **more: Any) -> bytes:
    """Return a whole JSON response."""
    top = {"id": "msg_1", "type": "message", "role": "assistant", "model": MODEL}
    body = top | {"content": list(blocks), "stop_reason": reason, **more}
    return json.dumps(body, ensure_ascii=False).encode()


def capture(max_bytes: int = 1 << 20, **more: Any) -> MessagesCapture:
    """Return the capture for a response to a request without history."""
    return MessagesCapture(Origin(Context(is_known=True), MODEL, **more), max_bytes)


def turn_of(pieces: bytes | Iterable[bytes], **more: Any) -> Turn | None:
    """Return the turn that is captured from a stream, or from a JSON response."""
    return heard(capture(**more), pieces).snapshot(1).turn


def whole_turn_of(pieces: bytes | Iterable[bytes], **more: Any) -> Turn:
    """Return the turn of a response that has one."""
    turn = turn_of(pieces, **more)
    assert turn is not None
    return turn
