"""
Response capture: the reasoning that one response emitted and the items it led to, as a turn.

An item is read once, when it is complete, and handed out once, when all earlier items are.
"""

import re
import sys
from collections import deque
from collections.abc import Iterable

from msgspec import UNSET, Raw
from typing_extensions import override

from reasoning_replay.core.dialects.cache_diagnoses import read_openai
from reasoning_replay.core.dialects.captures import (
    AT_ONCE_US,
    PENDING,
    Capture,
    CaptureSnapshot,
    Origin,
    work_us,
)
from reasoning_replay.core.dialects.error_texts import error_names
from reasoning_replay.core.dialects.responses.emitted import CapturedItem, blob_digest, captured
from reasoning_replay.core.dialects.responses.events import (
    ResponseFields,
    is_worth_reading,
    read_context,
    read_event,
    read_response,
)
from reasoning_replay.core.dialects.responses.items import ResponsesItem, read_item
from reasoning_replay.core.dialects.usages import UsageReader
from reasoning_replay.core.history.items import Role
from reasoning_replay.core.history.model_names import families
from reasoning_replay.core.history.turns import Context, Emitted, Reasoning, TurnPart, turn_id
from reasoning_replay.core.wire import json_spans
from reasoning_replay.core.wire.json_spans import NONE
from reasoning_replay.core.wire.sse import Events

_DONE = "response.output_item.done"
_ADDED = "response.output_item.added"
_ENDS = frozenset({"response.completed", "response.incomplete", "response.failed"})
_FAILED = frozenset({"failed", "cancelled"})
_STARTS = frozenset({"response.created", "response.queued", "response.in_progress"})

# Estimated memory of a blob that was seen for an item, in bytes. Measured: 340.
BLOB_BYTES = 400
# No upstream sends more blobs for one item.
BLOBS_MAX = 16
# The end of a response repeats all items. Each is an object, or several.
_REPEATS = re.compile(rb"response\.(?:completed|incomplete|failed)")


_USAGE = UsageReader("input_tokens", "output_tokens")


