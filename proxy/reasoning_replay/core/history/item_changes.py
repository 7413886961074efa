"""Item changes: how two versions of a request differ, as types, ids and sizes, without content."""

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from reasoning_replay.core.history.items import HistoryItem

# Most changes that are listed; a last entry `more` counts the others.
CHANGES_MAX: Final = 20
# As in an item summary: limits on values that a client writes.
ID_CHARS: Final = 64
WORD_CHARS: Final = 40


class ItemChange(NamedTuple):
    """
    The change of one item.

    Attributes:
        change: `removed`, `added` or `changed`; `reordered` or `more` is about several items.
        type: Type of the item; "" for several.
        id: Its id, or else its call id; "" if it has neither.
        number: Its size in bytes after the change, or before its removal; for `more`, how many.
    """

    change: str
    type: str = ""
    id: str = ""
    number: int = 0


def item_changes(
    before: Sequence[HistoryItem], after: Sequence[HistoryItem]
) -> tuple[ItemChange, ...]:
    """Return the changes that turn one list of items into another one."""
    removed, added = _without(before, after), _without(after, before)
    if not removed and not added:
        same = all(one.raw == other.raw for one, other in zip(before, after, strict=True))
        return () if same else (ItemChange("reordered"),)
    named = {_name(item): item for item in added if _name(item)[1]}
    changes: list[ItemChange] = []
    for item in removed:
        now = named.pop(_name(item), None)
        changes.append(_change("removed", item) if now is None else _change("changed", now))
    left = {id(item) for item in named.values()}
    unnamed = [item for item in added if id(item) in left or not _name(item)[1]]
    changes += [_change("added", item) for item in unnamed]
    return listed(changes)


def listed(changes: Sequence[ItemChange]) -> tuple[ItemChange, ...]:
    """Return the first changes, and how many more there are."""
    if len(changes) > CHANGES_MAX:
        more = len(changes) - CHANGES_MAX
        return (*changes[:CHANGES_MAX], ItemChange("more", number=more))
    return tuple(changes)


def _without(items: Sequence[HistoryItem], others: Sequence[HistoryItem]) -> list[HistoryItem]:
    """Return the items that are not among the others; equal ones count."""
    there = Counter(item.raw for item in others)
    left: list[HistoryItem] = []
    for item in items:
        if there[item.raw]:
            there[item.raw] -= 1
        else:
            left.append(item)
    return left


def _name(item: HistoryItem) -> tuple[str, str]:
    return item.type, item.id or item.call_id


def _change(change: str, item: HistoryItem) -> ItemChange:
    kind, name = _name(item)
    return ItemChange(change, kind[:WORD_CHARS], name[:ID_CHARS], item.end - item.start)
