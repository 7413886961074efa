"""Parsed request: the body of a request to `:generateContent`, parsed as far as needed."""

from dataclasses import dataclass

from msgspec import Raw
from typing_extensions import override

from reasoning_replay.core.dialects.gemini.items import GeminiItem, read_content
from reasoning_replay.core.dialects.gemini.routes import model_in
from reasoning_replay.core.dialects.lenient import elements_of, members_of
from reasoning_replay.core.dialects.request_body import ParsedRequest, RequestReader
from reasoning_replay.core.wire import json_spans
from reasoning_replay.core.wire.digest import digest, utf8
from reasoning_replay.core.wire.json_spans import NONE
from reasoning_replay.core.wire.text_folding import folded

_INSTRUCTIONS = ("systemInstruction", "system_instruction")
# A request that only counts tokens may hold the whole request that it is about.
_WRAPPERS = ("generateContentRequest", "generate_content_request")


@dataclass(slots=True)
class GeminiRequest(ParsedRequest[GeminiItem]):
    """One parsed request; `places` is [] if `contents` is missing or not an array."""

    may_rename: bool = True
    may_merge: bool = True

    @property
    @override
    def head(self) -> tuple[bytes, ...]:
        return *map(self.raw, _INSTRUCTIONS), self.raw("tools")

    @property
    def contents(self) -> list[tuple[int, int]]:
        """Byte range of each content."""
        start = self.history_start
        if not start:
            return []
        return json_spans.elements(self.body, start, start + len(self.raw("contents")))


def _note_frame(request: GeminiRequest) -> None:
    given = next((request.values[name] for name in _INSTRUCTIONS if name in request.values), NONE)
    parts = members_of(given).get("parts", NONE)
    texts = [members_of(part).get("text", NONE) for part in elements_of(parts) or [Raw(parts)]]
    words = folded("".join(json_spans.text(text) or "" for text in texts))
    if words:
        request.frame = digest(b"system", utf8(words))


read_request = RequestReader(
    GeminiRequest, "contents", read_content, _note_frame, model_in, _WRAPPERS
)
