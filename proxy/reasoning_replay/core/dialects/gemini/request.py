"""Parsed request: the body of a request to `:generateContent`, parsed as far as needed."""

import re
from dataclasses import dataclass

from msgspec import Raw

from reasoning_replay.core.dialects.gemini.items import GeminiItem, read_content
from reasoning_replay.core.dialects.lenient import elements_of, members_of
from reasoning_replay.core.dialects.request_body import ParsedRequest, RequestReader
from reasoning_replay.core.wire import json_spans
from reasoning_replay.core.wire.digest import digest, utf8
from reasoning_replay.core.wire.json_spans import NONE
from reasoning_replay.core.wire.text_folding import folded

# What the path has before the name of a model; tuned models have one in AI Studio and one in the
# cloud.
HOLDERS = ("endpoints", "tunedModels", "models")
_INSTRUCTIONS = ("systemInstruction", "system_instruction")
# A request that only counts tokens may hold the whole request that it is about.
_WRAPPERS = ("generateContentRequest", "generate_content_request")


@dataclass(slots=True)
class GeminiRequest(ParsedRequest[GeminiItem]):
    """One parsed request."""

    may_rename: bool = True
    may_merge: bool = True

    @property
    def contents(self) -> list[tuple[int, int]]:
        """Byte range of each content; of a view only the new ones."""
        return self.spans("contents")


def _note_frame(request: GeminiRequest) -> None:
    given = next((request.values[name] for name in _INSTRUCTIONS if name in request.values), NONE)
    parts = members_of(given).get("parts", NONE)
    texts = [members_of(part).get("text", NONE) for part in elements_of(parts) or [Raw(parts)]]
    words = folded("".join(json_spans.text(text) or "" for text in texts))
    if words:
        request.frame = digest(b"system", utf8(words))


_MODEL = re.compile(rf"/(?:{'|'.join(HOLDERS)})/([^/:]+?)(?::|%3[Aa])\w+\Z")
read_request = RequestReader(
    GeminiRequest, "contents", read_content, _note_frame, _MODEL, _WRAPPERS
)
