"""A start may require the store; tests/check/test_store.py has what each mistake says."""

from pathlib import Path

import pytest

from tests.redis_server import RedisServer
from tests.web.served import served


@pytest.mark.parametrize(
    ("store", "code"),
    [("redis://127.0.0.1:9", 1), ("sqlite://{tmp_path}/replay.db", 0)],
    ids=["unreachable", "reachable"],
)
async def test_a_start_may_require_the_store(tmp_path: Path, store: str, code: int) -> None:
    """With `require_store`, also a fault that may pass ends the start, before a port opens."""
    url = store.format(tmp_path=tmp_path)
    async with served(store_url=url, require_store="true") as process:
        if code:
            assert "require_store" in (await process.until("cannot_start"))["reason"]
            events = [line["event"] for line in process.log]
            assert "store_failed" in events
            assert "started" not in events
        else:
            await process.started()
            assert process.log[-1]["store_state"] == "ok"
            process.signal(2)
        assert await process.exit_code() == code


async def test_a_store_that_can_be_read_is_enough(own_redis: RedisServer) -> None:
    """A new replica must not wait for room in a Redis that has what it looks up."""
    own_redis.do("CONFIG", "SET", "maxmemory", "1", "maxmemory-policy", "noeviction")
    async with served(store_url=own_redis.url, require_store="true") as process:
        await process.started()
        assert process.log[-1]["store_state"] == "degraded"
        assert process.log[0]["operation"] == "save"
