"""Trimming: the choice of the records to drop when a conversation exceeds its bounds."""

from collections.abc import Mapping

from reasoning_replay.adapters.stores.base import Bounds
from reasoning_replay.core.history.records import turn_id_of_record, turn_of_record

# Trim to nine tenths, so that the start of a full conversation does not move with every turn.
_KEEP = 0.9


def what_to_drop(sizes: Mapping[bytes, int], bounds: Bounds) -> list[bytes]:
    """
    Return the names of the records to drop: those of the oldest turns; [] within the bounds.

    Turns that a later turn of the same id has replaced are dropped first: nothing reads them. The
    newest turn is kept even if it exceeds the bounds.

    Args:
        sizes: Sizes in bytes of all records of the conversation, by name.
        bounds: Limits of the conversation.
    """
    of_turns: dict[bytes, list[bytes]] = {}
    for name in sorted(sizes, reverse=True):
        of_turns.setdefault(turn_of_record(name), []).append(name)
    size = sum(sizes.values())
    if len(of_turns) <= bounds.max_turns and size <= bounds.max_bytes:
        return []
    newest_first: dict[bytes, list[bytes]] = {}
    replaced: list[bytes] = []
    for turn, names in of_turns.items():
        if newest_first.setdefault(turn_id_of_record(turn), names) is not names:
            replaced += names
    size -= sum(sizes[name] for name in replaced)
    if len(newest_first) <= bounds.max_turns and size <= bounds.max_bytes:
        return replaced
    kept, kept_bytes = 0, 0
    live = list(newest_first.values())
    for names in live:
        kept_bytes += sum(sizes[name] for name in names)
        is_full = kept >= _KEEP * bounds.max_turns or kept_bytes > _KEEP * bounds.max_bytes
        if kept and is_full:
            break
        kept += 1
    return replaced + [name for names in live[kept:] for name in names]
