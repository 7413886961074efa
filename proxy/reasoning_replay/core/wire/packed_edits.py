"""
Packed edits: the edits of a document as arrays, instead of an object for each.

Those of a conversation are applied again with each of its requests, when its memory has left the
caches of the CPU: to visit hundreds of objects takes longer than to copy what they insert.
"""

from array import array
from collections.abc import Iterable, Sequence
from typing import overload

from typing_extensions import override

from reasoning_replay.core.wire import json_spans
from reasoning_replay.core.wire.json_spans import PLACE, Edit

_OFFSETS = "Q"


class PackedEdits(Sequence[Edit]):
    """
    Edits in the order of their places; they are never changed.

    Attributes:
        new_bytes: Number of bytes that they add.
    """

    __slots__ = ("_ends", "_new", "_starts", "new_bytes")

    def __init__(self, edits: Iterable[Edit] = ()) -> None:
        """Pack edits; those of the same range keep their order, and other ranges do not overlap."""
        by_place = sorted(edits, key=PLACE)
        self._starts = array(_OFFSETS, [edit.start for edit in by_place])
        self._ends = array(_OFFSETS, [edit.end for edit in by_place])
        self._new = tuple([edit.new for edit in by_place])
        self.new_bytes = sum(map(len, self._new))

    @override
    def __len__(self) -> int:
        """Return the number of edits."""
        return len(self._new)

    @overload
    def __getitem__(self, at: int) -> Edit: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Edit, ...]: ...
    @override
    def __getitem__(self, at: int | slice) -> Edit | tuple[Edit, ...]:
        """Return an edit, or some."""
        if isinstance(at, slice):
            parts = zip(self._starts[at], self._ends[at], self._new[at], strict=True)
            return tuple([Edit(*part) for part in parts])
        return Edit(self._starts[at], self._ends[at], self._new[at])

    def plus(self, edits: Sequence[Edit]) -> "PackedEdits":
        """
        Return these edits and others; of the same range, these come first.

        Cost: some C passes, if each of the others is before all of these or after.
        """
        if not edits:
            return self
        if not self._new:
            return PackedEdits(edits)
        first, last = (self._starts[0], self._ends[0]), (self._starts[-1], self._ends[-1])
        ahead = PackedEdits([edit for edit in edits if PLACE(edit) < first])
        after = PackedEdits([edit for edit in edits if PLACE(edit) >= last])
        if len(ahead) + len(after) < len(edits):
            return PackedEdits([*self, *edits])
        made = PackedEdits()
        made._starts = ahead._starts + self._starts + after._starts
        made._ends = ahead._ends + self._ends + after._ends
        made._new = ahead._new + self._new + after._new
        made.new_bytes = ahead.new_bytes + self.new_bytes + after.new_bytes
        return made

    def pieces(self, body: bytes) -> list[bytes | memoryview]:
        """Return the pieces of the edited document: views of it, and new bytes."""
        by_place = zip(self._starts, self._ends, self._new, strict=True)
        return json_spans.spliced(body, by_place)

    def apply(self, body: bytes) -> bytes:
        """Return the edited document; without edits, the identical object, not a copy."""
        return b"".join(self.pieces(body)) if self._new else body


NO_EDITS = PackedEdits()
