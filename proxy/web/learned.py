"""What answers have taught this process, for a while: bounded, and never needed to be right."""

from collections import OrderedDict
from collections.abc import Callable, Hashable

from proxy.core.heal.diagnosis import Fault
from proxy.core.keys import Recalled
from proxy.core.scope import Account
from proxy.core.turns import Turn

__all__ = ["Learned"]

# How long a refusal is heeded before it is put to the test again, and how many are remembered.
REMEMBERED_S = 3600.0
REMEMBERED = 16_384
# How a blob begins that is encrypted for somebody: Fernet's version and the first of its time.
_TOKEN = b'"gAAAA'


class Learned:
    """
    Which blobs and models were refused, and whose blobs upstream issued.

    One process knows only what it has seen; what it does not know, upstream says.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        """Know nothing yet; the clock gives seconds, never going backwards."""
        self._clock = clock
        self._until: OrderedDict[Hashable, float] = OrderedDict()
        # Each a set of its own, never changed: other threads may be looking at it.
        self._issued: OrderedDict[bytes, frozenset[Account]] = OrderedDict()

    def refuse(self, scope: bytes, kind: str, what: str | bytes) -> None:
        """Remember that upstream would not have something of a tenant's."""
        key = (scope, kind, what)
        self._until.pop(key, None)
        self._until[key] = self._clock() + REMEMBERED_S
        while len(self._until) > REMEMBERED:
            self._until.popitem(last=False)

    def is_refused(self, scope: bytes, kind: str, what: str | bytes) -> bool:
        """Tell whether that was within the last hour."""
        until = self._until.get((scope, kind, what))
        return until is not None and until > self._clock()

    def less_refused(self, scope: bytes, recalled: Recalled) -> Recalled:
        """Withhold what upstream has refused within the last hour."""
        if not self._until:
            return recalled

        def is_refused(blob: bytes) -> bool:
            return self.is_refused(scope, Fault.BLOB, blob)

        turns = [turn.without_reasoning(is_refused) for turn in recalled.turns]
        return Recalled(turns, recalled.crowded)

    def issue(self, account: Account, turn: Turn) -> None:
        """Remember for which account upstream issued the blobs of a turn."""
        if not any(account):
            return
        runs = (part for item in turn.items for part in item.run)
        # A token is nobody else's; a thought in plain text may be thought twice.
        tokens = (part for part in runs if _TOKEN in part.raw)
        for blob in (blob for part in tokens for blob in part.blobs):
            self._issued[blob] = self._issued.get(blob, frozenset()) | {account}
            self._issued.move_to_end(blob)
        while len(self._issued) > REMEMBERED:
            self._issued.popitem(last=False)

    def is_anothers(self, account: Account, blob: bytes) -> bool:
        """Tell whether a blob is known to have been issued for other accounts than this one."""
        issued = self._issued.get(blob, ())
        return bool(issued) and all(_differ(account, other) for other in issued)


def _differ(account: Account, other: Account) -> bool:
    """Tell whether two accounts name the same thing differently."""
    pairs = zip(account, other, strict=True)
    return any(ours and theirs and ours != theirs for ours, theirs in pairs)
