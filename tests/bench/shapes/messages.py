"""Anthropic Messages: requests, messages and events in the form of real ones."""

from collections.abc import Sequence
from typing import Any, ClassVar

from tests.bench.shapes.dialect import (
    TURN_CHARS,
    Dialect,
    Item,
    blob,
    compact,
    digits,
    lines_of,
    stamped,
)

_MODEL = "claude-fable-5-1"  # its reasoning is bound to the history before it: the most work
_THOUGHTS = 4  # number of events of a stream with thinking
_WORDS = " word %d" + " and another" * 10
_TOOLS = [
    {
        "name": "read_file",
        "description": "Read a file of the workspace.",
        "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}},
    }
]


def _assistant(*blocks: Item) -> Item:
    return {"role": "assistant", "content": list(blocks)}


def _text(text: str) -> Item:
    return {"type": "text", "text": text}


def _thinking(text: str, signature: str) -> Item:
    return {"type": "thinking", "thinking": text, "signature": signature}


def _call(call_id: str, path: str) -> Item:
    return {"type": "tool_use", "id": call_id, "name": "read_file", "input": {"path": path}}


def _thought(chars: int, *of: object) -> Item:
    return _thinking(lines_of(chars // 2, *of), blob(*of, size=chars // 2))


def _usage() -> Item:
    return {
        "input_tokens": 300,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 512,
        "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
        "output_tokens": 96,
        "service_tier": "standard",
    }


def _answer(this: str, blocks: list[Item], reason: str | None = "tool_use") -> Item:
    return {
        "id": f"msg_{this}",
        "type": "message",
        "role": "assistant",
        "model": _MODEL,
        "content": blocks,
        "stop_reason": reason,
        "stop_sequence": None,
        "usage": _usage(),
    }


def _event(kind: str, **members: Any) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), compact({"type": kind, **members}))


def _added(index: int, kind: str, **members: Any) -> bytes:
    return _event("content_block_delta", index=index, delta={"type": kind, **members})


class _Messages(Dialect):
    name = "messages"
    path = "/v1/messages"
    items = "blocks"
    items_a_turn = 3
    key = "messages"
    small_chars = (440, 1_100)
    members: ClassVar[Item] = {
        "max_tokens": 4_096,
        "messages": [],
        "model": _MODEL,
        "tools": _TOOLS,
        "thinking": {"type": "adaptive"},
    }
    stream_members: ClassVar[Item] = {"stream": True}
    ending = b"event: message_stop\n"

    def user(self, text: str) -> Item:
        return {"role": "user", "content": [_text(text)]}

    def said(self, _: str, text: str) -> Item:
        return _assistant(_text(text))

    def emits(
        self, this: str, text: str, path: str, chars: int, of: Sequence[object]
    ) -> list[Item]:
        preamble = [_text(text)] if text else []
        return [_assistant(_thought(chars, *of), *preamble, _call(f"toolu_{this[-24:]}", path))]

    def output(self, emitted: list[Item], text: str) -> Item:
        call_id = emitted[-1]["content"][-1]["id"]
        block = {"type": "tool_result", "tool_use_id": call_id, "content": text}
        return {"role": "user", "content": [block]}

    def envelope(self, this: str, items: list[Item]) -> bytes:
        return compact(_answer(this[-24:], items[0]["content"]))

    def dropped(self, message: Item) -> Item:
        return _assistant(*[block for block in message["content"] if block["type"] != "thinking"])

    def seen(self, message: Item) -> list[str | None]:
        kinds = [block["type"] for block in message["content"]]
        thoughts = [compact(block).decode() for block in message["content"] if "thinking" in block]
        return [" ".join([message["role"], *kinds]), "".join(thoughts) or None]

    def opening(self, number: int) -> list[bytes]:
        begun = _answer(digits("stream", number, count=24), [], None)
        thought = _thought(TURN_CHARS, "stream", number)
        text = thought["thinking"]
        size = len(text) // _THOUGHTS + 1
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
        return [
            _event("message_start", message=begun),
            _event("content_block_start", index=0, content_block=_thinking("", "")),
            _event("ping"),
            *[_added(0, "thinking_delta", thinking=piece) for piece in pieces],
            _added(0, "signature_delta", signature=thought["signature"]),
            _event("content_block_stop", index=0),
            _event("content_block_start", index=1, content_block=_text("")),
        ]

    def delta(self, number: int) -> bytes:
        return stamped(_added(1, "text_delta", text=_WORDS))

    def closing(self, number: int, deltas: int) -> list[bytes]:
        said = {"stop_reason": "end_turn", "stop_sequence": None}
        return [
            _event("content_block_stop", index=1),
            _event("message_delta", delta=said, usage=_usage()),
            _event("message_stop"),
        ]


MESSAGES = _Messages()
