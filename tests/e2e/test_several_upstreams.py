"""Three SDKs, three strict APIs, and one proxy between them, as in config/several.yaml."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml
from aiohttp import web
from anthropic import APIStatusError
from reasoning_replay.settings.model import Settings
from reasoning_replay.strict_api import StrictApi
from reasoning_replay.web.app import App, running

from tests.e2e.agent import Agent
from tests.e2e.gemini_agent import GeminiAgent
from tests.e2e.messages_agent import MessagesAgent
from tests.e2e.test_gemini_sdk import assert_whole
from tests.strict_api.scripted import listening

NAMES = yaml.safe_load((Path(__file__).parents[2] / "config/several.yaml").read_text())["upstreams"]
KEYS = {"openai": "sk-proj-of-openai", "anthropic": "sk-ant-api03-of-anthropic"}
THINKING = {"type": "enabled", "budget_tokens": 1024}
CARRIERS = ("Authorization", "x-api-key", "x-goog-api-key")
ASKED = ("Where does it rain today?", "And tomorrow?")


class Three(NamedTuple):
    """
    A proxy, and its upstreams by name.

    Attributes:
        keys: The keys that each upstream got.
    """

    app: App
    apis: dict[str, StrictApi]
    keys: dict[str, set[str]]

    async def openai(self) -> None:
        """Converse with OpenAI's SDK."""
        url = f"{self.app.url}/openai/v1"
        async with Agent(url, keeps="ids", api_key=KEYS["openai"]) as agent:
            await agent.converse()

    async def anthropic(self) -> None:
        """Converse with Anthropic's SDK."""
        url, key = f"{self.app.url}/anthropic/v1", KEYS["anthropic"]
        async with MessagesAgent(
            url, more={"thinking": THINKING}, api_key=key, model="claude-sonnet-4-6"
        ) as agent:
            await agent.converse(ASKED)

    async def gemini(self) -> None:
        """Converse with Google's SDK."""
        url = f"{self.app.url}/gemini/v1"
        async with GeminiAgent(url, "async", "visible", model="gemini-3-pro-preview") as agent:
            await agent.converse(ASKED)


@contextlib.asynccontextmanager
async def three(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Three]:
    """Run all of them."""
    keys: dict[str, set[str]] = {}
    respond = StrictApi.respond

    async def noted(api: StrictApi, request: web.Request) -> web.StreamResponse:
        given = [request.headers.get(name, "") for name in CARRIERS]
        keys.setdefault(api.base_url, set()).update(
            one.removeprefix("Bearer ") for one in given if one
        )
        return await respond(api, request)

    monkeypatch.setattr(StrictApi, "respond", noted)
    async with contextlib.AsyncExitStack() as stack:
        apis = {
            name: await stack.enter_async_context(listening(dialect))
            for name, dialect in zip(NAMES, ("responses", "messages", "gemini"), strict=True)
        }
        settings = Settings(
            upstreams={name: {"url": api.base_url} for name, api in apis.items()},
            listen="127.0.0.1:0",
            admin_listen="127.0.0.1:0",
            store_budget_ms=5000,
            log_level="error",
        )
        app = await stack.enter_async_context(running(settings))
        yield Three(app, apis, keys)


async def test_three_sdks_share_one_port(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has its reasoning injected, and each API gets the keys of its own clients alone."""
    async with three(monkeypatch) as w:
        await asyncio.gather(w.openai(), w.anthropic(), w.gemini())
        for api in w.apis.values():
            assert_whole(api)
        got = {name: w.keys[api.base_url] for name, api in w.apis.items()}

    assert got["openai"] == {KEYS["openai"]}
    assert got["anthropic"] == {KEYS["anthropic"]}
    assert len(got["gemini"]) == 1
    assert not got["gemini"] & (got["openai"] | got["anthropic"])


async def test_one_of_them_is_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its client gets a 502, and the conversations of the others end whole."""
    async with three(monkeypatch) as w:
        await w.apis["anthropic"].__aexit__()
        others = asyncio.gather(w.openai(), w.gemini())
        with pytest.raises(APIStatusError, match="could not be reached") as caught:
            await w.anthropic()
        await others
        assert caught.value.status_code == 502
        for name in ("openai", "gemini"):
            assert_whole(w.apis[name])
