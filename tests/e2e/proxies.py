"""The proxy under test: in this process, or as a process that a test may kill."""

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Literal, Protocol, Self

import aiohttp
from reasoning_replay.settings.model import Settings
from reasoning_replay.web.app import running

from tests.patience import SOON_S
from tests.programs import ends_with_tests
from tests.strict.upstream import Upstream

__all__ = ["Above", "ProxyProcess", "Reach", "proxied", "reached", "split"]

ROOT = Path(__file__).parents[2]
ANY_PORT = "127.0.0.1:0"
Reach = Literal["straight", "proxied"]
STORE_BUDGET_MS = 5_000  # long enough for a busy machine


class Above(Protocol):
    """An upstream that listens."""

    @property
    def base_url(self) -> str:
        """The base URL for a client."""


@contextlib.asynccontextmanager
async def proxied(above: Above, store_url: str = "memory://", **more: Any) -> AsyncIterator[str]:
    """Run a proxy in this process, with any settings; yield the base URL for a client."""
    given: dict[str, Any] = {
        "upstream_url": above.base_url,
        "listen": ANY_PORT,
        "admin_listen": ANY_PORT,
        "store_url": store_url,
        "store_budget_ms": STORE_BUDGET_MS,
        "log_level": "error",
    }
    async with running(Settings(**(given | more))) as app:
        yield f"{app.url}/v1"


@contextlib.asynccontextmanager
async def reached(api: Upstream, reach: Reach, **more: Any) -> AsyncIterator[str]:
    """
    Serve a strict API; yield its base URL, or that of a proxy in front of it.

    Args:
        api: The upstream.
        reach: The way to it.
        more: Settings of the proxy.
    """
    async with api:
        if reach == "straight":
            yield api.base_url
            return
        profile = {"upstream_profile": api.profile}
        async with proxied(api, **(profile | more)) as base_url:
            yield base_url


def split(served: str) -> tuple[Reach, Any]:
    """Split a name such as "proxied-visible": the way to the upstream, and what a client keeps."""
    reach, _, keeps = served.partition("-")
    return "straight" if reach == "straight" else "proxied", keeps


class ProxyProcess:
    """
    One `python -m reasoning_replay serve`, with settings from the environment alone.

    Attributes:
        base_url: The base URL for a client; it changes at each start.
        admin_url: The URL of the admin port; it changes at each start.
        warned: Its log lines above info, of all starts. Output that is not a log line, such as a
            traceback, is an event with that text.
        unsaved: Its log lines of exchanges whose response it captured, but did not save in time.
    """

    def __init__(self, upstream_url: str, store_url: str, **more: str) -> None:
        self.base_url = self.admin_url = ""
        self.warned: list[dict[str, Any]] = []
        self.unsaved: list[dict[str, Any]] = []
        self._environ = {
            **{name: value for name, value in os.environ.items() if name[:7] != "REPLAY_"},
            "REPLAY_UPSTREAM_URL": upstream_url,
            "REPLAY_STORE_URL": store_url,
            "REPLAY_STORE_BUDGET_MS": str(STORE_BUDGET_MS),
            "REPLAY_SCOPE_SECRET": "one for all replicas",
            "REPLAY_LISTEN": ANY_PORT,
            "REPLAY_ADMIN_LISTEN": ANY_PORT,
            "REPLAY_LOG_FORMAT": "json",
            **{f"REPLAY_{name.upper()}": value for name, value in more.items()},
        }
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Start."""
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.kill()

    @property
    def complaints(self) -> list[str]:
        """
        The events of its log lines above info, except exchanges and what a start doubts.

        Other tests use the same store with other secrets.
        """
        expected = ("exchange", "doubtful_setting", "scope_secrets_differ")
        events = (entry["event"] for entry in self.warned)
        return [event for event in events if event not in expected]

    @property
    def pid(self) -> int:
        """Its process id, while it runs."""
        assert self._process is not None
        return self._process.pid

    async def start(self) -> None:
        """Start, and wait until it reports its addresses."""
        self._process = await asyncio.create_subprocess_exec(
            *(*ends_with_tests(), sys.executable, "-m", "reasoning_replay", "serve"),
            cwd=ROOT,
            env=self._environ,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        stdout = self._process.stdout
        assert stdout is not None
        async with asyncio.timeout(SOON_S):
            first = json.loads(await stdout.readline())
        assert first["event"] == "started"
        self.base_url, self.admin_url = f"{first['listen']}/v1", first["admin"]
        self._reading = asyncio.create_task(self._read(stdout))

    async def kill(self) -> None:
        """End it with SIGKILL, as a crash of the machine does; nothing if it does not run."""
        await self._end(signal.SIGKILL)

    async def restart(self) -> None:
        """End it with SIGTERM, as an orchestrator does, and start it again."""
        assert await self._end(signal.SIGTERM) == 0
        await self.start()

    async def _end(self, number: int) -> int | None:
        """Send a signal, and wait; return the exit code, or None if it does not run."""
        if self._process is None or self._reading is None:
            return None
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)
        code = await self._process.wait()
        await self._reading
        self._process = self._reading = None
        return code

    async def readiness(self) -> dict[str, str]:
        """Return the body of `/readyz`, which must be a 200."""
        async with (
            aiohttp.ClientSession(raise_for_status=True) as session,
            session.get(f"{self.admin_url}/readyz") as response,
        ):
            state: dict[str, str] = await response.json()
        return state

    async def _read(self, stdout: asyncio.StreamReader) -> None:
        """Read the log continuously, so that the pipe never fills up."""
        async for line in stdout:
            try:
                entry = json.loads(line)
            except ValueError:
                entry = {"level": "error", "event": line.decode(errors="replace")}
                if not line.endswith(b"\n"):
                    continue  # the kill cut it off
            if entry["level"] != "info":
                self.warned.append(entry)
            if entry.get("captured", "saved") != "saved" and entry.get("upstream_request_id"):
                self.unsaved.append(entry)
