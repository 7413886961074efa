"""What was just served is kept near, and says what the store would say, or nothing."""

import asyncio
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from reasoning_replay.adapters.resilience import conversation_cache
from reasoning_replay.adapters.resilience.safe_store import Budget, Saved
from reasoning_replay.adapters.stores.base import Bounds, StoreError
from reasoning_replay.core.history.lookup_keys import (
    Lookup,
    LookupResult,
    certain_keys_of_turn,
    keys_of_turn,
)
from reasoning_replay.core.history.turns import Context, Turn, decode_turn, encode_turn

from tests.adapters.resilience.replicas import (
    NEAR_TTL_S,
    STORE_TTL_S,
    Replica,
    Shared,
    asked_for,
    rest,
    said,
    text_of,
)
from tests.adapters.stores.turns import SCOPE, bytes_of
from tests.web.world import eventually

T1 = said("one")
T2 = said("two", T1, created_ms=1)
T3 = said("three", T2, created_ms=2)
ALL = {T1.id, T2.id, T3.id}
OTHER = bytes_of("another tenant")


async def begun(shared: Shared, *turns: Turn) -> Replica:
    """Return a replica at which a conversation was held."""
    replica = Replica(shared)
    for one in turns or (T1, T2, T3):
        assert await replica.save(one) is Saved.DONE
    return replica


# Near alone...


async def test_what_began_here_needs_no_round_trip() -> None:
    """Each item leads, by its ids, to one conversation of which everything is here."""
    shared = Shared()
    here = await begun(shared)
    found = await here.recall(T1, T2, T3)
    assert found == await shared.kept.recall(SCOPE, asked_for(T1, T2, T3))
    assert (shared.recalls, here.near("certain")) == (0, 1)


async def test_what_was_loaded_whole_needs_no_second_round_trip() -> None:
    """Nor does what is said next, here."""
    shared = Shared()
    await begun(shared, T1, T2)
    here = Replica(shared)
    assert await here.ids(T1, T2) == {T1.id, T2.id}
    assert await here.ids(T1, T2) == {T1.id, T2.id}
    await here.save(T3)
    assert await here.ids(T1, T2, T3) == ALL
    assert shared.recalls == 1


async def test_another_replicas_turn_is_not_missed() -> None:
    """A history that continues it holds an item whose ids are unknown here: the store is asked."""
    shared = Shared()
    here = await begun(shared, T1)
    there = Replica(shared)
    await there.recall(T1)
    await there.save(T2)
    assert await here.ids(T1) == {T1.id}  # a history without it does not need it
    assert shared.recalls == 1
    assert await here.ids(T1, T2) == {T1.id, T2.id}
    assert shared.recalls == 2
    assert await here.ids(T1, T2) == {T1.id, T2.id}
    assert shared.recalls == 2


ASK_THE_STORE = {
    "a text alone": [*asked_for(T1), text_of(1, T1)],
    "an id and a call_id that is unknown": [
        Lookup(0, [*asked_for(T1)[0].certain[:1], bytes_of("unknown")])
    ],
    "a tool's item that is unknown": [*asked_for(T1), Lookup(1, [bytes_of("unknown")])],
    "two conversations": [*asked_for(T1), *asked_for(said("elsewhere"))],
    "nothing at all": [],
}


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[Turn | None]:
    """Return what near decodes, as it goes on."""
    done: list[Turn | None] = []

    def decode(kept: bytes) -> Turn | None:
        done.append(decode_turn(kept))
        return done[-1]

    monkeypatch.setattr(conversation_cache, "decode_turn", decode)
    return done


async def test_what_is_near_is_decoded_once(decoded: list[Turn | None]) -> None:
    """What is said next is decoded alone, and the newest alone where it is said anew."""
    shared = Shared()
    here = await begun(shared, T1, T2)
    for changed, count in (
        (T3, 3),  # with the first recall, what is there
        (structs.replace(T3, created_ms=5), 1),
        (structs.replace(T3, created_ms=6), 1),
        (said("four", T3, created_ms=7), 1),
        (structs.replace(T1, created_ms=8), 4),
    ):
        await here.save(changed)
        decoded.clear()
        for _ in range(2):
            assert await here.recall(T1, T2, T3) == await shared.kept.recall(
                SCOPE, asked_for(T1, T2, T3)
            )
        assert len(decoded) == count
    assert shared.recalls == 0


