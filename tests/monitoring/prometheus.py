"""A real Prometheus that scrapes proxies once a second, with our rules."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import aiohttp

from tests.monitoring.files import RULES_PATH
from tests.patience import SOON_S
from tests.ports import free_port
from tests.programs import ends_with_tests, require

Json = Any


class Prometheus:
    """
    A running Prometheus.

    Attributes:
        url: Its base URL.
    """

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self.url = url
        self._session = session

    async def ask(self, path: str, **words: str) -> Json:
        """Send a request to the API, which must succeed; return the data."""
        async with self._session.get(f"{self.url}/api/v1/{path}", params=words) as response:
            told = await response.json()
        assert told["status"] == "success", told
        return told["data"]

    async def query(self, expr: str) -> list[float]:
        """Return the current value of each series of an expression."""
        found = (await self.ask("query", query=expr))["result"]
        return [float(one["value"][1]) for one in found]

    async def until(self, path: str, holds: Callable[[Json], bool], **words: str) -> Json:
        """Repeat a request until its data meets a condition; return the data."""
        async with asyncio.timeout(SOON_S):
            while True:
                with contextlib.suppress(aiohttp.ClientError, ValueError):
                    if holds(told := await self.ask(path, **words)):
                        return told
                await asyncio.sleep(0.1)

    async def until_it_is(self, expr: str, value: float) -> None:
        """Wait until an expression has one series with this value."""

        def holds(data: Json) -> bool:
            return [float(one["value"][1]) for one in data["result"]] == [value]

        await self.until("query", holds, query=expr)


@contextlib.asynccontextmanager
async def prometheus(
    folder: Path, targets: Mapping[str, tuple[str, Mapping[str, str]]]
) -> AsyncIterator[Prometheus]:
    """
    Run a Prometheus.

    Args:
        folder: An empty folder for its data.
        targets: For each job, the host and port of an admin port, and its labels.
    """
    settings = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(RULES_PATH)],
        "scrape_configs": [
            {
                "job_name": job,
                "scrape_timeout": "1s",
                "static_configs": [{"targets": [address], "labels": dict(labels)}],
            }
            for job, (address, labels) in targets.items()
        ],
    }
    (folder / "prometheus.yml").write_text(json.dumps(settings))
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        *(*ends_with_tests(), require("prometheus")),
        f"--config.file={folder}/prometheus.yml",
        f"--storage.tsdb.path={folder}/data",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=error",
    )
    try:
        async with aiohttp.ClientSession() as session:
            yield Prometheus(f"http://127.0.0.1:{port}", session)
    finally:
        process.kill()
        await process.wait()
