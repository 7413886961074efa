"""The SQLite store: several processes, crashes, deletion, and each type of bad file."""

import asyncio
import contextlib
import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from reasoning_replay.adapters.stores.base import Bounds, StoreError
from reasoning_replay.adapters.stores.contract.turns import (
    SCOPE,
    Clock,
    asked,
    found,
    key,
    looked_up,
    save,
    turn,
)
from reasoning_replay.adapters.stores.sqlite import store as sqlite
from reasoning_replay.adapters.stores.sqlite.file import APPLICATION, VERSION
from reasoning_replay.adapters.stores.sqlite.rows import Row, make_room
from reasoning_replay.adapters.stores.sqlite.store import SqliteStore

from tests.adapters.writing import key_of, opened, turn_of

ROOT = Path(__file__).parents[3]
TTL_S = 1000
BOUNDS = Bounds(ttl_s=TTL_S, max_turns=100, max_bytes=1 << 22)
KIB = 1 << 10


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of a file that does not exist yet."""
    return tmp_path / "replay.db"


@pytest.fixture
async def opens(path: Path) -> AsyncIterator[Callable[..., SqliteStore]]:
    """Yield a function that opens the file; at the end, close every store."""
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
    """Write `new` to a file if given, and return its content."""
    if new:
        path.write_bytes(new)
    return path.read_bytes()


def writing(path: Path, name: str, count: int) -> "subprocess.Popen[str]":
    """Start a process that saves `count` turns."""
    words = ["-m", "tests.adapters.writing", str(path), name, str(count)]
    return subprocess.Popen(  # noqa: S603 - ourselves
        [sys.executable, *words],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )


async def test_a_killed_process_loses_no_saved_turn(path: Path) -> None:
    """A process that is killed while it writes loses no saved turn and does not damage the file."""
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


async def test_processes_that_write_in_parallel_lose_nothing(path: Path) -> None:
    """Several processes may create and write the file in parallel; none fails because of a lock."""
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


async def test_a_process_that_ends_does_not_remove_the_log(path: Path) -> None:
    """The last process that closes the file removes its log; one that ends earlier must not."""
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


async def test_only_the_owner_may_read_the_files(
    opens: Callable[..., SqliteStore], path: Path
) -> None:
    """The file and the two files next to it are readable by their owner only."""
    await save(opens(), turn("a"), [])
    files = sorted(path.parent.iterdir())
    assert [file.name for file in files] == ["replay.db", "replay.db-shm", "replay.db-wal"]
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


async def test_a_lookup_rarely_writes(opens: Callable[..., SqliteStore]) -> None:
    """A lookup writes the new expiry only if it has moved by a hundredth of the TTL."""
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


async def test_an_expiry_that_is_noted_while_others_are_written_is_written_too(
    opens: Callable[..., SqliteStore],
) -> None:
    """The writer's thread may take the noted expiries at any point of a lookup."""
    store = opens()
    await save(store, turn("a"), [key("1")])

    class Used(list[Row]):
        def __iter__(self) -> Iterator[Row]:
            store._writer.submit(store._extend).result()
            return super().__iter__()

    row = Row(1, 0, 0.0)
    store._noted[7] = 1.0
    store._is_noting = True
    store._note_use(Used([row]), 0.0)
    await store._writes(lambda db: db.execute("SELECT 1").fetchone())
    assert not store._noted


async def test_a_full_store_evicts_the_least_recently_used(
    opens: Callable[..., SqliteStore], path: Path
) -> None:
    """The limit holds after every save, and the file hardly exceeds it; the newest turns stay."""
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
    usage = await store.usage()
    assert usage == ((used[0] - used[1]) * used[2], bound, len(left), 120 - len(left))
    other = opens(max_bytes=bound, clock=clock)
    assert await other.usage() == (*usage[:3], 0)  # each process counts its own evictions


