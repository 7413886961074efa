"""Unsaved records: the records and keys of one response that the store may lack."""

from collections.abc import Mapping
from dataclasses import dataclass, field

# Records of failed saves that are always passed on with the next save. More of them wait until
# there is an eighth as many new ones, or for the last save.
RETRIED = 256
RETRIED_PER_NEW = 8

# Records, and keys -> whether they are certain.
_Lot = tuple[dict[bytes, bytes], dict[bytes, bool]]
_NOTHING: _Lot = ({}, {})


@dataclass(slots=True)
class UnsavedRecords:
    """
    What is to be saved of a response, also after failed saves.

    Cost: linear in all that is added, also while every save fails.
    """

    _known: set[bytes] = field(default_factory=set)  # keys that were ever added
    _new: _Lot = field(default_factory=lambda: ({}, {}))
    _failed: _Lot = field(default_factory=lambda: ({}, {}))

    def add(self, records: Mapping[bytes, bytes], keys: Mapping[bytes, bool]) -> None:
        """Add records, and those keys that were not added before."""
        new_records, new_keys = self._new
        new_records |= records
        added = dict(keys)
        for key in self._known & added.keys():
            del added[key]
        new_keys |= added
        self._known.update(added)

    def take(self, *, is_last: bool) -> _Lot:
        """
        Remove and return what to save now.

        Args:
            is_last: Whether no save may follow.
        """
        records, keys = self._new
        failed, failed_keys = self._failed
        self._new = {}, {}
        if is_last or len(failed) <= max(RETRIED, RETRIED_PER_NEW * len(records)):
            self._failed = {}, {}
            records, keys = failed | records, failed_keys | keys
        return records, keys

    def give_back(self, lot: _Lot) -> None:
        """Keep the result of `take` for a later save, because it may not have been saved."""
        records, keys = self._failed
        records |= lot[0]
        keys |= lot[1]

    def clear(self) -> None:
        """Drop all of it."""
        self._new, self._failed = ({}, {}), ({}, {})

    def __bool__(self) -> bool:
        """Whether there is anything to save."""
        return self._new != _NOTHING or self._failed != _NOTHING
