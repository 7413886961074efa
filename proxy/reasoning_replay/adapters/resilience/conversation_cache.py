"""The conversations that a process has near, how long they are good, and what the store lacks."""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from reasoning_replay.adapters.stores.base import Bounds
from reasoning_replay.adapters.stores.memory import MemoryStore
from reasoning_replay.core.history.item_index import IndexedTurns
from reasoning_replay.core.history.lookup_keys import (
    RESPONSE,
    Lookup,
    LookupResult,
    certain_keys_of_turn,
    key_of_turn,
)
from reasoning_replay.core.history.turns import Turn, decode_turn, encode_turn

__all__ = ["ConversationCache", "Name"]

# Of what is near, so much may be held decoded besides: a fourth.
READ_SHARE = 4
# What a decoded turn takes beside the bytes it was decoded from, with the names of its items:
# tracemalloc over 300 turns of two items gave 2,270.
READ_TURN_BYTES = 2500

Name = tuple[bytes, bytes]  # (scope, conversation)


@dataclass(slots=True)
class _Held:
    """
    What is known of a conversation that is near.

    Attributes:
        good_until: By the clock; what is older is dropped when it is met.
        is_whole: Whether every turn has all its ancestors here.
        owed: Ids of turns that the store may not have -> whether their save is under way.
        changed: When it last was, counted in changes of any conversation.
    """

    good_until: float
    is_whole: bool
    owed: dict[bytes, bool] = field(default_factory=dict)
    changed: int = 0


class _Decoded(NamedTuple):
    """
    A conversation's turns, decoded.

    Attributes:
        kept: What they were decoded from, in their order.
        older: All but the newest of them: mostly, what comes next takes its place or follows it.
    """

    kept: list[bytes]
    turns: IndexedTurns
    older: IndexedTurns
    size_bytes: int


