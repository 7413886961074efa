"""Admin port: liveness, readiness and metrics."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from reasoning_replay.build import build_version
from reasoning_replay.web.admin import app as admin

from tests.patience import SOON_S
from tests.redis_server import RedisServer
from tests.web.line import line_to, request
from tests.web.scripted import Script, send, wait
from tests.web.wire import ASK, CALL, RESULT, RS, as_json, whole
from tests.web.world import Hooked, World, eventually, world


async def test_livez_is_ok_while_the_event_loop_responds() -> None:
    """Whatever the store and the drain do: a restart would repair nothing else."""

    async def fails(_: str) -> None:
        raise RuntimeError

    async with world(has_store=True) as w:
        w.app.store.inner = Hooked(w.app.store.inner, fails)
        w.app.handler.drain()
        got = await w.ask_admin("/livez")
        assert got.status == 200
        # So that a person sees which proxy this is.
        assert got.body.decode() == f"reasoning-replay {build_version()} for {w.upstream.url}\n"


@pytest.mark.parametrize(
    ("target", "base"),
    [("/v1/responses", "/v1"), ("/chat/completions", "/v1"), ("/v1/messages", "")],
)
async def test_a_client_on_this_port_is_told_the_right_one(target: str, base: str) -> None:
    """The admin port as a base URL is a 404 that names the base URL of this sort of client."""
    async with world() as w, line_to(w.app.admin_url) as line:
        got = await line.ask(request("POST", target, "Authorization: Bearer sk-a", body=b"{}"))
        error = json.loads(got.body)["error"]
        assert (got.status, error["code"], got.mark) == (404, "admin_port", "error=admin_port")
        assert error["message"].endswith(f" {w.app.url}{base}.")


async def test_a_store_that_is_down_does_not_make_it_unready(own_redis: RedisServer) -> None:
    """A store that is down leaves the proxy ready; the body reports its failure and recovery."""
    async with world(store_url=own_redis.url, scope_secret="s") as w:
        own_redis.kill()
        got = await w.ask_admin("/readyz")
        assert (got.status, json.loads(got.body)["store"]) == (200, "degraded")
        own_redis.start()
        async with asyncio.timeout(SOON_S):
            while json.loads(got.body)["store"] != "ok":
                await asyncio.sleep(0.02)
                got = await w.ask_admin("/readyz")
                assert got.status == 200


async def test_a_draining_process_is_not_ready() -> None:
    """During the drain, `/readyz` is 503, while `/livez` and `/metrics` still respond."""
    async with world() as w:
        got = await w.ask_admin("/readyz")
        assert (got.status, json.loads(got.body)) == (200, {"status": "ready", "store": "ok"})
        w.app.handler.leave()
        got = await w.ask_admin("/readyz")
        assert (got.status, json.loads(got.body)) == (503, {"status": "draining", "store": "ok"})
        assert (await w.ask_admin("/livez")).status == 200
        assert (await w.ask_admin("/metrics")).status == 200


async def test_metrics_have_those_of_the_process() -> None:
    """Memory, CPU, open files and start time are read at each scrape; each metric is there once."""
    async with world() as w:
        got = await w.ask_admin("/metrics")
        assert got.head.values("content-type")[0].startswith("text/plain; version=")
        text = got.body.decode()
        families = [family.name for family in text_string_to_metric_families(text)]
        assert {"process_resident_memory_bytes", "process_cpu_seconds"} < set(families)
        assert {"process_open_fds", "process_start_time_seconds"} < set(families)
        assert len(set(families)) == len(families)


@pytest.mark.usefixtures("leaves_at_once")
async def test_connections_and_held_bytes_are_those_of_the_moment() -> None:
    """A gauge rises while a request waits for the upstream, and falls with its end."""
    body = as_json({"model": "gpt-5.4", "input": [ASK]})
    async with world(max_connections=7, inspect_total_max_bytes=1_000_000) as w:
        assert w.counted("max_connections") == 7
        assert w.counted("memory_budget_max_bytes") == 1_000_000
        script = Script([wait(), send(whole(b"{}"))])
        w.upstream.plays(script)
        async with line_to(w.app.url) as line, line_to(w.app.url):
            await line.send(request("POST", "/v1/responses", "Authorization: Bearer a", body=body))
            await script.arrived.wait()
            text = (await w.ask_admin("/metrics")).body.decode()
            assert "\nreasoning_replay_connections 2.0\n" in text
            assert f"\nreasoning_replay_memory_budget_used_bytes {float(len(body))}\n" in text
            assert "\nreasoning_replay_in_flight 1.0\n" in text
        await eventually(lambda: w.counted("connections") == 0)
        await eventually(lambda: w.counted("memory_budget_used_bytes") == 0)
        await eventually(lambda: w.counted("in_flight") == 0)


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_store_that_is_full_shows_it(kind: str, tmp_path: Path) -> None:
    """Size, limit, conversations and evictions of an embedded store are read at each scrape."""
    limit = 120_000
    settings: dict[str, Any] = {
        "memory": {"store_url": "memory://", "store_max_bytes": limit},
        "sqlite": {
            "store_url": f"sqlite://{tmp_path}/replay.db",
            "scope_secret": "s",
            "store_max_bytes": limit,
        },
    }[kind]
    conversations = 20
    async with world(**settings) as w:
        first = await usage(w)
        for n in range(conversations):
            item = {**CALL, "id": f"fc_{n}", "call_id": f"call_{n}"}
            reasoning = {**RS, "id": f"rs_{n}", "encrypted_content": "x" * 20_000}
            answer = {"id": f"resp_{n}", "status": "completed", "output": [reasoning, item]}
            w.upstream.answers(whole(as_json(answer)))
            assert (await w.turn({"role": "user", "content": f"{n}"})).status == 200
        full = await usage(w)

    assert (first["store_conversations"], first["store_evicted_total"]) == (0, 0)
    assert first["store_max_bytes"] == full["store_max_bytes"] == limit
    assert 0.5 * limit < full["store_bytes"] <= limit
    assert full["store_conversations"] + full["store_evicted_total"] == conversations
    assert 0 < full["store_conversations"] < full["store_evicted_total"]


async def usage(w: World) -> dict[str, float]:
    """Return the metrics of a store's use from a scrape, by name."""
    text = (await w.ask_admin("/metrics")).body.decode()
    found = re.findall(r"^reasoning_replay_(store_\w+) (\S+)$", text, re.MULTILINE)
    return {name: float(value) for name, value in found if name != "store_up"}


