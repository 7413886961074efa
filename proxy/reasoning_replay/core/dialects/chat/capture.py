"""
Chat capture: the reasoning that one completion emitted and the items it led to, as a turn.

One `ChatCapture` reads one completion, plain or streamed. It gets the same bytes as the client and
never delays the client. A turn is complete at the first `finish_reason`, so it is stored once. If
the capture cannot follow the response, it stops and keeps the reason.
"""

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from msgspec import structs

from reasoning_replay.core.dialects.base import NO_NAMES, CaptureSnapshot, Origin, Usage
from reasoning_replay.core.dialects.chat.events import Chunk, MessageJoiner, read_chunk
from reasoning_replay.core.dialects.chat.items import ChatItem, read_message
from reasoning_replay.core.dialects.chat.members import (
    CALL_MEMBERS,
    EMPTY_TEXT,
    MESSAGE_MEMBERS,
    is_emitted_empty,
    is_empty,
    reasoning_of,
    value_of,
)
from reasoning_replay.core.dialects.chat.messages import ChatMessage
from reasoning_replay.core.dialects.error_names import error_names
from reasoning_replay.core.dialects.usage import read_usage
from reasoning_replay.core.history.items import Role
from reasoning_replay.core.history.model_names import families
from reasoning_replay.core.history.turns import Context, Emitted, Reasoning, Turn
from reasoning_replay.core.wire import json_spans
from reasoning_replay.core.wire.digest import digest
from reasoning_replay.core.wire.json_spans import NONE, Member, Unspliceable
from reasoning_replay.core.wire.sse import Events

__all__ = ["ChatCapture"]

_NOTHING: Mapping[str, int] = MappingProxyType({})
# A stream is parsed in batches of this size, in bytes: most chunks cost one search for its end.
BATCH_BYTES = 64 * 1024
# The chunk that ends a choice. Some upstreams send an empty string, like null, in all others.
_END = re.compile(rb'"finish_reason"\s*:\s*"[^"]')
# The longest start of that text that may end a piece of the stream, white space aside.
_OVERLAP = 32
_DONE = b"[DONE]"  # data of the last event of a stream
# Reasons to finish that leave the last item incomplete.
_CUT_SHORT = frozenset(
    {
        *("length", "max_tokens", "content_filter"),
        "model_length",  # Mistral
        "insufficient_system_resource",  # DeepSeek
        *("sensitive", "network_error", "model_context_window_exceeded"),  # Z.ai
        *("safety", "recitation"),  # Gemini, through gateways
        "abort",  # vLLM, SGLang
    }
)
_FAILED = "error"


