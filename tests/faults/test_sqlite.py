"""Whatever happens to the file of sqlite://: no request fails, and replay resumes by itself."""

import contextlib
import resource
import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.faults.suffering import PATIENT_MS, WHOLE, given_back, suffering

LOCKED_MS = 8_000


class File:
    """The file of a store, in a folder of its own."""

    def __init__(self, path: Path) -> None:
        """Name it; the proxy makes it."""
        self.path = path
        self._other: sqlite3.Connection | None = None

    def lock(self) -> None:
        """Write to it as another process would, and do not finish."""
        self._other = sqlite3.connect(self.path, isolation_level=None)
        self._other.execute("BEGIN IMMEDIATE")

    def unlock(self) -> None:
        """Finish."""
        if self._other is not None:
            self._other.close()
            self._other = None

    def fill_disk(self) -> None:
        """Let none of this process' files grow any more."""
        _limit_files(self.path.with_name(f"{self.path.name}-wal").stat().st_size)

    def free_disk(self) -> None:
        """Let them."""
        _limit_files(resource.RLIM_INFINITY)

    def delete(self) -> None:
        """Delete it, and what belongs to it."""
        for path in self.path.parent.iterdir():
            path.unlink()

    def lose_folder(self) -> None:
        """As when what it is on is not there any more."""
        shutil.rmtree(self.path.parent)

    def find_folder(self) -> None:
        """Have it again, empty."""
        self.path.parent.mkdir()

    def replace(self) -> None:
        """Put something in its place that is no database."""
        self.delete()
        self.path.write_bytes(b"Once upon a time. " * 1_000)


def _limit_files(size_bytes: int) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))


@dataclass(frozen=True, slots=True)
class Fault:
    """As of a Redis."""

    hurts: Callable[[File], None]
    mends: Callable[[File], None]
    fails: tuple[str, ...] = ("recall", "save")
    keeps: bool = True


FAULTS = {
    "deleted": Fault(File.delete, lambda _: None, fails=(), keeps=False),
    "folder is gone": Fault(File.lose_folder, File.find_folder, keeps=False),
    "no database": Fault(File.replace, File.delete, keeps=False),
    "locked": Fault(File.lock, File.unlock, fails=()),
    "disk is full": Fault(File.fill_disk, File.free_disk, fails=("save",)),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
async def test_a_fault_is_not_noticed_and_passes(fault: Fault, tmp_path: Path) -> None:
    """Requests succeed in time; what works still works; afterwards all is as it was."""
    folder = tmp_path / "kept"
    folder.mkdir()
    file = File(folder / "replay.db")
    async with contextlib.AsyncExitStack() as stack:
        for undo in (file.unlock, file.free_disk):
            stack.callback(undo)
        works = "save" in fault.fails and "recall" not in fault.fails
        # A save waits half of its time for another process: who waited for it is found out.
        budget = {"store_budget_ms": PATIENT_MS} if works else {"store_timeout_ms": LOCKED_MS}
        one = await stack.enter_async_context(suffering(f"sqlite://{file.path}", **budget))
        one.assert_quick(await one.converse(amid=lambda: fault.hurts(file)))
        before = {name: one.operations(name) for name in fault.fails}
        lines = await one.converse()
        one.assert_quick(lines)
        for name, then in before.items():
            assert (one.operations(name) - then)["ok"] == 0
        if works:  # what it keeps is still given back
            assert given_back(lines) >= WHOLE[-1]

        one.assert_quick(await one.converse(amid=lambda: fault.mends(file)))
        await one.resumes()
        await one.recovers()
        one.assert_told(has_failed=True if fault.fails else None)
        if fault.keeps:
            await one.remembers()
