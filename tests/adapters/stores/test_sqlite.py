"""A file, as the store of one machine: several processes, any end, and every kind of bad file."""

import asyncio
import contextlib
import os
import resource
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from reasoning_replay.adapters.stores.base import Bounds, StoreError
from reasoning_replay.adapters.stores.sqlite import SqliteStore
from reasoning_replay.adapters.stores.sqlite_file import APPLICATION, VERSION

from tests.adapters.stores.turns import SCOPE, asked, found, key, looked_up, save, turn
from tests.adapters.writing import key_of, opened, turn_of

ROOT = Path(__file__).parents[3]
TTL_S = 1000
BOUNDS = Bounds(ttl_s=TTL_S, max_turns=100, max_bytes=1 << 22)
KIB = 1 << 10


class Clock:
    """Stands still until it is moved."""

    now_s = 1e9

    def __call__(self) -> float:
        """Tell the time."""
        return self.now_s


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a file may be."""
    return tmp_path / "replay.db"


@pytest.fixture
async def opens(path: Path) -> AsyncIterator[Callable[..., SqliteStore]]:
    """Open the file as often as is wanted, and close all in the end."""
    stores: list[SqliteStore] = []

    def opens(
        max_bytes: int = 1 << 30, clock: Callable[[], float] | None = None, timeout_s: float = 60.0
    ) -> SqliteStore:
        given = clock or Clock()
        stores.append(SqliteStore(str(path), BOUNDS, max_bytes, timeout_s, given))
        return stores[-1]

    yield opens
    for store in stores:
        await store.close()


def content_of(path: Path, new: bytes = b"") -> bytes:
    """Read a file, once anything new is in it."""
    if new:
        path.write_bytes(new)
    return path.read_bytes()


def writing(path: Path, name: str, count: int) -> "subprocess.Popen[str]":
    """Start a process that keeps so many turns."""
    words = ["-m", "tests.adapters.writing", str(path), name, str(count)]
    return subprocess.Popen(  # noqa: S603 - ourselves
        [sys.executable, *words],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )


async def test_a_killed_process_loses_nothing_that_it_had_kept(path: Path) -> None:
    """At any moment amid writing; the file is sound, and the next process goes on with it."""
    kept = 0
    for round_number, lines in enumerate((3, 40, 90)):
        name = f"round {round_number}"
        with writing(path, name, 10_000) as process:
            assert process.stdout is not None
            said = [int(process.stdout.readline()) for _ in range(lines)]
            process.send_signal(signal.SIGKILL)
            said += [int(line) for line in process.stdout.read().splitlines(keepends=False) if line]
        assert process.returncode == -signal.SIGKILL
        with contextlib.closing(sqlite3.connect(path)) as db:
            assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        store = opened(str(path))
        for number in said:
            recalled = await looked_up(store, asked(key_of(name, number)))
            assert turn_of(name, number) in recalled.turns
            kept += 1
        await store.close()
    assert kept >= 3 + 40 + 90


async def test_processes_that_write_at_once_lose_nothing(path: Path) -> None:
    """Each of them makes the file if it is the first; none is told that it is locked."""
    count = 60
    processes = [writing(path, f"p{n}", count) for n in range(4)]
    for process in processes:
        said, _ = await asyncio.to_thread(process.communicate)
        assert (process.returncode, said.split()) == (0, [str(n) for n in range(count)])
    store = opened(str(path))
    for n in range(4):
        for number in range(count):
            recalled = await looked_up(store, asked(key_of(f"p{n}", number)))
            assert turn_of(f"p{n}", number) in recalled.turns
    await store.close()


async def test_a_process_that_comes_and_goes_takes_nothing_away(path: Path) -> None:
    """Whoever closes last removes the log: with a lock of ours lost, that might not be the last."""
    store = opened(str(path))
    await save(store, turn("a"), [key("a")])
    assert await found(store, "a") == ["a"]  # now both connections are open
    with writing(path, "another", 1) as another:
        assert another.wait() == 0
    assert path.with_name(path.name + "-wal").exists()
    await save(store, turn("b"), [key("b")])
    look = "import sqlite3, sys; print(*sqlite3.connect(sys.argv[1]).execute(sys.argv[2]))"
    words = ["-c", look, str(path), "SELECT sum(turns) FROM conversations"]
    third = await asyncio.create_subprocess_exec(
        sys.executable, *words, stdout=asyncio.subprocess.PIPE
    )
    said, _ = await third.communicate()
    assert said == b"(3,)\n"
    await store.close()


async def test_processes_that_come_and_go_leave_the_file_sound(path: Path) -> None:
    """As workers do that are replaced while others write."""
    for _ in range(3):
        processes = [writing(path, f"p{n}", 20 * (n + 1)) for n in range(4)]
        for process in processes:
            await asyncio.to_thread(process.communicate)
            assert process.returncode == 0
    with contextlib.closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert db.execute("SELECT sum(turns) FROM conversations").fetchone() == (20 + 40 + 60 + 80,)


async def test_it_survives_a_restart(opens: Callable[..., SqliteStore]) -> None:
    """Another process finds what one has kept."""
    store = opens()
    await save(store, turn("a"), [key("1")])
    await store.close()
    assert await found(opens(), "1") == ["a"]


async def test_nobody_else_may_read_it(opens: Callable[..., SqliteStore], path: Path) -> None:
    """The file and the two beside it are its owner's alone."""
    await save(opens(), turn("a"), [])
    files = sorted(path.parent.iterdir())
    assert [file.name for file in files] == ["replay.db", "replay.db-shm", "replay.db-wal"]
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


