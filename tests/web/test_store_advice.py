"""A start may require the store; tests/check/test_store.py has what each mistake says."""

from pathlib import Path

import pytest

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
