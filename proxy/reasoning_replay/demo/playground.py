"""
Playground: a scripted API, the proxy in front of it, and agents in a loop, until Ctrl-C.

It needs no key and no network. The reader opens the inspector, and points their own code at the
proxy. Everything listens on loopback and is kept in memory.
"""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator
from typing import Final, NamedTuple

from reasoning_replay.demo.traffic import KEYS, keep_talking
from reasoning_replay.settings.model import Settings
from reasoning_replay.strict_api import DIALECTS, Script, StrictApi
from reasoning_replay.web.app import running
from reasoning_replay.web.wiring import scoping

ANY: Final = "127.0.0.1:0"
WORD_S: Final = 0.05  # a model writes about twenty words in a second
KEPT_S: Final = 3600  # the agents never return to a conversation

WELCOME: Final = """\
The playground is running, on this machine only: an API as strict about reasoning as OpenAI's
(as DeepSeek's on Chat Completions, Anthropic's on Messages, and Google's on Gemini's own), the
proxy in front of it, and a few agents that talk through the proxy and drop their reasoning.

  Watch the agents:     {inspector}
  Watch your own code:  {inspector}#show=mine
  Point your code at:   OPENAI_BASE_URL={base_url} OPENAI_API_KEY=any
                        ANTHROPIC_BASE_URL={root} ANTHROPIC_API_KEY=any
                        GOOGLE_GEMINI_BASE_URL={root} GEMINI_API_KEY=any
  The same API without the proxy, to compare:
                        OPENAI_BASE_URL={upstream_url}
                        ANTHROPIC_BASE_URL={upstream_root}
                        GOOGLE_GEMINI_BASE_URL={upstream_root}

A first request of your own:

  curl -si {base_url}/responses -H 'Authorization: Bearer any' \\
      -H 'Content-Type: application/json' -d '{{"model": "gpt-5.4", "input": "Hello"}}'

The examples in the folder examples/ run against it unchanged. The API's answers are scripted.
Here one API speaks for all vendors. In front of the vendors' own, one proxy serves several too,
each at its name: {root}/anthropic, for example. See docs/several-upstreams.md.
Ctrl-C ends the playground."""


class Playground(NamedTuple):
    """The addresses of a running playground; both base URLs end in `/v1`."""

    base_url: str
    upstream_url: str
    inspector: str


def serve() -> int:
    """
    Run the playground until Ctrl-C.

    Returns:
        The exit code: 0 after Ctrl-C, 1 if it could not listen; a printed line gives the reason.
    """
    # A shell starts background jobs with SIGINT ignored, and `kill -INT` shall end them as well.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        asyncio.run(_serve())
    except KeyboardInterrupt:
        print("\nThe playground has ended.")
    except OSError as error:
        print(f"The playground cannot listen on loopback: {error}")
        return 1
    return 0


async def _serve() -> None:
    fields = Settings.model_fields
    listen, admin_listen = fields["listen"].default, fields["admin_listen"].default
    async with contextlib.AsyncExitStack() as stack:
        try:
            place = await stack.enter_async_context(playground(listen, admin_listen))
        except OSError:
            place = await stack.enter_async_context(playground(ANY, ANY))
            print(f"{listen} or {admin_listen} is in use, so free ports were chosen instead.")
        # Flushed, because a pipe would show it only at the end.
        print(_welcome(place), flush=True)
        await asyncio.Event().wait()


def _welcome(place: Playground) -> str:
    """Return what the reader needs to know."""
    root, upstream_root = (url.removesuffix("/v1") for url in (place.base_url, place.upstream_url))
    return WELCOME.format(**place._asdict(), root=root, upstream_root=upstream_root)


@contextlib.asynccontextmanager
async def playground(
    listen: str, admin_listen: str, word_s: float = WORD_S
) -> AsyncIterator[Playground]:
    """
    Run a playground for the duration of the block; its model writes one word in `word_s`.

    Raises:
        OSError: A port cannot be opened.
    """
    dialects = [dialect(Script()) for dialect in DIALECTS.values()]
    async with StrictApi(*dialects, word_s=word_s) as upstream:
        settings = Settings(
            upstream_url=upstream.base_url,
            listen=listen,
            admin_listen=admin_listen,
            ttl_s=KEPT_S,
            log_level="error",
        )
        async with running(settings) as app:
            tenants = [scoping(settings).of({"Authorization": f"Bearer {key}"}) for key in KEYS]
            app.agents += [tenant.hex() for tenant in tenants if tenant is not None]
            place = Playground(f"{app.url}/v1", upstream.base_url, f"{app.admin_url}/")
            talking = asyncio.create_task(keep_talking(place.base_url, place.upstream_url, word_s))
            try:
                yield place
            finally:
                talking.cancel()
                await asyncio.wait([talking])
