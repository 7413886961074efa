"""
Response capture: the reasoning that one response emitted and the items it led to, as a turn.

One `Capture` reads one response, plain or streamed. It gets the same bytes as the client and never
delays the client. If it cannot follow the response, it stops and keeps the reason.
"""

from collections.abc import Mapping
from types import MappingProxyType

import msgspec
from msgspec import UNSET, Raw, structs

from reasoning_replay.core.dialects.captures import NO_NAMES, CaptureSnapshot, Origin, Usage
from reasoning_replay.core.dialects.error_names import error_names
from reasoning_replay.core.dialects.responses.emitted import blob_digest, emitted_of, reasoning_of
from reasoning_replay.core.dialects.responses.events import (
    ResponseFields,
    is_worth_reading,
    read_context,
    read_event,
    read_removals,
    read_response,
)
from reasoning_replay.core.dialects.responses.items import ResponsesItem, read_item
from reasoning_replay.core.dialects.usage import read_usage
from reasoning_replay.core.history.items import Role
from reasoning_replay.core.history.model_names import families
from reasoning_replay.core.history.turns import Context, Emitted, Reasoning, Turn, turn_id
from reasoning_replay.core.wire import json_spans
from reasoning_replay.core.wire.json_spans import NONE
from reasoning_replay.core.wire.sse import Events

__all__ = ["ResponsesCapture"]

_NOTHING: Mapping[str, int] = MappingProxyType({})
_DONE = "response.output_item.done"
_ADDED = "response.output_item.added"
_ENDS = frozenset({"response.completed", "response.incomplete", "response.failed"})
_PENDING = frozenset({"queued", "in_progress"})
_STARTS = frozenset({"response.created", "response.queued", "response.in_progress"})


class _CapturedItem(msgspec.Struct, frozen=True, gc=False):
    """
    The stored part of one output item. Its other bytes are freed at once: an image can be large.

    Attributes:
        reasoning: None if the item is not reasoning, or cannot be injected.
        emitted: None if the item is reasoning.
    """

    id: str
    reasoning: Reasoning | None = None
    emitted: Emitted | None = None
    is_finished: bool = True

    @property
    def size_bytes(self) -> int:
        """Size of the raw bytes that are kept."""
        return sum(len(kept.raw) for kept in (self.reasoning, self.emitted) if kept is not None)


