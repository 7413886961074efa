"""
A request as a person may see it: its items in a row, by their types, ids and sizes alone.

What is made here is JSON at once, so that neither a body nor an item is kept by it, and bounded,
however much a client sends.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from proxy.core.inject import Note, Outcome
from proxy.core.items import Item, Role
from proxy.core.request import Place, Request

__all__ = ["Strip", "strip_of"]

# So many items are all shown. Of more, the first and the last are, and those with notes.
WHOLE_SHOWN = 200
FIRST_SHOWN = 40
LAST_SHOWN = 120
NOTED_SHOWN = 400
# Of what a client writes: ids of the API have 64 at the most, and its longest type about 30.
ID_CHARS = 64
WORD_CHARS = 40
IDS_CHARS = 4 * ID_CHARS
# Beyond, only the counts are kept: it takes characters that JSON spells long to get there.
JSON_MAX_BYTES = 128 << 10

_ENCODE = msgspec.json.Encoder().encode


class Strip(NamedTuple):
    """
    The items of one request.

    Attributes:
        model: As the client named it, shortened.
        total: How many items there are.
        shown: JSON: `items` has for each item its letter (below), type, id and bytes, and a
            number for so many that are left out there; `notes` has for each note where in `items`
            it belongs, its outcome, how many reasoning items, and what was put ahead: how many
            bytes, and its ids.
    """

    model: str
    total: int
    shown: bytes

    def counted(self) -> "Strip":
        """Return the same less all but the number of its items."""
        items = [self.total] if self.total else []
        return self._replace(shown=_ENCODE({"items": items, "notes": []}))


# Whose item it is, in one letter.
_MESSAGE, _CALL, _USER, _OUTPUT = "m", "c", "u", "o"
_OTHERS = {Role.FRAME: "f", Role.REASONING: "r", Role.REFERENCE: "i"}
_MODEL, _CLIENT = Role.MODEL, Role.CLIENT

_Entry = tuple[str, str, str, int]
_Told = tuple[int, str, int, int, str]


def strip_of(request: Request, notes: Sequence[Note]) -> Strip:
    """
    Return what is shown of a request.

    Args:
        request: As it was planned for.
        notes: The plan's.

    Cost: linear in the items that are shown, not in those that there are.
    """
    places = request.places
    model, count = request.model[:ID_CHARS], len(places)
    if count <= WHOLE_SHOWN:
        items: list[_Entry | int] = [_entry(place.item) for place in places]
        noted = [_told(note[0], note) for note in notes]
    else:
        items, noted = _shortened(places, notes)
    try:
        shown = _ENCODE({"items": items, "notes": noted})
    except UnicodeEncodeError:  # half a surrogate in an id
        shown = b""
    if not shown or len(shown) > JSON_MAX_BYTES:
        shown = _ENCODE({"items": [count] if count else [], "notes": _summed(notes)})
    return Strip(model, count, shown)


def _entry(item: Item) -> _Entry:
    role, kind = item.role, item.type
    if role is _MODEL:
        letter = _MESSAGE if kind == "message" else _CALL
    elif role is _CLIENT:
        letter = _USER if kind == "message" else _OUTPUT
    else:
        letter = _OTHERS[role]
    name = item.id or item.call_id
    return letter, kind[:WORD_CHARS], name[:ID_CHARS], item.end - item.start


def _shortened(
    places: Sequence[Place], notes: Sequence[Note]
) -> tuple[list[_Entry | int], list[_Told]]:
    """Leave out what stands between the first and the last, less what something is said of."""
    count = len(places)
    told = {index for index, *_ in notes[-NOTED_SHOWN:]}
    shown = sorted(told.union(range(FIRST_SHOWN), range(count - LAST_SHOWN, count)))
    items: list[_Entry | int] = []
    where: dict[int, int] = {}
    following = 0
    for index in shown:
        if index > following:
            items.append(index - following)
        where[index] = len(items)
        items.append(_entry(places[index].item))
        following = index + 1
    return items, [_told(where[note[0]], note) for note in notes if note[0] in where]


def _told(index: int, note: Note) -> _Told:
    _, what, count, size, ids = note
    return index, what.value, count, size, ids[:IDS_CHARS]


def _summed(notes: Sequence[Note]) -> list[_Told]:
    """Return one note for each outcome, at the one place that is left."""
    sums: dict[Outcome, tuple[int, int]] = {}
    for _, what, count, size, _ in notes:
        before = sums.get(what, (0, 0))
        sums[what] = before[0] + count, before[1] + size
    return [(0, what.value, count, size, "") for what, (count, size) in sums.items()]
