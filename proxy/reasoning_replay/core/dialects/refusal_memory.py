"""Refusal memory: what upstream refused within the last hour, by tenant, bounded."""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping
from operator import is_ as is_same
from typing import Generic, NamedTuple, TypeVar

from reasoning_replay.core.history.item_index import Match
from reasoning_replay.core.history.lookup_keys import LookupResult
from reasoning_replay.core.history.turns import Reasoning, Turn
from reasoning_replay.core.tenancy.scope import NO_ACCOUNT, Account

# The kind under which refused blobs are recorded, in every dialect.
BLOB = "blob"
# The kind under which conversations are recorded in which the client damages its reasoning.
DAMAGED = "damaged"
# The kind of the lesson that nothing captured before its turn is good any more: issued to another
# account, or by another model than the one that it names.
DOUBT = "doubt"
# The kind of blobs that are not injected, although the client may send them.
UNSENT = "unsent"

# How long a refusal is remembered before upstream is tried again, and how many are remembered.
REMEMBERED_S = 3600.0
REMEMBERED = 16_384
# Limit per tenant or account: above it, its own oldest entry is evicted.
REMEMBERED_EACH = 1_024
# Start of a blob that is encrypted for one account: Fernet's version and first timestamp bytes.
_TOKEN = b'"gAAAA'
_O = TypeVar("_O", bound=Hashable)
_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")


class RefusalMemory:
    """
    What upstream refused, and the accounts that it issued blobs to. Each dialect has its own.

    Each process records only the refusals that it has seen. Upstream decides about all other blobs
    and models.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        """Start empty; the clock is monotonic, in seconds."""
        self._clock = clock
        self._until: _Shares[bytes, tuple[str, str | bytes], float] = _Shares()
        self._issued: _Shares[Account, bytes, None] = _Shares()
        self._issued_for: dict[bytes, tuple[Account, ...]] = {}

    def refuse(self, scope: bytes, kind: str, what: str | bytes) -> None:
        """Record that upstream refused something to a tenant: a blob, a model, a member."""
        self._until.put(scope, (kind, what), self._clock() + REMEMBERED_S)

    def known_to(self, scope: bytes, account: Account = NO_ACCOUNT) -> "KnownRefusals":
        """Return what concerns the requests of one caller."""
        return KnownRefusals(self._clock, self._until, self._issued_for, scope, account)

    def issue(self, account: Account, reasoning: Iterable[Reasoning]) -> None:
        """Record the account to which upstream issued the blobs of a response."""
        if not any(account):
            return
        # A token belongs to one account; two accounts may get the same plain-text reasoning.
        tokens = (part for part in reasoning if _TOKEN in part.raw)
        for blob in (blob for part in tokens for blob in part.blobs):
            accounts = self._issued_for.get(blob, ())
            if account not in accounts:
                self._issued_for[blob] = (*accounts, account)
            for owner, forgotten in self._issued.put(account, blob, None):
                self._forget(owner, forgotten)

    def _forget(self, owner: Account, blob: bytes) -> None:
        left = tuple(one for one in self._issued_for[blob] if one != owner)
        if left:
            self._issued_for[blob] = left
        else:
            del self._issued_for[blob]


class RefusalMark(NamedTuple):
    """
    What is refused, to be compared: decisions hold as long as it is the same.

    Attributes:
        newest: The same object until the tenant has another refusal; None without any within the
            last hour.
        lessons: As in `KnownRefusals`.
    """

    newest: object = None
    lessons: frozenset[tuple[str, str | bytes]] = frozenset()


NOT_REFUSED = RefusalMark()


class KnownRefusals(NamedTuple):
    """
    What upstream refused within the last hour, as far as it concerns one caller; only read.

    Attributes:
        lessons: What the turns of the conversation teach in addition, as kinds and names.
    """

    clock: Callable[[], float]
    until: "_Shares[bytes, tuple[str, str | bytes], float]"
    issued_for: Mapping[bytes, tuple[Account, ...]]
    scope: bytes
    account: Account
    lessons: frozenset[tuple[str, str | bytes]] = frozenset()

    @property
    def is_empty(self) -> bool:
        """Whether upstream refused nothing to the tenant lately, or in the conversation."""
        return not (self.lessons or self._is_any_left)

    @property
    def mark(self) -> RefusalMark:
        """What tells whether anything else is refused than at another time."""
        if self.is_empty:
            return NOT_REFUSED
        newest = self.until.stamp(self.scope) if self._is_any_left else None
        return RefusalMark(newest, self.lessons)

    @property
    def _is_any_left(self) -> bool:
        newest = self.until.newest(self.scope)
        return newest is not None and newest > self.clock()

    @property
    def may_concern_blobs(self) -> bool:
        """Whether any entry may concern the reasoning in a request."""
        return not self.is_empty or (any(self.account) and bool(self.issued_for))

    def has(self, kind: str, what: str | bytes) -> bool:
        """Return whether upstream refused something to the tenant: a blob, a model, a member."""
        if (kind, what) in self.lessons:
            return True
        until = self.until.get(self.scope, (kind, what))
        return until is not None and until > self.clock()

    def is_foreign(self, blob: bytes) -> bool:
        """Return whether upstream refused a blob, or issued it only to other accounts."""
        issued = self.issued_for.get(blob, ())
        is_of_others = bool(issued) and all(_differ(self.account, other) for other in issued)
        return is_of_others or self.has(BLOB, blob)

    def completes(self, turn: Turn) -> bool:
        """Return whether captured reasoning must replace what the client makes of a turn's."""
        return self.has(DAMAGED, turn.conversation)

    def _is_withheld(self, blob: bytes) -> bool:
        return self.has(BLOB, blob) or (UNSENT, blob) in self.lessons

    def without_refused_of(self, matches: Mapping[int, Match]) -> dict[int, Match]:
        """Do the same in the turns of matched items."""
        turns = {match.turn.id: match.turn for match in matches.values()}
        reduced = {name: turn.without_reasoning(self._is_withheld) for name, turn in turns.items()}
        return {n: Match(reduced[match.turn.id], match.k) for n, match in matches.items()}

    def without_refused(self, looked_up: LookupResult) -> LookupResult:
        """Withhold the reasoning that upstream refused."""
        if self.is_empty:
            return looked_up
        turns = [turn.without_reasoning(self._is_withheld) for turn in looked_up.turns]
        if all(map(is_same, turns, looked_up.turns)):
            return looked_up  # the same object, which may be indexed already
        return looked_up._replace(turns=turns)


