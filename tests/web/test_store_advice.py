"""Store advice: a store that cannot be used explains itself when the proxy serves, too."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.redis_server import redis_server
from tests.web.served import served
from tests.web.world import world

# (address, what the log line has as its hint); `check` has the same sentences.
PLACES = [
    ("sqlite://{tmp_path}/missing/replay.db", "there is no folder {tmp_path}/missing; create it"),
    ("sqlite://{tmp_path}/notes.txt", "use another file, or a path that does not exist yet"),
    ("sqlite://{tmp_path}", "store_url must name a file, not a folder"),
    ("redis://127.0.0.1:1", "is it running, and are host and port in store_url right?"),
    ("redis://127.0.0.1:{http}", "is it a Redis?"),
    ("redis://127.0.0.1:{guarded}", "set REPLAY_STORE_PASSWORD"),
    ("redis://:hunter2@127.0.0.1:{guarded}", "set REPLAY_STORE_PASSWORD"),
    ("rediss://127.0.0.1:{guarded}", "write redis:// and not rediss://"),
]


async def _refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer as a server of HTTP does."""
    await reader.read(1)
    writer.write(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
    writer.close()


@pytest.mark.parametrize(("url", "hint"), PLACES)
async def test_the_first_failure_has_the_way_out(
    url: str, hint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The proxy serves; one warning says why the store fails and what to do, without a secret."""
    (tmp_path / "notes.txt").write_text("not a database at all\n" * 100)
    with redis_server("requirepass right") as guarded:
        other = await asyncio.start_server(_refuse, "127.0.0.1", 0)
        async with other:
            http = other.sockets[0].getsockname()[1]
            places = {"tmp_path": tmp_path, "guarded": guarded.port, "http": http}
            # A plain Redis never answers a TLS greeting: there, the timeout is what is seen.
            limit: dict[str, Any] = {"store_budget_ms": 1000} if url.startswith("rediss:") else {}
            async with world(store_url=url.format_map(places), **limit) as w:
                await w.app.store.check()
    text = capsys.readouterr().out
    lines = [json.loads(line) for line in text.splitlines()]
    (failure,) = [line for line in lines if line["event"] == "store_failed"]
    assert hint.format_map(places) in failure["hint"]
    assert "hunter2" not in text


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
