"""
Item summary: the items of a request for display, with only their types, ids and sizes.

Each item is encoded to JSON immediately, so a summary keeps no reference to a body or an item; they
are put together for a watcher only. Its size is bounded for every request.
"""

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import msgspec
from msgspec import Raw

from reasoning_replay.core.history.items import HistoryItem, Role
from reasoning_replay.core.history.plan import ItemForm, Outcome, PlanNote
from reasoning_replay.core.history.request_history import Place, RequestHistory

# Up to this many items are all shown. Of a longer list, only the first and last items and those
# with notes are shown.
WHOLE_SHOWN = 200
FIRST_SHOWN = 20
LAST_SHOWN = 60
NOTED_SHOWN = 400
LAST_KEPT = WHOLE_SHOWN - FIRST_SHOWN
# Limits on values that a client writes. The API's ids have at most 64 characters, its longest type
# about 30.
ID_CHARS = 64
WORD_CHARS = 40
# A larger summary is reduced to its counts. Only characters with long JSON escapes reach this size.
JSON_MAX_BYTES = 128 << 10

# Memory of an entry in addition to its JSON, and of a note; measured.
_ENTRY_BYTES = 110
_NOTE_BYTES = 100

_ENCODE = msgspec.json.Encoder().encode


class ShownItems(NamedTuple):
    """
    The items of a history as a summary shows them: the JSON of an entry for each.

    Attributes:
        total: Number of items.
        first: Entries of the first items.
        last: Entries of the last ones that are not in `first`; together, they are all of a short
            history.
        noted: Entries of the items with notes that are not in `first`, by their index.
        json_bytes: Size of all these entries.
    """

    total: int = 0
    first: tuple[Raw, ...] = ()
    last: tuple[Raw, ...] = ()
    noted: Mapping[int, Raw] = MappingProxyType({})
    json_bytes: int = 0

    @property
    def size_bytes(self) -> int:
        """Memory, in bytes."""
        count = len(self.first) + len(self.last) + len(self.noted)
        return self.json_bytes + _ENTRY_BYTES * count

    def entry(self, index: int) -> Raw:
        """Return the entry of an item that is shown."""
        if index < FIRST_SHOWN:
            return self.first[index]
        since_last = index - self.total
        return self.last[since_last] if -since_last <= len(self.last) else self.noted[index]


NOTHING_SHOWN = ShownItems()


class ItemSummary(NamedTuple):
    """
    The items of one request, which are written as JSON for a watcher.

    Attributes:
        total: Number of items in the request.
        items: Its items; None: only their number is shown.
        notes: The newest notes of the plan.
    """

    total: int
    items: ShownItems | None = None
    notes: Sequence[PlanNote] = ()

    @property
    def shown(self) -> bytes:
        """
        JSON for people.

        `items` lists for each item its letter (below), type, id and size in bytes; a number stands
        for that many omitted items. `notes` lists the notes.
        """
        total, of, notes = self
        if of is not None:
            noted = [
                note._replace(reasoning_id=note.reasoning_id[:ID_CHARS])
                if len(note.reasoning_id) > ID_CHARS
                else note
                for note in notes
            ]
            with contextlib.suppress(UnicodeEncodeError):  # a lone surrogate in an id
                shown = _ENCODE({"items": _with_gaps(of, notes), "notes": noted})
                if len(shown) <= JSON_MAX_BYTES:
                    return shown
        return _ENCODE({"items": [total] if total else [], "notes": _summed(notes)})

    @property
    def size_bytes(self) -> int:
        """Size of everything that it holds, in bytes."""
        size = _NOTE_BYTES * len(self.notes)
        return size + (self.items.size_bytes if self.items is not None else 0)

    def counted(self) -> "ItemSummary":
        """Return a summary with only the number of items."""
        return ItemSummary(self.total)


# One letter for the role of an item.
_MESSAGE, _CALL, _USER, _OUTPUT = "m", "c", "u", "o"
_OTHERS = {Role.FRAME: "f", Role.REASONING: "r", Role.REFERENCE: "i"}
_MODEL, _CLIENT = Role.MODEL, Role.CLIENT


