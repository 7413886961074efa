"""
Sent items: a short digest of each item of a request, in the form in which it is sent.

With the digests of two requests one can tell whether the second begins with the first, as the
upstream sees them, and no content is kept. The digests come from `hash`, so they may be compared
within one process only. The hash of an item's bytes is cached in them, and the prefix cache keeps
items between requests, so only new items are hashed.
"""

from array import array
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Final, NamedTuple

from reasoning_replay.core.history.items import HistoryItem
from reasoning_replay.core.history.request_history import Place
from reasoning_replay.core.wire import json_spans
from reasoning_replay.core.wire.json_spans import Edit

DIGEST_BYTES: Final = 4
_WORD: Final = "I"
_MASK: Final = 0xFFFF_FFFF
_RANGE: Final = itemgetter(0, 1)


class SentItems(NamedTuple):
    """
    Digests of the items of one request, DIGEST_BYTES each.

    Attributes:
        head: Digest of what the upstream reads before the items, such as instructions and tools.
        items: All items in the order in which they are sent; b"" if they are unknown.
        injected: What was injected: items, or members of items.
    """

    head: int = 0
    items: bytes = b""
    injected: bytes = b""

    @property
    def total(self) -> int:
        """Number of items."""
        return len(self.items) // DIGEST_BYTES


NOT_SENT: Final = SentItems()


def sent_items(
    head: tuple[bytes, ...], places: Sequence[Place[HistoryItem]], edits: Sequence[Edit] = ()
) -> SentItems:
    """
    Return the digests of a request.

    Args:
        head: What the upstream reads before the items.
        places: Items of the request before it is edited.
        edits: Its edits. One that inserts directly before an item adds an item, or the comma after
            it; one within an item changes it; all others concern no item.
    """
    if not edits:
        digests = [hash(place.item.raw) for place in places]
        return SentItems(hash(head), packed(digests))
    pending = sorted(edits, key=_RANGE)[::-1]
    digests, injected = [], list[int]()
    for place in places:
        item = place.item
        raw, start = item.raw, item.start
        if pending and pending[-1].start < item.end:  # few items have edits
            inside: list[Edit] = []
            while pending and pending[-1].start < item.end:
                edit = pending.pop()
                if edit.start == edit.end == start:
                    if edit.new != json_spans.COMMA:
                        injected.append(hash(edit.new.removesuffix(json_spans.COMMA)))
                        digests.append(injected[-1])
                elif edit.start >= start:
                    inside.append(Edit(edit.start - start, edit.end - start, edit.new))
            raw = json_spans.apply(raw, inside)
        digests.append(hash(raw))
    return SentItems(hash(head), packed(digests), packed(injected))


def digests_of(items: Iterable[HistoryItem]) -> bytes:
    """Return the digests of items that are sent as they were received."""
    return packed(hash(item.raw) for item in items)


def common_items(one: SentItems, other: SentItems) -> int:
    """Return with how many equal items both begin."""
    least = min(len(one.items), len(other.items))
    if one.items[:least] == other.items[:least]:
        return least // DIGEST_BYTES
    pairs = zip(words(one.items), words(other.items), strict=False)
    return next(n for n, (a, b) in enumerate(pairs) if a != b)


def words(digests: bytes) -> Sequence[int]:
    """Return packed digests as numbers."""
    return memoryview(digests).cast(_WORD)


def packed(hashes: Iterable[int]) -> bytes:
    """Return the digests of hashes."""
    return array(_WORD, [one & _MASK for one in hashes]).tobytes()
