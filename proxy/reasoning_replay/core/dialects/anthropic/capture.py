"""
Messages capture: the reasoning that one response emitted and the blocks it led to, as a turn.

A turn is complete once there is a reason to stop, in `message_delta`: some clients leave before
`message_stop`. It is stored once.
"""

import re
from collections.abc import Sequence

from msgspec import structs
from typing_extensions import override

from reasoning_replay.core.dialects.anthropic.binding import binding_of, own_of
from reasoning_replay.core.dialects.anthropic.events import (
    BlockJoiner,
    Event,
    MessageFields,
    read_event,
    read_message,
    read_usage,
)
from reasoning_replay.core.dialects.anthropic.items import (
    MESSAGE,
    MessagesItem,
    blob_digest,
    read_block,
)
from reasoning_replay.core.dialects.cache_diagnoses import read_anthropic
from reasoning_replay.core.dialects.captures import ITEM_BYTES, Origin
from reasoning_replay.core.dialects.turn_capture import TurnCapture
from reasoning_replay.core.history.items import Role
from reasoning_replay.core.history.turns import Emitted, Reasoning
from reasoning_replay.core.wire import json_spans, surrogates
from reasoning_replay.core.wire.json_spans import NONE, Unspliceable

# Texts in the events that end a stream. In other events they are rare.
_END = re.compile(rb'"stop_reason"\s*:\s*"|message_stop|"error"')
# Reasons to stop after which the reasoning must not be sent again: the response is incomplete, or
# the API has withdrawn it.
_CUT_SHORT = frozenset({"max_tokens", "model_context_window_exceeded", "refusal"})
_ERROR = "error"
_FALLBACK = "fallback"  # another model continues after this block
_TEXTS = ("thinking", "signature", "data")
_EMPTY = b'""'
_AT_END = "end."  # begins the id of reasoning that no item follows


class MessagesCapture(TurnCapture[BlockJoiner]):
    """The capture of one response."""

    end = _END

    @override
    def __init__(self, origin: Origin, max_bytes: int) -> None:
        super().__init__(origin, max_bytes, BlockJoiner)
        self._stop_reason = ""
        self._first_usage = self._last_usage = NONE

    @override
    def hear(self, data: bytes) -> None:
        event = None if self.gave_up or self.has_failed else read_event(data)
        if event is None:
            return
        match event.type:
            case "message_delta":
                self._note_end(event)
            case _ if self._status:
                pass  # the turn is complete
            case "message_start":
                self._note_start(event)
            case "content_block_start":
                self._joiner.start(event.index, event.content_block)
            case "content_block_delta":
                self._joiner.add(event.index, event.delta)
            case "message_stop":
                self._finish(self._joiner.joined())
            case "error":
                self._fail(data)
        if self._joiner.size_bytes > self._max_bytes:
            self._give_up("too_large")

    @override
    def _read(self, response: bytes) -> None:
        message = read_message(response)
        if message is None:
            return
        if message.type == _ERROR:
            self._fail(response)
            return
        self._note(message)
        self._stop_reason = message.stop_reason or ""
        self._last_usage = message.usage
        blocks = message.content or ()
        if self._fits(len(response) + ITEM_BYTES * len(blocks)):
            self._finish([_as_written(bytes(raw), response) for raw in blocks])

    def _note_start(self, event: Event) -> None:
        message = read_message(event.message)
        if message is not None:
            self._note(message)
            self._first_usage = message.usage

    def _note_end(self, event: Event) -> None:
        if event.usage is not NONE:
            self._last_usage = event.usage
        self._note_removals(event.input_transformations)
        delta = read_message(event.delta)
        if self._status:
            self.usage = read_usage(self._first_usage, self._last_usage)
        elif delta is not None and delta.stop_reason:
            self._stop_reason = delta.stop_reason
            self._finish(self._joiner.joined())

    def _note(self, message: MessageFields) -> None:
        """Record the fields that are not part of the content."""
        self.response_id = message.id or self.response_id
        self.model = message.model or self.model
        self._note_removals(message.input_transformations)
        self.cache_diagnosis = read_anthropic(message.diagnostics) or self.cache_diagnosis

    def _finish(self, blocks: Sequence[bytes]) -> None:
        """Make the turn of a complete response, once."""
        self.usage = read_usage(self._first_usage, self._last_usage)
        items, before = _emitted(blocks, is_cut_short=self._stop_reason in _CUT_SHORT)
        own = binding_of(self._origin.binding, own_of(before))
        self._origin = structs.replace(self._origin, binding=own)
        # Names as they are: an alias may lead to a newer model tomorrow.
        models = tuple(sorted({self._origin.model, self.model} - {""}))
        self._complete(self._stop_reason or "message_stop", b"".join(blocks), items, models)


