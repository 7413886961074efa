"""Trimming: which records go when a conversation has outgrown its bounds."""

from collections.abc import Mapping

from reasoning_replay.adapters.stores.base import Bounds
from reasoning_replay.core.history.turns import turn_of_record

__all__ = ["what_to_drop"]

# Trimmed to nine tenths, so that the head of a full conversation does not move with every turn.
_KEEP = 0.9


def what_to_drop(sizes: Mapping[bytes, int], bounds: Bounds) -> list[bytes]:
    """
    Return the names of the records of a conversation's oldest turns; none while it is in bounds.

    Args:
        sizes: In bytes, of all its records by name.
        bounds: The newest turn is kept, however large it is.
    """
    turns: dict[bytes, list[bytes]] = {}
    for name in sorted(sizes, reverse=True):
        turns.setdefault(turn_of_record(name), []).append(name)
    if len(turns) <= bounds.max_turns and sum(sizes.values()) <= bounds.max_bytes:
        return []
    kept, kept_bytes = 0, 0
    newest_first = list(turns.values())
    for names in newest_first:
        kept_bytes += sum(sizes[name] for name in names)
        is_full = kept >= _KEEP * bounds.max_turns or kept_bytes > _KEEP * bounds.max_bytes
        if kept and is_full:
            break
        kept += 1
    return [name for names in newest_first[kept:] for name in names]