async def test_what_is_near_is_decoded_anew_where_there_is_no_room(
    decoded: list[Turn | None],
) -> None:
    """Of a few conversations, the one that was used last; and none of a large one."""
    shared = Shared()
    here = Replica(shared, max_bytes=4 * 3 * (conversation_cache.READ_TURN_BYTES + 500))
    other, four = said("other"), said("four", T3, created_ms=9)
    for one in (T1, T2, other):
        await here.save(one)
    for asked, count in (((T1,), 2), ((T1,), 0), ((other,), 1), ((T1,), 0)):
        decoded.clear()
        await here.recall(*asked)
        assert len(decoded) == count
    await here.save(T3)  # then there is room for one of them
    for asked, count in (((T1,), 1), ((other,), 1), ((T1,), 3)):
        decoded.clear()
        await here.recall(*asked)
        assert len(decoded) == count
    await here.save(four)  # and now, for none
    for count in (1, 4):
        decoded.clear()
        assert await here.ids(T1) == {*ALL, four.id}
        assert len(decoded) == count


@pytest.mark.parametrize("asked", ASK_THE_STORE.values(), ids=ASK_THE_STORE)
async def test_what_is_not_certain_is_asked_of_the_store(asked: list[Lookup]) -> None:
    """Other replicas may know more; near decides nothing that is doubtful."""
    shared = Shared()
    here = await begun(shared, T1, said("elsewhere"))
    found = await here.store.recall(SCOPE, asked, Budget(30))
    want = await shared.kept.recall(SCOPE, asked)
    assert found is not None
    assert ({t.id for t in found.turns}, found.crowded) == (
        {t.id for t in want.turns},
        want.crowded,
    )
    assert (shared.recalls, here.near("certain")) == (1, 0)


async def test_what_is_not_whole_is_asked_of_the_store() -> None:
    """What was said here behind a turn that is not here; and what was only fetched."""
    shared = Shared()
    await begun(shared, T1)
    here = Replica(shared)
    await here.save(T2)
    assert await here.ids(T2) == {T1.id, T2.id}
    fetched = structs.replace(said("fetched"), context=Context())
    await here.save(fetched)
    assert await here.ids(fetched) == {fetched.id}
    assert shared.recalls == 2


async def test_a_turn_whose_parent_is_not_here_leaves_a_gap() -> None:
    """What this replica said behind another's turn, after what was here of it had gone."""
    shared = Shared()
    await begun(shared, T1, T2)
    here = Replica(shared)
    await here.save(T1)
    await here.save(T3)
    assert (await here.ids(T3), shared.recalls) == (ALL, 1)


async def test_another_replicas_form_of_a_turn_takes_the_place_of_ours() -> None:
    """One that was completed or cut there is loaded as it is now."""
    shared = Shared()
    here = await begun(shared, T1)
    completed = structs.replace(T1, items=(*T1.items, *T2.items))
    await Replica(shared).save(completed)
    for _ in range(2):
        found = await here.recall(T1, T2)
        assert found is not None
        assert list(found.turns) == [completed]
    assert shared.recalls == 1


async def test_what_comes_behind_a_gap_is_not_whole() -> None:
    """While the store was away, what another had said was missing from the history here."""
    shared = Shared()
    here = await begun(shared, T1)
    there = Replica(shared)
    await there.recall(T1)
    await there.save(T2)
    shared.is_away = True
    assert await here.ids(T1, T2) == {T1.id}
    orphan = said("orphan", T1, created_ms=3)
    assert await here.save(orphan) is Saved.FAILED
    shared.is_away = False
    assert await here.ids(orphan) == {T1.id, T2.id, orphan.id}


