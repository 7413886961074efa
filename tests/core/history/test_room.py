"""Room: one budget, shared fairly by tenants; what belongs together is evicted together."""

import random
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reasoning_replay.core.history import room as room_module
from reasoning_replay.core.history.room import Gone, Group, Room

from tests.fast_lane import examples

OWNERS = [b"one", b"two", b"three"]


@dataclass(eq=False)
class Row:
    """Data of a conversation."""

    is_decision: ClassVar[bool] = False

    name: str
    gone: list[str] = field(default_factory=list)

    def evict(self) -> None:
        """Note it."""
        self.gone.append(self.name)


@dataclass(eq=False)
class Decided(Row):
    """What was decided about a conversation."""

    is_decision: ClassVar[bool] = True


def named(owner: bytes, number: int) -> Group:
    """Return the name of a conversation."""
    return owner, b"%d" % number


def test_no_tenant_loses_anything_while_another_one_holds_more() -> None:
    """A stranger pushes out its own conversations only."""
    gone: list[str] = []
    room = Room(1000)
    for n in range(5):
        assert room.keep(Row(f"small {n}", gone), b"small", named(b"small", n), 30)
    for n in range(20):
        assert room.keep(Row(f"stranger {n}", gone), b"stranger", named(b"stranger", n), 280)
    assert gone == [f"stranger {n}" for n in range(17)]
    assert (room.size_bytes, room.evictions) == (5 * 30 + 3 * 280, 17)
    assert room.maybe_gone(named(b"stranger", 16)) is Gone.FORGOTTEN
    assert room.maybe_gone(named(b"stranger", 16)) is None


def test_what_is_not_kept_is_not_used() -> None:
    """It may have been evicted while a thread was at work with it."""
    room = Room(1000)
    room.use(Row("never kept"))
    assert room.size_bytes == 0


def test_of_tenants_of_one_size_the_least_recently_used_loses() -> None:
    """Here, the one that has asked nothing since."""
    room = Room(100)
    rows = [Row(f"{n}") for n in range(3)]
    for row, owner in zip(rows[:2], OWNERS, strict=False):
        room.keep(row, owner, named(owner, 0), 40)
    room.use(rows[0])
    room.keep(rows[2], OWNERS[2], named(OWNERS[2], 0), 40)
    assert [row.gone for row in rows] == [[], ["1"], []]


def test_a_single_tenant_may_have_all_of_the_room() -> None:
    """Most installations have one."""
    room = Room(90)
    for n in range(9):
        room.keep(Row(f"{n}"), b"one", None, 10)
    assert (room.size_bytes, room.evictions) == (90, 0)


def test_a_conversation_is_used_and_evicted_with_its_decisions() -> None:
    """One without the other is of no use."""
    gone: list[str] = []
    room = Room(100)
    row, decision, new = Row("row", gone), Decided("decision", gone), Row("new", gone)
    room.keep(row, b"a", named(b"a", 1), 40)
    room.keep(Row("other", gone), b"a", named(b"a", 2), 30)
    room.keep(decision, b"a", named(b"a", 1), 20)
    room.keep(new, b"a", named(b"a", 3), 20)
    assert gone == ["other"]
    room.use(new)
    room.keep(Row("last", gone), b"a", named(b"a", 4), 30)
    assert gone == ["other", "row", "decision"]
    room.clear(named(b"a", 3))
    room.clear(named(b"a", 3))
    room.clear(named(b"absent", 3))
    assert gone[3:] == ["new"]
    assert room.size_bytes == 30


def test_what_is_too_large_loses_its_decisions_first() -> None:
    """They can be made again, and the data cannot."""
    gone: list[str] = []
    room, name = Room(100), named(b"a", 1)
    other, row, decision = Row("other", gone), Row("row", gone), Decided("decision", gone)
    room.keep(other, b"b", named(b"b", 1), 10)
    assert room.keep(row, b"a", name, 60)
    assert not room.keep(decision, b"a", name, 50)
    assert (gone, room.maybe_gone(name)) == (["decision"], Gone.TOO_LARGE)
    assert room.keep(decision, b"a", name, 20)
    assert room.keep(row, b"a", name, 85)
    assert gone == ["decision", "decision"]
    assert not room.keep(row, b"a", name, 101)
    assert (gone[2:], room.size_bytes, room.evictions) == (["row"], 10, 1)
    assert not room.keep(Decided("nameless", gone), b"a", None, 101)


def test_decisions_can_be_dropped_alone() -> None:
    """When requests are decided otherwise from now on."""
    gone: list[str] = []
    room = Room(100)
    room.keep(Row("row", gone), b"a", named(b"a", 1), 10)
    room.keep(Decided("decision", gone), b"a", named(b"a", 1), 10)
    room.drop_decisions()
    assert (gone, room.size_bytes) == (["decision"], 10)


def test_one_call_evicts_a_bounded_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """If that is not enough, what grew is evicted, too, so memory stays bounded."""
    monkeypatch.setattr(room_module, "EVICTED_AT_ONCE", 5)
    room, large = Room(100), Row("large")
    for n in range(100):
        room.keep(Row(f"{n}"), b"a", named(b"a", n), 1)
    assert not room.keep(large, b"a", named(b"a", 100), 90)
    assert (large.gone, room.size_bytes) == (["large"], 95)