def _emitted(
    blocks: Sequence[bytes], *, is_cut_short: bool
) -> tuple[list[Emitted], Sequence[bytes]]:
    """
    Return the items of a response, and the blocks before its last run, reasoning aside.

    All runs can be injected later, or none. A run at the end goes with the item before it; in a
    response that is cut short, or is nothing else, it is not kept, and not missed.
    """
    items: list[tuple[MessagesItem, list[Reasoning | None]]] = []
    run: list[Reasoning | None] = []
    others: list[bytes] = []
    before_last_run = of_run = 0
    for raw in blocks:
        item = _readable(raw)
        if item.role is Role.REASONING:
            if not _says_nothing(raw):
                of_run = len(others)
                run.append(_reasoning_of(raw, item, len(others)))
            continue
        others.append(raw)
        if item.type != MESSAGE or item.words:
            items.append((item, run))
            before_last_run = of_run if run else before_last_run
            run = []
    # A message of two models has a rule of its own for its reasoning.
    is_broken = is_cut_short or any(item.type == _FALLBACK or None in run for item, run in items)
    at_end = [structs.replace(part, id=_AT_END + part.id) for part in run if part is not None]
    if at_end and items and len(at_end) == len(run) and not is_broken:
        before_last_run = of_run
        items[-1][1].extend(at_end)
    emitted = [
        item.emitted([part for part in run if part is not None], withheld=bool(run) and is_broken)
        for item, run in items
    ]
    return emitted, others[:before_last_run]


def place_of(part: Reasoning) -> int:
    """Return the number of blocks before a reasoning block in its message, reasoning aside."""
    return int(part.id.rpartition(".")[2])


def is_at_end(part: Reasoning) -> bool:
    """Return whether a reasoning block came after the last item of its message."""
    return part.id.startswith(_AT_END)


def _as_written(raw: bytes, response: bytes) -> bytes:
    """Return a block of a response as upstream wrote it, although it was read with marks."""
    plain = surrogates.unmarked(raw)
    return raw if plain is raw or raw in response else plain


def _reasoning_of(raw: bytes, item: MessagesItem, place: int) -> Reasoning | None:
    """Return a reasoning block in its injectable form; None if it would damage a request."""
    try:
        raw.decode()
        members = json_spans.unambiguous(raw)
    except (Unspliceable, UnicodeDecodeError):
        return None
    if any(json_spans.text(members[name]) is None for name in _TEXTS if name in members):
        return None
    has_blob = bool(blob_digest(item.value))
    return Reasoning(f"{item.type}.{place}", raw, (item.blob,), has_blob)


def _readable(raw: bytes) -> MessagesItem:
    """Return the item of a block, also if a lone surrogate makes its JSON invalid."""
    item = read_block(raw)
    return item if item.type else read_block(surrogates.readable(raw))


def _says_nothing(raw: bytes) -> bool:
    """Return whether a reasoning block has neither text nor a signature."""
    try:
        members = json_spans.unambiguous(raw)
    except Unspliceable:
        return False
    return all(bytes(members.get(name, _EMPTY)) in (_EMPTY, b"null") for name in _TEXTS)
