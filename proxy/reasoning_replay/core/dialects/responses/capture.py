"""
Capture: what one answer emitted, reasoning and the items that it led to, as a turn.

One `Capture` follows one answer, plain or streamed. It is fed what the client is fed, and never
holds the client up: whatever it cannot follow it gives up on, and says why.
"""

from collections.abc import Mapping
from types import MappingProxyType

import msgspec
from msgspec import UNSET, Raw, structs

from reasoning_replay.core.dialects.base import CaptureSnapshot, Origin, Usage
from reasoning_replay.core.dialects.responses.emitted import blob_digest, emitted_of, reasoning_of
from reasoning_replay.core.dialects.responses.events import (
    ResponseFields,
    is_worth_reading,
    read_context,
    read_event,
    read_removals,
    read_response,
    read_usage,
)
from reasoning_replay.core.dialects.responses.items import ResponsesItem, read_item
from reasoning_replay.core.history.items import Role
from reasoning_replay.core.history.model_names import family
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
    What is kept of one output item; its bytes are let go at once, as they may be an image's.

    Attributes:
        reasoning: None when it is of another kind, or cannot be injected.
        emitted: None when it is reasoning.
    """

    id: str
    reasoning: Reasoning | None = None
    emitted: Emitted | None = None
    is_finished: bool = True

    @property
    def size_bytes(self) -> int:
        """Size of the raw bytes that it keeps."""
        return sum(len(kept.raw) for kept in (self.reasoning, self.emitted) if kept is not None)


class ResponsesCapture:
    """
    Follow one answer.

    Call `feed` with each chunk of a stream, `hear` with each event where there is no framing, or
    `read` with a whole JSON answer. Whenever `dirty` is true afterwards there is something that
    should be saved before the client sees it.

    Attributes:
        removed: How many reasoning items upstream says it left out, by one of REMOVALS.
        reasoning_context: How much reasoning it went by, one of CONTEXTS; "" if it did not say.
        reasoning_items, reasoning_bytes: Of the turn that the last snapshot has.
        usage: As upstream reports it at the end; None if it does not.
    """

    def __init__(self, origin: Origin, max_bytes: int) -> None:
        """
        Start before the first byte of an answer.

        Args:
            origin: Of the request.
            max_bytes: Of one event, and of all that is kept of the answer; a larger answer is not
                followed any further.
        """
        self.dirty = False
        self.gave_up = ""  # why, when it no longer follows
        self.reasoning_items = 0
        self.reasoning_bytes = 0
        self.removed = _NOTHING
        self.reasoning_context = ""
        self.usage: Usage | None = None
        self._origin = origin
        self._max_bytes = max_bytes
        self._kept_bytes = 0  # of the raw bytes of all parts
        self._events: Events | None = None  # of a stream
        self._parts: dict[int, _CapturedItem] = {}
        self._blobs: dict[int, set[bytes]] = {}
        self._response_id = ""
        self._model = ""
        self._status = ""
        self._is_stored: bool | None = None
        self._created_ms = origin.created_ms
        self._is_over = False

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes of a stream; never raises."""
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
        """Take the end of the stream."""
        self._is_over = True
        if self._events is not None and not self.gave_up:
            for data in self._events.close():
                self.hear(data)

    def read(self, answer: bytes) -> None:
        """Take a whole JSON answer; never raises."""
        self._response(answer, "response.completed")

    @property
    def response_id(self) -> str:
        """Its id; "" while that is not known."""
        return self._response_id

    @property
    def model(self) -> str:
        """Who answers, as upstream says it; "" while that is not known."""
        return self._model

    @property
    def has_failed(self) -> bool:
        """Whether upstream says that there is no answer after all."""
        return self._status in ("failed", "cancelled")

    def note_cure(self) -> None:
        """As `Capture.note_cure`: the next request decides anew."""
        self._origin = structs.replace(self._origin, seen=None)

    def successor(self) -> Origin:
        """Return the origin of a response that upstream begins behind this one, unasked."""
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
        Return what is known so far, and count it as saved.

        Items never change from one snapshot to the next, and new ones come behind the others.

        Args:
            created_ms: The time of day; that of the first snapshot is the turn's.
        """
        self.dirty = False
        self._created_ms = self._created_ms or created_ms
        items = self._emitted()
        # Without items a turn is only worth its context, which a later GET of it will need.
        if not self._response_id or not (items or self._status in _PENDING):
            return CaptureSnapshot(self._status, None)
        origin = self._origin
        this = turn_id(self._response_id)
        stored = origin.stores if self._is_stored is None else self._is_stored
        turn = Turn(
            id=this,
            conversation=origin.conversation or this,
            parent=origin.parent,
            models=_families(origin.model, self._model),
            is_stored=stored,
            created_ms=self._created_ms,
            context=origin.context,
            items=tuple(items),
            seen=origin.seen,
        )
        return CaptureSnapshot(self._status, turn)

    def hear(self, data: bytes) -> None:
        """Take the JSON of one event; never raises."""
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
                # Its blob is unfit to inject, but some clients replay it: it names the item.
                self._note_blob(index, item)
                return
            before = self._parts.get(index)
            if before is not None and before.id != item.id:
                index = max(self._parts) + 1  # an upstream that does not count its outputs
            self._keep(index, item)
            self.dirty = self.dirty or item.role is not Role.REASONING
        elif kind in _ENDS or kind in _STARTS:
            self._response(event.response, kind)

    def _response(self, response: bytes | Raw, kind: str) -> None:
        found = read_response(response)
        if found is None:
            return
        self._response_id = found.id or self._response_id
        self._model = found.model or self._model
        self._status = found.status or kind.rpartition(".")[2]
        if found.store is not None:
            self._is_stored = found.store
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
                # The item of its own event is the authoritative one; this one's blob differs.
                self._note_blob(index, item)
            elif item.id not in ids:
                self._keep(index, item)

    def _keep(self, index: int, item: ResponsesItem) -> None:
        """Keep an output item, as long as all of them together stay within the bound."""
        if self.gave_up:
            return
        part = _part(item)
        self._kept_bytes += part.size_bytes
        if self._kept_bytes > self._max_bytes:
            self.gave_up = "too_large"
            return
        self._parts[index] = part

    def _note(self, response: ResponseFields) -> None:
        """Note what upstream says it did to the reasoning that it was given."""
        if response.input_transformations is not NONE:
            removals = read_removals(response.input_transformations)
            self.removed = self.removed if removals is None else removals
        if response.reasoning is not NONE:
            self.reasoning_context = read_context(response.reasoning) or self.reasoning_context

    def _note_blob(self, index: int, item: ResponsesItem) -> None:
        """Note one more blob that an item was seen with."""
        self._blobs.setdefault(index, set()).add(blob_digest(item))

    def _emitted(self) -> list[Emitted]:
        """Tie each run of reasoning to the item directly behind it; a run with none is left out."""
        emitted: list[Emitted] = []
        run: list[Reasoning | None] = []
        is_pending = self._status in _PENDING and not self._is_over
        for n, (index, part) in enumerate(sorted(self._parts.items())):
            if is_pending and (index != n or not part.is_finished):
                break  # what comes in between, or ahead of it, is not known yet
            if part.emitted is None:
                blobs = self._blobs.get(index)
                reasoning = part.reasoning
                run.append(reasoning.known_by(blobs) if reasoning and blobs else reasoning)
                continue
            usable = tuple([reasoning for reasoning in run if reasoning is not None])
            # Half a run is not what upstream emitted; and what never finished has no follower.
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


def _families(asked: str, answered: str) -> tuple[str, ...]:
    """Return the families of those that are named, in order, each once."""
    if not answered:
        return (family(asked),) if asked else ()
    theirs = family(answered)
    ours = family(asked) if asked else theirs
    if ours == theirs:
        return (theirs,)
    return (ours, theirs) if ours < theirs else (theirs, ours)
