"""The README's example works unchanged."""

import asyncio
import os
import re
import sys

from reasoning_replay.settings.model import Settings
from reasoning_replay.web.app import running

from tests.docs.page_tables import ROOT
from tests.strict import StrictResponses

README = (ROOT / "README.md").read_text()


async def test_the_example_prints_what_the_readme_promises() -> None:
    """The second request of a client that drops its reasoning gets it injected."""
    example = re.search(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    assert example is not None
    address = f"http://{Settings().listen}/v1"
    assert address in example[1]
    async with StrictResponses("one_call", "strict") as api:
        settings = Settings(
            upstream_url=api.base_url,
            listen="127.0.0.1:0",
            admin_listen="127.0.0.1:0",
            log_level="error",
            store_budget_ms=5000,
        )
        async with running(settings) as app:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-c",
                example[1].replace(address, f"{app.url}/v1"),
                env={**os.environ, "OPENAI_API_KEY": "sk-test", "NO_PROXY": "127.0.0.1"},
                stdout=asyncio.subprocess.PIPE,
            )
            printed, _ = await process.communicate()

    assert printed.decode().splitlines() == ["injected=0", "injected=1"]
    assert "this prints `injected=0`, then `injected=1`" in README