def shown_items(
    places: Sequence[Place[HistoryItem]],
    notes: Sequence[PlanNote],
    before: ShownItems = NOTHING_SHOWN,
) -> ShownItems:
    """
    Return how a summary shows a history: what precedes these items, and they, with their notes.

    Cost: linear in these items, as far as they are shown, and in their notes.
    """
    if not places:
        return before
    at, total = before.total, before.total + len(places)
    first, last, noted = before.first, before.last, before.noted
    size_bytes = before.json_bytes

    def entries(since: int, until: int) -> tuple[Raw, ...]:
        return tuple([_entry(place.item) for place in places[max(since - at, 0) : until - at]])

    added = entries(at, FIRST_SHOWN) if at < FIRST_SHOWN else ()
    first += added
    newest = entries(max(FIRST_SHOWN, total - LAST_KEPT), total)
    last += newest
    gone, last = last[:-LAST_KEPT], last[-LAST_KEPT:]
    size_bytes += _json_bytes(added) + _json_bytes(newest) - _json_bytes(gone)
    new = sorted({note.place for note in notes if note.place >= FIRST_SHOWN})[-NOTED_SHOWN:]
    if new:
        of_notes = {
            n: last[n - total] if n >= total - len(last) else _entry(places[n - at].item)
            for n in new
        }
        noted = {**noted, **of_notes}
        oldest = [noted.pop(n) for n in [*noted][:-NOTED_SHOWN]]
        size_bytes += _json_bytes(of_notes.values()) - _json_bytes(oldest)
    return ShownItems(total, first, last, noted, size_bytes)


def summarise(
    request: RequestHistory[HistoryItem],
    notes: Sequence[PlanNote],
    of: ShownItems | None = None,
) -> ItemSummary:
    """Return the summary of a request with the notes of its plan; `of` are its items, if known."""
    items = of if of is not None else shown_items(request.places, notes)
    noted = notes if items.total <= WHOLE_SHOWN else notes[-NOTED_SHOWN:]
    return ItemSummary(items.total, items, noted)


def maybe_summary(
    request: RequestHistory[HistoryItem], notes: Sequence[PlanNote], of: ShownItems
) -> ItemSummary | None:
    """Return the item summary; None on a fault, which must not fail the request."""
    try:
        return summarise(request, notes, of)
    except Exception:  # noqa: BLE001 (fail open: the request does not need it)
        return None


def _with_gaps(of: ShownItems, notes: Sequence[PlanNote]) -> list[Raw | int]:
    """Return the entries that are shown, with the number of items that are left out before each."""
    total = of.total
    told: Iterable[int] = range(total)
    if total > WHOLE_SHOWN:
        noted = {note.place for note in notes}
        told = sorted(noted.union(range(FIRST_SHOWN), range(total - LAST_SHOWN, total)))
    items: list[Raw | int] = []
    following = 0
    for index in told:
        if index > following:
            items.append(index - following)
        items.append(of.entry(index))
        following = index + 1
    return items


def _json_bytes(entries: Iterable[Raw]) -> int:
    return sum([len(memoryview(entry)) for entry in entries])


def _entry(item: HistoryItem) -> Raw:
    """Return the JSON of the entry of an item."""
    role, kind = item.role, item.type
    if role is _MODEL:
        of_call = _OUTPUT if kind.endswith("_result") else _CALL  # upstream ran the tool
        letter = _MESSAGE if kind == "message" else of_call
    elif role is _CLIENT:
        letter = _USER if kind == "message" else _OUTPUT
    else:
        letter = _OTHERS[role]
    name, size = item.id or item.call_id, item.end - item.start
    try:
        return Raw(_ENCODE((letter, kind[:WORD_CHARS], name[:ID_CHARS], size)))
    except UnicodeEncodeError:  # a lone surrogate
        return Raw(_ENCODE((letter, "", "", size)))


def _summed(notes: Sequence[PlanNote]) -> list[PlanNote]:
    """Return one note for each outcome and form, all at place 0, the only entry that is left."""
    sums: dict[Outcome | ItemForm, tuple[int, int]] = {}
    for _, what, count, size, _ in notes:
        before = sums.get(what, (0, 0))
        sums[what] = before[0] + count, before[1] + size
    return [PlanNote(0, what, count, size) for what, (count, size) in sums.items()]
