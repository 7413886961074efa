"""
Demo: one agent loop, run twice: directly to a strict upstream it fails, through the proxy it works.

It needs no key and no network: its three servers use free loopback ports and stop at its end.
`playground` keeps them running, with agents in a loop and for the reader's own code.
"""

import asyncio
import os
import sys
from typing import Final

import aiohttp

from reasoning_replay.demo.agent_loop import Loop, run_loop
from reasoning_replay.demo.playground import serve
from reasoning_replay.demo.side_by_side import Ink, side_by_side
from reasoning_replay.demo.upstream import ScriptedUpstream
from reasoning_replay.settings.model import Settings
from reasoning_replay.web.app import running

__all__ = ["run", "serve"]

DEADLINE_S: Final = 20.0  # the demo takes a fraction of a second, unless the machine hangs
WANTED_ERROR: Final = "was provided without its required 'reasoning' item"

OPENING: Final = """\
One agent loop, run twice against a built-in API that is as strict about reasoning as OpenAI's.
The client keeps its calls and messages with their ids, and drops the reasoning, as many apps do.
Each turn shows the input that upstream received; + marks items that the proxy injected.
"""
CLOSING: Final = """\
What to do next:

  reasoning-replay demo --serve    the same API with the inspector, for your own code; no key
                                   (in a clone: make playground)
  reasoning-replay serve           the proxy in front of api.openai.com (in a clone: make serve)

For either, set one variable in your app and change nothing else:

    OPENAI_BASE_URL=http://127.0.0.1:8080/v1
"""


def run() -> int:
    """
    Run both loops and print them side by side.

    Returns:
        The exit code: 0 if the direct loop failed because its reasoning was missing, and the loop
        through the proxy finished with all of it. Otherwise 1; a printed line gives the reason.
    """
    try:
        straight, proxied = asyncio.run(_both())
    except (OSError, aiohttp.ClientError, TimeoutError) as error:
        print(f"The demo failed on loopback: {str(error) or type(error).__name__}")
        return 1
    ink = Ink(is_on=sys.stdout.isatty() and "NO_COLOR" not in os.environ)
    print(OPENING)
    for line in side_by_side(straight, proxied, ink):
        print(line)
    faults = _faults(straight, proxied)
    for fault in faults:
        print(ink.red(f"Not as expected: {fault}"))
    if not faults:
        print(CLOSING)
    return int(bool(faults))


async def _both() -> tuple[Loop, Loop]:
    async with asyncio.timeout(DEADLINE_S), ScriptedUpstream() as upstream:
        settings = Settings(
            upstream_url=upstream.base_url,
            listen="127.0.0.1:0",
            admin_listen="127.0.0.1:0",
            log_level="error",
        )
        async with running(settings) as app:
            straight = await run_loop(upstream.base_url, upstream)
            return straight, await run_loop(f"{app.url}/v1", upstream)


def _faults(straight: Loop, proxied: Loop) -> list[str]:
    """Return one line for each expectation that is not met."""
    faults = []
    if WANTED_ERROR not in straight.error:
        faults.append("the direct loop did not fail because of missing reasoning.")
    if not proxied.finished:
        faults.append(f"the loop through the proxy did not finish. {proxied.error}".rstrip())
    elif not proxied.injected or proxied.injected != proxied.dropped:
        injected = f"{len(proxied.injected)} of {len(proxied.dropped)}"
        faults.append(f"the proxy injected {injected} dropped reasoning items.")
    return faults
