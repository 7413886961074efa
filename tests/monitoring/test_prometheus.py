"""A real Prometheus evaluates rules and dashboard over running proxies."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import aiohttp
from reasoning_replay.strict_api.responses_words import MISSING

from tests.e2e.agent import Agent
from tests.monitoring.files import RULES, RULES_PATH, queries
from tests.patience import SOON_S
from tests.ports import free_port
from tests.programs import ends_with_tests, require
from tests.strict import StrictResponses
from tests.web.line import line_to, request
from tests.web.served import served

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


KEY = "Authorization: Bearer sk-a"
# Expressions that are above zero after `talk`.
MOVED = (
    "Reasoning injected: ",
    "Share injected: ",
    "Refusals healed: ",
    "Exchanges succeeded: ",
    "Reasoning in requests: injected",
    "Reasoning in requests: lacking",
    "Tokens reported by the upstream: {{kind}}",
    "Bytes injected: injected",
    "Exchanges by status: {{status}}",
    "Time to first byte: p99",
    "Before the request is sent: p99",
    "During the response: p99",
    "After the response: p99",
    "Share of the duration: overhead",
    "Reasoning stored: items",
    "Bytes stored: reasoning",
    "Healing retries by result: {{result}}",
)

# The effect of the last request of `talk`.
REFUSED = 'sum by (job) (reasoning_replay_exchanges_total{route="responses", outcome="refused"})'


async def talk(api: StrictResponses, url: str) -> None:
    """Send requests that lack reasoning, one that is refused and healed, and a refused one."""
    async with (
        Agent(f"{url}/v1", keeps="ids") as agent,
        Agent(f"{url}/v1", keeps="ids") as stranger,  # another tenant
    ):
        await agent.converse()
        stranger.history, stranger.whole = list(agent.history), list(agent.whole)
        call = next(item for item in agent.whole if item.get("type") == "function_call")
        api.refuse_next(MISSING(call["id"], call["type"], "rs_unknown"))
        await stranger.converse(["And on Sunday?"])
    async with line_to(url) as line:
        assert (await line.ask(request("POST", "/v1/responses", KEY, body=b"{}"))).status == 400


def are_judged(data: Any) -> bool:
    """Return whether every rule has been evaluated."""
    return all(rule["health"] != "unknown" for group in data["groups"] for rule in group["rules"])


async def test_rules_and_dashboard_over_real_traffic(tmp_path: Path) -> None:
    """All rules are healthy, and each panel's expressions have data."""
    store: dict[str, Any] = {
        "store_url": f"sqlite://{tmp_path}/kept.db",
        "store_budget_ms": 5000,
    }
    # Fixed before the start, since Prometheus takes five seconds to discover new targets.
    admin, other_admin = (f"127.0.0.1:{free_port()}" for _ in range(2))
    targets = {
        "kubernetes": (admin, {"namespace": "apps", "pod": "replay-0"}),
        "plain": (other_admin, {}),
    }
    async with (
        prometheus(tmp_path, targets) as watcher,
        StrictResponses("chain", "strict") as api,
    ):
        given: dict[str, Any] = {
            "upstream_url": api.base_url,
            "scope_secret": "one for all",
            **store,
        }
        async with (
            served(admin_listen=admin, **given) as one,
            served(admin_listen=other_admin, **given) as other,
        ):
            await asyncio.gather(one.started(), other.started())
            await watcher.until_it_is("count(reasoning_replay_build_info)", len(targets))
            # Twice: a series that starts with its first event has no rate before the second.
            for times in (1, 2):
                for proxy in (one, other):
                    await talk(api, proxy.url)
                await watcher.until_it_is(f"count({REFUSED} >= {times})", len(targets))
            found = {name: await watcher.query(expr) for name, expr in queries().items()}
            told = await watcher.until("rules", are_judged)

    rules = [rule for group in told["groups"] for rule in group["rules"]]
    assert len(rules) == len(RULES)
    assert [rule for rule in rules if rule["health"] != "ok"] == []
    assert {name for name, values in found.items() if not values} == set()
    assert {name for name in MOVED if not max(found[name]) > 0} == set()
