"""Clock skew: replicas whose clocks differ keep the newest turns of a full conversation."""

import functools
import secrets
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from reasoning_replay.settings.model import Settings
from reasoning_replay.web import wiring
from reasoning_replay.web.app import running
from reasoning_replay.web.pipeline.replay import Replay

from tests.redis_server import RedisServer
from tests.web.wire import ASK, CALL, RESULT, RS, Item, as_json, response, whole
from tests.web.world import World, world

TURNS = 45
NEWEST = 10
BLOB_BYTES = 2000
DAY_S = 86_400


def turn(number: int) -> tuple[Item, Item, Item]:
    """Return the reasoning, the call and its output of one turn."""
    call_id = f"call_Zk3mQ9xT7bLw2R{number:04}"
    return (
        RS
        | {
            "id": f"rs_0c1d2e3f4a5b607182{number:04}",
            "encrypted_content": f"gAAAAB{number:04}".ljust(BLOB_BYTES, "x"),
        },
        CALL | {"id": f"fc_0c1d2e3f4a5b607182{number:04}", "call_id": call_id},
        RESULT | {"call_id": call_id},
    )


async def spoken(w: World, history: list[Item], number: int) -> list[str]:
    """Send a history without its reasoning; return the reasoning that upstream received."""
    reasoning, call, _ = turn(number)
    body = as_json(response(reasoning, call, rid=f"resp_0c1d2e3f4a5b60{number:04}"))
    w.upstream.answers(whole(body))
    await w.turn(*history)
    given: list[Mapping[str, str]] = w.sent()["input"]
    return [item["id"] for item in given if item.get("type") == "reasoning"]


@pytest.mark.parametrize("skew_s", [5, -5, DAY_S, -DAY_S])
async def test_the_newest_turns_stay(
    skew_s: int, shared_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two replicas take turns past `conversation_max_bytes`; only the oldest turns are dropped."""
    shared: dict[str, Any] = {
        "store_url": f"{shared_redis.url}?prefix=rr-{secrets.token_hex(8)}",
        "scope_secret": "s",
        "conversation_max_bytes": 64_000,
        "include": "never",
        "listen": "127.0.0.1:0",
        "admin_listen": "127.0.0.1:0",
        "store_budget_ms": 5000,
    }
    async with world(**shared) as one:
        monkeypatch.setattr(wiring, "Replay", functools.partial(_replay_of, skew_s))
        async with running(Settings(**shared, upstream_url=one.upstream.url + "/v1")) as app:
            other = World(app, one.upstream)
            history: list[Item] = [ASK]
            for number in range(TURNS):
                got = await spoken((one, other)[number % 2], history, number)
                newest = [turn(n)[0]["id"] for n in range(max(0, number - NEWEST), number)]
                assert got[-NEWEST:] == newest
                history += turn(number)[1:]
            assert len(got) < TURNS - 10  # the oldest turns were dropped


def _replay_of(skew_s: int, *args: Any, **more: Any) -> Replay:
    """Return a replay whose clock is that much ahead."""
    return replace(Replay(*args, **more), epoch_ms=lambda: int((time.time() + skew_s) * 1000))
