"""
Deletions: those that this process knows of, so that what began before one is not saved after it.

The store has marks of deletions, which every replica checks. These are known earlier, and they say
what an exchange of this process knew when it began. The order is a count, not a time.
"""

from collections import OrderedDict

from reasoning_replay.adapters.stores.base import SCOPE_ITSELF, Name

# Most deletions that are known one by one. Of older ones only the count is known, so an exchange
# that began before them saves nothing.
KNOWN_MAX = 10_000


class Deletions:
    """
    Deletions of conversations and of scopes, bounded in number.

    Attributes:
        count: Number of deletions that were noted.
    """

    def __init__(self) -> None:
        self.count = 0
        self._noted: OrderedDict[Name, int] = OrderedDict()  # with the count at that time
        self._marks: OrderedDict[bytes, bytes] = OrderedDict()
        self._forgotten = 0  # count of the newest one that is not in `_noted` any more

    def mark(self, scope: bytes) -> bytes:
        """Return the newest `StoreResult.mark` of a scope that is known; b"" without one."""
        return self._marks.get(scope, b"")

    def note(self, name: Name) -> None:
        """Note the deletion of a conversation."""
        self.count += 1
        self._noted[name] = self.count
        self._noted.move_to_end(name)
        if len(self._noted) > KNOWN_MAX:
            _, self._forgotten = self._noted.popitem(last=False)

    def note_scope(self, scope: bytes, mark: bytes) -> bool:
        """Note the mark of a scope's last deletion, b"" without one; return whether it is new."""
        if not mark or mark == self.mark(scope):
            return False
        self._marks[scope] = mark
        if len(self._marks) > KNOWN_MAX:
            self._marks.popitem(last=False)
        self.note((scope, SCOPE_ITSELF))
        return True

    def is_known(self, name: Name) -> bool:
        """Return whether the deletion of a conversation is known."""
        return name in self._noted

    def are_after(self, since: int | None, name: Name) -> bool:
        """Return whether a conversation was deleted since a count; None: since now."""
        if since is None or since == self.count:
            return False
        noted = (self._noted.get(one, 0) for one in (name, (name[0], SCOPE_ITSELF)))
        return max(self._forgotten, *noted) > since
