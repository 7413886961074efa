"""
Gemini capture: the signatures that one response has, and the parts that they are on, as a turn.

A turn is complete at the first `finishReason`, so it is stored once.
"""

import re
from itertools import zip_longest

from typing_extensions import override

from reasoning_replay.core.dialects.captures import ITEM_BYTES, Origin
from reasoning_replay.core.dialects.gemini.events import (
    Chunk,
    PartJoiner,
    chunks_in,
    read_chunk,
    read_usage,
)
from reasoning_replay.core.dialects.gemini.items import read_content
from reasoning_replay.core.dialects.gemini.parts import reasoning_of
from reasoning_replay.core.dialects.turn_capture import TurnCapture
from reasoning_replay.core.history.items import Role
from reasoning_replay.core.history.model_names import families
from reasoning_replay.core.history.turns import Emitted, Reasoning
from reasoning_replay.core.wire import surrogates
from reasoning_replay.core.wire.json_spans import NONE

_END = re.compile(rb'"finishReason"\s*:\s*"|"error"\s*:')
_WHOLE = "STOP"
# After CONTINUATION, the next response follows. Any other reason to finish may leave the last item
# incomplete.
_WHOLE_REASONS = frozenset({_WHOLE, "CONTINUATION"})


class GeminiCapture(TurnCapture[PartJoiner]):
    """The capture of one response."""

    end = _END

    @override
    def __init__(self, origin: Origin, max_bytes: int) -> None:
        super().__init__(origin, max_bytes, PartJoiner)

    @override
    def _read(self, response: bytes) -> None:
        chunks = chunks_in(response)
        for data in chunks:
            self.hear(data)
        # A whole response needs no reason to finish: some gateways send none.
        if len(chunks) == 1 and not (self._status or self.has_failed or self.gave_up):
            self._finish(_WHOLE)

    @override
    def hear(self, data: bytes) -> None:
        chunk = None if self.gave_up or self.has_failed else read_chunk(data)
        if chunk is None:
            return
        self._note(chunk, data)
        candidate = chunk.first
        if candidate is None or self._status or self.has_failed:
            return
        self._joiner.add(candidate)
        if self._fits(self._joiner.size_bytes) and candidate.ended:
            self._finish(candidate.ended)

    def _note(self, chunk: Chunk, data: bytes) -> None:
        """Record the fields that are not part of the content."""
        self.response_id = self.response_id or chunk.response_id or ""
        self.model = chunk.model_version or self.model
        if chunk.usage_metadata is not NONE:
            self.usage = read_usage(chunk.usage_metadata) or self.usage
        if chunk.error is not NONE:
            self._fail(data)

    def _finish(self, reason: str) -> None:
        """Make the turn of a complete response, once."""
        joiner = self._joiner
        if self._fits(joiner.size_bytes + ITEM_BYTES * joiner.count):
            content = joiner.joined()
            items = _emitted(content, is_whole=reason in _WHOLE_REASONS)
            self._complete(reason, content, items, families(self._origin.model, self.model))


def _emitted(content: bytes, *, is_whole: bool) -> list[Emitted]:
    """Return the items of a response, each with the signatures that belong to it."""
    items = [item for item in read_content(content) if item.role is Role.MODEL]
    emitted: list[Emitted] = []
    start = 0
    for item, following in zip_longest(items, items[1:]):
        holder = item.holder
        end = len(holder.parts) if following is None else following.numbers[0]
        run: list[Reasoning] = []
        number, total = 0, len(item.numbers)
        for at in range(start, end):
            part = holder.parts[at]
            number += at in item.numbers
            if part.signed and at in item.numbers:
                run.append(reasoning_of(part, number, total))
            elif part.signed:
                raw = surrogates.unmarked(content[slice(*holder.spans[at])])
                if surrogates.readable(raw) is raw:  # else it is not valid Unicode
                    run.append(reasoning_of(part, number, total, raw))
        start = end
        is_withheld = bool(run) and following is None and not is_whole
        emitted.append(item.emitted(run, withheld=is_withheld))
    return emitted
