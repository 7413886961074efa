"""Faults of a SQLite file: no request fails, and replay resumes afterwards."""

import contextlib
import resource
import shutil
import sqlite3
from pathlib import Path

import pytest

from tests.faults.suffering import STORE_TIMEOUT_S, Fault, suffering

LOCKED_S = 8.0


class File:
    """File of a store, in its own folder."""

    def __init__(self, path: Path) -> None:
        """Set its path; the proxy creates it."""
        self.path = path
        self._other: sqlite3.Connection | None = None

    def lock(self) -> None:
        """Begin a write as another process, and do not finish it."""
        self._other = sqlite3.connect(self.path, isolation_level=None)
        self._other.execute("BEGIN IMMEDIATE")

    def unlock(self) -> None:
        """End that write."""
        if self._other is not None:
            self._other.close()
            self._other = None

    def fill_disk(self) -> None:
        """Limit the size of this process's files to the current size."""
        _limit_files(self.path.with_name(f"{self.path.name}-wal").stat().st_size)

    def free_disk(self) -> None:
        """Remove that limit."""
        _limit_files(resource.RLIM_INFINITY)

    def delete(self) -> None:
        """Delete the file and its companions."""
        for path in self.path.parent.iterdir():
            path.unlink()

    def lose_folder(self) -> None:
        """Delete the folder, as when its disk is gone."""
        # At once: the store may create the file again while a folder is emptied.
        shutil.rmtree(self.path.parent.rename(self.path.parent.with_name("gone")))

    def find_folder(self) -> None:
        """Create the folder again, empty."""
        self.path.parent.mkdir()

    def replace(self) -> None:
        """Replace the file with one that is not a database."""
        self.delete()
        self.path.write_bytes(b"Once upon a time. " * 1_000)


def _limit_files(size_bytes: int) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))


FAULTS = {
    "deleted": Fault(File.delete, fails=(), keeps=False),
    "folder is gone": Fault(File.lose_folder, File.find_folder, keeps=False),
    "not a database": Fault(File.replace, File.delete, keeps=False),
    "locked": Fault(File.lock, File.unlock, fails=()),
    "disk is full": Fault(File.fill_disk, File.free_disk, fails=("save",)),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
async def test_a_fault_is_not_noticed_and_passes(fault: Fault, tmp_path: Path) -> None:
    """During a fault requests succeed in time, and after it everything works as before."""
    folder = tmp_path / "kept"
    folder.mkdir()
    file = File(folder / "replay.db")
    async with contextlib.AsyncExitStack() as stack:
        for undo in (file.unlock, file.free_disk):
            stack.callback(undo)
        # A save waits half of its timeout for another process: a response that waits is detected.
        timeout_s = STORE_TIMEOUT_S if fault.is_readable else LOCKED_S
        run = suffering(f"sqlite://{file.path}", timeout_s, **fault.settings)
        await fault.is_not_noticed(await stack.enter_async_context(run), file)
