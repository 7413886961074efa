"""Replicas with caches over one store, compared with a model after random steps in random order."""

import asyncio
from collections import defaultdict

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule
from msgspec import structs
from reasoning_replay.adapters.resilience.circuit_breaker import PAUSE_MAX_S
from reasoning_replay.adapters.resilience.safe_store import Budget, Saved
from reasoning_replay.adapters.stores.contract.turns import SCOPE, bytes_of
from reasoning_replay.core.history.lookup_keys import keys_of_turn
from reasoning_replay.core.history.records import records_of, turns_of
from reasoning_replay.core.history.turns import Turn

from tests.adapters.resilience.replicas import MIB, Replica, Shared, looked_up, said
from tests.patience import LONG_S

SCOPES = (SCOPE, bytes_of("another tenant"))
REPLICAS = 3
Name = tuple[bytes, bytes]  # (scope, conversation)
Records = dict[bytes, bytes]

replicas = st.integers(0, REPLICAS - 1)
any_number = st.integers(0, 1000)


class Replicas(RuleBasedStateMachine):
    """
    Clients continue any history, at any replica, while the store fails and recovers.

    Attributes:
        histories: Every history that was sent, with its scope; the newest turn is last.
        unsaved: Records that a replica holds for the store, by replica and conversation.
        seen: Records that a replica knew last, by replica and conversation.
        stored: Conversations that the store had as far as the replica knows, by replica.
        deleted: Conversations that were deleted: nothing of them may come back.
    """

    max_bytes = MIB

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.shared = self.runner.run(self._start())
        self.histories: list[tuple[bytes, list[Turn]]] = []
        self.unsaved: defaultdict[tuple[int, Name], Records] = defaultdict(dict)
        self.seen: defaultdict[tuple[int, Name], Records] = defaultdict(dict)
        self.stored: set[tuple[int, Name]] = set()
        self.deleted: set[Name] = set()
        self.count = 0

    async def _start(self) -> Shared:
        shared = Shared()
        self.replicas = [Replica(shared, self.max_bytes) for _ in range(REPLICAS)]
        return shared

    def teardown(self) -> None:
        """Close all replicas."""
        for replica in self.replicas:
            self.runner.run(replica.store.close())
        self.runner.close()

    # --- steps ---

    @rule(at=replicas, whose=st.sampled_from(SCOPES), items=st.integers(1, 3))
    def begin(self, at: int, whose: bytes, items: int) -> None:
        """Begin a conversation."""
        self._speak(at, whose, [], None, items)

    @precondition(lambda self: self.histories)
    @rule(at=replicas, which=any_number, length=any_number, items=st.integers(1, 3))
    def go_on(self, at: int, which: int, length: int, items: int) -> None:
        """Continue a history, or fork it, after its newest turn that is found."""
        scope, history = self._history(which, length)
        found = {turn.id: turn for turn in self._look_up(at, scope, history)}
        behind = next((found[one.id] for one in reversed(history) if one.id in found), None)
        self._speak(at, scope, history, behind, items)

    @precondition(lambda self: self.histories)
    @rule(at=replicas, which=any_number, length=any_number)
    def look_up(self, at: int, which: int, length: int) -> None:
        """Send a history again."""
        self._look_up(at, *self._history(which, length))

    @precondition(lambda self: self.histories and not self.shared.is_away)
    @rule(at=replicas, which=any_number)
    def delete(self, at: int, which: int) -> None:
        """Delete a conversation at one replica."""
        scope, history = self._history(which, 0)
        name = (scope, history[0].conversation)
        was_there = name in self.shared.kept
        is_gone = self.runner.run(self.replicas[at].store.forget(*name))
        assert is_gone or not was_there
        assert name not in self.shared.kept
        self._forgets(at, name)
        self.deleted.add(name)

    @precondition(lambda self: self.shared.kept and not self.shared.is_away)
    @rule(which=any_number)
    def evict(self, which: int) -> None:
        """Drop a conversation from the store, as an eviction does."""
        names = list(self.shared.kept)
        self.runner.run(self.shared.forget(*names[which % len(names)]))

    @rule(is_away=st.booleans())
    def fail(self, is_away: bool) -> None:
        """Make the store unreachable, or full."""
        self.shared.is_away, self.shared.is_full = is_away, not is_away

    @rule()
    def recover(self) -> None:
        """Make the store work again, close all breakers, and save what was not saved."""
        self.shared.is_away = self.shared.is_full = False
        self.shared.now_s += PAUSE_MAX_S
        for at, replica in enumerate(self.replicas):
            if not all(breaker.is_closed for breaker in replica.store._guard.breakers.values()):
                self.runner.run(self._probe(at))
            self.runner.run(self._check(at))

    # --- checks ---

    def _history(self, which: int, length: int) -> tuple[bytes, list[Turn]]:
        scope, history = self.histories[which % len(self.histories)]
        return scope, history[: 1 + length % len(history)]

    def _speak(
        self, at: int, scope: bytes, history: list[Turn], behind: Turn | None, items: int
    ) -> None:
        """Save a turn in parts, as it is captured."""
        self.count += 1
        this = said(f"{self.count}", behind, created_ms=self.count, items=items)
        name = (scope, this.conversation)
        given: frozenset[bytes] = frozenset()
        for n in range(1, items + 1):
            part = said(f"{self.count}", behind, created_ms=self.count, items=n)
            records = dict(item for item in records_of(part).items() if item[0] not in given)
            saved = self.runner.run(self.replicas[at].save(part, scope, known=given))
            self.seen[at, name] |= records
            self.unsaved[at, name] |= records
            if saved is Saved.DONE:
                given = given.union(records)
                self._saved(at, name)
        if name in self.deleted:  # it was continued without the store
            self._forgets(at, name)
        self.histories.append((scope, [*history, this]))

    def _saved(self, at: int, name: Name) -> None:
        """Check that a successful save has also written the records of failed ones."""
        if name in self.deleted:
            assert name not in self.shared.kept
            return
        self.stored.add((at, name))
        if self.max_bytes:
            assert self.unsaved[at, name].items() <= self.shared.kept[name].records.items()
        self.unsaved[at, name].clear()

    def _look_up(self, at: int, scope: bytes, history: list[Turn]) -> list[Turn]:
        replica = self.replicas[at]
        before = self.shared.lookups
        found = self.runner.run(replica.look_up(*history, scope=scope))
        turns = [] if found is None else list(found.turns)
        ours = {turn.id for whose, one in self.histories if whose == scope for turn in one}
        assert ours.issuperset(turn.id for turn in turns), "of another scope"
        names = {(scope, turn.conversation) for turn in history} - self.deleted
        has_answered = self.shared.lookups > before and not self.shared.is_away
        if not has_answered:  # it may not know of a deletion
            turns = [turn for turn in turns if (scope, turn.conversation) not in self.deleted]
        if has_answered:
            assert found is not None
            assert not found.crowded
            self._is_exact(at, names, turns)
        else:
            self._is_stale(at, names, turns)
        return turns

    def _is_exact(self, at: int, names: set[Name], turns: list[Turn]) -> None:
        """Check for the stored turns, and those that the store does not have yet."""
        want: list[Turn] = []
        for name in names:
            kept = self.shared.kept.get(name)
            if kept is None and (at, name) in self.stored:
                self._forgets(at, name)  # it was deleted elsewhere
            records = (kept.records if kept is not None else {}) | self.unsaved[at, name]
            want += turns_of(name[1], records)
            self.seen[at, name] = dict(records)
            if kept is not None:
                self.stored.add((at, name))
        assert _sorted(turns) == _sorted(want)

    def _is_stale(self, at: int, names: set[Name], turns: list[Turn]) -> None:
        """Check for the turns that this replica knew last, so that a prefix stays stable."""
        want = [turn for name in names for turn in turns_of(name[1], self.seen[at, name])]
        assert _sorted(turns) == _sorted(want)

    def _forgets(self, at: int, name: Name) -> None:
        self.unsaved.pop((at, name), None)
        self.seen.pop((at, name), None)
        self.stored.discard((at, name))

    async def _probe(self, at: int) -> None:
        """Run a lookup and a save, so that both breakers close."""
        replica = self.replicas[at]
        probe = said(f"probe {at} {self.shared.now_s}")
        for _ in range(2):
            await replica.look_up(probe)
            await replica.save(probe)
            await asyncio.gather(*replica.store.tasks)
        assert await replica.save(probe) is Saved.DONE

    async def _check(self, at: int) -> None:
        """Check the store, and that all of its saves that failed have been repeated."""
        store = self.replicas[at].store
        await store.check()
        while tasks := store.tasks:
            await asyncio.gather(*tasks)
        for whose, name in [one for one in self.unsaved if one[0] == at]:
            if not self.unsaved[whose, name]:
                continue
            if name in self.deleted:
                self._forgets(at, name)
            elif (at, name) in self.stored and name not in self.shared.kept:
                self._forgets(at, name)  # it was deleted elsewhere
            else:
                self._saved(at, name)
        assert not store.needs_check