class _Shares(Generic[_O, _K, _V]):
    """
    Entries of many owners, with one limit per owner and one for all.

    Above its own limit, an owner loses its oldest entry. Above the limit for all, the least
    recently updated owner does.
    """

    def __init__(self) -> None:
        self._owners: OrderedDict[_O, OrderedDict[_K, _V]] = OrderedDict()
        self._stamps: dict[_O, object] = {}
        self._count = 0

    def stamp(self, owner: _O) -> object:
        """Return the same object until an owner gets another entry; None without any."""
        return self._stamps.get(owner)

    def newest(self, owner: _O) -> _V | None:
        """Return the newest entry of an owner; None if it has none."""
        own = self._owners.get(owner)
        return own[next(reversed(own))] if own is not None else None

    def get(self, owner: _O, key: _K) -> _V | None:
        """Return an entry; None if it is missing."""
        own = self._owners.get(owner)
        return own.get(key) if own is not None else None

    def put(self, owner: _O, key: _K, value: _V) -> list[tuple[_O, _K]]:
        """Store an entry as the newest; return the owners and keys of evicted entries."""
        own = self._owners.setdefault(owner, OrderedDict())
        self._owners.move_to_end(owner)
        self._stamps[owner] = object()
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
            del self._owners[owner], self._stamps[owner]
        return owner, key


def _differ(account: Account, other: Account) -> bool:
    """Return whether two accounts differ in a part that both of them name."""
    pairs = zip(account, other, strict=True)
    return any(ours and theirs and ours != theirs for ours, theirs in pairs)
