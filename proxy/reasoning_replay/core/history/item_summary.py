"""
Item summary: the items of a request for display, with only their types, ids and sizes.

A summary is encoded to JSON immediately, so it keeps no reference to a body or an item. Its size is
bounded for every request.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import msgspec
from msgspec import Raw

from reasoning_replay.core.history.items import HistoryItem, Role
from reasoning_replay.core.history.plan import Outcome, PlanNote
from reasoning_replay.core.history.request_history import Place, RequestHistory
from reasoning_replay.core.history.sent_items import NOT_SENT, SentItems

# Up to this many items are all shown. Of a longer list, only the first and last items and those
# with notes are shown.
WHOLE_SHOWN = 200
FIRST_SHOWN = 20
LAST_SHOWN = 60
NOTED_SHOWN = 400
# Limits on values that a client writes. The API's ids have at most 64 characters, its longest type
# about 30.
ID_CHARS = 64
WORD_CHARS = 40
# A larger summary is reduced to its counts. Only characters with long JSON escapes reach this size.
JSON_MAX_BYTES = 128 << 10

_ENCODE = msgspec.json.Encoder().encode


class ItemSummary(NamedTuple):
    """
    The items of one request.

    Attributes:
        total: Number of items in the request.
        shown: JSON. `items` lists for each item its letter (below), type, id and size in bytes; a
            number stands for that many omitted items. `notes` lists the newest notes of the plan.
        sent: Digests of the items as they are sent; they are never shown.
    """

    total: int
    shown: bytes
    sent: SentItems = NOT_SENT

    @property
    def size_bytes(self) -> int:
        """Size of everything that it holds, in bytes."""
        return len(self.shown) + len(self.sent.items) + len(self.sent.injected)

    def counted(self) -> "ItemSummary":
        """Return a summary with only the number of items."""
        items = [self.total] if self.total else []
        return ItemSummary(self.total, _ENCODE({"items": items, "notes": []}))


# One letter for the role of an item.
_MESSAGE, _CALL, _USER, _OUTPUT = "m", "c", "u", "o"
_OTHERS = {Role.FRAME: "f", Role.REASONING: "r", Role.REFERENCE: "i"}
_MODEL, _CLIENT = Role.MODEL, Role.CLIENT

# Memory of an entry in a dict, in addition to its JSON; measured.
_ENTRY_BYTES = 140


class ShownItems(NamedTuple):
    """
    The items of a history as a summary shows them.

    Attributes:
        total: Number of items.
        entries: Index of an item -> its JSON; of a long history only the first and last items, and
            those with notes.
    """

    total: int = 0
    entries: Mapping[int, Raw] = MappingProxyType({})

    @property
    def size_bytes(self) -> int:
        """Memory, in bytes."""
        size = sum([len(memoryview(entry)) for entry in self.entries.values()])
        return size + _ENTRY_BYTES * len(self.entries)


_NOTHING_SHOWN = ShownItems()


def shown_items(
    places: Sequence[Place[HistoryItem]],
    notes: Sequence[PlanNote],
    before: ShownItems = _NOTHING_SHOWN,
) -> ShownItems:
    """
    Return how a summary shows a history: what precedes these items, and they.

    Cost: linear in the number of shown items and of notes, not of all items.
    """
    at, total = before.total, before.total + len(places)
    if total <= WHOLE_SHOWN:
        told: Iterable[int] = range(total)
    else:
        noted = {note.place for note in notes[-NOTED_SHOWN:]}
        told = sorted(noted.union(range(FIRST_SHOWN), range(total - LAST_SHOWN, total)))
    known = before.entries
    shown = {n: _entry(places[n - at].item) if n >= at else known[n] for n in told}
    return ShownItems(total, shown)


def summarise(
    request: RequestHistory[HistoryItem],
    notes: Sequence[PlanNote],
    sent: SentItems = NOT_SENT,
    of: ShownItems | None = None,
) -> ItemSummary:
    """Return the summary of a request with the notes of its plan; `of` are its items, if known."""
    total, entries = of if of is not None else shown_items(request.places, notes)
    noted = notes if total <= WHOLE_SHOWN else notes[-NOTED_SHOWN:]
    items: list[Raw | int] = []
    following = 0
    for index, entry in entries.items():
        if index > following:
            items.append(index - following)
        items.append(entry)
        following = index + 1
    for note in noted:
        if len(note.reasoning_id) > ID_CHARS:
            noted = [each._replace(reasoning_id=each.reasoning_id[:ID_CHARS]) for each in noted]
            break
    try:
        shown = _ENCODE({"items": items, "notes": noted})
    except UnicodeEncodeError:  # a lone surrogate in an id
        shown = b""
    if not shown or len(shown) > JSON_MAX_BYTES:
        shown = _ENCODE({"items": [total] if total else [], "notes": _summed(notes)})
    return ItemSummary(total, shown, sent)


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
    """Return one note for each outcome, all at place 0, the only entry that is left."""
    sums: dict[Outcome, tuple[int, int]] = {}
    for _, what, count, size, _ in notes:
        before = sums.get(what, (0, 0))
        sums[what] = before[0] + count, before[1] + size
    return [PlanNote(0, what, count, size) for what, (count, size) in sums.items()]
