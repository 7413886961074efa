"""Stage of the browser tests: a strict API, a proxy in front of it, agents, and an open page."""

import contextlib
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from playwright.async_api import Browser, ConsoleMessage, Page, Request, ViewportSize
from reasoning_replay.settings.model import Settings
from reasoning_replay.web.app import App, running

from tests.strict import StrictResponses

Item = dict[str, Any]

MODEL = "gpt-5.4"
ASK = "Which of my trips will be rainy?"
TOOLS: list[Item] = [
    {
        "type": "function",
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    }
]
STEPS_MAX = 12


@dataclass
class Agent:
    """
    A client that keeps its history without the reasoning.

    Attributes:
        more: Fields of every request in addition to model, tools and input.
        marks: The proxy's header on each response.
    """

    base_url: str
    key: str = "sk-browser"
    keeps_reasoning: bool = False
    more: Item = field(default_factory=dict)
    history: list[Item] = field(default_factory=list)
    marks: list[str] = field(default_factory=list)

    async def ask(self, question: str = ASK) -> "Agent":
        """Send a question, and run tools until there is an answer."""
        self.history.append({"role": "user", "content": question})
        for _ in range(STEPS_MAX):
            if not await self.step():
                break
        return self

    async def step(self) -> bool:
        """Send the history, and run the tools; return whether the next request has their output."""
        status, answer = await self.post({"tools": TOOLS, "input": self.history})
        if status != 200:
            return False
        kept = [i for i in answer["output"] if self.keeps_reasoning or i["type"] != "reasoning"]
        calls = [item for item in kept if item["type"] == "function_call"]
        self.history += kept
        self.history += [
            {"type": "function_call_output", "call_id": call["call_id"], "output": "7° " * 40}
            for call in calls
        ]
        return bool(calls)

    async def post(self, body: Item | bytes, *, path: str = "/responses") -> tuple[int, Any]:
        """Send one request; return the status and JSON of the response."""
        headers = {"Content-Type": "application/json"}
        if self.key:
            headers["Authorization"] = f"Bearer {self.key}"
        if not isinstance(body, bytes):
            body = json.dumps({"model": MODEL} | self.more | body).encode()
        async with (
            aiohttp.ClientSession(headers=headers) as session,
            session.post(self.base_url + path, data=body) as response,
        ):
            self.marks.append(response.headers.get("x-reasoning-replay", ""))
            text = await response.text()
        is_json = text.startswith("{")
        return response.status, json.loads(text) if is_json else text


@dataclass
class Stage:
    """A strict API and a proxy in front of it."""

    api: StrictResponses
    app: App

    def agent(self, **more: Any) -> Agent:
        """Return a client of the proxy."""
        return Agent(f"{self.app.url}/v1", **more)


@contextlib.asynccontextmanager
async def stage(variant: Any = "chain", **settings: Any) -> AsyncIterator[Stage]:
    """Run a strict API and a proxy."""
    async with (
        StrictResponses(variant) as api,
        proxy_before(api.base_url, **settings) as app,
    ):
        yield Stage(api, app)


@contextlib.asynccontextmanager
async def proxy_before(upstream_url: str, **settings: Any) -> AsyncIterator[App]:
    """Run a proxy in front of an upstream."""
    given: dict[str, Any] = {
        "upstream_url": upstream_url,
        "listen": "127.0.0.1:0",
        "admin_listen": "127.0.0.1:0",
        "log_level": "error",
        "store_budget_ms": 5000,
    }
    async with running(Settings(**(given | settings))) as app:
        yield app


@dataclass
class Seen:
    """
    A page, its requests and its console.

    Attributes:
        requests: Every URL that it requested.
        complaints: Its console messages and its errors.
    """

    page: Page
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    async def rows(self) -> Sequence[str]:
        """Return the text of all visible exchanges, newest first."""
        return await self.page.locator("#rows > li:visible").all_inner_texts()


@contextlib.asynccontextmanager
async def looking(
    browser: Browser, url: str, *, width: int = 1280, height: int = 800, **context: Any
) -> AsyncIterator[Seen]:
    """Open the inspector in its own window."""
    size = ViewportSize(width=width, height=height)
    opened = await browser.new_context(viewport=size, reduced_motion="reduce", **context)
    seen = Seen(await opened.new_page())

    def note_request(request: Request) -> None:
        if not request.url.startswith("data:"):
            seen.requests.append(request.url)

    def note_said(message: ConsoleMessage) -> None:
        seen.complaints.append(message.text)

    seen.page.on("request", note_request)
    seen.page.on("console", note_said)
    seen.page.on("pageerror", lambda error: seen.complaints.append(str(error)))
    try:
        await seen.page.goto(f"{url}/")
        yield seen
    finally:
        await opened.close()
