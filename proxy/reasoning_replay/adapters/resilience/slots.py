"""Slots: the places of an embedded store's conversations in a survey."""

from reasoning_replay.adapters.stores.base import Name


class Slots:
    """Numbers for conversations; each has one for its life, which is then used again."""

    def __init__(self) -> None:
        self._names: list[Name | None] = []
        self._free: list[int] = []

    def take(self, name: Name) -> int:
        """Return a free slot, which is now that of a conversation."""
        if self._free:
            slot = self._free.pop()
            self._names[slot] = name
            return slot
        self._names.append(name)
        return len(self._names) - 1

    def free(self, slot: int) -> None:
        """Note that the conversation of a slot is gone."""
        self._names[slot] = None
        self._free.append(slot)

    def __len__(self) -> int:
        return len(self._names)

    def some(self, first: int, most: int) -> list[Name | None]:
        """Return the conversations of some slots, one after the other."""
        return self._names[first : first + most]
