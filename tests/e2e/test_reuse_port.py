"""Two processes on one host share the clients' port and a store, and either may go."""

import asyncio
import signal
import socket
from pathlib import Path
from typing import Any

import pytest
from reasoning_replay.settings.model import Settings
from reasoning_replay.web.app import running

from tests.e2e.agent import Agent
from tests.e2e.witness import assert_restored
from tests.ports import free_port
from tests.redis_server import RedisServer
from tests.standin import StandIn
from tests.web.line import line_to, request
from tests.web.served import Served, served

GET = request("GET", "/v1/files/f/content")
SOON_S = 60.0
REFUSED = 'reasoning_replay_exchanges_total{outcome="refused",route="other",status="401"}'


async def refused(proxy: Served) -> float:
    """How many requests without a credential one process has passed on."""
    async with line_to(proxy.admin_url) as line:
        text = (await line.ask(request("GET", "/metrics"))).body.decode()
    lines = (entry.rpartition(" ") for entry in text.splitlines())
    return next((float(value) for name, _, value in lines if name == REFUSED), 0.0)


@pytest.mark.parametrize("kind", ["redis", "sqlite"])
async def test_two_processes_share_a_port_and_a_conversation(
    kind: str, shared_redis: RedisServer, tmp_path: Path
) -> None:
    """Each serves some of the connections; when one has drained, the other goes on with all."""
    port = free_port()
    standin = StandIn("chain", "strict")
    settings: dict[str, Any] = {
        "listen": f"127.0.0.1:{port}",
        "reuse_port": "true",
        "store_url": shared_redis.url if kind == "redis" else f"sqlite://{tmp_path}/kept.db",
        "store_budget_ms": 5000,
        "scope_secret": "one for both",
    }
    async with standin:
        settings["upstream_url"] = standin.base_url
        async with served(**settings) as one, served(**settings) as other:
            await asyncio.gather(one.started(), other.started())
            assert one.url == other.url == f"http://127.0.0.1:{port}"
            async with asyncio.timeout(SOON_S):
                while not (await refused(one) and await refused(other)):
                    async with line_to(one.url) as line:
                        assert (await line.ask(GET)).status == 401

            each_anew = {"extra_headers": {"Connection": "close"}}
            async with Agent(f"{one.url}/v1", keeps="no-ids", more=each_anew) as agent:
                await agent.converse(["Where does it rain today?", "And tomorrow?"])
                one.signal(signal.SIGTERM)
                assert await one.exit_code() == 0
                await agent.converse(["And on Sunday?"])
            assert_restored(standin, agent)


async def test_a_port_is_shared_only_among_those_that_ask_for_it(tmp_path: Path) -> None:
    """A port of another program ends the start, with one line that names it."""
    with socket.create_server(("127.0.0.1", 0)) as another:
        where = f"127.0.0.1:{another.getsockname()[1]}"
        store = f"sqlite://{tmp_path}/kept.db"
        async with served(listen=where, reuse_port="true", store_url=store) as proxy:
            line = await proxy.until("cannot_listen")
            assert await proxy.exit_code() == 1
    assert where.rpartition(":")[2] in line["reason"]


async def test_a_system_that_shares_no_ports_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By what keeps it from listening."""
    monkeypatch.delattr(socket, "SO_REUSEPORT")
    settings = Settings(
        listen="127.0.0.1:0",
        admin_listen="127.0.0.1:0",
        reuse_port=True,
        store_url=f"sqlite://{tmp_path}/kept.db",
    )
    with pytest.raises(OSError, match="turn reuse_port off"):
        async with running(settings):
            pass
