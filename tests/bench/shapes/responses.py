"""Responses API: requests, responses and events in the form of real ones."""

import json
from collections.abc import Sequence
from typing import Any, ClassVar

from tests.bench.shapes.dialect import Dialect, Item, blob, compact, digits, stamped

_OPENING = 6  # number of events of a stream before its deltas
_MODEL = "gpt-5.2"
_TOOLS = [
    {
        "type": "function",
        "name": "read_file",
        "description": "Read a file of the workspace.",
        "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
        "strict": True,
    }
]


def _message(item_id: str, text: str, phase: str) -> Item:
    part = {"type": "output_text", "annotations": [], "logprobs": [], "text": text}
    return {
        "id": item_id,
        "type": "message",
        "status": "completed",
        "content": [part],
        "phase": phase,
        "role": "assistant",
    }


def _reasoning(item_id: str, blob: str) -> Item:
    return {"id": item_id, "type": "reasoning", "encrypted_content": blob, "summary": []}


def _call(item_id: str, call_id: str, path: str) -> Item:
    return {
        "id": item_id,
        "type": "function_call",
        "status": "completed",
        "arguments": json.dumps({"path": path}),
        "call_id": call_id,
        "name": "read_file",
    }


def _answer(response_id: str, output: list[Item], status: str = "completed") -> Item:
    tokens = {"input_tokens": 812, "input_tokens_details": {"cached_tokens": 512}}
    tokens |= {"output_tokens": 96, "output_tokens_details": {"reasoning_tokens": 64}}
    return {
        "id": response_id,
        "object": "response",
        "created_at": 1_780_000_000,
        "status": status,
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "max_output_tokens": None,
        "model": _MODEL,
        "output": output,
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "reasoning": {"effort": "medium", "summary": None},
        "service_tier": "default",
        "store": False,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}, "verbosity": "medium"},
        "tool_choice": "auto",
        "tools": _TOOLS,
        "top_logprobs": 0,
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": {**tokens, "total_tokens": 908} if status == "completed" else None,
        "user": None,
        "metadata": {},
    }


def _event(kind: str, number: int, **members: Any) -> bytes:
    told = {"type": kind, "sequence_number": number, **members}
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), compact(told))


def _parts(number: int, text: str) -> tuple[Item, Item, str]:
    this = digits("stream", number)
    reasoning = _reasoning(f"rs_{this}", blob("stream", number))
    return reasoning, _message(f"msg_{this}", text, "final_answer"), f"resp_{this}"


class _Responses(Dialect):
    name = "responses"
    path = "/v1/responses"
    items = "items"
    items_a_turn = 3
    key = "input"
    small_chars = (120, 420)
    members: ClassVar[Item] = {
        "model": _MODEL,
        "input": [],
        "include": ["reasoning.encrypted_content"],
        "store": False,
        "tools": _TOOLS,
    }
    stream_members: ClassVar[Item] = {"stream": True}
    ending = b"event: response.completed\n"

    def user(self, text: str) -> Item:
        return {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_text", "text": text}],
        }

    def said(self, this: str, text: str) -> Item:
        return _message(f"msg_{this}", text, "commentary")

    def emits(
        self, this: str, text: str, path: str, chars: int, of: Sequence[object]
    ) -> list[Item]:
        return [
            _reasoning(f"rs_{this}", blob(*of, size=chars)),
            *([self.said(this, text)] if text else []),
            _call(f"fc_{this}", f"call_{this[-24:]}", path),
        ]

    def envelope(self, this: str, items: list[Item]) -> bytes:
        return compact(_answer(f"resp_{this}", items))

    def output(self, emitted: list[Item], text: str) -> Item:
        return {
            "type": "function_call_output",
            "call_id": emitted[-1]["call_id"],
            "output": text,
        }

    def dropped(self, item: Item) -> Item | None:
        return None if item["type"] == "reasoning" else item

    def seen(self, item: Item) -> list[str | None]:
        # Not by its id, which a client may drop.
        return [f"{item['type']} {item.get('call_id')}", item.get("encrypted_content")]

    def opening(self, number: int) -> list[bytes]:
        reasoning, message, response_id = _parts(number, "")
        begun = _answer(response_id, [], "in_progress")
        bare = {**reasoning, "encrypted_content": reasoning["encrypted_content"][:200]}
        empty = {**message, "status": "in_progress", "content": []}
        place = {"item_id": message["id"], "output_index": 1, "content_index": 0}
        part = {"type": "output_text", "annotations": [], "logprobs": [], "text": ""}
        return [
            _event("response.created", 0, response=begun),
            _event("response.in_progress", 1, response=begun),
            _event("response.output_item.added", 2, output_index=0, item=bare),
            _event("response.output_item.done", 3, output_index=0, item=reasoning),
            _event("response.output_item.added", 4, output_index=1, item=empty),
            _event("response.content_part.added", 5, **place, part=part),
        ]

    def delta(self, number: int) -> bytes:
        place = {
            "item_id": f"msg_{digits('stream', number)}",
            "output_index": 1,
            "content_index": 0,
        }
        told = _event("response.output_text.delta", 0, **place, delta=" word", logprobs=[])
        return stamped(told.replace(b'"sequence_number":0', b'"sequence_number":%d'))

    def closing(self, number: int, deltas: int) -> list[bytes]:
        reasoning, message, response_id = _parts(number, " word" * deltas)
        place = {"item_id": message["id"], "output_index": 1, "content_index": 0}
        part = message["content"][0]
        at = _OPENING + deltas
        text_done = "response.output_text.done"
        whole = _answer(response_id, [reasoning, message])
        return [
            _event(text_done, at, **place, text=part["text"], logprobs=[]),
            _event("response.content_part.done", at + 1, **place, part=part),
            _event("response.output_item.done", at + 2, output_index=1, item=message),
            _event("response.completed", at + 3, response=whole),
        ]


RESPONSES = _Responses()