async def test_a_lookup_is_seldom_a_write(opens: Callable[..., SqliteStore]) -> None:
    """That it was used is noted once the expiry has moved by a hundredth of the TTL."""
    clock = Clock()
    store = opens(clock=clock)
    await save(store, turn("a"), [key("1")])

    async def expires_in() -> int:
        await store._writes(lambda db: db.execute("SELECT 1").fetchone())
        (kept,) = (await store.survey(None, "", 10)).conversations
        return kept.expires_in_s

    clock.now_s += TTL_S / 100 - 1
    await found(store, "1")
    assert await expires_in() == TTL_S - 9
    clock.now_s += 2
    await found(store, "1")
    assert await expires_in() == TTL_S


async def test_beyond_its_bound_the_least_recently_used_go(
    opens: Callable[..., SqliteStore], path: Path
) -> None:
    """The bound holds after every save, the file hardly grows beyond it, the newest stay."""
    clock, bound = Clock(), 600 * KIB
    store = opens(max_bytes=bound, clock=clock)
    for n in range(120):
        clock.now_s += 11
        await save(store, turn(f"{n}", f"{n}", size=20 * KIB), [key(f"{n}")])
        if n:
            assert await found(store, "0") == ["0"]
        used = await store._reads(
            lambda db: [
                db.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("page_count", "freelist_count", "page_size")
            ]
        )
        assert (used[0] - used[1]) * used[2] <= bound
    left = [n for n in range(120) if await found(store, f"{n}")]
    assert left == [0, *range(left[1], 120)]
    assert len(left) > 15
    assert len(content_of(path)) < 1.2 * bound


async def test_what_is_larger_than_all_there_is_is_not_kept(
    opens: Callable[..., SqliteStore],
) -> None:
    """And no error either."""
    store = opens(max_bytes=100 * KIB)
    await save(store, turn("a", size=500 * KIB), [key("a")])
    assert await found(store, "a") == []
    await save(store, turn("b"), [key("b")])
    assert await found(store, "b") == ["b"]


async def test_what_has_expired_leaves_the_file(opens: Callable[..., SqliteStore]) -> None:
    """A few at each save, with all that led to them."""
    clock = Clock()
    store = opens(clock=clock)
    for n in range(20):
        await save(store, turn(f"{n}", f"{n}"), [key(f"{n}")])
    clock.now_s += TTL_S
    for n in range(3):
        await save(store, turn("new", "new", created_ms=n), [key("new")])
    for table, rows in (("conversations", 1), ("records", 3 * 3), ("leads", 1)):
        query = f"SELECT count(*) FROM {table}"  # noqa: S608 - one of the tables above
        assert await store._reads(lambda db, q=query: db.execute(q).fetchone()) == (rows,)  # type: ignore[misc]


async def test_what_is_forgotten_is_not_in_the_file(
    opens: Callable[..., SqliteStore], path: Path
) -> None:
    """Not in what is free of it, nor in its log."""
    store = opens()
    secret = turn("a", size=3000)
    await save(store, secret, [key("a")])
    await save(store, turn("b", "other"), [key("b")])
    part = b"x" * 500

    def holds() -> bool:
        return any(part in file.read_bytes() for file in path.parent.iterdir())

    assert holds()
    assert await store.forget(SCOPE, secret.conversation)
    assert not holds()
    assert await found(store, "b") == ["b"]


async def test_a_lock_is_waited_for_and_then_given_up(
    opens: Callable[..., SqliteStore], path: Path
) -> None:
    """Reading goes on meanwhile; when the lock is gone, so is the trouble."""
    store = opens(timeout_s=0.2)
    await save(store, turn("a"), [key("1")])
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="locked"):
            await save(store, turn("b"), [key("1")])
        assert await found(store, "1") == ["a"]
        await store.check()
    await save(store, turn("b"), [key("1")])
    assert await found(store, "1") == ["a", "b"]