async def test_a_large_conversation_is_asked_of_the_store() -> None:
    """Near may cut it back otherwise than the store does."""
    shared = Shared()
    here = Replica(shared, bounds=Bounds(STORE_TTL_S, 4, 1 << 20))
    for one in (T1, T2):
        await here.save(one)
    assert (await here.ids(T2), shared.recalls) == ({T1.id, T2.id}, 0)
    await here.save(T3)
    assert (await here.ids(T3), shared.recalls) == (ALL, 1)
    assert (await here.ids(T3), shared.recalls) == (ALL, 2)


@pytest.mark.parametrize("max_bytes", [0, 1200, 4000])
async def test_what_has_no_room_near_is_asked_of_the_store(max_bytes: int) -> None:
    """Bounded in bytes: it works as if it had never been near, saved here or loaded."""
    shared = Shared()
    here = Replica(shared, max_bytes)
    turns = [said("0", size=1500)]
    for n in range(1, 4):
        turns.append(said(f"{n}", turns[-1], size=1500, created_ms=n))
    for one in turns:
        await here.save(one)
    for _ in range(2):
        assert await here.ids(*turns) == {one.id for one in turns}
    assert shared.recalls == 2


async def test_scopes_see_nothing_of_each_other_near() -> None:
    """Not by the very same ids, neither alone nor while the store is away."""
    shared = Shared()
    here = await begun(shared)
    assert await here.ids(T1, scope=OTHER) == set()
    shared.is_away = True
    assert await here.ids(T1, scope=OTHER) is None
    assert await here.ids(T1) == ALL


# For how long...


async def test_near_is_good_for_a_while_however_much_it_is_used() -> None:
    """So that what others did to the conversation takes effect in time."""
    shared = Shared()
    here = await begun(shared)
    shared.now_s += NEAR_TTL_S - 1
    assert (await here.ids(T3), shared.recalls) == (ALL, 0)
    shared.now_s += 1
    assert (await here.ids(T3), shared.recalls) == (ALL, 1)
    shared.now_s += NEAR_TTL_S - 1
    assert (await here.ids(T3), shared.recalls) == (ALL, 1)


async def test_a_conversation_that_is_only_read_does_not_expire() -> None:
    """Near asks the store before that forgets it."""
    shared = Shared()
    here = await begun(shared)
    for _ in range(20):
        shared.now_s += STORE_TTL_S // 4
        assert await here.ids(T3) == ALL


async def test_what_was_deleted_elsewhere_goes_in_time() -> None:
    """At the latest when near is no longer good; here, at once."""
    shared = Shared()
    here, there = await begun(shared), Replica(shared)
    assert await there.ids(T3) == ALL
    assert await here.store.forget(SCOPE, T1.conversation)
    assert await here.ids(T3) == set()
    shared.now_s += NEAR_TTL_S
    assert await there.ids(T3) == set()


async def test_what_the_store_no_longer_has_goes_when_it_says_so() -> None:
    """Also when only some of it is gone, and also before near is too old."""
    shared = Shared()
    here = await begun(shared)
    await shared.kept.forget(SCOPE, T1.conversation)
    await shared.kept.save(SCOPE, T3, keys_of_turn(T3))
    unknown = Lookup(9, [bytes_of("unknown")])
    found = await here.recall(T3, also=[unknown])
    assert found is not None
    assert [one.id for one in found.turns] == [T3.id]
    assert await here.ids(T1) == set()
    await shared.kept.forget(SCOPE, T1.conversation)
    found = await here.recall(T3, also=[unknown])
    assert found is not None
    assert not found.turns
    assert await here.ids(T3) == set()


async def test_a_parent_tells_its_workers_what_to_drop() -> None:
    """That concerns what is near alone."""
    shared = Shared()
    here = await begun(shared)
    here.store.drop(SCOPE, T1.conversation)
    assert (await here.ids(T3), shared.recalls) == (ALL, 1)


