"""Terminal: what a person reads who starts the proxy by hand."""

import asyncio
import os
import pty
import signal
import sys
from pathlib import Path

import pytest

from tests.patience import SOON_S


@pytest.mark.parametrize(
    ("upstream", "variables", "store"),
    [
        ("https://api.openai.com/v1", ["OPENAI_BASE_URL"], ""),
        (
            "https://api.anthropic.com/v1",
            ["OPENAI_BASE_URL", "ANTHROPIC_BASE_URL"],
            "redis://127.0.0.1:9",
        ),
    ],
)
async def test_a_terminal_shows_the_urls_to_use(
    upstream: str, variables: list[str], store: str, tmp_path: Path
) -> None:
    """The inspector, the store and whether it is used, and a base URL for each likely API."""
    ours, theirs = pty.openpty()
    environ = {key: value for key, value in os.environ.items() if not key.startswith("REPLAY_")}
    environ["XDG_STATE_HOME"] = str(tmp_path)
    words = ["serve", "--listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0"]
    words += [f"--store-url={store}"] if store else []
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "reasoning_replay", *words, f"--upstream-url={upstream}"),
        env=environ,
        stdout=theirs,
    )
    os.close(theirs)
    try:
        told = b""
        async with asyncio.timeout(SOON_S):
            while b"Ctrl-C ends it." not in told:
                told += await asyncio.to_thread(os.read, ours, 4096)
    finally:
        process.send_signal(signal.SIGINT)
        await process.wait()
        os.close(ours)
    text = told.decode()
    assert [name for name in ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL") if name in text] == variables
    assert "inspector  http://127.0.0.1:" in text
    assert f"store      {store or f'sqlite://{tmp_path}/'}" in text
    assert ("not used yet: ConnectionError: it cannot be reached" in text) == bool(store)
