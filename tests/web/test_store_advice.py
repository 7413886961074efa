"""A start may require the store; tests/check/test_store.py has what each mistake says."""

from pathlib import Path

import pytest

from tests.web.served import served


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
