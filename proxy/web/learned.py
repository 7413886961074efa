"""What answers have taught this process, for a while: bounded, and never needed to be right."""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable

__all__ = ["Learned"]

# How long a refusal is heeded before it is put to the test again, and how many are remembered.
REMEMBERED_S = 3600.0
REMEMBERED = 16_384


class Learned:
    """
    Which blobs and models were refused, and whose blobs upstream issued.

    One process knows only what it has seen; what it does not know, upstream says.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        """Know nothing yet; the clock gives seconds, never going backwards."""
        self._clock = clock
        self._until: OrderedDict[Hashable, float] = OrderedDict()
        self._accounts: OrderedDict[bytes, bytes] = OrderedDict()

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

    @property
    def is_blank(self) -> bool:
        """Whether nothing was refused yet, so that nothing has to be looked up."""
        return not self._until

    def issue(self, account: bytes, blobs: Iterable[bytes]) -> None:
        """Remember for which account upstream issued blobs; b"" is an unknown one."""
        for blob in blobs if account else ():
            self._accounts[blob] = account
            self._accounts.move_to_end(blob)
        while len(self._accounts) > REMEMBERED:
            self._accounts.popitem(last=False)

    def is_anothers(self, account: bytes, blob: bytes) -> bool:
        """Tell whether a blob is known to have been issued for another account than this one."""
        issued_for = self._accounts.get(blob, account)
        return bool(account) and issued_for != account
