"""Refusal memory: which blobs and models the upstream refused within the last hour, bounded."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from operator import is_ as is_same
from typing import Generic, TypeVar

from reasoning_replay.core.dialects.base import Caller
from reasoning_replay.core.dialects.responses.heal.diagnosis import RefusalKind
from reasoning_replay.core.history.lookup_keys import LookupResult
from reasoning_replay.core.history.turns import Turn
from reasoning_replay.core.tenancy.scope import Account

__all__ = ["RefusalMemory"]

# How long a refusal is heeded before it is put to the test again, and how many are remembered.
REMEMBERED_S = 3600.0
REMEMBERED = 16_384
# Of those, of one tenant: whoever teaches more than this forgets his own, and nobody else's.
REMEMBERED_EACH = 1_024
# How a blob begins that is encrypted for somebody: Fernet's version and the first of its time.
_TOKEN = b'"gAAAA'
_O = TypeVar("_O", bound=Hashable)
_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")


class RefusalMemory:
    """
    Which blobs and models were refused, and whose blobs upstream issued.

    One process knows only what it has seen; what it does not know, upstream says.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        """Know nothing yet; the clock gives seconds, never going backwards."""
        self._clock = clock
        self._until: _Shares[bytes, tuple[str, str | bytes], float] = _Shares()
        self._issued: _Shares[Account, bytes, None] = _Shares()
        self._issued_for: dict[bytes, tuple[Account, ...]] = {}

    def refuse(self, scope: bytes, kind: str, what: str | bytes) -> None:
        """Remember that upstream would not have something of a tenant's."""
        self._until.put(scope, (kind, what), self._clock() + REMEMBERED_S)

    def is_refused(self, scope: bytes, kind: str, what: str | bytes) -> bool:
        """Tell whether that was within the last hour."""
        until = self._until.get(scope, (kind, what))
        return until is not None and until > self._clock()

    def knows(self, caller: Caller) -> bool:
        """Tell whether anything is known that may concern this caller's requests."""
        return caller.scope in self._until or (any(caller.account) and bool(self._issued_for))

    def without_refused(self, scope: bytes, looked_up: LookupResult) -> LookupResult:
        """Withhold what upstream has refused within the last hour."""
        if scope not in self._until:
            return looked_up

        def is_refused(blob: bytes) -> bool:
            return self.is_refused(scope, RefusalKind.BLOB, blob)

        turns = [turn.without_reasoning(is_refused) for turn in looked_up.turns]
        if all(map(is_same, turns, looked_up.turns)):
            return looked_up  # whose names may be looked through already
        return looked_up._replace(turns=turns)

    def issue(self, account: Account, turn: Turn) -> None:
        """Remember for which account upstream issued the blobs of a turn."""
        if not any(account):
            return
        runs = (part for item in turn.items for part in item.run)
        # A token is nobody else's; a thought in plain text may be thought twice.
        tokens = (part for part in runs if _TOKEN in part.raw)
        for blob in (blob for part in tokens for blob in part.blobs):
            accounts = self._issued_for.get(blob, ())
            if account not in accounts:
                self._issued_for[blob] = (*accounts, account)
            for owner, forgotten in self._issued.put(account, blob, None):
                self._forget(owner, forgotten)

    def is_of_another_account(self, account: Account, blob: bytes) -> bool:
        """Tell whether a blob is known to have been issued for other accounts than this one."""
        issued = self._issued_for.get(blob, ())
        return bool(issued) and all(_differ(account, other) for other in issued)

    def _forget(self, owner: Account, blob: bytes) -> None:
        left = tuple(one for one in self._issued_for[blob] if one != owner)
        if left:
            self._issued_for[blob] = left
        else:
            del self._issued_for[blob]


class _Shares(Generic[_O, _K, _V]):
    """
    What is known of many owners: so much of each, and so much of all.

    Beyond its share an owner loses what it has had for longest; beyond all of them, whoever has
    brought nothing for longest does.
    """

    def __init__(self) -> None:
        self._owners: OrderedDict[_O, OrderedDict[_K, _V]] = OrderedDict()
        self._count = 0

    def __len__(self) -> int:
        """Count what is known of all."""
        return self._count

    def __contains__(self, owner: _O) -> bool:
        """Tell whether anything is known of an owner."""
        return owner in self._owners

    def get(self, owner: _O, key: _K) -> _V | None:
        """Return what is known; None is nothing."""
        own = self._owners.get(owner)
        return own.get(key) if own is not None else None

    def put(self, owner: _O, key: _K, value: _V) -> list[tuple[_O, _K]]:
        """Know something, as the newest; return the owners and keys that are forgotten for it."""
        own = self._owners.setdefault(owner, OrderedDict())
        self._owners.move_to_end(owner)
        self._count += key not in own
        own[key] = value
        own.move_to_end(key)
        forgotten = [self._drop(owner)] if len(own) > REMEMBERED_EACH else []
        while self._count > REMEMBERED:
            forgotten.append(self._drop(next(iter(self._owners))))
        return forgotten

    def _drop(self, owner: _O) -> tuple[_O, _K]:
        own = self._owners[owner]
        key, _ = own.popitem(last=False)
        self._count -= 1
        if not own:
            del self._owners[owner]
        return owner, key


def _differ(account: Account, other: Account) -> bool:
    """Tell whether two accounts name the same thing differently."""
    pairs = zip(account, other, strict=True)
    return any(ours and theirs and ours != theirs for ours, theirs in pairs)