class _Read:
    """The conversations that were read last, decoded; bounded in bytes."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._size_bytes = 0
        self._decoded: OrderedDict[Name, _Decoded] = OrderedDict()  # by last use

    def of(self, name: Name, kept: Mapping[bytes, bytes]) -> IndexedTurns:
        """Return the turns that are kept as these values, less those that cannot be read."""
        values = [*kept.values()]
        before = self._decoded.get(name)
        if before is not None and before.kept == values:  # mostly the very objects
            self._decoded.move_to_end(name)
            return before.turns
        older = self._older(before, values)
        newest = decode_turn(values[-1]) if values else None
        turns = older if newest is None else IndexedTurns([*older, newest], older)
        self.drop(name)
        size = sum(map(len, values)) + READ_TURN_BYTES * len(values)
        if size <= self._max_bytes:
            self._decoded[name] = _Decoded(values, turns, older, size)
            self._size_bytes += size
        while self._size_bytes > self._max_bytes:
            self.drop(next(iter(self._decoded)))
        return turns

    def drop(self, name: Name) -> None:
        """Keep a conversation decoded no more."""
        decoded = self._decoded.pop(name, None)
        if decoded is not None:
            self._size_bytes -= decoded.size_bytes

    @staticmethod
    def _older(before: _Decoded | None, values: list[bytes]) -> IndexedTurns:
        """Return all turns but the newest, as they were read before, if they were."""
        if before is not None and before.kept[:-1] == values[:-1]:
            return before.older
        if before is not None and before.kept == values[:-1]:
            return before.turns
        turns = map(decode_turn, values[:-1])
        return IndexedTurns([turn for turn in turns if turn is not None])


class ConversationCache:
    """
    Conversations found by certain keys alone, bounded in bytes; see `recent_store` for the rules.

    Attributes:
        changes: How often anything changed; what was asked before a change may be older.
    """

    def __init__(self, bounds: Bounds, max_bytes: int, clock: Callable[[], float]) -> None:
        """Start empty; the arguments are those of `MemoryStore`."""
        self.changes = 0
        self._last_drop = 0
        self._bounds = bounds
        self._clock = clock
        self._held: dict[Name, _Held] = {}  # of exactly the conversations that are kept
        read_bytes = max_bytes // READ_SHARE
        self._kept = MemoryStore(bounds, max_bytes - read_bytes, clock)
        self._read = _Read(read_bytes)
        self._kept.dropped = self._dropped

    def holds(self, name: Name) -> bool:
        """Tell whether a conversation is near, and good."""
        return self._fresh(name) is not None

    def certain(self, scope: bytes, asked: Sequence[Lookup]) -> bytes | None:
        """Return the one conversation, whole, that all that is asked leads to for certain."""
        one: bytes | None = None
        for item in asked:
            if not item.certain:
                return None
            for key in item.certain:
                leads_to = self._kept.leads_to(scope, key)
                if len(leads_to) != 1 or (one is not None and leads_to[0] != one):
                    return None
                one = leads_to[0]
        held = None if one is None else self._fresh((scope, one))
        return one if held is not None and held.is_whole else None

    def turns(self, name: Name) -> IndexedTurns:
        """Return the turns of a conversation; they are decoded once, as long as there is room."""
        return self._read.of(name, self._kept.use(*name))

    def led_to(self, scope: bytes, asked: Sequence[Lookup]) -> set[bytes]:
        """Return the conversations near, and good, that certain keys lead to."""
        keys = (key for item in asked for key in item.certain)
        found = {conversation for key in keys for conversation in self._kept.leads_to(scope, key)}
        return {conversation for conversation in found if self.holds((scope, conversation))}

    def beside(self, scope: bytes, asked: Sequence[Lookup]) -> list[Lookup]:
        """Return what leads the store where it leads here, though it lacks what is asked for."""
        beside: list[Lookup] = []
        for conversation in self.led_to(scope, asked):
            held = self._held[scope, conversation]
            kept = [this for this in self._kept.peek(scope, conversation) if this not in held.owed]
            if held.owed and kept:
                beside.append(Lookup(RESPONSE, [key_of_turn(kept[-1])]))
        return beside

    async def recall(self, scope: bytes, asked: Sequence[Lookup]) -> LookupResult:
        """Return what certain keys lead to; every other saying might be anybody's: crowded."""
        self.led_to(scope, asked)  # so that what is not good is gone
        certain = [Lookup(item.place, item.certain) for item in asked if item.certain]
        turns, crowded = await self._kept.recall(scope, certain)
        known = {
            item.place
            for item in certain
            if any(self._kept.leads_to(scope, key) for key in item.certain)
        }
        unknown = {item.place for item in asked if item.place not in known and item.doubtful}
        return LookupResult(turns, crowded | unknown)

    def doubt(self, scope: bytes, turns: Sequence[Turn]) -> None:
        """Take it that what is said next comes behind something that may be missing here."""
        for name in {(scope, turn.conversation) for turn in turns}:
            if held := self._held.get(name):
                held.is_whole = False

    def owed(self, name: Name) -> list[Turn]:
        """Return the turns of a conversation that the store may not have."""
        held = self._fresh(name)
        return [] if held is None else self._turns(name, [*held.owed])

    async def note(self, scope: bytes, turn: Turn) -> None:
        """Hold a turn that was captured here; until `settle`, the store is owed it."""
        name = (scope, turn.conversation)
        held = self._fresh(name)
        if held is None:
            # One that was fetched may have been captured elsewhere, in another conversation.
            begins = turn.id == turn.conversation and not turn.parent and turn.context.is_known
            held = self._hold(name, is_whole=begins, owed={})
        elif turn.parent and turn.parent not in self._kept.peek(*name):
            held.is_whole = False
        held.owed[turn.id] = True
        held.changed = self._count()
        await self._kept.save(scope, turn, certain_keys_of_turn(turn))
        held.is_whole = held.is_whole and self._is_within_bounds(name)

    async def take(self, name: Name, turns: Sequence[Turn], began: int) -> None:
        """
        Hold what the store has of a conversation, besides what it is owed.

        Args:
            name: Of it.
            turns: All that the store has; none where it has nothing of it.
            began: `changes` when the store was asked.
        """
        held = self._fresh(name)
        if self._last_drop > began or (held is not None and held.changed > began):
            return  # what came may be older than what is near, or deleted
        owed = {} if held is None else held.owed
        was_whole = held is not None and held.is_whole
        kept = dict(self._kept.peek(*name))
        there = {turn.id for turn in turns}
        if kept.keys() - there - owed.keys():  # the store has dropped some, and so does this
            ours = self._turns(name, [*owed])
            self._kept.discard(*name)
            turns = [*(turn for turn in turns if turn.id not in owed), *ours]
            kept, was_whole = {}, False
        if not turns and not kept:
            return
        held = self._hold(name, is_whole=bool(there) or was_whole, owed=owed)
        for turn in sorted(turns, key=lambda turn: turn.created_ms):
            is_newer_here = turn.id in owed and turn.id in kept
            if not is_newer_here and kept.get(turn.id) != encode_turn(turn):
                await self._kept.save(name[0], turn, certain_keys_of_turn(turn))
            if self._held.get(name) is not held:
                return  # larger than all that may be near
        held.is_whole = held.is_whole and self._is_within_bounds(name)

    def settle(self, scope: bytes, turn: Turn, *, is_kept: bool) -> list[Turn]:
        """Take what became of a save; return what is owed besides, to be saved now."""
        name = (scope, turn.conversation)
        held = self._held.get(name)
        if held is None:
            return []
        if not is_kept:
            if turn.id in held.owed:
                held.owed[turn.id] = False
                held.good_until = self._clock() + self._bounds.ttl_s
            return []
        if self._kept.peek(*name).get(turn.id) == encode_turn(turn):  # and not a newer form of it
            held.owed.pop(turn.id, None)
            held.changed = self._count()
        again = self._turns(name, [this for this, under_way in held.owed.items() if not under_way])
        held.owed.update((turn.id, True) for turn in again)
        return again

    def drop(self, name: Name) -> None:
        """Drop a conversation, and what was asked of the store and has not come yet."""
        self._last_drop = self._count()
        self._kept.discard(*name)

    def _hold(self, name: Name, *, is_whole: bool, owed: dict[bytes, bool]) -> _Held:
        good_until = self._clock() + self._bounds.ttl_s
        self._held[name] = _Held(good_until, is_whole, owed, self._count())
        return self._held[name]

    def _fresh(self, name: Name) -> _Held | None:
        """Return what is known of a conversation; one that is no longer good is dropped."""
        held = self._held.get(name)
        if held is not None and held.good_until <= self._clock():
            self._kept.discard(*name)
            return None
        return held

    def _turns(self, name: Name, ids: Sequence[bytes]) -> list[Turn]:
        kept = self._kept.peek(*name)
        turns = (decode_turn(kept[this]) for this in ids if this in kept)
        return [turn for turn in turns if turn is not None]

    def _is_within_bounds(self, name: Name) -> bool:
        """Tell whether a conversation is so small that neither store can have cut it back."""
        turns, size = len(self._kept.peek(*name)), self._kept.turn_bytes(*name)
        return 2 * turns <= self._bounds.max_turns and 2 * size <= self._bounds.max_bytes

    def _dropped(self, scope: bytes, conversation: bytes) -> None:
        self._held.pop((scope, conversation), None)
        self._read.drop((scope, conversation))

    def _count(self) -> int:
        self.changes += 1
        return self.changes
