"""Faults of a SQLite file: no request fails, and replay resumes afterwards."""

import asyncio
import contextlib
import os
import resource
import shutil
import sqlite3
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.agent import Agent
from tests.e2e.witness import assert_nothing_invented
from tests.faults.suffering import PATIENT_MS, Fault, anew, is_whole_at, question, suffering
from tests.patience import SOON_S
from tests.web.served import served

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

    @property
    def copy(self) -> Path:
        """Path of an older copy, next to the folder."""
        return self.path.parent.with_name("copy.db")

    def note(self) -> None:
        """Make the older copy, as `.backup` does."""
        copy_of(self.path, self.copy)

    def copy_over(self) -> None:
        """Write the older copy over the file, next to its log."""
        shutil.copyfile(self.copy, self.path)

    def move_over(self) -> None:
        """Move the older copy to the place of the file, next to its log."""
        self.copy.rename(self.path)

    def restore(self) -> None:
        """Return to the older copy, as `.restore` does."""
        copy_of(self.copy, self.path)

    def truncate(self) -> None:
        """Cut half of the file off."""
        os.truncate(self.path, self.path.stat().st_size // 8192 * 4096)

    def empty(self) -> None:
        """Cut all of the file off."""
        os.truncate(self.path, 0)

    def overwrite(self) -> None:
        """Overwrite the file and its log with noise."""
        for path in (self.path, self.path.with_name(f"{self.path.name}-wal")):
            with path.open("r+b") as file:
                file.write(b"\xa5" * path.stat().st_size)

    def replace(self) -> None:
        """Replace the file with one that is not a database."""
        self.delete()
        self.path.write_bytes(b"Once upon a time. " * 1_000)


def copy_of(path: Path, to: Path) -> None:
    """Copy one file to another by sqlite, which takes its locks."""
    with (
        contextlib.closing(sqlite3.connect(path)) as db,
        contextlib.closing(sqlite3.connect(to, timeout=SOON_S)) as target,
    ):
        db.backup(target)


def _limit_files(size_bytes: int) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))


FAULTS = {
    "deleted": Fault(File.delete, fails=(), keeps=False),
    "folder is gone": Fault(File.lose_folder, File.find_folder, keeps=False),
    "not a database": Fault(File.replace, File.delete, keeps=False),
    "locked": Fault(File.lock, File.unlock, fails=()),
    "disk is full": Fault(File.fill_disk, File.free_disk, fails=("save",)),
    "a copy over it": Fault(File.copy_over, fails=(), keeps=False),
    "a copy in its place": Fault(File.move_over, fails=(), keeps=False),
    "returned to a copy": Fault(File.restore, fails=(), keeps=False),
    "half of it": Fault(File.truncate, fails=(), keeps=False),
    "nothing of it": Fault(File.empty, fails=(), keeps=False),
    "noise": Fault(File.overwrite, fails=(), keeps=False),
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
        timeout: dict[str, Any] = {} if fault.is_readable else {"store_timeout_s": LOCKED_S}
        run = suffering(f"sqlite://{file.path}", **timeout, **fault.settings)
        one = await stack.enter_async_context(run)
        file.note()
        await one.converse()
        await fault.is_not_noticed(one, file)


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
async def test_two_processes_share_the_file_again(fault: Fault, tmp_path: Path) -> None:
    """Requests at both succeed during the fault, and then each finds the other's new turns."""
    folder = tmp_path / "kept"
    folder.mkdir()
    file = File(folder / "replay.db")
    url = f"sqlite://{file.path}"
    async with contextlib.AsyncExitStack() as stack:
        for undo in (file.unlock, file.free_disk):
            stack.callback(undo)
        one = await stack.enter_async_context(suffering(url, store_budget_ms=PATIENT_MS))
        settings = one.app.settings
        other = await stack.enter_async_context(
            served(
                upstream_url=settings.upstream_url,
                store_url=url,
                scope_secret=settings.scope_secret.get_secret_value(),
                store_budget_ms=PATIENT_MS,
                local_max_bytes=0,
            )
        )
        await other.started()
        there = await stack.enter_async_context(Agent(f"{other.url}/v1", "async", "no-ids"))
        file.note()
        await asyncio.gather(one.converse(), there.converse([question()]))
        for act in (fault.hurts, fault.repairs):
            await asyncio.gather(
                one.converse(during=partial(act, file)), anew(there).converse([question()])
            )
            assert_nothing_invented(one.standin, there)
        async with asyncio.timeout(SOON_S):
            for first, then in ((one.app.url, other.url), (other.url, one.app.url)):
                while not await is_shared(first, then):
                    pass  # breakers probe the store after a pause


async def is_shared(first: str, then: str) -> bool:
    """Return whether a conversation that one process began is whole at the other one."""
    async with Agent(f"{first}/v1", "async", "no-ids") as agent:
        await agent.converse([question()])
        return await is_whole_at(agent, then)
