"""Own store: a person who starts the proxy without a setting loses nothing by a restart."""

from pathlib import Path

import pytest

from tests.web.line import line_to
from tests.web.scripted import scripted
from tests.web.served import served
from tests.web.wire import ASK, CALL, RESULT, RS, as_json, response, whole
from tests.web.world import post


async def test_a_restart_loses_no_conversation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reasoning is in a file that only its owner can read; the log names it."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    turns = [(ASK,), (ASK, CALL, RESULT)]
    marks: list[str | None] = []
    async with scripted() as upstream:
        upstream.answers(whole(as_json(response(RS, CALL))), whole(b"{}"))
        for items in turns:
            async with served(upstream_url=f"{upstream.url}/v1", store_url=None) as proxy:
                await proxy.started()
                async with line_to(proxy.url) as line:
                    marks.append((await line.ask(post({"model": "m", "input": items}))).mark)

    assert marks[1] == "injected=1"
    file = tmp_path / "reasoning-replay" / "replay.db"
    assert [path.stat().st_mode & 0o777 for path in (file.parent, file)] == [0o700, 0o600]
