"""
Item summary: the items of a request as people may see them, by type, id and size alone.

What is made here is JSON at once, so that neither a body nor an item is kept by it, and bounded,
however much a client sends.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from reasoning_replay.core.history.items import HistoryItem, Role
from reasoning_replay.core.history.plan import Outcome, PlanNote
from reasoning_replay.core.history.request_history import Place, RequestHistory

__all__ = ["ItemSummary", "summarise"]

# So many items are all shown. Of more, the first and the last are, and those with notes.
WHOLE_SHOWN = 200
FIRST_SHOWN = 20
LAST_SHOWN = 60
NOTED_SHOWN = 400
# Of what a client writes: ids of the API have 64 at the most, and its longest type about 30.
ID_CHARS = 64
WORD_CHARS = 40
# Beyond, only the counts are kept: it takes characters that JSON spells long to get there.
JSON_MAX_BYTES = 128 << 10

_ENCODE = msgspec.json.Encoder().encode


class ItemSummary(NamedTuple):
    """
    The items of one request.

    Attributes:
        total: How many items there are.
        shown: JSON: `items` has for each item its letter (below), type, id and bytes, and a
            number for so many that are left out there; `notes` has the plan's, the newest of them.
    """

    total: int
    shown: bytes

    def counted(self) -> "ItemSummary":
        """Return the same less all but the number of its items."""
        items = [self.total] if self.total else []
        return self._replace(shown=_ENCODE({"items": items, "notes": []}))


# Whose item it is, in one letter.
_MESSAGE, _CALL, _USER, _OUTPUT = "m", "c", "u", "o"
_OTHERS = {Role.FRAME: "f", Role.REASONING: "r", Role.REFERENCE: "i"}
_MODEL, _CLIENT = Role.MODEL, Role.CLIENT

_Entry = tuple[str, str, str, int]


def summarise(request: RequestHistory[HistoryItem], notes: Sequence[PlanNote]) -> ItemSummary:
    """
    Return what is shown of a request.

    Args:
        request: As it was planned for.
        notes: The plan's.

    Cost: linear in the items that are shown, not in those that there are.
    """
    places = request.places
    total = len(places)
    noted: Sequence[PlanNote] = notes
    if total <= WHOLE_SHOWN:
        items: list[_Entry | int] = _entries(places)
    else:
        noted = notes[-NOTED_SHOWN:]
        items = _shortened(places, noted)
    for note in noted:
        if len(note.reasoning_id) > ID_CHARS:
            noted = [each._replace(reasoning_id=each.reasoning_id[:ID_CHARS]) for each in noted]
            break
    try:
        shown = _ENCODE({"items": items, "notes": noted})
    except UnicodeEncodeError:  # half a surrogate in an id
        shown = b""
    if not shown or len(shown) > JSON_MAX_BYTES:
        shown = _ENCODE({"items": [total] if total else [], "notes": _summed(notes)})
    return ItemSummary(total, shown)


def _entries(places: Iterable[Place[HistoryItem]]) -> list[_Entry | int]:
    entries: list[_Entry | int] = []
    for place in places:
        item = place.item
        role, kind = item.role, item.type
        if role is _MODEL:
            letter = _MESSAGE if kind == "message" else _CALL
        elif role is _CLIENT:
            letter = _USER if kind == "message" else _OUTPUT
        else:
            letter = _OTHERS[role]
        name = item.id or item.call_id
        entries.append((letter, kind[:WORD_CHARS], name[:ID_CHARS], item.end - item.start))
    return entries


def _shortened(
    places: Sequence[Place[HistoryItem]], notes: Sequence[PlanNote]
) -> list[_Entry | int]:
    """Leave out what stands between the first and the last, less what something is said of."""
    total = len(places)
    told = {note.place for note in notes}
    told.update(range(FIRST_SHOWN), range(total - LAST_SHOWN, total))
    shown = sorted(told)
    items: list[_Entry | int] = []
    following = 0
    for index, entry in zip(shown, _entries([places[index] for index in shown]), strict=True):
        if index > following:
            items.append(index - following)
        items.append(entry)
        following = index + 1
    return items


def _summed(notes: Sequence[PlanNote]) -> list[PlanNote]:
    """Return one note for each outcome, at the one place that is left."""
    sums: dict[Outcome, tuple[int, int]] = {}
    for _, what, count, size, _ in notes:
        before = sums.get(what, (0, 0))
        sums[what] = before[0] + count, before[1] + size
    return [PlanNote(0, what, count, size) for what, (count, size) in sums.items()]
