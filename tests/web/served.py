"""The proxy in its own process, for signals, memory and exit codes."""

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

from tests.patience import SOON_S
from tests.programs import ends_with_tests

ROOT = Path(__file__).parents[2]


class Served:
    """
    One `reasoning-replay serve`.

    Attributes:
        url, admin_url: Its URLs, once it has started.
        log: All log lines that were read so far.
    """

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.url = self.admin_url = ""
        self.log: list[dict[str, Any]] = []

    async def started(self) -> None:
        """Wait until it listens."""
        event = await self.until("started")
        self.url, self.admin_url = event["listen"], event["admin"]

    async def until(self, event: str) -> dict[str, Any]:
        """Read the log up to an event; fail if the log ends before."""
        assert self._process.stdout is not None
        while True:
            line = await asyncio.wait_for(self._process.stdout.readline(), SOON_S)
            assert line, f"it ended without {event}: {self.log}"
            entry: dict[str, Any] = json.loads(line)
            self.log.append(entry)
            if event in (entry.get("event"), entry.get("message")):  # see log_fields
                return entry

    async def rest(self) -> None:
        """Read the log to its end."""
        assert self._process.stdout is not None
        async with asyncio.timeout(SOON_S):
            async for line in self._process.stdout:
                self.log.append(json.loads(line))

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def signal(self, number: int) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    async def exit_code(self) -> int:
        """Wait until it has ended, and return its exit code."""
        return await asyncio.wait_for(self._process.wait(), SOON_S)

    @property
    def peak_bytes(self) -> int:
        """Its peak memory so far, in bytes."""
        return self._memory("VmHWM:")

    @property
    def resident_bytes(self) -> int:
        """Its memory, in bytes."""
        return self._memory("VmRSS:")

    def _memory(self, name: str) -> int:
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line[:6] == name)

    @property
    def cpu_s(self) -> float:
        """Its CPU time so far, in seconds."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    async def end(self) -> None:
        """Kill it if it still runs."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.communicate()


@contextlib.asynccontextmanager
async def served(*, under: Sequence[str] = (), **settings: object) -> AsyncIterator[Served]:
    """
    Start one with these settings in its environment; it may have ended before the context does.

    `under` is a command that runs it. A setting that is None is not given.
    """
    given: dict[str, object] = {
        "store_url": "memory://",
        "listen": "127.0.0.1:0",
        "admin_listen": "127.0.0.1:0",
        "log_format": "json",
        "drain_grace_s": 0,
    }
    environ = {key: value for key, value in os.environ.items() if not key.startswith("REPLAY_")}
    environ |= {
        f"REPLAY_{key.upper()}": str(value)
        for key, value in (given | settings).items()
        if value is not None
    }
    process = await asyncio.create_subprocess_exec(
        *(*ends_with_tests(), *under, sys.executable, "-m", "reasoning_replay", "serve"),
        env=environ,
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )
    proxy = Served(process)
    try:
        yield proxy
    finally:
        await proxy.end()