async def test_deleting_tells_whether_anything_was_kept() -> None:
    """Near or far; and what is near goes also when the store fails."""
    shared = Shared()
    here = await begun(shared)
    shared.is_away = True
    with pytest.raises(StoreError):
        await here.store.forget(SCOPE, T1.conversation)
    assert await here.ids(T3) is None
    shared.is_away = False
    assert await here.store.forget(SCOPE, T1.conversation)
    assert not await here.store.forget(SCOPE, T1.conversation)
    shared.is_away = True
    await here.save(T1)
    shared.is_away = False
    assert await here.store.forget(SCOPE, T1.conversation)  # it was here alone


async def test_an_answer_that_was_under_way_does_not_undo_a_deletion() -> None:
    """What the store had seen before is not near after it."""
    shared = Shared()
    await begun(shared)
    here = Replica(shared)
    shared.answers.clear()
    asking = asyncio.ensure_future(here.ids(T3))
    await eventually(lambda: shared.recalls == 1)
    await here.store.forget(SCOPE, T1.conversation)
    shared.answers.set()
    assert await asking == ALL
    assert await here.ids(T3) == set()


async def test_an_answer_that_was_under_way_does_not_undo_a_save() -> None:
    """What was saved meanwhile is newer than what the store had seen."""
    shared = Shared()
    await begun(shared, T1, T2)
    here = Replica(shared)
    await here.recall(T2)
    shared.answers.clear()
    asking = asyncio.ensure_future(here.recall(T2, also=[text_of(9, T2)]))
    await eventually(lambda: shared.recalls == 2)
    saving = asyncio.ensure_future(here.save(T3))
    await eventually(lambda: shared.saves == 3)
    shared.answers.set()
    assert await saving is Saved.DONE
    await asking
    assert (await here.ids(T2, T3), shared.recalls) == (ALL, 2)


# While the store is away...


async def test_conversations_go_on_while_the_store_is_away() -> None:
    """By certain ids; and what is said meanwhile stays for as long as nobody else has it."""
    shared = Shared()
    here = await begun(shared, T1, T2)
    shared.is_away = True
    assert await here.save(T3) is Saved.FAILED
    shared.now_s += NEAR_TTL_S - 1
    assert await here.ids(T1, T2, T3) == ALL
    last = said("four", T3, created_ms=3)
    assert await here.save(last) is Saved.FAILED
    shared.now_s += NEAR_TTL_S - 1
    assert await here.ids(T3, last) == ALL | {last.id}
    shared.now_s += 1
    assert await here.ids(T3, last) is None


async def test_while_the_store_is_away_what_is_doubtful_stays_so() -> None:
    """Who else may have said the same, nobody can tell now: crowded."""
    shared = Shared()
    here = await begun(shared, T1)
    shared.is_away = True
    unknown = Lookup(7, [bytes_of("unknown")], [b"saying"])
    also = [text_of(9, T1), unknown, Lookup(8, [bytes_of("without a saying")])]
    found = await here.recall(T1, also=also)
    assert found is not None
    assert ([one.id for one in found.turns], found.crowded) == ([T1.id], {7, 9})
    assert await here.store.recall(SCOPE, [text_of(9, T1)], Budget(30)) is None
    assert here.near("store_failed") == 1


async def test_what_was_said_meanwhile_goes_with_what_the_store_says_later() -> None:
    """Before the store has it, and though the store would say otherwise."""
    shared = Shared()
    here = await begun(shared, T1)
    shared.is_full = True
    again = structs.replace(T1, created_ms=5)
    assert await here.save(again) is Saved.FAILED
    assert await here.save(T2) is Saved.FAILED
    begun_here = said("begun meanwhile")
    assert await here.save(begun_here) is Saved.FAILED
    for old, texts in ((T2, [text_of(9, T1)]), (begun_here, [text_of(9, begun_here)])):
        found = await here.recall(old, also=texts)
        want = {again, T2} if old is T2 else {begun_here}
        assert found is not None
        assert set(map(encode_turn, found.turns)) == set(map(encode_turn, want))


