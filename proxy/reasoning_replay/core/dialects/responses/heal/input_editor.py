"""
Input editor: the items of a request as pieces that can be removed, moved, changed or added.

It serves repairs and cures: their edits are more than an insertion before an item.
Untouched bytes stay as received, including the white space between two neighbours.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

import msgspec

from reasoning_replay.core.dialects.responses.items import ResponsesItem, read_item
from reasoning_replay.core.dialects.responses.request import Request
from reasoning_replay.core.history.items import Role
from reasoning_replay.core.wire import json_spans
from reasoning_replay.core.wire.json_spans import Edit, Unspliceable

__all__ = [
    "InputPiece",
    "Run",
    "Spot",
    "body_of",
    "by_value",
    "dropped",
    "is_answered",
    "pieces_of",
    "put_in",
    "runs_of",
]

# Position of a captured item: its turn, and its sort key in it; reasoning sorts before its item.
Spot = tuple[bytes, tuple[int, int]]

# Types of model items that need an output from the client; all others are complete.
_ANSWERED = frozenset(
    {
        "function_call",
        "custom_tool_call",
        "computer_call",
        "local_shell_call",
        "shell_call",
        "apply_patch_call",
        "tool_search_call",
        "mcp_approval_request",
        "program",
    }
)


@dataclass(slots=True, eq=False)
class InputPiece:
    """
    One item of `input`.

    Attributes:
        item: Item as received; as captured if it is added.
        raw: JSON to send.
        index: Index in the request; None if it is added.
        spot: Position in its turn if it is added: the turn, and a sort key.
    """

    item: ResponsesItem
    raw: bytes
    index: int | None = None
    spot: Spot | None = None

    @property
    def is_reasoning(self) -> bool:
        """Whether it is reasoning, or a reference to reasoning."""
        return self.item.is_reasoning

    @property
    def is_output(self) -> bool:
        """Whether it is the output of a call."""
        return self.item.role is Role.CLIENT and self.item.type.endswith("_output")

    def become(self, raw: bytes) -> None:
        """Replace a bare id by the whole item."""
        self.item = read_item(raw)
        self.raw = raw

    def leave_out(self, member: str) -> None:
        """Remove a member; do nothing if the bytes cannot be cut safely."""
        try:
            self.raw = json_spans.without(self.raw, (member,))
        except Unspliceable:
            return

    def name(self, item_id: str) -> None:
        """Set the id, in place of any present one."""
        try:
            raw = json_spans.without(self.raw, ("id",))
        except Unspliceable:
            return
        comma = b"" if raw[1:].lstrip(b" \t\r\n")[:1] == b"}" else b","
        self.raw = b'{"id":' + msgspec.json.encode(item_id) + comma + raw[1:]


@dataclass(slots=True)
class Run:
    """
    Consecutive reasoning and the model items after it, up to the next reasoning or client message.

    Attributes:
        later: Model items that come after an output: they may be of the same group.
    """

    reasoning: list[InputPiece] = field(default_factory=list)
    group: list[InputPiece] = field(default_factory=list)
    later: list[InputPiece] = field(default_factory=list)


def is_answered(kind: str, call_id: str) -> bool:
    """Return whether such an item has an output: half of a unit is never removed."""
    return bool(call_id) or kind in _ANSWERED


def pieces_of(request: Request) -> list[InputPiece]:
    """Return the items of a request's `input` as pieces."""
    return [InputPiece(place.item, place.item.raw, n) for n, place in enumerate(request.places)]


def put_in(raw: bytes, spot: Spot | None) -> InputPiece:
    """Return a captured item as a piece to add."""
    return InputPiece(read_item(raw), raw, spot=spot)


def body_of(request: Request, pieces: Sequence[InputPiece]) -> bytes:
    """Return the request with these pieces as `input`; the same object if nothing changed."""
    places = request.places
    if len(pieces) == len(places) and all(
        piece.index == n and piece.raw is places[n].item.raw for n, piece in enumerate(pieces)
    ):
        return request.body
    written: list[bytes] = []
    before: int | None = None
    for piece in pieces:
        if written:
            written.append(_between(request, before, piece.index))
        written.append(piece.raw)
        before = piece.index
    return json_spans.apply(
        request.body, [Edit(places[0].item.start, places[-1].item.end, b"".join(written))]
    )


def runs_of(pieces: Sequence[InputPiece]) -> Iterator[Run]:
    """Yield every run of reasoning with the items after it, which may be none."""
    run = Run()
    has_output = False
    for piece in pieces:
        if piece.is_reasoning:
            if run.group or has_output:
                yield run
                run, has_output = Run(), False
            run.reasoning.append(piece)
        elif not run.reasoning:
            continue
        elif piece.item.role in (Role.MODEL, Role.REFERENCE):
            (run.later if has_output else run.group).append(piece)
        elif piece.is_output:
            has_output = True
        else:
            yield run
            run, has_output = Run(), False
    if run.reasoning:
        yield run


def by_value(run: Run) -> None:
    """Remove the ids of a run and of its group, so that nothing is paired by id."""
    for piece in run.reasoning:
        piece.leave_out("id")
    for piece in run.group:
        if piece.item.role is Role.MODEL and piece.item.id_is_optional:
            piece.leave_out("id")


def dropped(pieces: Sequence[InputPiece], refused: Collection[InputPiece]) -> list[InputPiece]:
    """
    Remove reasoning, and with it everything that would require it.

    That is the ids of its group, and each hosted item with a required id: it cannot stay without
    its other half. If only a part of a run is removed, the rest loses its ids too.
    """
    gone = set(refused)
    for run in runs_of(pieces):
        if gone.isdisjoint(run.reasoning):
            continue
        for piece in run.reasoning:
            if piece in gone:
                continue
            if piece.item.blob:
                piece.leave_out("id")
            else:
                gone.add(piece)
        for piece in (*run.group, *run.later):
            if piece.item.role is Role.MODEL and piece.item.id_is_optional:
                piece.leave_out("id")
        if gone.issuperset(run.reasoning):
            gone.update(piece for piece in run.group if _is_hosted(piece.item))
    return [piece for piece in pieces if piece not in gone]


def _is_hosted(item: ResponsesItem) -> bool:
    """Return whether the item needs no output and has an id that the API requires."""
    is_own = item.role is Role.MODEL and not item.id_is_optional
    return is_own and bool(item.id) and not is_answered(item.type, item.call_id)


def _between(request: Request, before: int | None, index: int | None) -> bytes:
    """Return the bytes between two items: the original ones of neighbours, else a comma."""
    if before is None or index is None or index != before + 1:
        return b","
    return request.body[request.places[before].item.end : request.places[index].item.start]