@pytest.mark.parametrize(("path", "operation"), [("/readyz", "check"), ("/metrics", "usage")])
async def test_a_store_that_hangs_delays_no_probe(path: str, operation: str) -> None:
    """A store has a moment to answer; all probes share one call, and go on without it."""
    never = asyncio.Event()
    asked: list[str] = []

    async def hangs(operation: str) -> None:
        asked.append(operation)
        await never.wait()

    async with world(has_store=True, store_budget_ms=60_000) as w:
        w.app.store.inner = Hooked(w.app.store.inner, hangs)
        for _ in range(3):
            got = await asyncio.wait_for(w.ask_admin(path), SOON_S)
            assert got.status == 200
            assert (b'"store": "degraded"' in got.body) == (path == "/readyz")
            assert b"reasoning_replay_store_bytes" not in got.body
        assert asked == [operation]


async def test_redis_limits_its_own_size(shared_redis: RedisServer) -> None:
    """There are no metrics of a store whose limit is on its server."""
    async with world(store_url=shared_redis.url, scope_secret="s") as w:
        assert await usage(w) == {}


async def test_no_label_has_a_value_that_a_client_wrote() -> None:
    """Such a value could be a secret, and there is no bound on their number."""
    async with world() as w:
        w.upstream.answers(whole(b"{}"))
        await w.get("/v1/secret-path/sk-secret")
        text = (await w.ask_admin("/metrics")).body.decode()
        assert 'exchanges_total{outcome="ok",route="other",status="200"} 1.0' in text
        assert "secret" not in text


@pytest.mark.parametrize("path", ["/v1/models", "/nothing"])
async def test_the_two_ports_share_no_path(path: str) -> None:
    """The admin port has no client path, and the clients' port has no admin path."""
    async with world() as w:
        assert (await w.ask_admin(path)).status == 404
        w.upstream.answers(whole(b"upstream's"))
        assert (await w.get("/metrics")).body == b"upstream's"


async def test_a_recovery_is_detected_without_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that saw the failure may get no other request for a long time."""
    monkeypatch.setattr(admin, "LOOK_S", 0.05)
    is_away, checks = True, 0

    async def fails(operation: str) -> None:
        nonlocal checks
        checks += operation == "check"
        if is_away:
            raise ConnectionError

    async with world(has_store=True) as w:
        w.app.store.inner = Hooked(w.app.store.inner, fails)
        w.upstream.otherwise = whole(b"{}")
        await w.turn(ASK, CALL, RESULT)
        assert w.counted("store_up") == 0
        await eventually(lambda: checks > 1)
        assert w.counted("store_up") == 0
        is_away = False
        await eventually(lambda: w.counted("store_up") == 1)


async def test_a_healthy_store_is_not_probed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A healthy store is not probed."""
    monkeypatch.setattr(admin, "LOOK_S", 0.0)
    asked: list[str] = []

    async def note(operation: str) -> None:
        asked.append(operation)

    async with world(has_store=True) as w:
        w.app.store.inner = Hooked(w.app.store.inner, note)
        w.upstream.otherwise = whole(b"{}")
        await w.get("/v1/models")
        await w.get("/v1/models")
    assert asked == []