async def test_what_was_said_meanwhile_is_saved_with_what_is_said_next() -> None:
    """Then every replica finds it, by all its keys."""
    shared = Shared()
    here, there = await begun(shared, T1), Replica(shared)
    shared.is_away = True
    assert await here.save(T2) is Saved.FAILED
    shared.is_away = False
    assert await here.save(T3) is Saved.DONE
    assert await there.ids(T1, T2, T3) == ALL
    for one in keys_of_turn(T2):
        assert T2.conversation in shared.kept.leads_to(SCOPE, one)
    saves = shared.saves
    await here.save(said("four", T3, created_ms=3))
    assert shared.saves == saves + 1  # it is owed no longer


async def test_what_is_still_being_saved_is_known_here() -> None:
    """A client may answer a call whose save was late before the store has it."""
    shared = Shared()
    await begun(shared, T1)
    here = Replica(shared)
    await here.recall(T1)
    shared.answers.clear()
    assert await here.save(T2, budget_s=0.001) is Saved.LATE
    asking = asyncio.ensure_future(here.recall(T2, also=[text_of(9, T1)]))
    await eventually(lambda: shared.recalls == 2)
    shared.answers.set()
    found = await asking
    assert found is not None
    assert {one.id for one in found.turns} == {T1.id, T2.id}


async def test_a_conversation_that_came_for_its_text_alone_is_not_kept_near() -> None:
    """Of several, only those that ids lead to are worth their room."""
    shared = Shared()
    await begun(shared)
    stranger = said("stranger")
    await shared.kept.save(SCOPE, stranger, keys_of_turn(stranger))
    here = Replica(shared)
    found = await here.recall(T3, also=[text_of(9, stranger)])
    assert found is not None
    assert {one.id for one in found.turns} == ALL | {stranger.id}
    assert (await here.ids(T3), shared.recalls) == (ALL, 1)
    assert (await here.ids(stranger), shared.recalls) == ({stranger.id}, 2)


async def test_it_is_the_store_behind_it() -> None:
    """Health, operators and the end are the guarded store's own."""
    shared = Shared()
    here = await begun(shared)
    page = await here.store.survey(None, "", 10)
    assert [(one.scope, one.conversation, one.turns) for one in page.conversations] == [
        (SCOPE, T1.conversation, 3)
    ]
    assert await here.store.check()
    assert here.store.inner is shared
    shared.is_away = True
    here.store.drop(SCOPE, T1.conversation)
    await here.recall(T1)
    assert here.store.is_degraded
    another = Shared()
    here.store.inner = another
    shared.now_s += 5
    await here.recall(T1)
    await rest()
    assert await here.ids(T1) == set()
    await here.store.close()


# The law...


