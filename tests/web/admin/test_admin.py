"""The operators' port: alive, ready, and what happened so far."""

import asyncio
import json

import pytest
from reasoning_replay.core.dialects.states import CaptureState, RequestState
from reasoning_replay.core.history.plan import Outcome

from tests.redis_server import RedisServer
from tests.web.wire import whole
from tests.web.world import Hooked, world


async def test_livez_says_that_the_loop_turns() -> None:
    """Nothing else: a restart cures nothing else."""

    async def fails(_: str) -> None:
        raise RuntimeError

    async with world() as w:
        w.app.store.inner = Hooked(w.app.store.inner, fails)
        w.app.handler.drain()
        assert (await w.ask_admin("/livez")).status == 200


async def test_readyz_says_that_all_is_well() -> None:
    """Started, not draining, and the store answers."""
    async with world() as w:
        got = await w.ask_admin("/readyz")
        assert (got.status, json.loads(got.body)) == (200, {"status": "ready", "store": "ok"})


async def test_a_store_that_is_down_does_not_make_it_unready(own_redis: RedisServer) -> None:
    """The body says so, and says when it is back."""
    async with world(store_url=own_redis.url, scope_secret="s") as w:
        own_redis.kill()
        got = await w.ask_admin("/readyz")
        assert (got.status, json.loads(got.body)["store"]) == (200, "degraded")
        own_redis.start()
        async with asyncio.timeout(10):
            while json.loads(got.body)["store"] != "ok":
                await asyncio.sleep(0.02)
                got = await w.ask_admin("/readyz")
                assert got.status == 200


async def test_a_store_that_hangs_does_not_hold_it_up() -> None:
    """A probe has a deadline of its own, which may be shorter than the store's; all ask once."""
    never = asyncio.Event()
    asked: list[str] = []

    async def hangs(operation: str) -> None:
        asked.append(operation)
        await never.wait()

    async with world(store_timeout_ms=60_000) as w:
        w.app.store.inner = Hooked(w.app.store.inner, hangs)
        for _ in range(3):
            got = await asyncio.wait_for(w.ask_admin("/readyz"), 5)
            assert (got.status, json.loads(got.body)["store"]) == (200, "degraded")
        assert asked == ["check"]


async def test_while_it_drains_it_takes_no_new_traffic() -> None:
    """503 as long as running exchanges finish; still alive, and still to be scraped."""
    async with world() as w:
        w.app.handler.leave()
        got = await w.ask_admin("/readyz")
        assert (got.status, json.loads(got.body)["status"]) == (503, "draining")
        assert (await w.ask_admin("/livez")).status == 200
        assert (await w.ask_admin("/metrics")).status == 200


async def test_metrics_have_every_outcome_from_the_start() -> None:
    """A rate over a series that appears with its first event misses that event."""
    async with world() as w:
        got = await w.ask_admin("/metrics")
        lines = got.body.decode().splitlines()
        for result in RequestState:
            assert f'reasoning_replay_requests_total{{result="{result}"}} 0.0' in lines
        for state in CaptureState:
            assert f'reasoning_replay_captures_total{{result="{state}"}} 0.0' in lines
        for outcome in Outcome:
            assert f'reasoning_replay_items_total{{outcome="{outcome.value}"}} 0.0' in lines
        assert got.head.values("content-type")[0].startswith("text/plain; version=")


async def test_what_happened_is_counted() -> None:
    """By route and outcome; nothing that a client wrote is ever a label."""
    async with world() as w:
        w.upstream.answers(
            whole(b"{}"), whole(b"{}", status="429 Slow"), whole(b"", status="503 x")
        )
        for _ in range(3):
            await w.get("/v1/secret-path/sk-secret")
        text = (await w.ask_admin("/metrics")).body.decode()
        for outcome, status in (("ok", 200), ("refused", 429), ("upstream_error", 503)):
            sample = f'exchanges_total{{outcome="{outcome}",route="other",status="{status}"}} 1.0'
            assert f"reasoning_replay_{sample}" in text
        assert "secret" not in text


@pytest.mark.parametrize("path", ["/v1/models", "/nothing"])
async def test_the_two_ports_are_apart(path: str) -> None:
    """Clients' paths are not on the operators' port, and the other way round."""
    async with world() as w:
        assert (await w.ask_admin(path)).status == 404
        w.upstream.answers(whole(b"upstream's"))
        assert (await w.get("/metrics")).body == b"upstream's"