class ChatCapture:
    """
    The capture of one completion; see `Capture`.

    Attributes:
        removed, reasoning_context: Nothing: this API does not report them.
        reasoning_items, reasoning_bytes: Count and size of the reasoning in the turn.
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
        self._events = Events(max_bytes, _is_any)
        self._batch: list[bytes] = []  # pieces that are not parsed yet
        self._batch_bytes = 0
        self._tail = b""  # end of the last piece, if it ended inside an event
        self._is_ending = False
        self._joiner = MessageJoiner()
        self._response_id = ""
        self._model = ""
        self._created = b""
        self._status = ""
        self._has_failed = False
        self._turn: Turn | None = None

    def feed(self, chunk: bytes) -> None:
        """Process the next bytes of a stream; never raises."""
        if self.gave_up:
            return
        self._batch.append(chunk)
        self._batch_bytes += len(chunk)
        if not self._is_ending:
            searched = self._tail + chunk if self._tail else chunk
            self._is_ending = _END.search(searched) is not None
            self._tail = b"" if chunk.endswith(b"\n") else searched[-_OVERLAP:]
        if self._batch_bytes >= BATCH_BYTES or (self._is_ending and not self._status):
            self._parse()

    def _parse(self) -> None:
        """Parse the pieces that were not parsed yet."""
        batch = b"".join(self._batch)
        self._batch.clear()
        self._batch_bytes = 0
        for data in self._events.feed(batch):
            self.hear(data)
        if self._events.is_overrun:
            self._give_up("frame_too_long")

    def close(self) -> None:
        """Process the end of the stream."""
        if self.gave_up:
            return
        self._parse()
        for data in self._events.close():
            self.hear(data)

    def read(self, answer: bytes) -> None:
        """Process a whole JSON response; never raises."""
        chunk = read_chunk(answer)
        if chunk is None:
            return
        self._note(chunk, answer)
        choice = chunk.first
        if choice is None or choice.message is NONE:
            return
        message = bytes(choice.message)
        if message not in answer:
            message = json_spans.unmarked(message)
        # A whole response needs no reason to finish: some upstreams send none.
        self._finish(choice.finish_reason or "stop", message)

    def hear(self, data: bytes) -> None:
        """Process the JSON of one event; never raises."""
        if self.gave_up or self._has_failed:
            return
        if data == _DONE:  # some upstreams give no reason to finish
            self._finish("stop", self._joiner.joined())
            return
        chunk = read_chunk(data)
        if chunk is None:
            return
        self._note(chunk, data)
        choice = chunk.first
        if choice is None or self._status:
            return
        if choice.delta:
            self._joiner.add(choice.delta)
            if self._joiner.size_bytes > self._max_bytes:
                self._give_up("too_large")
                return
        if choice.finish_reason:
            self._finish(choice.finish_reason, self._joiner.joined())

    def _note(self, chunk: Chunk, data: bytes) -> None:
        """Record the fields that are not part of the message."""
        self._response_id = self._response_id or chunk.id or ""
        self._model = chunk.model or self._model
        if chunk.created is not NONE:
            self._created = self._created or bytes(chunk.created)
        if chunk.usage is not NONE:
            usage = read_usage(chunk.usage, "prompt_tokens", "completion_tokens")
            self.usage = usage or self.usage
        if chunk.has_failed:
            self._has_failed = True
            self.error = error_names(data)

    def _give_up(self, reason: str) -> None:
        self.gave_up = self.gave_up or reason
        self._joiner = MessageJoiner()
        self._batch.clear()

    def _finish(self, reason: str, message: bytes) -> None:
        """Make the turn of a complete message, once."""
        if self._status or self._has_failed:
            return
        self._status = reason
        self._joiner = MessageJoiner()
        if reason == _FAILED:
            self._has_failed = True
            return
        if len(message) > self._max_bytes:
            self._give_up("too_large")
            return
        items = _emitted(message, is_cut_short=reason.lower() in _CUT_SHORT)
        if not items:
            return
        parts = (part for item in items for part in item.run)
        runs = [part.raw for part in parts if value_of(part) != EMPTY_TEXT]
        self.reasoning_items, self.reasoning_bytes = len(runs), sum(map(len, runs))
        origin = self._origin
        # Ids repeat at some local servers, so the content and the conversation count as well.
        names = self._response_id.encode("utf-8", "surrogatepass"), self._created
        before = origin.parent, origin.context.whole, origin.context.frame, origin.context.hint
        this = digest(b"completion", *names, *before, message)
        self._turn = Turn(
            id=this,
            conversation=origin.conversation or this,
            parent=origin.parent,
            models=_models(origin.model, self._model),
            is_stored=False,
            created_ms=origin.created_ms,
            context=origin.context,
            items=tuple(items),
            seen=origin.seen,
            switched_off=origin.switched_off,
        )
        self.dirty = True

    def snapshot(self, created_ms: int) -> CaptureSnapshot:
        """
        Return the turn, once it is complete, and mark it as saved.

        Args:
            created_ms: Current time, in ms since the epoch; the turn keeps that of its first
                snapshot.
        """
        self.dirty = False
        turn = self._turn
        if turn is not None and not turn.created_ms:
            turn = self._turn = structs.replace(turn, created_ms=created_ms)
        return CaptureSnapshot(self._status, turn)

    def note_cure(self) -> None:
        """Drop the recorded decisions, so that the next request decides anew."""
        self._origin = structs.replace(self._origin, seen=None)
        if self._turn is not None:
            self._turn = structs.replace(self._turn, seen=None)

    def successor(self) -> Origin:
        """Return the origin of an unrequested response, which this API does not have."""
        return Origin(context=Context(), model=self._origin.model)

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
        """Whether upstream reports that the response failed."""
        return self._has_failed


def _models(asked: str, answered: str) -> tuple[str, ...]:
    """Return the families of both models; "" if the request named none (Azure's deployments)."""
    return families(asked, answered) if asked else ("", *families("", answered))


def _is_any(_: bytes) -> bool:
    return True


def _emitted(message: bytes, *, is_cut_short: bool) -> list[Emitted]:
    """Return the items of a message, each with the reasoning that belongs to it."""
    readable = message
    try:
        json_spans.members(message)
    except Unspliceable:
        readable = json_spans.readable(message)
    items = read_message(readable)
    if not items or items[0].role is not Role.MODEL:
        return []
    emitted = []
    for n, item in enumerate(items):
        # A value that had to be made readable is not what upstream wrote.
        written = message if readable is not message else b""
        is_whole, run = _run_of(item, written, is_first=not n)
        is_unfinished = is_cut_short and item is items[-1]
        withheld = bool(run or not is_whole) and (not is_whole or is_unfinished)
        made = Emitted(item.type, "", item.call_id, item.name, item.content)
        emitted.append(made.after(() if withheld else tuple(run), withheld=withheld))
    return emitted


def _run_of(item: ChatItem, written: bytes, *, is_first: bool) -> tuple[bool, list[Reasoning]]:
    """
    Return whether all reasoning before an item can be injected, and the reasoning.

    Args:
        item: An item of the message.
        written: What upstream wrote, if the message had to be made readable; else b"".
        is_first: Whether it is the first item, which has the members of the message.
    """
    holder = item.message
    found: list[tuple[str, bytes, bool]] = []
    try:
        if is_first:
            found += _values(holder, holder.members, MESSAGE_MEMBERS, is_of_call=False)
        if item.number >= 0:
            members = holder.members_of_call(item.number)
            found += _values(holder, members, CALL_MEMBERS, is_of_call=True)
    except Unspliceable:  # a key occurs twice
        return False, []
    parts = [
        reasoning_of(name, value, is_of_call=of_call) if not written or value in written else None
        for name, value, of_call in found
    ]
    return None not in parts, [part for part in parts if part is not None]


def _values(
    holder: ChatMessage, members: Mapping[str, Member], names: Sequence[str], *, is_of_call: bool
) -> list[tuple[str, bytes, bool]]:
    """Return the names and values of the members that say something."""
    found = ((name, members[name]) for name in names if name in members)
    values = ((name, holder.raw[member.start : member.end]) for name, member in found)
    return [
        (name, value, is_of_call)
        for name, value in values
        if not is_empty(value) or is_emitted_empty(name, value)
    ]
