"""
What this process has just served, kept near: it goes on while the store is away.

    Replay -> CachedStore -> GuardedStore -> Redis, SQLite

**When near answers alone.** Only where the store could say nothing else that matters: each looked
up item has certain keys, all of them lead, near, to one conversation, and that one is whole. It is
whole if it began here or was loaded whole, and each turn that was added since came from here and
behind a turn that is near. So every turn near has all its ancestors near.

Other replicas may have added turns meanwhile. A history that continues one of those holds its
items, and the newest of them is among the newest items that are looked up. Its keys are unknown
here, so the store is asked, and the conversation loaded whole again. A history without them is
another branch: there, what is not near is no ancestor of what it says, and would only have been one
more candidate for what is doubtful. What has been said by others does not matter to ids, and
sayings alone are never decided near. That an id or a random `call_id` is one item's alone is what
`Lookup.certain` stands for; with a second origin that only another replica knows, near cannot see
the contradiction.

**For how long.** `ttl_s` since it was loaded or began, however much it is used: a deletion or an
eviction through another replica takes effect within that time. It is at most half the store's own
TTL, so that what is only read here is renewed there in time. What the store failed to take is kept
for `ttl_s` since that failure, as nobody else has it.

**What the store does not have yet** is *owed*: its save is under way or has failed. It goes into
every answer of the store, and is saved again with the conversation's next save that works.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from reasoning_replay.adapters.resilience.conversation_cache import ConversationCache
from reasoning_replay.adapters.resilience.guarded_store import GuardedStore
from reasoning_replay.adapters.resilience.safe_store import Budget, Saved
from reasoning_replay.adapters.stores.base import Bounds, Page, Store
from reasoning_replay.adapters.telemetry.metrics import Metrics
from reasoning_replay.core.history.lookup_keys import (
    Lookup,
    LookupResult,
    certain_keys_of_turn,
    keys_of_turn,
)
from reasoning_replay.core.history.turns import Turn

__all__ = ["CachedStore"]

# A conversation of several that came is kept near if one of its newest turns was asked for by id.
TURNS_LOOKED_AT = 8


class CachedStore:
    """Keeps what was just served near, in front of a guarded store; bounded in bytes."""

    def __init__(
        self,
        guarded: GuardedStore,
        bounds: Bounds,
        max_bytes: int,
        metrics: Metrics,
        clock: Callable[[], float],
    ) -> None:
        """
        Start with nothing near.

        Args:
            guarded: Owned from here on; `close` closes it. It has no other listener.
            bounds: Of one conversation, as the store's, but for `ttl_s`: how long what is near
                is good, at most half as long as the store keeps it.
            max_bytes: Of all that is near.
            metrics: Counts what is answered near.
            clock: Seconds, never going backwards.
        """
        self._guarded = guarded
        self._metrics = metrics
        self._near = ConversationCache(bounds, max_bytes, clock)
        guarded.tell = self._told

    @property
    def inner(self) -> Store:
        """The store behind both."""
        return self._guarded.inner

    @inner.setter
    def inner(self, store: Store) -> None:
        self._guarded.inner = store

    @property
    def is_degraded(self) -> bool:
        """As `SafeStore.is_degraded`."""
        return self._guarded.is_degraded

    async def recall(
        self, scope: bytes, asked: Sequence[Lookup], budget: Budget
    ) -> LookupResult | None:
        """As `SafeStore.recall`."""
        near = self._near
        one = near.certain(scope, asked)
        if one is not None:
            self._count("certain")
            return LookupResult(near.turns((scope, one)))
        began = near.changes
        asked_besides = [*asked, *near.beside(scope, asked)]
        # Also what the store gets meanwhile: it may have looked before.
        owed = self._owed(scope, near.led_to(scope, asked))
        found = await self._guarded.recall(scope, asked_besides, budget)
        if found is None:
            return await self._without_store(scope, asked)
        came: defaultdict[bytes, list[Turn]] = defaultdict(list)
        for turn in found.turns:
            came[turn.conversation].append(turn)
        led_to = near.led_to(scope, asked)
        for conversation in self._wanted(scope, asked, came):
            await near.take((scope, conversation), came[conversation], began)
        if not found.crowded:
            for conversation in led_to - came.keys():  # the store has nothing of it any more
                await near.take((scope, conversation), [], began)
        owed = {this: turn for this, turn in owed.items() if turn.conversation in led_to}
        owed |= self._owed(scope, led_to | came.keys())
        if not owed:
            return found
        kept = (turn for turn in found.turns if turn.id not in owed)
        return LookupResult([*kept, *owed.values()], found.crowded)

    async def save(self, scope: bytes, turn: Turn, keys: Sequence[bytes], budget: Budget) -> Saved:
        """As `SafeStore.save`; near first, so that it is there whatever becomes of the save."""
        await self._near.note(scope, turn)
        return await self._guarded.save(scope, turn, keys, budget)

    async def survey(self, scope: bytes | None, cursor: str, limit: int) -> Page:
        """As `SafeStore.survey`: what the store keeps."""
        return await self._guarded.survey(scope, cursor, limit)

    async def forget(self, scope: bytes, conversation: bytes) -> bool:
        """As `SafeStore.forget`; what is near goes in any case."""
        was_near = self._near.holds((scope, conversation))
        self.drop(scope, conversation)
        try:
            return await self._guarded.forget(scope, conversation) or was_near
        finally:
            self.drop(scope, conversation)  # what was saved or loaded meanwhile

    def drop(self, scope: bytes, conversation: bytes) -> None:
        """As `SafeStore.drop`."""
        self._guarded.drop(scope, conversation)
        self._near.drop((scope, conversation))

    async def check(self) -> bool:
        """As `SafeStore.check`."""
        return await self._guarded.check()

    async def close(self) -> None:
        """As `SafeStore.close`."""
        await self._guarded.close()

    def _count(self, reason: str) -> None:
        self._metrics.inc(self._metrics.near_recalls, reason)

    def _owed(self, scope: bytes, conversations: Iterable[bytes]) -> dict[bytes, Turn]:
        turns = (turn for one in conversations for turn in self._near.owed((scope, one)))
        return {turn.id: turn for turn in turns}

    async def _without_store(self, scope: bytes, asked: Sequence[Lookup]) -> LookupResult | None:
        """Answer by what is certain alone: who else may have said the rest is not known."""
        found = await self._near.recall(scope, asked)
        if not found.turns:
            return None
        # It could not be answered near alone, so it may hold what others have added.
        self._near.doubt(scope, found.turns)
        self._count("store_failed")
        return found

    def _wanted(
        self, scope: bytes, asked: Sequence[Lookup], came: dict[bytes, list[Turn]]
    ) -> list[bytes]:
        """Return which of the conversations that came are worth being near: ids lead to them."""
        keys = {key for item in asked for key in item.certain}
        wanted: list[bytes] = []
        for conversation, turns in came.items():
            newest = sorted(turns, key=lambda turn: turn.created_ms)[-TURNS_LOOKED_AT:]
            named = (key in keys for turn in newest for key in certain_keys_of_turn(turn))
            is_only = len(came) == 1 and bool(keys)
            if is_only or self._near.holds((scope, conversation)) or (keys and any(named)):
                wanted.append(conversation)
        return wanted

    def _told(self, scope: bytes, turn: Turn, is_kept: bool) -> None:  # noqa: FBT001
        """Take what became of a save; one that worked takes with it what is owed besides."""
        for owed in self._near.settle(scope, turn, is_kept=is_kept):
            self._guarded.begin_save(scope, owed, keys_of_turn(owed))
