"""Dictionary store: the simplest store, for tests that need one with the local table."""

import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

from reasoning_replay.adapters.stores.base import (
    CONVERSATIONS_PER_KEY,
    MET_S,
    SCOPE_ITSELF,
    BadCursor,
    Bounds,
    Codec,
    ConversationInfo,
    Deleted,
    Name,
    Page,
    Store,
    StoredConversation,
    StoreResult,
    VersionChange,
    decoded,
    encoded,
)
from reasoning_replay.adapters.stores.trimming import what_to_drop
from reasoning_replay.core.history.lookup_keys import Lookup, choose
from reasoning_replay.core.history.records import turn_of_record
from typing_extensions import override


@dataclass(slots=True)
class Stored:
    """One conversation."""

    expires_at: float
    version: int
    records: dict[bytes, bytes] = field(default_factory=dict)

    @property
    def sizes(self) -> dict[bytes, int]:
        """Sizes of the records by name."""
        return {name: len(value) for name, value in self.records.items()}


class DictStore(Store):
    """Store in a dictionary, without a limit on all of it."""

    def __init__(
        self, bounds: Bounds, clock: Callable[[], float], codec: Codec | None = None
    ) -> None:
        self.codec = codec
        self._bounds = bounds
        self._clock = clock
        self._conversations: dict[Name, Stored] = {}
        self._index: dict[bytes, dict[bytes, tuple[bytes, ...]]] = {}
        self._versions = count(1)
        self._marks: dict[Name, tuple[float, bytes]] = {}
        self._met: dict[bytes, float] = {}

    @override
    async def look_up(
        self, scope: bytes, lookups: Sequence[Lookup], held: Mapping[bytes, int]
    ) -> StoreResult:
        self._expire()
        before = dict(held)
        choice = choose(lookups, self._index.get(scope, {}).get)
        found: list[StoredConversation] = []
        for conversation in dict.fromkeys([*choice.conversations, *held]):
            name = (scope, conversation)
            if (kept := self._conversations.get(name)) is None:
                continue
            kept.expires_at = self._clock() + self._bounds.ttl_s
            is_valid = kept.version in (before.get(conversation), held.get(conversation))
            records = None if is_valid else decoded(self.codec, name, kept.records)
            found.append(StoredConversation(conversation, kept.version, records))
        deleted = frozenset(one for one in held if (scope, one) in self._marks)
        return StoreResult(found, choice.crowded, deleted, self._mark((scope, SCOPE_ITSELF)))

    @override
    async def save(
        self,
        name: Name,
        records: Mapping[bytes, bytes],
        keys: Collection[bytes],
        mark: bytes | None = None,
        *,
        is_stored: bool = True,
    ) -> VersionChange:
        self._expire()
        kept = self._conversations.get(name)
        if kept is None:
            of_scope = self._mark((name[0], SCOPE_ITSELF))
            if self._mark(name):
                raise Deleted
            if of_scope and mark not in (None, of_scope):
                raise Deleted(of_scope)
            kept = self._conversations[name] = Stored(0.0, next(self._versions))
        kept.expires_at = self._clock() + self._bounds.ttl_s
        before, kept.version = kept.version, next(self._versions)
        kept.records |= encoded(self.codec, name, records)
        index = self._index.setdefault(name[0], {})
        for key in keys:
            others = [one for one in index.get(key, ()) if one != name[1]]
            index[key] = (*others[1 - CONVERSATIONS_PER_KEY :], name[1])
        drop = what_to_drop(kept.sizes, self._bounds)
        for gone in drop:
            del kept.records[gone]
        return VersionChange(None if drop else before, kept.version)

    @override
    async def survey(self, scope: bytes | None, cursor: str, limit: int) -> Page:
        if cursor and not (cursor.isascii() and cursor.isdigit()):
            raise BadCursor
        self._expire()
        first = int(cursor or 0)
        kept = [
            ConversationInfo(
                *name,
                len({turn_of_record(record) for record in one.records}),
                sum(one.sizes.values()),
                int(one.expires_at - self._clock()),
            )
            for name, one in self._conversations.items()
            if scope in (None, name[0])
        ]
        is_last = first + limit >= len(kept)
        return Page(kept[first : first + limit], "" if is_last else str(first + limit))

    @override
    async def forget(self, scope: bytes, conversation: bytes, *, is_final: bool = False) -> bool:
        self._expire()
        name = (scope, conversation)
        if is_final:
            self._add_mark(name)
        return self._drop(name)

    @override
    async def mark(self, scope: bytes) -> bytes:
        return self._add_mark((scope, SCOPE_ITSELF))

    @override
    async def meet(self, own: bytes) -> Sequence[bytes]:
        self._expire()
        self._met[own] = self._clock() + MET_S
        return [*self._met]

    def _mark(self, name: Name) -> bytes:
        return self._marks[name][1] if name in self._marks else b""

    def _add_mark(self, name: Name) -> bytes:
        made = secrets.token_bytes(16)
        self._marks[name] = self._clock() + self._bounds.marked_s, made
        return made

    def _expire(self) -> None:
        now = self._clock()
        for name in [name for name, one in self._conversations.items() if one.expires_at <= now]:
            self._drop(name)
        for name in [name for name, (ends_at, _) in self._marks.items() if ends_at <= now]:
            del self._marks[name]
        self._met = {own: ends_at for own, ends_at in self._met.items() if ends_at > now}

    def _drop(self, name: Name) -> bool:
        index = self._index.get(name[0], {})
        for key, found in [*index.items()]:
            others = tuple([one for one in found if one != name[1]])
            if others:
                index[key] = others
            else:
                del index[key]
        return self._conversations.pop(name, None) is not None