class ResponsesCapture(Capture):
    """The capture of one response. Output items are known by their index in the output."""

    @override
    def __init__(self, origin: Origin, max_bytes: int) -> None:
        super().__init__(origin, max_bytes)
        self._begin()
        self._is_stored: bool | None = None
        self._created_ms = origin.created_ms

    def _begin(self) -> None:
        """Hold nothing yet."""
        self._kept_bytes = 0
        self._events = Events(self._max_bytes, is_worth_reading)
        self._backlog: deque[bytes] = deque()  # events that are not processed yet
        self._backlog_bytes = 0
        self._parts: dict[int, CapturedItem] = {}  # items that wait for an earlier one
        self._ready: deque[tuple[int, CapturedItem]] = deque()  # the next ones to hand out
        self._next = 0  # index of the item after the last one that was ready
        self._ids: dict[int, str] = {}  # ids of all items that were kept
        self._names: set[str] = set()  # the same, except items of the last event
        self._highest = -1  # the highest index of these items
        self._blobs: dict[int, set[bytes]] = {}
        self._hollow: set[int] = set()  # indices of reasoning whose blob may come with the end
        self._run: list[tuple[int, Reasoning | None]] = []  # reasoning whose follower is to come
        self._emitted = 0  # items that were handed out
        self._runs: dict[int, tuple[Reasoning, ...]] = {}  # their runs, by position
        self._places: dict[int, tuple[int, int]] = {}  # index -> position and place in the run
        self._grown: dict[int, None] = {}  # positions whose run has further blobs
        self._head: tuple[Origin, tuple[str, ...], bool] | None = None  # as handed out

    @override
    def free(self) -> None:
        super().free()
        self._begin()

    @property
    def _stores(self) -> bool:
        """Whether upstream stores the response, as far as is known."""
        return self._origin.stores if self._is_stored is None else self._is_stored

    @property
    @override
    def held_bytes(self) -> int:
        unread = self._backlog_bytes + len(self._unread) + self._events.held_bytes
        return self._kept_bytes + unread

    @property
    @override
    def is_behind(self) -> bool:
        return bool(self._backlog or self._unread)

    @override
    def catch_up(self) -> None:
        while self._backlog:
            self._process(self._backlog.popleft())
        self._backlog_bytes = 0
        response, self._unread = self._unread, b""
        if response:
            self._read(response)

    @override
    def feed(self, chunk: bytes) -> None:
        if self.gave_up:
            return
        if found := self._events.feed(chunk):
            self._process_soon(found)
        if self._events.is_overrun:
            self.gave_up = "frame_too_long"

    @override
    def close(self) -> None:
        self._is_over = True
        if not self.gave_up:
            self._process_soon(self._events.close())

    @override
    def hear(self, data: bytes) -> None:
        self._process_soon([data])

    @override
    def _read(self, response: bytes) -> None:
        self._response(response, "response.completed")

    def _process_soon(self, events: Iterable[bytes]) -> None:
        """Process events, except those that would block the event loop."""
        left_us = AT_ONCE_US
        for data in events:
            left_us -= work_us(len(data), data.count(b"{") if _REPEATS.search(data) else 1)
            if left_us < 0 or self._backlog:
                self._backlog.append(data)
                self._backlog_bytes += len(data)
                self.dirty = True
            else:
                self._process(data)

    @override
    def successor(self) -> Origin:
        this = turn_id(self.response_id)
        origin = self._origin
        return Origin(
            context=Context(),
            model=origin.model,
            conversation=origin.conversation or this,
            parent=this,
            stores=origin.stores,
            after_ms=self._created_ms,
        )

    @override
    def snapshot(self, created_ms: int, max_items: int = sys.maxsize) -> CaptureSnapshot:
        # An item never changes once it was handed out. If its event is repeated, only a new blob
        # counts; an item that comes after later ones is left out.
        self.catch_up()
        self._created_ms = self._created_ms or self._origin.time_of_turn(created_ms)
        self._collect()
        first = self._emitted
        items = self._emit(max_items)
        self.dirty = bool(self._ready)
        # Without items, only the context of a turn is worth storing: a later GET of it needs it.
        has_begun = bool(self._emitted) or self._status in PENDING
        if not (self.response_id and has_begun) or self.is_freed:
            return CaptureSnapshot(self._status, None)
        runs = {position: self._runs[position] for position in self._grown if position < first}
        self._grown.clear()
        origin, before = self._origin, self._head
        models = families(origin.model, self.model)
        stored = self._stores
        # The origin is replaced as a whole, if at all, and may be large.
        is_same = before is not None and before[0] is origin and before[1:] == (models, stored)
        if is_same and not (items or runs):
            return CaptureSnapshot(self._status, None)
        self._head = origin, models, stored
        this = turn_id(self.response_id)
        turn = origin.turn(
            this, items, models, self._created_ms, is_stored=stored, response_id=self.response_id
        )
        part = TurnPart(turn, first, runs, has_head=not is_same)
        return CaptureSnapshot(self._status, part)

    def _process(self, data: bytes) -> None:
        event = read_event(data)
        if event is None:
            return
        kind = json_spans.text(event.type) or ""
        if kind in (_DONE, _ADDED):
            try:
                index = int(bytes(event.output_index))
            except ValueError:
                return
            item = read_item(bytes(event.item))
            if kind == _ADDED:
                # Not fit to inject, but some clients replay this blob: it identifies the item.
                self._note_blob(index, item)
                return
            if self._ids.get(index, item.id) != item.id:
                index = self._highest + 1  # this upstream does not number its outputs
            if index < self._next:
                self._note_blob(index, item)
                return
            self._keep(index, item)
            self._names.add(item.id)
            self.dirty = self.dirty or item.role is not Role.REASONING
        elif kind in _ENDS or kind in _STARTS:
            self._response(event.response, kind)
        elif kind == "error":
            self.error, self.has_failed = error_names(data), True

    def _response(self, response: bytes | Raw, kind: str) -> None:
        found = read_response(response)
        if found is None:
            return
        self.response_id = found.id or self.response_id
        self.model = found.model or self.model
        self._status = found.status or kind.rpartition(".")[2]
        self.has_failed = self._status in _FAILED
        if found.store is not None:
            self._is_stored = found.store
        if self.has_failed:
            self.error = error_names(response)
        self.dirty = self.dirty or self._status == "queued"
        self._note(found)
        if found.usage is not NONE and kind in _ENDS:
            self.usage = _USAGE.read(found.usage)
        output = found.output
        if kind not in _ENDS or output is UNSET:
            return
        self.dirty = True
        kept: list[str] = []
        for index, raw in enumerate(output or ()):
            item = read_item(bytes(raw))
            if index in self._ids:
                # The item in its own event is the authoritative one; the blob differs here.
                self._note_blob(index, item)
                self._complete(index, item)
            elif index >= self._next and (not item.id or item.id not in self._names):
                self._keep(index, item)
                kept.append(item.id)
            if self.gave_up:
                break
        self._names.update(kept)

    def _keep(self, index: int, item: ResponsesItem) -> None:
        """Keep an output item, unless there is no room for it."""
        self.has_unknown_carrier = self.has_unknown_carrier or item.is_unknown_carrier
        part = captured(item)
        if self._has_room(part.size_bytes):
            self._parts[index] = part
            self._ids[index] = part.id
            if item.is_hollow and not self._stores:
                self._hollow.add(index)
            self._highest = max(self._highest, index)

    def _has_room(self, size: int) -> bool:
        """Count what is kept; give up if the total exceeds the limit."""
        if not self.gave_up:
            self._kept_bytes += size
            if self._kept_bytes > self._max_bytes:
                self.gave_up = "too_large"
        return not self.gave_up

    def _note(self, response: ResponseFields) -> None:
        """Record what upstream reports about its use of the request and of its cache."""
        self._note_removals(response.input_transformations)
        if response.reasoning is not NONE:
            self.reasoning_context = read_context(response.reasoning) or self.reasoning_context
        if response.prompt_cache_diagnostics is not NONE:
            self.cache_diagnosis = read_openai(response.prompt_cache_diagnostics)

    def _complete(self, index: int, item: ResponsesItem) -> None:
        """Take reasoning from the end of the response if its own event had no blob."""
        is_late = index in self._hollow and index in self._parts and item.blob != ""
        if is_late and item.id == self._ids[index]:
            part = captured(item)
            if self._has_room(part.size_bytes):
                self._parts[index] = part

    def _note_blob(self, index: int, item: ResponsesItem) -> None:
        """Record another blob that was seen for a reasoning item."""
        blob = blob_digest(item) if item.role is Role.REASONING else b""
        seen = self._blobs.setdefault(index, set()) if blob else set()
        if not blob or blob in seen or not self._has_room(BLOB_BYTES):
            return
        if len(seen) == BLOBS_MAX:
            self.gave_up = "too_large"
            return
        seen.add(blob)
        if index in self._places:
            position, n = self._places[index]
            run = self._runs[position]
            known = run[n].known_by([blob])
            if known != run[n]:
                self._runs[position] = (*run[:n], known, *run[n + 1 :])
                self._grown[position] = None

    def _collect(self) -> None:
        """Collect the items that can be handed out, in output order: those without a gap before."""
        parts = self._parts
        if not self.response_id:
            return
        if self._status in PENDING and not self._is_over:
            while (part := parts.get(self._next)) is not None and part.is_finished:
                if self._next in self._hollow:
                    return
                self._ready.append((self._next, parts.pop(self._next)))
                self._next += 1
            return
        for index in sorted(parts):
            self._ready.append((index, parts[index]))
            self._next = index + 1
        parts.clear()

    def _emit(self, max_items: int) -> list[Emitted]:
        """Attach each run of reasoning to the item directly after it."""
        emitted: list[Emitted] = []
        while self._ready and len(emitted) < max_items:
            index, part = self._ready.popleft()
            if part.emitted is None:
                self._run.append((index, part.reasoning))
                continue
            usable = tuple([self._known(n, one) for n, one in self._run if one is not None])
            # Upstream did not emit half a run, and an unfinished item is no follower.
            is_whole = len(usable) == len(self._run) and part.is_finished
            if is_whole and usable:
                self._runs[self._emitted] = usable
                for place, (n, _) in enumerate(self._run):
                    self._places[n] = self._emitted, place
                self.reasoning_items += len(usable)
                self.reasoning_bytes += sum(len(one.raw) for one in usable)
            withheld = bool(self._run) and not is_whole
            emitted.append(part.emitted.after(usable if is_whole else (), withheld=withheld))
            self._run = []
            self._emitted += 1
        return emitted

    def _known(self, index: int, reasoning: Reasoning) -> Reasoning:
        blobs = self._blobs.get(index)
        return reasoning.known_by(blobs) if blobs else reasoning
