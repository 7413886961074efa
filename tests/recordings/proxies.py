"""Proxies under test: inside this process, or as processes of their own that share a store."""

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Self

from reasoning_replay.settings.model import Settings
from reasoning_replay.web.app import running

__all__ = ["Served", "inside"]

ROOT = Path(__file__).parents[2]
SERVE = ("-m", "reasoning_replay", "serve")
STARTS_S = 30.0
# A busy machine is no fault of the proxy's: the store may take its time here.
STORE_TIMEOUT_MS = 10_000


@contextlib.asynccontextmanager
async def inside(upstream_url: str, **more: Any) -> AsyncIterator[str]:
    """Run a proxy in this process, on `memory://` and with settings; yields where it listens."""
    settings = Settings(
        upstream_url=upstream_url + "/v1",
        listen="127.0.0.1:0",
        admin_listen="127.0.0.1:0",
        store_url="memory://",
        store_timeout_ms=STORE_TIMEOUT_MS,
        store_budget_ms=STORE_TIMEOUT_MS,
        log_level="warning",
        log_format="json",
        **more,
    )
    async with running(settings) as app:
        yield app.url


class Served:
    """
    One `python -m reasoning_replay serve`.

    Attributes:
        url: Where clients connect.
        complaints: Every line of log above info: there should be none.
    """

    def __init__(self, upstream_url: str, store_url: str) -> None:
        """Start nothing yet."""
        self.url = ""
        self.complaints: list[str] = []
        self._environ = {
            **{name: value for name, value in os.environ.items() if name[:7] != "REPLAY_"},
            "REPLAY_UPSTREAM_URL": upstream_url + "/v1",
            "REPLAY_STORE_URL": store_url,
            "REPLAY_LISTEN": "127.0.0.1:0",
            "REPLAY_ADMIN_LISTEN": "127.0.0.1:0",
            "REPLAY_STORE_TIMEOUT_MS": str(STORE_TIMEOUT_MS),
            "REPLAY_SCOPE_SECRET": "the same on all replicas",
            "REPLAY_LOG_FORMAT": "json",
        }
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Start."""
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop."""
        await self.stop()

    async def start(self) -> None:
        """Start the process and wait until it says where it listens."""
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            *SERVE,
            env=self._environ,
            cwd=ROOT,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        started: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._reading = asyncio.create_task(self._read(self._process, started))
        self.url = await asyncio.wait_for(started, STARTS_S)

    async def stop(self) -> None:
        """End the process as an orchestrator does, and wait for it."""
        if self._process is None or self._reading is None:
            return
        with contextlib.suppress(ProcessLookupError):
            self._process.terminate()
        code = await self._process.wait()
        await self._reading
        self._process = None
        if code:
            self.complaints.append(f"exit code {code}")

    async def restart(self) -> None:
        """Forget everything that is not in the store."""
        await self.stop()
        await self.start()

    async def _read(
        self, process: asyncio.subprocess.Process, started: "asyncio.Future[str]"
    ) -> None:
        """Read the log to its end, so that the process can go on writing it."""
        assert process.stdout is not None
        async for line in process.stdout:
            try:
                entry = json.loads(line)
            except ValueError:
                self.complaints.append(line.decode(errors="replace").rstrip())
                continue
            if entry["event"] == "started" and not started.done():
                started.set_result(entry["listen"])
            elif entry["level"] != "info":
                self.complaints.append(line.decode().rstrip())
        if not started.done():
            started.set_exception(RuntimeError("\n".join(self.complaints) or "it said nothing"))