def test_the_names_of_what_was_evicted_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest are forgotten for good."""
    monkeypatch.setattr(room_module, "EVICTED_REMEMBERED", 2)
    room = Room(1)
    for n in range(4):
        room.keep(Row(f"{n}"), b"a", named(b"a", n), 1)
    found = [room.maybe_gone(named(b"a", n)) for n in range(4)]
    assert found == [None, Gone.FORGOTTEN, Gone.FORGOTTEN, None]


def test_several_threads_may_use_it() -> None:
    """
    The event loop looks conversations up while threads decide on requests: the sums stay exact.

    The threads change every few bytecodes, so without the lock the sums drift, or a thread fails.
    """
    room, count = Room(2_000, threading.RLock()), 4
    start = threading.Barrier(count)

    def work(seed: int) -> dict[Row, int]:
        chance = random.Random(seed)  # noqa: S311 (no secret)
        rows = [(Row if n % 2 else Decided)(f"{seed}.{n}") for n in range(30)]
        last: dict[Row, int] = {}
        start.wait(timeout=30)
        for _ in range(1_500):
            n = chance.randrange(30)
            owner, act = OWNERS[n % 3], chance.randrange(10)
            if act < 6:
                last[rows[n]] = chance.randrange(60)
                room.keep(rows[n], owner, named(owner, n // 6), last[rows[n]])
            elif act < 8:
                room.use(rows[n])
            elif act < 9:
                room.leave(rows[n])
            else:
                room.clear(named(owner, n // 6))
                room.maybe_gone(named(owner, n // 6))
        return last

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(count) as pool:
            sizes = {
                row: size for last in pool.map(work, range(count)) for row, size in last.items()
            }
    finally:
        sys.setswitchinterval(before)
    kept = [size for row, size in sizes.items() if row in room._members]
    assert (room.size_bytes, len(kept)) == (sum(kept), len(room._members))
    assert room.size_bytes <= room.max_bytes
    for row in sizes:
        room.leave(row)
    assert not any((room._shares, room._of_size, room._members, room.size_bytes))


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["keep", "use", "leave", "clear"]), st.integers(0, 11), st.integers(0, 60)
    ),
    max_size=60,
)


@given(STEPS)
@examples(200)
def test_the_room_counts_what_is_kept(steps: Sequence[tuple[str, int, int]]) -> None:
    """Whatever happens, the sums are exact, the limit holds, and an empty room holds nothing."""
    room = Room(150)
    things = [(Row if n % 2 else Decided)(f"{n}") for n in range(12)]
    kept: dict[Row, int] = {}
    for act, n, size in steps:
        thing, owner = things[n], OWNERS[n % 3]
        group = named(owner, n // 6) if n % 4 else None
        for one in things:
            one.gone.clear()
        if act == "keep":
            kept[thing] = size
            assert room.keep(thing, owner, group, size) == (not thing.gone)
        elif act == "use":
            room.use(thing)
        elif act == "leave":
            room.leave(thing)
            kept.pop(thing, None)
        else:
            room.clear(named(owner, n // 6))
        for one in things:
            if one.gone:
                del kept[one]
        assert room.size_bytes == sum(kept.values()) <= 150
        assert room._members.keys() == kept.keys()
    for one in things:
        room.leave(one)
    assert not any((room._shares, room._of_size, room._members, room.size_bytes))


def test_what_is_unsaved_is_evicted_after_all_that_can_be_loaded_again() -> None:
    """Of its tenant: another one, which holds less, loses nothing for it; each loss is counted."""
    gone: list[str] = []
    room = Room(100)
    other = Row("other", gone)
    room.keep(other, b"two", named(b"two", 0), 10)
    rows = [Row(f"{n}", gone) for n in range(6)]
    for n, row in enumerate(rows[:3]):
        room.keep(row, b"one", named(b"one", n), 30, is_unsaved=n < 2)
    assert gone == []
    room.keep(Decided("decided", gone), b"one", named(b"one", 0), 0)  # that changes nothing
    room.keep(rows[3], b"one", named(b"one", 3), 30)
    assert gone == ["2"]
    room.keep(rows[0], b"one", named(b"one", 0), 30)  # it was saved
    room.keep(rows[4], b"one", named(b"one", 4), 30)
    assert gone == ["2", "3"]
    room.keep(rows[5], b"one", named(b"one", 5), 30)
    assert gone == ["2", "3", "decided", "0"]
    assert (room.evictions, room.unsaved_evictions) == (3, 0)
    room.keep(rows[4], b"one", named(b"one", 4), 30, is_unsaved=True)
    room.keep(rows[5], b"one", named(b"one", 5), 30, is_unsaved=True)
    room.keep(rows[2], b"one", named(b"one", 2), 30, is_unsaved=True)
    assert gone[4:] == ["1"]
    assert (room.evictions, room.unsaved_evictions) == (4, 1)
    room.keep(rows[2], b"one", named(b"one", 2), 200, is_unsaved=True)
    assert gone[5:] == ["2"]
    assert room.unsaved_evictions == 2
