"""
Random worlds of the Gemini API: the items of Responses as parts.

All responses have the same id. Reasoning is the signature of the part after it. A text may come in
two pieces, or with its signature in a part of its own.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from reasoning_replay.core.dialects.captures import Capture, Origin
from reasoning_replay.core.dialects.gemini.capture import GeminiCapture
from reasoning_replay.core.dialects.gemini.placement import plan_injection
from reasoning_replay.core.dialects.gemini.request import GeminiRequest, read_request
from reasoning_replay.core.history.items import HistoryItem
from reasoning_replay.core.history.matching.matches import Matches
from reasoning_replay.core.history.request_history import RequestHistory
from typing_extensions import override

from tests.core.worlds.dialect import CAPTURE_MAX_BYTES, WorldDialect, text_of
from tests.core.worlds.habits import Habits
from tests.core.worlds.said import Said

MODEL = "gemini-3-pro-preview"
SIGNATURE = "thoughtSignature"
Part = dict[str, Any]
SHAPES = (
    "R C",
    "R C",
    "M R C",
    "R C C",
    "R M",
    "C",
    "R C R C",
    "R M C C",
    "R M R C",
)
# Of upstream and its clients: whether a text comes in pieces, or its signature in a part of its
# own, and whether the clients keep that form.
STYLES = (
    "plain",
    "plain",
    "nameless",
    "snake",
    "pieces joined",
    "pieces kept",
    "own part dropped",
    "own part kept",
    "split",
)


class GeminiWorld(WorldDialect):
    """Parts; the calls have ids, but some clients do not send them back."""

    name = "gemini"
    shapes: ClassVar[tuple[str, ...]] = SHAPES
    styles: ClassVar[tuple[str, ...]] = STYLES
    wants_followers = False

    def __init__(self, number: int, draw: Callable[[], str]) -> None:
        super().__init__(number, draw)
        self._body = b""
        # Of each content: its parts, and for each the item that it is of.
        self._sent: list[list[tuple[int, Part]]] = []

    @override
    def capturing(self, origin: Origin) -> Capture:
        return GeminiCapture(origin, CAPTURE_MAX_BYTES)

    @override
    def renamed(self, habits: Habits, items: list[Said]) -> list[Said]:
        if self.style != "nameless":
            return items
        return [
            replace(said, item=said.item | {"call_id": ""}) if said.kind in "CO" else said
            for said in items
        ]

    @override
    def request_of(self, sent: Sequence[Said], more: dict[str, Any]) -> RequestHistory[HistoryItem]:
        top = {"model": MODEL, **more}
        frame = [top.pop("instructions", ""), *(s.item["content"] for s in sent if s.kind == "F")]
        if any(frame):  # there is no role of a developer
            top["systemInstruction"] = {"parts": [{"text": text} for text in frame if text]}
        contents, self._sent = [], []
        for places in self.messages(sent, joins_outputs=True):
            if sent[places[0]].kind == "F":
                continue
            made = [(n, part) for n in places for part in self._parts(sent[n])]
            self._sent.append(made)
            role = "model" if sent[places[0]].kind in "MC" else "user"
            contents.append({"role": role, "parts": [part for _, part in made]})
        self._body = json.dumps(top | {"contents": contents}).encode()
        return read_request(self._body, {})

    @override
    def injected(
        self, request: RequestHistory[HistoryItem], matched: Matches
    ) -> Mapping[int, list[str]]:
        assert isinstance(request, GeminiRequest)
        plan = plan_injection(request, matched)
        injected: dict[int, list[str]] = defaultdict(list)
        contents = json.loads(plan.apply(self._body))["contents"]
        for content, sent in zip(contents, self._sent, strict=True):
            left, n = list(sent), sent[0][0]
            for part in content["parts"]:
                signature = part.pop(SIGNATURE, "")
                if left and part == left[0][1]:
                    n, _ = left.pop(0)
                else:  # one more part, with a signature that was emitted after the one before it
                    assert part == {"text": ""}
                injected[n] += [signature] if signature else []
            assert not left
        return injected

    @override
    def response_of(self, said: Sequence[Said]) -> bytes:
        parts: list[Part] = []
        signature: Part = {}
        for each in said:
            if each.kind == "R":
                signature = {SIGNATURE: each.item["encrypted_content"]}
                continue
            made = [_call(each)] if each.kind == "C" else _texts(text_of(each), self._has_pieces)
            if each.kind == "M" and self._has_own and signature:
                made.append({"text": ""})
            made[0 if self._has_pieces and self.number % 2 else -1] |= signature
            parts += made
            signature = {}
        candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}
        top = {"candidates": [candidate], "modelVersion": MODEL, "responseId": "r0"}
        return json.dumps(top).encode()

    @property
    def _has_pieces(self) -> bool:
        return self.style.startswith("pieces")

    @property
    def _has_own(self) -> bool:
        return self.style.startswith("own part")

    def _parts(self, said: Said) -> list[Part]:
        """Return the parts of an item, spelled as the clients of this world do."""
        if said.kind == "O":
            output: Part = {"name": "tool", "response": {"result": said.item["output"]}}
            if said.item["call_id"]:
                output["id"] = said.item["call_id"]
            return [{"function_response" if self.style == "snake" else "functionResponse": output}]
        if said.kind == "C":
            call = _call(said)
            return [{"function_call": call["functionCall"]}] if self.style == "snake" else [call]
        if said.kind != "M":
            return [{"text": said.item["content"]}]
        kept = [{"text": ""}] if self.style == "own part kept" and said.after == "R" else []
        return _texts(text_of(said), self.style == "pieces kept") + kept


def _texts(text: str, has_pieces: bool) -> list[Part]:
    half = len(text) // 2
    return [{"text": text[:half]}, {"text": text[half:]}] if has_pieces else [{"text": text}]


def _call(said: Said) -> Part:
    call: Part = {"name": said.item["name"], "args": json.loads(said.item["arguments"])}
    if said.item["call_id"]:
        call["id"] = said.item["call_id"]
    return {"functionCall": call}