class ResponsesCapture:
    """
    The capture of one response.

    Call `feed` with each chunk of a stream, `hear` with each event if there is no framing, or
    `read` with a whole JSON response. If `dirty` is true afterwards, there is something to save
    before the client gets those bytes.

    Attributes:
        removed: Number of reasoning items that upstream reports it left out, by one of REMOVALS.
        reasoning_context: How much reasoning upstream used, one of CONTEXTS; "" if not reported.
        reasoning_items, reasoning_bytes: Count and size of the reasoning in the last snapshot.
        usage: Token counts that upstream reports at the end; None if it does not.
        error: Names of the error with which upstream reports that the response failed.
    """

    def __init__(self, origin: Origin, max_bytes: int) -> None:
        """
        Start before the first byte of a response.

        Args:
            origin: Origin of the request.
            max_bytes: Largest event, and most that is kept of the response in total, in bytes. A
                larger response is not followed any further.
        """
        self.dirty = False
        self.gave_up = ""  # the reason, once it no longer follows
        self.reasoning_items = 0
        self.reasoning_bytes = 0
        self.removed = _NOTHING
        self.reasoning_context = ""
        self.usage: Usage | None = None
        self.error = NO_NAMES
        self._origin = origin
        self._max_bytes = max_bytes
        self._kept_bytes = 0  # total of the raw bytes of all parts
        self._events: Events | None = None  # only for a stream
        self._parts: dict[int, _CapturedItem] = {}
        self._blobs: dict[int, set[bytes]] = {}
        self._response_id = ""
        self._model = ""
        self._status = ""
        self._is_stored: bool | None = None
        self._created_ms = origin.created_ms
        self._is_over = False

    def feed(self, chunk: bytes) -> None:
        """Process the next bytes of a stream; never raises."""
        if self.gave_up:
            return
        events = self._events
        if events is None:
            events = self._events = Events(self._max_bytes, is_worth_reading)
        for data in events.feed(chunk):
            self.hear(data)
        if events.is_overrun:
            self.gave_up = "frame_too_long"

    def close(self) -> None:
        """Process the end of the stream."""
        self._is_over = True
        if self._events is not None and not self.gave_up:
            for data in self._events.close():
                self.hear(data)

    def read(self, answer: bytes) -> None:
        """Process a whole JSON response; never raises."""
        self._response(answer, "response.completed")

    @property
    def response_id(self) -> str:
        """Response id; "" while unknown."""
        return self._response_id

    @property
    def model(self) -> str:
        """Model that responds, as upstream names it; "" while unknown."""
        return self._model

    @property
    def has_failed(self) -> bool:
        """Whether upstream reports that the response failed or was cancelled."""
        return self._status in ("failed", "cancelled")

    def note_cure(self) -> None:
        """Drop the recorded decisions, so that the next request decides anew."""
        self._origin = structs.replace(self._origin, seen=None)

    def successor(self) -> Origin:
        """Return the origin of a response that upstream starts after this one, unrequested."""
        this = turn_id(self._response_id)
        origin = self._origin
        return Origin(
            context=Context(),
            model=origin.model,
            conversation=origin.conversation or this,
            parent=this,
            stores=origin.stores,
        )

    def snapshot(self, created_ms: int) -> CaptureSnapshot:
        """
        Return what is known so far, and mark it as saved.

        Items never change from one snapshot to the next; new ones are appended.

        Args:
            created_ms: Current time, in ms since the epoch; the turn keeps that of its first
                snapshot.
        """
        self.dirty = False
        self._created_ms = self._created_ms or created_ms
        items = self._emitted()
        # Without items, only the context of a turn is worth storing: a later GET of it needs it.
        if not self._response_id or not (items or self._status in _PENDING):
            return CaptureSnapshot(self._status, None)
        origin = self._origin
        this = turn_id(self._response_id)
        stored = origin.stores if self._is_stored is None else self._is_stored
        turn = Turn(
            id=this,
            conversation=origin.conversation or this,
            parent=origin.parent,
            models=families(origin.model, self._model),
            is_stored=stored,
            created_ms=self._created_ms,
            context=origin.context,
            items=tuple(items),
            seen=origin.seen,
        )
        return CaptureSnapshot(self._status, turn)

    def hear(self, data: bytes) -> None:
        """Process the JSON of one event; never raises."""
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
            before = self._parts.get(index)
            if before is not None and before.id != item.id:
                index = max(self._parts) + 1  # this upstream does not number its outputs
            self._keep(index, item)
            self.dirty = self.dirty or item.role is not Role.REASONING
        elif kind in _ENDS or kind in _STARTS:
            self._response(event.response, kind)
        elif kind == "error":
            self.error = error_names(data)

    def _response(self, response: bytes | Raw, kind: str) -> None:
        found = read_response(response)
        if found is None:
            return
        self._response_id = found.id or self._response_id
        self._model = found.model or self._model
        self._status = found.status or kind.rpartition(".")[2]
        if found.store is not None:
            self._is_stored = found.store
        if self.has_failed:
            self.error = error_names(response)
        self.dirty = self.dirty or self._status == "queued"
        self._note(found)
        if found.usage is not NONE and kind in _ENDS:
            self.usage = read_usage(found.usage)
        output = found.output
        if kind not in _ENDS or output is UNSET:
            return
        self.dirty = True
        parts = self._parts
        ids = {part.id for part in parts.values()} - {""} if parts else ()
        for index, raw in enumerate(output or ()):
            item = read_item(bytes(raw))
            if index in parts:
                # The item in its own event is the authoritative one; the blob differs here.
                self._note_blob(index, item)
            elif item.id not in ids:
                self._keep(index, item)

    def _keep(self, index: int, item: ResponsesItem) -> None:
        """Keep an output item; give up if the total exceeds the limit."""
        if self.gave_up:
            return
        part = _part(item)
        self._kept_bytes += part.size_bytes
        if self._kept_bytes > self._max_bytes:
            self.gave_up = "too_large"
            return
        self._parts[index] = part

    def _note(self, response: ResponseFields) -> None:
        """Record what upstream reports about its use of the reasoning in the request."""
        if response.input_transformations is not NONE:
            removals = read_removals(response.input_transformations)
            self.removed = self.removed if removals is None else removals
        if response.reasoning is not NONE:
            self.reasoning_context = read_context(response.reasoning) or self.reasoning_context

    def _note_blob(self, index: int, item: ResponsesItem) -> None:
        """Record another blob that was seen for an item."""
        self._blobs.setdefault(index, set()).add(blob_digest(item))

    def _emitted(self) -> list[Emitted]:
        """Attach each run of reasoning to the item directly after it; drop a run without one."""
        emitted: list[Emitted] = []
        run: list[Reasoning | None] = []
        is_pending = self._status in _PENDING and not self._is_over
        for n, (index, part) in enumerate(sorted(self._parts.items())):
            if is_pending and (index != n or not part.is_finished):
                break  # an earlier item is still missing, or this one is not complete
            if part.emitted is None:
                blobs = self._blobs.get(index)
                reasoning = part.reasoning
                run.append(reasoning.known_by(blobs) if reasoning and blobs else reasoning)
                continue
            usable = tuple([reasoning for reasoning in run if reasoning is not None])
            # Upstream did not emit half a run, and an unfinished item is no follower.
            withheld = bool(run) and (len(usable) < len(run) or not part.is_finished)
            emitted.append(part.emitted.after(() if withheld else usable, withheld=withheld))
            run = []
        runs = [reasoning.raw for item in emitted for reasoning in item.run]
        self.reasoning_items = len(runs)
        self.reasoning_bytes = sum(map(len, runs))
        return emitted


def _part(item: ResponsesItem) -> _CapturedItem:
    if item.role is Role.REASONING:
        return _CapturedItem(item.id, reasoning=reasoning_of(item))
    return _CapturedItem(item.id, emitted=emitted_of(item), is_finished=item.is_finished)