class SmallCaches(Replicas):
    """Replicas whose caches hold one or two conversations: they may find less, but never more."""

    max_bytes = 6000

    def _is_exact(self, at: int, names: set[Name], turns: list[Turn]) -> None:
        kept = [turn for name in names for turn in self.shared.turns(*name)]
        found = {turn.id for turn in turns}
        assert found.issuperset(turn.id for turn in kept), "the store has it"
        held = {record for name in names for record in self.unsaved[at, name]}
        for turn in turns:
            is_held = not held.isdisjoint(records_of(turn))
            assert turn in kept or is_held, "deleted"

    def _is_stale(self, at: int, names: set[Name], turns: list[Turn]) -> None:
        del at
        assert {turn.conversation for turn in turns} <= {conversation for _, conversation in names}

    def _saved(self, at: int, name: Name) -> None:
        assert name not in self.deleted & self.shared.kept.keys()
        if name in self.shared.kept:  # else its cache had no room
            self.stored.add((at, name))


class Exchange:
    """
    An exchange that is in flight.

    Attributes:
        began: Number of the step in which it looked up.
        is_sure: Whether the store answered its lookup, so that it knew of every deletion.
        parts: Number of items that it has saved.
    """

    def __init__(self, at: int, scope: bytes, budget: Budget, began: int, is_sure: bool) -> None:
        self.at, self.scope, self.budget = at, scope, budget
        self.began, self.is_sure, self.parts = began, is_sure, 0
        self.turn: Turn | None = None


