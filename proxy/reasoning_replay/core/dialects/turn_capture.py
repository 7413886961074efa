"""
Turn capture: what the captures of all APIs share in which a response is one turn, made once.

A stream is parsed in batches: most chunks cost one search for the end of the response. A turn is
made when the response is complete, so it is stored once and never changes.
"""

import re
import sys
from collections.abc import Callable, Sequence
from typing import ClassVar, Generic, Protocol, TypeVar

from msgspec import structs
from typing_extensions import override

from reasoning_replay.core.dialects.captures import (
    AT_ONCE_US,
    Capture,
    CaptureSnapshot,
    Origin,
    size_of,
    work_us,
)
from reasoning_replay.core.dialects.error_texts import error_names
from reasoning_replay.core.history.turns import Emitted, Lesson, Turn, TurnPart
from reasoning_replay.core.wire.digest import digest
from reasoning_replay.core.wire.sse import Events

# A stream is parsed in batches of this size, in bytes.
BATCH_BYTES = 64 * 1024
_PIECE_BYTES = 41  # memory of a piece in addition to its bytes
# Estimated time to parse an object of a stream, in microseconds.
_OBJECT_US = 2
# The same to make the turn, with the memory of its parts.
_JOINED_BYTES_PER_US = 25
# The longest start of the text that ends a response, at the end of a piece, white space aside.
_OVERLAP = 32


class Joiner(Protocol):
    """The parts of a response that the events of a stream form together."""

    @property
    def size_bytes(self) -> int:
        """Estimated memory, in bytes."""
        ...


JoinerT = TypeVar("JoinerT", bound=Joiner)


class TurnCapture(Capture, Generic[JoinerT]):
    """
    The capture of one response that is one turn.

    Attributes:
        end: Text in the event that ends a response; elsewhere, it only costs time.
    """

    end: ClassVar[re.Pattern[bytes]]

    def __init__(self, origin: Origin, max_bytes: int, join: Callable[[], JoinerT]) -> None:
        """Start as `Capture` does; `join` makes the joiner of its dialect."""
        super().__init__(origin, max_bytes)
        self._join = join
        self._joiner = join()
        self._events = Events(max_bytes)
        self._batch: list[bytes] = []  # pieces that are not parsed yet
        self._batch_bytes = 0
        self._tail = b""  # end of the last piece, if it ended inside an event
        self._is_ending = False
        self._turn: Turn | None = None
        self._turn_bytes = 0
        self._is_behind = False
        self._handed_out = 0  # items of the turn
        self._has_new_head = False

    @property
    @override
    def held_bytes(self) -> int:
        unread = self._batch_bytes + _PIECE_BYTES * len(self._batch) + self._events.held_bytes
        return unread + len(self._unread) + self._joiner.size_bytes + self._turn_bytes

    @property
    @override
    def is_behind(self) -> bool:
        return self._is_behind or bool(self._unread)

    @override
    def catch_up(self) -> None:
        if self.is_behind:
            self._is_behind = False
            response, self._unread = self._unread, b""
            if response:
                self._read(response)
            self._parse()

    @override
    def feed(self, chunk: bytes) -> None:
        if self.gave_up:
            return
        self._batch.append(chunk)
        self._batch_bytes += len(chunk)
        if not self._is_ending:
            searched = self._tail + chunk if self._tail else chunk
            self._is_ending = self.end.search(searched) is not None
            self._tail = b"" if chunk.endswith(b"\n") else searched[-_OVERLAP:]
        if self._batch_bytes >= BATCH_BYTES or (self._is_ending and not self._status):
            self._parse_soon()

    @override
    def free(self) -> None:
        super().free()
        self._give_up(self.gave_up)
        self._turn, self._turn_bytes = None, 0

    def _parse_soon(self) -> None:
        """Parse the pieces that were not parsed yet, unless that would block the event loop."""
        objects = sum([piece.count(b"{") for piece in self._batch])
        size = self._batch_bytes + self._events.held_bytes
        time_us = work_us(size, objects, _OBJECT_US)
        if (self._is_ending or self._is_over) and not self._status:
            time_us += self._joiner.size_bytes // _JOINED_BYTES_PER_US
        if time_us > AT_ONCE_US:
            self._is_behind = self.dirty = True
        else:
            self._parse()

    def _parse(self) -> None:
        batch = b"".join(self._batch)
        self._batch.clear()
        self._batch_bytes = 0
        for data in self._events.feed(batch):
            self.hear(data)
        if self._events.is_overrun:
            self._give_up("frame_too_long")
        elif self._is_over:
            for data in self._events.close():
                self.hear(data)

    @override
    def close(self) -> None:
        self._is_over = True
        if not self.gave_up:
            self._parse_soon()

    def _fail(self, data: bytes) -> None:
        """Record the error with which the response ended."""
        self.has_failed = True
        self.error = error_names(data)

    def _fits(self, size_bytes: int) -> bool:
        """Return whether so much may be kept; give up if not."""
        if size_bytes > self._max_bytes:
            self._give_up("too_large")
        return not self.gave_up

    def _give_up(self, reason: str) -> None:
        """Stop following the response."""
        self.gave_up = self.gave_up or reason
        self._batch.clear()
        self._batch_bytes = 0
        self._events.clear()
        self._joiner, self._is_behind = self._join(), False

    def _complete(
        self, status: str, content: bytes, items: Sequence[Emitted], models: tuple[str, ...]
    ) -> None:
        """
        Make the turn of a complete response.

        `status` is why it ended, `content` what was emitted: no other response to the request has
        these bytes.
        """
        self._status = status
        self._joiner = self._join()
        if not items:
            return
        runs = [part.raw for item in items for part in item.run]
        self.reasoning_items, self.reasoning_bytes = len(runs), sum(map(len, runs))
        self._turn_bytes = self.reasoning_bytes + sum(map(size_of, items))
        origin = self._origin
        # Ids repeat at some local servers, so the content and the conversation count as well.
        name = self.response_id.encode("utf-8", "surrogatepass")
        before = origin.parent, origin.context.whole, origin.context.frame, origin.context.hint
        this = digest(b"response", name, *before, content)
        self._turn = origin.turn(
            this, items, models, origin.created_ms, is_stored=False, response_id=self.response_id
        )
        self.dirty = self._has_new_head = True

    @override
    def snapshot(self, created_ms: int, max_items: int = sys.maxsize) -> CaptureSnapshot:
        self.catch_up()
        self.dirty = False
        turn, first = self._turn, self._handed_out
        if turn is not None and not turn.created_ms:
            created_ms = self._origin.time_of_turn(created_ms)
            turn = self._turn = structs.replace(turn, created_ms=created_ms)
        if turn is None or not (self._has_new_head or first < len(turn.items)):
            return CaptureSnapshot(self._status, None)
        items = turn.items[first : first + max_items]
        part = TurnPart(structs.replace(turn, items=items), first, has_head=self._has_new_head)
        self._handed_out += len(items)
        self._has_new_head = False
        self.dirty = self._handed_out < len(turn.items)
        return CaptureSnapshot(self._status, part)

    @override
    def note_cure(
        self,
        binding: bytes = b"",
        lessons: tuple[Lesson, ...] = (),
        continues: Origin | None = None,
        *,
        is_decided: bool = False,
    ) -> None:
        super().note_cure(binding, lessons, continues, is_decided=is_decided)
        if self._turn is not None:
            self._turn = structs.replace(self._turn, seen=None, binding=b"", lessons=lessons)
            self._has_new_head = True
