"""
Demo: one agent loop, run twice: directly to a strict upstream it fails, through the proxy it works.

It needs no key and no network: its three servers use free loopback ports and stop at its end.
`playground` keeps them running, with agents in a loop and for the reader's own code.
"""

import asyncio
import os
import sys
from dataclasses import asdict, dataclass
from typing import Final

import aiohttp

from reasoning_replay.demo.agent_loop import Loop, run_loop
from reasoning_replay.demo.side_by_side import Ink, side_by_side
from reasoning_replay.settings.model import Settings
from reasoning_replay.strict_api import DIALECTS, Script, StrictApi
from reasoning_replay.web.app import running
from reasoning_replay.wires import WIRES

DEADLINE_S: Final = 20.0  # the demo takes a fraction of a second, unless the machine hangs

OPENING: Final = """\
One agent loop, run twice against a built-in API that is as strict about reasoning as {vendor}'s.
{client}
Each turn shows the {parts} that upstream received; + marks {marked} that the proxy injected.
"""
CLOSING: Final = """\
What to do next:

  reasoning-replay demo --serve    the same API with the inspector, for your own code; no key
                                   (in a clone: make playground)
  reasoning-replay serve           the proxy in front of api.openai.com (in a clone: make serve)

For either, set one variable in your app and change nothing else:

    {variable}
"""
KEY_CLOSING: Final = """\
What to do next, with a key of {vendor}:

  reasoning-replay serve --upstream-url {url}

Set one variable in your app and change nothing else:

    {variable}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Show:
    """
    The demo of one dialect.

    Attributes:
        client: A sentence about what the client drops.
        parts, marked: What a history is made of, and what the proxy adds to it.
        wanted_error: What the direct loop must fail with.
        model: Model that the client asks.
        url: The setting `upstream_url` for the API of the vendor.
        variable: The base URL of a client of the proxy.
        closing: The text after the page, if all is as expected.
    """

    vendor: str
    client: str
    parts: str
    marked: str = "reasoning"
    wanted_error: str
    model: str
    url: str
    variable: str = "OPENAI_BASE_URL=http://127.0.0.1:8080/v1"
    closing: str = KEY_CLOSING


SHOWS: Final[dict[str, _Show]] = {
    "responses": _Show(
        vendor="OpenAI",
        client="The client keeps its calls and messages with their ids, and drops the reasoning, "
        "as many apps do.",
        parts="input",
        marked="items",
        wanted_error="was provided without its required 'reasoning' item",
        model="gpt-5.4",
        url="https://api.openai.com/v1",
        closing=CLOSING,
    ),
    "chat": _Show(
        vendor="DeepSeek",
        client="The client speaks Chat Completions and drops reasoning_content, which the OpenAI "
        "SDK does not know.",
        parts="messages",
        wanted_error="must be passed back to the API",
        model="deepseek-v4-flash",
        url="https://api.deepseek.com/v1",
    ),
    "messages": _Show(
        vendor="Anthropic",
        client="The client speaks Messages and drops thinking blocks, as many frameworks and "
        "stored chats do.",
        parts="blocks",
        wanted_error="Expected `thinking` or `redacted_thinking`",
        model="claude-sonnet-4-6",
        url="https://api.anthropic.com/v1",
        variable="ANTHROPIC_BASE_URL=http://127.0.0.1:8080",
    ),
    "gemini": _Show(
        vendor="Google",
        client="The client speaks Gemini's API and drops thoughtSignature, as many frameworks and "
        "stores do.",
        parts="parts",
        marked="signatures",
        wanted_error="Function call is missing a thought_signature",
        model="gemini-3-pro-preview",
        url="https://generativelanguage.googleapis.com/v1beta",
        variable="GOOGLE_GEMINI_BASE_URL=http://127.0.0.1:8080",
    ),
}


def run(dialect: str = "responses") -> int:
    """
    Run both loops in one dialect, and print them side by side.

    Returns:
        The exit code: 0 if the direct loop failed because its reasoning was missing, and the loop
        through the proxy finished. Otherwise 1; the page shows the reason.
    """
    show = SHOWS[dialect]
    try:
        straight, proxied = asyncio.run(_both(dialect, show))
    except (OSError, aiohttp.ClientError, TimeoutError) as error:
        print(f"The demo failed on loopback: {str(error) or type(error).__name__}")
        return 1
    ink = Ink(is_on=sys.stdout.isatty() and "NO_COLOR" not in os.environ)
    words = asdict(show)
    print(OPENING.format_map(words))
    for line in side_by_side(straight, proxied, ink):
        print(line)
    is_as_expected = show.wanted_error in straight.error and proxied.finished
    print(show.closing.format_map(words) if is_as_expected else "This was not expected.")
    return int(not is_as_expected)


async def _both(dialect: str, show: _Show) -> tuple[Loop, Loop]:
    api = StrictApi(DIALECTS[dialect](Script()))
    async with asyncio.timeout(DEADLINE_S), api as upstream:
        settings = Settings(
            upstream_url=upstream.base_url,
            listen="127.0.0.1:0",
            admin_listen="127.0.0.1:0",
            log_level="error",
        )
        async with running(settings) as app:
            wire = WIRES[dialect]
            straight = await run_loop(upstream.base_url, upstream, wire, show.model)
            return straight, await run_loop(f"{app.url}/v1", upstream, wire, show.model)
