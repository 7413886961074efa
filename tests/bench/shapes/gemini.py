"""Gemini: requests, contents and chunks in the form of real ones."""

from collections.abc import Sequence
from typing import ClassVar

from tests.bench.shapes.dialect import (
    Dialect,
    Item,
    blob,
    compact,
    digits,
    lines_of,
    stamped,
)

_MODEL = "gemini-3-pro-preview"
_WORDS = " word %d and another"
_TOOLS = [
    {
        "functionDeclarations": [
            {
                "name": "read_file",
                "description": "Read a file of the workspace.",
                "parameters": {"type": "OBJECT", "properties": {"path": {"type": "STRING"}}},
            }
        ]
    }
]


def _signed(part: Item, signature: str) -> Item:
    return part | {"thoughtSignature": signature}


def _call(call_id: str, path: str) -> Item:
    return {"functionCall": {"name": "read_file", "args": {"path": path}, "id": call_id}}


def _answer(this: str, parts: list[Item], reason: str = "STOP") -> Item:
    candidate: Item = {"content": {"parts": parts, "role": "model"}}
    candidate |= {"finishReason": reason} if reason else {}
    usage = {"promptTokenCount": 300, "candidatesTokenCount": 96, "thoughtsTokenCount": 64}
    usage |= {"cachedContentTokenCount": 128}
    return {
        "candidates": [candidate | {"index": 0}],
        "usageMetadata": usage,
        "modelVersion": _MODEL,
        "responseId": this,
    }


def _event(number: int, *parts: Item, reason: str = "") -> bytes:
    chunk = _answer(digits("stream", number, count=24), list(parts), reason)
    return b"data: %b\n\n" % compact(chunk)


class _Gemini(Dialect):
    name = "gemini"
    path = f"/v1/models/{_MODEL}:streamGenerateContent?alt=sse"
    items = "parts"
    items_a_turn = 3
    key = "contents"
    small_chars = (560, 1_220)
    members: ClassVar[Item] = {
        "contents": [],
        "tools": _TOOLS,
        "generationConfig": {"thinkingConfig": {"thinkingLevel": "high"}},
    }
    ending = b'data: {"candidates":[{"content":{"parts":[{"text":"","thoughtSignature"'

    def user(self, text: str) -> Item:
        return {"role": "user", "parts": [{"text": text}]}

    def said(self, _: str, text: str) -> Item:
        return {"role": "model", "parts": [{"text": text}]}

    def emits(
        self, this: str, text: str, path: str, chars: int, of: Sequence[object]
    ) -> list[Item]:
        # Longer words, so that a history has about the size of the other dialects'.
        preamble = [{"text": f"{text} It belongs to the workspace."}] if text else []
        call = _signed(_call(this[-16:], path), blob(*of, size=chars))
        return [{"role": "model", "parts": [*preamble, call]}]

    def envelope(self, this: str, items: list[Item]) -> bytes:
        return compact(_answer(this[-24:], items[0]["parts"]))

    def output(self, emitted: list[Item], text: str) -> Item:
        call_id = emitted[-1]["parts"][-1]["functionCall"]["id"]
        response = {"name": "read_file", "response": {"result": text}, "id": call_id}
        return {"role": "user", "parts": [{"functionResponse": response}]}

    def dropped(self, content: Item) -> Item:
        bare = [
            {name: value for name, value in part.items() if name != "thoughtSignature"}
            for part in content["parts"]
        ]
        return {"role": content["role"], "parts": bare}

    def seen(self, content: Item) -> list[str | None]:
        kinds = [next(iter(part)) for part in content["parts"]]
        signatures = [part["thoughtSignature"] for part in content["parts"] if len(part) > 1]
        return [" ".join([content["role"], *kinds]), "".join(signatures) or None]

    def opening(self, number: int) -> list[bytes]:
        thought = lines_of(300, "stream", number)
        return [
            _event(number, {"text": thought, "thought": True}),
            _event(number, {"text": "Once"}),
        ]

    def delta(self, number: int) -> bytes:
        return stamped(_event(number, {"text": _WORDS}))

    def closing(self, number: int, deltas: int) -> list[bytes]:
        bare = _signed({"text": ""}, blob("stream", number))
        return [_event(number, bare, reason="STOP")]


GEMINI = _Gemini()