async def test_what_has_expired_is_not_evicted(opens: Callable[..., SqliteStore]) -> None:
    """A conversation that had to go in any case is not lost for lack of room."""
    clock, bound = Clock(), 600 * KIB
    store = opens(max_bytes=bound, clock=clock)
    for n in range(20):
        await save(store, turn(f"{n}", f"{n}", size=20 * KIB), [key(f"{n}")])
    clock.now_s += TTL_S
    await save(store, turn("new", "new", size=400 * KIB), [key("new")])
    usage = await store.usage()
    assert (usage.conversations, usage.evicted) == (1, 0)


async def test_a_save_that_fails_evicts_nothing(
    opens: Callable[..., SqliteStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was dropped in a transaction that is rolled back is still there, and not counted."""
    store = opens(max_bytes=600 * KIB)
    for n in range(20):
        await save(store, turn(f"{n}", f"{n}", size=20 * KIB), [key(f"{n}")])
    before = await store.usage()

    def fail(*given: Any) -> int:
        assert make_room(*given) > 0
        raise sqlite3.OperationalError

    monkeypatch.setattr(sqlite, "make_room", fail)
    with pytest.raises(StoreError):
        await save(store, turn("new", "new", size=400 * KIB), [key("new")])
    assert await store.usage() == before


async def test_a_turn_larger_than_the_store_is_not_saved(
    opens: Callable[..., SqliteStore],
) -> None:
    """A turn that is larger than the store is dropped without an error."""
    store = opens(max_bytes=100 * KIB)
    await save(store, turn("a", size=500 * KIB), [key("a")])
    assert await found(store, "a") == []
    await save(store, turn("b"), [key("b")])
    assert await found(store, "b") == ["b"]


async def test_expired_conversations_are_deleted(opens: Callable[..., SqliteStore]) -> None:
    """Each save deletes a few expired conversations, with their index entries."""
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


async def test_deleted_data_is_overwritten(opens: Callable[..., SqliteStore], path: Path) -> None:
    """Deleted data is in neither the free pages of the file nor its log."""
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


async def test_a_lock_delays_a_save_until_its_timeout(
    opens: Callable[..., SqliteStore], path: Path
) -> None:
    """A save fails if another process holds the lock too long; reads work in the meantime."""
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


async def test_a_file_that_was_locked_when_it_was_opened_is_used_once_it_is_free(
    opens: Callable[..., SqliteStore], path: Path
) -> None:
    """A connection that could not be prepared is not kept."""
    store = opens(timeout_s=0.2)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StoreError, match="locked"):
            await save(store, turn("a"), [key("1")])
        other.execute("ROLLBACK")
    await save(store, turn("a"), [key("1")])
    assert await found(store, "1") == ["a"]


@pytest.mark.parametrize("content", [b"no database " * 100, b"short", b"SQLite format 3\x00" * 9])
async def test_a_file_that_is_not_a_database_is_not_changed(
    opens: Callable[..., SqliteStore], path: Path, content: bytes
) -> None:
    """The store does not change such a file, and creates its own once that one is removed."""
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
    """A database of another program is left unchanged."""
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE theirs (a)")
    with pytest.raises(StoreError, match="another program's database"):
        await save(opens(), turn("a"), [])
    with contextlib.closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT name FROM sqlite_master").fetchall() == [("theirs",)]


async def test_a_newer_format_is_not_touched(opens: Callable[..., SqliteStore], path: Path) -> None:
    """After a downgrade, the error says that a newer version has written the file."""
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA application_id = {APPLICATION}")
        db.execute(f"PRAGMA user_version = {VERSION + 1}")
    with pytest.raises(StoreError, match="written by a newer version"):
        await opens().check()


async def test_a_removed_file_is_created_again(
    opens: Callable[..., SqliteStore], path: Path
) -> None:
    """Each process that has the removed file open moves to the new one."""
    one, other = opens(), opens()
    await save(one, turn("a"), [key("1")])
    assert await found(other, "1") == ["a"]
    for file in path.parent.iterdir():
        file.unlink()
    assert await found(other, "1") == []
    await save(one, turn("b"), [key("1")])
    await save(other, turn("c"), [key("1")])
    assert await found(one, "1") == await found(other, "1") == ["b", "c"]


async def test_the_event_loop_does_not_wait_for_the_disk(
    opens: Callable[..., SqliteStore], path: Path
) -> None:
    """While a save waits for another process, lookups run, and a pending save can be cancelled."""
    store = opens()
    await save(store, turn("a"), [key("1")])
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        waiting = asyncio.ensure_future(save(store, turn("b"), [key("1")]))
        behind = asyncio.ensure_future(save(store, turn("c"), [key("1")]))
        for _ in range(20):
            assert await found(store, "1") == ["a"]
            assert (await store.usage()).conversations == 1
        assert not waiting.done()
        behind.cancel()
        other.execute("ROLLBACK")
    await waiting
    assert await found(store, "1") == ["a", "b"]


async def test_a_closed_store_raises_a_store_error(opens: Callable[..., SqliteStore]) -> None:
    """An operation on a closed store raises StoreError, like any other failure."""
    store = opens()
    await save(store, turn("a"), [key("1")])
    await store.close()
    with pytest.raises(StoreError, match="closed"):
        await store.check()


# --- malformed files, and the log ---


class Aside:
    """What the stores set aside."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.told: list[str] = []

    def __call__(self, aside: Path, _: str) -> None:
        """Note a file that was set aside."""
        self.told.append(aside.name)

    def open(self) -> SqliteStore:
        """Open a store that sets malformed files aside."""
        return SqliteStore(str(self.path), BOUNDS, 1 << 30, 60.0, Clock(), on_aside=self)


def backup(path: Path) -> Path:
    """Return a copy of the file as it is now, as `.backup` makes it."""
    copy = path.with_name("copy.db")
    with (
        contextlib.closing(sqlite3.connect(path)) as db,
        contextlib.closing(sqlite3.connect(copy)) as to,
    ):
        db.backup(to)
    return copy


def overwrite(path: Path, start: int) -> None:
    """Overwrite everything from a byte on with noise."""
    with path.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(start)
        file.write(b"\xa5" * (size - start))


HARMS: dict[str, Callable[[Path, Path], object]] = {
    "a copy over it": lambda path, copy: shutil.copyfile(copy, path),
    "a copy in its place": lambda path, copy: copy.rename(path),
    "noise": lambda path, _: overwrite(path, 0),
    "noise behind the header": lambda path, _: overwrite(path, 100),
    "half of it": lambda path, _: os.truncate(path, path.stat().st_size // 8192 * 4096),
    "nothing of it": lambda path, _: os.truncate(path, 0),
}


@pytest.mark.parametrize(
    ("name", "is_open"),
    [
        *((name, True) for name in HARMS),
        # Of a file that is noise at the start, nothing shows that it is one of this program.
        *((name, False) for name in HARMS if name != "noise"),
    ],
)
async def test_a_malformed_file_is_set_aside(path: Path, name: str, is_open: bool) -> None:
    """Both stores use the new file, one malformed file is kept, and nothing wrong is found."""
    aside = Aside(path)
    for _ in range(3):
        stores = [aside.open(), aside.open()]
        await fill(stores)
        copy = backup(path)
        await fill(stores, first=100)
        if not is_open:
            await close_all(stores)
        await asyncio.to_thread(HARMS[name], path, copy)
        if not is_open:
            stores = [aside.open(), aside.open()]
        await finds_nothing_wrong(stores)
        for store in stores:
            await save(store, turn("new", "new"), [key("new")])
            assert await found(stores[0], "new") == await found(stores[1], "new") == ["new"]
        await close_all(stores)
        with contextlib.closing(sqlite3.connect(path)) as db:
            assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert set(aside.told) <= {"replay.db.malformed"}
    kept = {file.name for file in path.parent.iterdir()} - {"copy.db", "replay.db"}
    assert kept <= {f"replay.db.malformed{end}" for end in ("", "-wal", "-shm")}


async def fill(stores: Sequence[SqliteStore], first: int = 0) -> None:
    """Save 100 turns in 50 conversations, and look each of them up."""
    for n in range(first, first + 100):
        await save(stores[n % 2], turn(f"{n}", f"{n % 50}", size=3000), [key(f"{n}")])
        assert await found(stores[n // 2 % 2], f"{n}")


async def finds_nothing_wrong(stores: Sequence[SqliteStore]) -> None:
    """Look everything up; each conversation has at most its own turns."""
    for n in range(200):
        own = {f"call_{m}" for m in range(n % 50, 200, 50)}
        for store in stores:
            left = (await looked_up(store, asked(key(f"{n}")))).turns
            assert {one.items[0].call_id for one in left} <= own


async def close_all(stores: Sequence[SqliteStore]) -> None:
    """Close the stores."""
    for store in stores:
        await store.close()


async def test_processes_set_a_malformed_file_aside_once(path: Path) -> None:
    """A process that notices later uses the new file, and does not set that aside as well."""
    aside = Aside(path)
    stores = [aside.open() for _ in range(4)]
    for n in range(100):
        await save(stores[n % 4], turn(f"{n}", f"{n}", size=3000), [key(f"{n}")])
    overwrite(path, 0)
    overwrite(path.with_name(path.name + "-wal"), 0)
    await asyncio.gather(*(save(s, turn(f"new {n}"), [key("n")]) for n, s in enumerate(stores)))
    for store in stores:
        assert await found(store, "n") == [f"new {n}" for n in range(4)]
        await store.close()
    assert aside.told == ["replay.db.malformed"]


async def test_a_file_of_others_is_never_set_aside(path: Path) -> None:
    """Nor one that is newer, locked, or was never seen to be one of this program."""
    aside = Aside(path)
    content_of(path, new=b"no database " * 100)
    store = aside.open()
    with pytest.raises(StoreError, match="not a database"):
        await store.check()
    await asyncio.to_thread(path.unlink)
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE theirs (a)")
        db.executemany("INSERT INTO theirs VALUES (?)", [(bytes(1000),)] * 100)
        db.commit()
    overwrite(path, 4096)
    with pytest.raises(StoreError, match="another program's database"):
        await store.check()
    await asyncio.to_thread(path.unlink)
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA application_id = {APPLICATION}")
        db.execute(f"PRAGMA user_version = {VERSION + 1}")
        db.execute("CREATE TABLE newer (a)")
    overwrite(path, 4096)
    with pytest.raises(StoreError, match="newer version"):
        await store.check()
    await store.close()
    assert aside.told == []


async def test_without_leave_a_malformed_file_is_an_error_and_stays(
    opens: Callable[..., SqliteStore], path: Path
) -> None:
    """As in `check`, which tells what it finds and changes nothing."""
    store = opens()
    for n in range(50):
        await save(store, turn(f"{n}", f"{n}", size=3000), [key(f"{n}")])
    await store.close()
    overwrite(path, 8192)
    before = content_of(path)
    with pytest.raises(StoreError, match="malformed"):
        await opens().check()
    assert content_of(path) == before


async def test_the_log_is_bounded_while_a_program_reads(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Saves fail with the reason, stored turns are found, and the log is emptied afterwards."""
    monkeypatch.setattr(sqlite, "LOG_MAX_BYTES", 2 << 20)
    store = SqliteStore(str(path), BOUNDS, 4 << 20, 60.0, Clock())
    log = path.with_name(path.name + "-wal")
    await save(store, turn("first"), [key("first")])
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN")
        other.execute("SELECT count(*) FROM records").fetchone()

        async def fill() -> None:
            for n in range(1000):
                await save(store, turn(f"{n}", f"{n}", size=20 * KIB), [key(f"{n}")])

        with pytest.raises(StoreError, match="its log has 2 MiB, and cannot be emptied"):
            await fill()
        for _ in range(20):
            with pytest.raises(StoreError, match="read transaction"):
                await save(store, turn("more", size=20 * KIB), [])
        assert log.stat().st_size < 3 << 20
        assert await found(store, "first") == ["first"]
    await save(store, turn("later", "later"), [key("later")])
    assert await found(store, "later") == ["later"]
    assert log.stat().st_size < 1 << 20
    await store.close()
