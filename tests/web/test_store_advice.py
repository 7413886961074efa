"""Store advice: a store that cannot be used explains itself when the proxy serves, too."""

import asyncio
from pathlib import Path

import pytest

from tests.redis_server import redis_server
from tests.web.served import served
from tests.web.world import Logged, logged, world

# (address, what the log line has as its hint); `check` has the same sentences, and more tests.
PLACES = [
    ("sqlite://{tmp_path}/missing/replay.db", "there is no folder {tmp_path}/missing; create it"),
    ("redis://:hunter2@127.0.0.1:{guarded}", "set REPLAY_STORE_PASSWORD"),
    ("redis://127.0.0.1:{http}", "is it a Redis?"),
]


async def _refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer as a server of HTTP does."""
    await reader.read(1)
    writer.write(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
    writer.close()


@pytest.mark.parametrize(("url", "hint"), PLACES)
async def test_the_first_failure_has_the_way_out(
    url: str, hint: str, tmp_path: Path, capsys: Logged
) -> None:
    """The proxy serves; one warning says why the store fails and what to do, without a secret."""
    with redis_server("requirepass right") as guarded:
        async with await asyncio.start_server(_refuse, "127.0.0.1", 0) as other:
            http = other.sockets[0].getsockname()[1]
            places = {"tmp_path": tmp_path, "guarded": guarded.port, "http": http}
            async with world(store_url=url.format_map(places)) as w:
                await w.app.store.check()
    lines = logged(capsys)
    (failure,) = [line for line in lines if line["event"] == "store_failed"]
    assert hint.format_map(places) in failure["hint"]
    assert "hunter2" not in str(lines)


@pytest.mark.parametrize(
    ("folder", "code"), [("missing", 1), ("", 0)], ids=["unreachable", "reachable"]
)
async def test_a_start_may_require_the_store(tmp_path: Path, folder: str, code: int) -> None:
    """With `require_store`, a store that cannot be used ends the start, before a port opens."""
    url = f"sqlite://{tmp_path / folder}/replay.db"
    async with served(store_url=url, require_store="true") as process:
        if code:
            assert "require_store" in (await process.until("cannot_start"))["reason"]
            events = [line["event"] for line in process.log]
            assert "store_failed" in events
            assert "started" not in events
        else:
            await process.started()
            process.signal(2)
        assert await process.exit_code() == code