async def test_a_missing_folder_is_told_until_it_is_there(tmp_path: Path) -> None:
    """It is not made: a slip in the path must not become a place."""
    folder = tmp_path / "later"
    store = opened(str(folder / "replay.db"))
    for _ in range(2):
        with pytest.raises(StoreError, match="No such file or directory"):
            await save(store, turn("a"), [key("1")])
        with pytest.raises(StoreError, match="No such file or directory"):
            await store.check()
    folder.mkdir()
    await save(store, turn("a"), [key("1")])
    assert await found(store, "1") == ["a"]
    await store.close()


@pytest.fixture
def no_room() -> Iterator[Callable[[int], None]]:
    """Let no file of this process grow beyond so many bytes: as a full disk does, it fails."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handled = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, handled)


async def test_a_full_disk_costs_saves_and_nothing_else(
    opens: Callable[..., SqliteStore], no_room: Callable[[int], None]
) -> None:
    """What was kept is read, and when there is room again, more is kept."""
    store = opens()
    await save(store, turn("a"), [key("1")])
    no_room(200 * KIB)
    with pytest.raises(StoreError, match="sqlite: "):
        await save(store, turn("b", size=1000 * KIB), [key("1")])
    assert await found(store, "1") == ["a"]
    no_room(resource.getrlimit(resource.RLIMIT_FSIZE)[1])
    await save(store, turn("b", size=1000 * KIB), [key("1")])
    assert await found(store, "1") == ["a", "b"]


@pytest.mark.parametrize("content", [b"no database " * 100, b"short", b"SQLite format 3\x00" * 9])
async def test_what_is_no_database_stays_as_it_is(
    opens: Callable[..., SqliteStore], path: Path, content: bytes
) -> None:
    """It is somebody's file; when it is out of the way, ours is made."""
    content_of(path, new=content)
    store = opens()
    for _ in range(2):
        with pytest.raises(StoreError, match="not a database"):
            await save(store, turn("a"), [])
        with pytest.raises(StoreError, match="not a database"):
            await found(store, "1")
    assert content_of(path) == content
    await asyncio.to_thread(path.unlink)
    await save(store, turn("a"), [key("1")])
    assert await found(store, "1") == ["a"]


async def test_another_programs_database_is_not_touched(
    opens: Callable[..., SqliteStore], path: Path
) -> None:
    """Nor is one made of it that is both."""
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE theirs (a)")
    with pytest.raises(StoreError, match="another program's database"):
        await save(opens(), turn("a"), [])
    with contextlib.closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT name FROM sqlite_master").fetchall() == [("theirs",)]


async def test_a_newer_format_is_not_touched(opens: Callable[..., SqliteStore], path: Path) -> None:
    """After a downgrade it says so, and what to do."""
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA application_id = {APPLICATION}")
        db.execute(f"PRAGMA user_version = {VERSION + 1}")
    with pytest.raises(StoreError, match="written by a newer version"):
        await opens().check()


async def test_an_old_format_is_begun_anew(opens: Callable[..., SqliteStore], path: Path) -> None:
    """The file of an earlier version holds nothing that this one reads."""
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE conversations (id INTEGER PRIMARY KEY)")
        db.execute("CREATE TABLE turns (id INTEGER, c INTEGER REFERENCES conversations)")
        db.execute("CREATE TABLE leads (id INTEGER PRIMARY KEY)")
        db.execute(f"PRAGMA application_id = {APPLICATION}")
        db.execute("PRAGMA user_version = 1")
    store = opens()
    await save(store, turn("a"), [key("1")])
    assert await found(opens(), "1") == ["a"]


async def test_a_file_that_was_taken_away_is_made_again(
    opens: Callable[..., SqliteStore], path: Path
) -> None:
    """By all who have it open: none goes on with what nobody else can see."""
    one, other = opens(), opens()
    await save(one, turn("a"), [key("1")])
    assert await found(other, "1") == ["a"]
    for file in path.parent.iterdir():
        file.unlink()
    assert await found(other, "1") == []
    await save(one, turn("b"), [key("1")])
    await save(other, turn("c"), [key("1")])
    assert await found(one, "1") == await found(other, "1") == ["b", "c"]


async def test_the_loop_does_not_wait_for_the_disk(
    opens: Callable[..., SqliteStore], path: Path
) -> None:
    """While a save waits for another process, everything else goes on, and may be left."""
    store = opens()
    await save(store, turn("a"), [key("1")])
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        waiting = asyncio.ensure_future(save(store, turn("b"), [key("1")]))
        behind = asyncio.ensure_future(save(store, turn("c"), [key("1")]))
        for _ in range(20):
            assert await found(store, "1") == ["a"]
        assert not waiting.done()
        behind.cancel()
        other.execute("ROLLBACK")
    await waiting
    assert await found(store, "1") == ["a", "b"]


async def test_what_is_closed_says_so(opens: Callable[..., SqliteStore]) -> None:
    """It is a failure of the store's kind, as any other."""
    store = opens()
    await save(store, turn("a"), [key("1")])
    await store.close()
    with pytest.raises(StoreError, match="closed"):
        await store.check()