class FinalDeletions(RuleBasedStateMachine):
    """
    Exchanges begin, save in parts and end while operators delete, and the store goes and comes.

    Once a deletion was answered, no request that begins later and reaches the store finds a turn of
    an exchange that began before; the replica that was asked never does. What begins later is new.
    """

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.shared = self.runner.run(self._start())
        self.in_flight: list[Exchange] = []
        self.turns: list[tuple[Exchange, Turn]] = []
        self.dead: dict[bytes, set[int]] = {}  # id of a turn -> replicas that were asked
        self.step = 0

    async def _start(self) -> Shared:
        shared = Shared()
        self.replicas = [Replica(shared) for _ in range(REPLICAS)]
        return shared

    def teardown(self) -> None:
        """Close all replicas."""
        for replica in self.replicas:
            self.runner.run(replica.store.close())
        self.runner.close()

    @rule(at=replicas, whose=st.sampled_from(SCOPES), which=any_number, is_new=st.booleans())
    def begin(self, at: int, whose: bytes, which: int, is_new: bool) -> None:
        """Begin an exchange: a new conversation, or one that goes on from the newest turn found."""
        self.step += 1
        store = self.replicas[at].store
        budget = store.budget(LONG_S)
        behind, is_sure = None, False
        said_before = [turn for one, turn in self.turns if one.scope == whose]
        if said_before and not is_new:
            asked = said_before[which % len(said_before)]
            found, is_sure = self._find(at, whose, [asked], budget)
            behind = found[-1] if found else None
        one = Exchange(at, whose, budget, self.step, is_sure)
        one.turn = said(f"turn {self.step}", behind, created_ms=self.step, items=3)
        self.in_flight.append(one)
        self.turns.append((one, one.turn))

    @precondition(lambda self: self.in_flight)
    @rule(which=any_number)
    def save(self, which: int) -> None:
        """Save the next item of an exchange; after its last one it ends."""
        self.step += 1
        one = self.in_flight[which % len(self.in_flight)]
        assert one.turn is not None
        one.parts += 1
        part = structs.replace(one.turn, items=one.turn.items[: one.parts])
        store, name = self.replicas[one.at].store, one.turn.conversation
        saving = store.save(one.scope, name, records_of(part), keys_of_turn(part), one.budget)
        saved = self.runner.run(saving)
        if saved is Saved.DELETED:
            assert one.turn.id in self.dead or not one.is_sure or self._is_gone(one)
        if saved is Saved.DELETED or one.parts == len(one.turn.items):
            self.in_flight.remove(one)

    @precondition(lambda self: self.turns and not self.shared.is_away)
    @rule(at=replicas, which=any_number, is_scope=st.booleans())
    def delete(self, at: int, which: int, is_scope: bool) -> None:
        """Delete the conversation of a turn, or its whole scope, as the admin port does."""
        self.step += 1
        one, turn = self.turns[which % len(self.turns)]
        store = self.replicas[at].store
        if is_scope:
            self.runner.run(self._delete_scope(at, one.scope))
        else:
            self.runner.run(store.forget(one.scope, turn.conversation))
        for other, said_then in self.turns:
            is_same = said_then.conversation == turn.conversation
            if other.scope == one.scope and (is_scope or is_same):
                self.dead.setdefault(said_then.id, set()).add(at)

    async def _delete_scope(self, at: int, scope: bytes) -> None:
        store = self.replicas[at].store
        await store.forget_scope(scope)
        for _, conversation in [name for name in self.shared.kept if name[0] == scope]:
            await store.forget(scope, conversation)

    @precondition(lambda self: self.turns)
    @rule(at=replicas, which=any_number)
    def look_up(self, at: int, which: int) -> None:
        """A request that begins now asks for a turn."""
        one, turn = self.turns[which % len(self.turns)]
        self._find(at, one.scope, [turn], self.replicas[at].store.budget(LONG_S))

    @rule(is_away=st.booleans())
    def fail(self, is_away: bool) -> None:
        """Make the store unreachable, or full."""
        self.shared.is_away, self.shared.is_full = is_away, not is_away

    @rule()
    def recover(self) -> None:
        """Make the store work again; what waits is saved, unless it was deleted."""
        self.shared.is_away = self.shared.is_full = False
        self.shared.now_s += PAUSE_MAX_S
        for at, replica in enumerate(self.replicas):
            self.runner.run(self._settle(replica))
            for one, turn in self.turns:
                self._find(at, one.scope, [turn], replica.store.budget(LONG_S))

    async def _settle(self, replica: Replica) -> None:
        for _ in range(4):
            await replica.store.check()
            while tasks := replica.store.tasks:
                await asyncio.gather(*tasks)

    def _find(
        self, at: int, scope: bytes, asked: list[Turn], budget: Budget
    ) -> tuple[list[Turn], bool]:
        """Look up; return the turns, and whether the store answered."""
        before = self.shared.lookups
        store = self.replicas[at].store
        found = self.runner.run(store.look_up(scope, looked_up(*asked), budget))
        turns = [] if found is None else list(found.turns)
        has_answered = self.shared.lookups > before and not self.shared.is_away
        for turn in turns:
            told = self.dead.get(turn.id)
            assert told is None or not (has_answered or at in told), "deleted"
        return turns, has_answered

    def _is_gone(self, one: Exchange) -> bool:
        """Return whether its conversation began before a deletion."""
        assert one.turn is not None
        return any(
            turn.id in self.dead and turn.conversation == one.turn.conversation
            for _, turn in self.turns
        )


def _sorted(turns: list[Turn]) -> list[Turn]:
    return sorted(turns, key=lambda turn: turn.id)


RUNS = settings(stateful_step_count=30, deadline=None)
TestReplicas = Replicas.TestCase
TestReplicas.settings = RUNS
TestSmallCaches = SmallCaches.TestCase
TestSmallCaches.settings = RUNS
TestFinalDeletions = FinalDeletions.TestCase
TestFinalDeletions.settings = RUNS