@dataclass
class _Played:
    """
    Two replicas and their shared store, and what has been said so far.

    Attributes:
        histories: By scope: every history that was ever sent, each with its newest turn last.
        dead: Turns that were deleted -> until when one that is near may still be given back.
        ever_owed: Turns of which a save failed once: no deletion can be told from that.
    """

    shared: Shared = field(default_factory=Shared)
    replicas: list[Replica] = field(default_factory=list)
    histories: dict[bytes, list[list[Turn]]] = field(default_factory=dict)
    dead: dict[bytes, float] = field(default_factory=dict)
    ever_owed: set[bytes] = field(default_factory=set)
    count: int = 0

    async def speaks(self, replica: Replica, scope: bytes, history: list[Turn]) -> None:
        """Continue a history as the proxy does: behind the newest turn that is recognised."""
        behind: Turn | None = None
        if history:
            found = await self.finds(replica, scope, history)
            known = {one.id: one for one in found.turns} if found is not None else {}
            behind = next((known[one.id] for one in reversed(history) if one.id in known), None)
        self.count += 1
        this = said(f"{self.count}", behind, created_ms=self.count)
        await replica.save(this, scope)
        await rest()
        self.histories.setdefault(scope, []).append([*history, this])
        for one in self.replicas:
            self.ever_owed |= one.owed

    async def finds(
        self, replica: Replica, scope: bytes, history: list[Turn]
    ) -> LookupResult | None:
        """Recall a history, and hold what came against the store."""
        before = replica.near("certain")
        found = await replica.recall(*history, scope=scope)
        await rest()
        if found is None:
            assert self.shared.is_away or replica.store.is_degraded
            return None
        ours = {one.id for each in self.histories[scope] for one in each}
        for one in found.turns:
            assert one.id in ours, "of another scope"
            is_dead = self.dead.get(one.id, self.shared.now_s) < self.shared.now_s
            assert not is_dead or one.id in self.ever_owed, "deleted long ago"
        if replica.near("certain") > before:
            self._is_what_the_store_says(replica, scope, history, found)
        return found

    def _is_what_the_store_says(
        self, replica: Replica, scope: bytes, history: list[Turn], found: LookupResult
    ) -> None:
        kept: dict[bytes, bytes] = {}
        for one in history:
            kept |= self.shared.kept.peek(scope, one.conversation)
        near = {one.id: one for one in found.turns}
        assert not found.crowded
        for this, one in near.items():
            if this not in replica.owed and this not in self.dead:
                assert kept.get(this) == encode_turn(one)
        at = [one.id for one in history]
        while at:  # what the history says, and all that led to it
            this = at.pop()
            value = kept.get(this)
            if value is not None:
                assert this in near, "the store knows more"
                turn = decode_turn(value)
                at += [turn.parent] if turn is not None else []

    async def deletes(self, replica: Replica, scope: bytes, one: Turn) -> None:
        """Forget a conversation through one replica."""
        gone = self.shared.kept.peek(scope, one.conversation)
        until = self.shared.now_s + NEAR_TTL_S
        try:
            await replica.store.forget(scope, one.conversation)
        except StoreError:
            return
        self.dead.update(dict.fromkeys(gone, until))


SMALL = st.integers(0, 1)
ANY = st.integers(0, 1000)
STEP = st.one_of(
    st.tuples(st.sampled_from(["speaks", "speaks", "finds"]), SMALL, SMALL, ANY, ANY),
    st.tuples(st.sampled_from(["away", "full", "back", "deletes"]), SMALL, SMALL, ANY, ANY),
    st.tuples(st.just("waits"), SMALL, SMALL, st.integers(0, NEAR_TTL_S), ANY),
)


@given(st.lists(STEP, max_size=40), st.sampled_from([3000, 1 << 20]))
def test_near_says_what_the_store_says(
    steps: list[tuple[str, int, int, int, int]], max_bytes: int
) -> None:
    """Two replicas, forks, failures, deletions, evictions and time, in whatever order."""

    async def play() -> None:
        played = _Played()
        shared = played.shared
        played.replicas = [Replica(shared, max_bytes), Replica(shared, max_bytes)]
        for what, who, whose, which, length in steps:
            replica, scope = played.replicas[who], (SCOPE, OTHER)[whose]
            histories = played.histories.get(scope, [])
            history = histories[-1 - which % len(histories)] if histories else []
            history = history[: 1 + length % len(history)] if history else []
            if what == "speaks":
                await played.speaks(replica, scope, [] if which % 5 == 0 else history)
            elif what == "waits":
                shared.now_s += which
            elif what == "away":
                shared.is_away = True
            elif what == "full":
                shared.is_full = True
            elif what == "back":
                shared.is_away = shared.is_full = False
                shared.now_s += 11  # a longer pause there is not
            elif history and what == "finds":
                await played.finds(replica, scope, history)
            elif history:
                await played.deletes(replica, scope, history[0])

    asyncio.run(play())


def test_keys_near_are_those_of_ids_alone() -> None:
    """No saying leads anywhere near."""
    assert set(certain_keys_of_turn(T1)) < set(keys_of_turn(T1))
    assert text_of(0, T1).doubtful[0] not in certain_keys_of_turn(T1)
