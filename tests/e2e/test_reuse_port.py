"""Shared port: two processes on one host share the clients' port and a store."""

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
from tests.fast_lane import first
from tests.patience import SOON_S
from tests.ports import free_port
from tests.redis_server import RedisServer
from tests.strict import StrictResponses
from tests.web.line import line_to, request
from tests.web.served import Served, served

GET = request("GET", "/v1/files/f/content")
REFUSED = 'reasoning_replay_exchanges_total{outcome="refused",route="files",status="401"}'


async def refused(proxy: Served) -> float:
    """Return the number of requests without a credential that one process has forwarded."""
    async with line_to(proxy.admin_url) as line:
        text = (await line.ask(request("GET", "/metrics"))).body.decode()
    lines = (entry.rpartition(" ") for entry in text.splitlines())
    return next((float(value) for name, _, value in lines if name == REFUSED), 0.0)


@pytest.mark.parametrize("kind", first(1, ["sqlite", "redis"]))
async def test_two_processes_share_a_port_and_a_conversation(
    kind: str, shared_redis: RedisServer, tmp_path: Path
) -> None:
    """Each process gets a part of the connections; after one has drained, the other gets all."""
    port = free_port()
    api = StrictResponses("chain", "strict")
    settings: dict[str, Any] = {
        "listen": f"127.0.0.1:{port}",
        "reuse_port": "true",
        "store_url": shared_redis.url if kind == "redis" else f"sqlite://{tmp_path}/kept.db",
        "store_budget_ms": 5000,
        "scope_secret": "one for both",
    }
    async with api:
        settings["upstream_url"] = api.base_url
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
            assert_restored(api, agent)


async def test_a_port_of_another_program_is_not_shared(tmp_path: Path) -> None:
    """If another program uses the port, the start fails with one log line that names the port."""
    with socket.create_server(("127.0.0.1", 0)) as another:
        where = f"127.0.0.1:{another.getsockname()[1]}"
        store = f"sqlite://{tmp_path}/kept.db"
        async with served(listen=where, reuse_port="true", store_url=store) as proxy:
            line = await proxy.until("cannot_listen")
            assert await proxy.exit_code() == 1
    assert where.rpartition(":")[2] in line["reason"]


async def test_a_system_without_port_sharing_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a system without port sharing, the start fails with an error that names the setting."""
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
