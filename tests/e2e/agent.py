"""A small agent on the official SDK: it keeps a history, answers tool calls and drops reasoning."""

import asyncio
import json
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Self

import httpx2
from openai import AsyncOpenAI, DefaultAsyncHttpxClient, DefaultHttpxClient, OpenAI
from openai.types.responses import ResponseOutputItem, ResponseStreamEvent

__all__ = [
    "MARK",
    "MODEL",
    "QUESTIONS",
    "Agent",
    "Answer",
    "Item",
    "Keeps",
    "Step",
    "Way",
    "items_of",
]

Item = dict[str, Any]
Way = Literal["sync", "sync-stream", "async", "async-stream"]
Keeps = Literal["everything", "ids", "no-ids"]
"""What the client replays of a response: all, all except reasoning, or the same without ids."""

MARK = "x-reasoning-replay"
MODEL = "gpt-5.4"
QUESTIONS = ("Where does it rain today?", "And tomorrow?")
TOOLS: list[Item] = [
    {
        "type": "function",
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
    {"type": "custom", "name": "run_code"},
]
ID_IS_OPTIONAL = ("function_call", "custom_tool_call", "message")
ROUNDS_MAX = 8


@dataclass(frozen=True, slots=True)
class Step:
    """
    One request of an agent.

    Attributes:
        sent: Its input, as the SDK wrote it.
        whole: The same history with every reasoning item and every id in it.
        body: The bytes that the SDK wrote.
        mark: The proxy's header on the response; "" if there was none.
    """

    sent: list[Item]
    whole: list[Item]
    body: bytes
    mark: str


class Answer(NamedTuple):
    """Output items as the SDK parsed them, and the proxy's header."""

    output: list[ResponseOutputItem]
    mark: str


@dataclass
class Agent:
    """
    A client with one conversation: its history, and each request as it was written.

    Items that it replays unchanged are the SDK's own objects; trimmed ones are plain dictionaries.

    Attributes:
        more: Members of every request in addition to model, tools and input.
        api_key: A key that no other agent has, so that agents never meet in a shared store.
        transport: The transport of the asynchronous ways; None for the SDK's own.
        is_marked: Whether responses carry the proxy's header.
        history: The input that it sends.
        whole: The same history, complete.
    """

    base_url: str
    way: Way = "async"
    keeps: Keeps = "ids"
    more: Item = field(default_factory=dict)
    api_key: str = field(default_factory=lambda: f"sk-e2e-{secrets.token_hex(8)}")
    transport: httpx2.AsyncBaseTransport | None = None
    is_marked: bool = True
    history: list[Item | ResponseOutputItem] = field(default_factory=list)
    whole: list[Item] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)

    async def __aenter__(self) -> Self:
        """Open both clients, with their own connections and without TLS certificates."""
        self._bodies: list[bytes] = []
        plain = DefaultHttpxClient(verify=False, event_hooks={"request": [self._note]})
        spun = DefaultAsyncHttpxClient(
            verify=False, transport=self.transport, event_hooks={"request": [self._anote]}
        )
        key = self.api_key
        self._sync = OpenAI(base_url=self.base_url, api_key=key, max_retries=0, http_client=plain)
        self._async = AsyncOpenAI(
            base_url=self.base_url, api_key=key, max_retries=0, http_client=spun
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close both clients."""
        self._sync.close()
        await self._async.close()

    async def converse(self, questions: Iterable[str] = QUESTIONS) -> Self:
        """Ask each question, and answer tool calls until the model has finished."""
        for question in questions:
            self.say(question)
            for _ in range(ROUNDS_MAX):
                if not await self.step():
                    break
        return self

    def say(self, question: str) -> None:
        """Add a user message."""
        self._add({"role": "user", "content": question})

    async def step(self, base_url: str | None = None) -> bool:
        """
        Send the history, add the response to it, and answer its tool calls.

        Args:
            base_url: Target of this request alone.

        Returns:
            Whether tools were called, so that the model waits for another request.
        """
        whole = list(self.whole)
        request = {"model": MODEL, "tools": TOOLS, "input": self.history, **self.more}
        where = base_url or self.base_url
        if self.way.startswith("async"):
            answer = await self._ask_async(where, request)
        else:
            answer = await asyncio.to_thread(self._ask_sync, where, request)
        body = self._bodies[-1]
        self.steps.append(Step(json.loads(body)["input"], whole, body, answer.mark))
        calls = []
        for item in answer.output:
            self._keep(item)
            if item.type in ("function_call", "custom_tool_call"):
                calls.append(item)
        for call in calls:
            kind = f"{call.type}_output"
            self._add({"type": kind, "call_id": call.call_id, "output": "7 degrees, rain"})
        return bool(calls)

    def _add(self, item: Item) -> None:
        self.whole.append(item)
        self.history.append(item)

    def _keep(self, item: ResponseOutputItem) -> None:
        emitted = item.to_dict()
        self.whole.append(emitted)
        if item.type == "reasoning" and self.keeps != "everything":
            return
        if self.keeps == "no-ids" and item.type in ID_IS_OPTIONAL:
            self.history.append({name: emitted[name] for name in emitted if name != "id"})
        else:
            self.history.append(item)

    def _ask_sync(self, base_url: str, request: Item) -> Answer:
        sdk = self._sync.with_options(base_url=base_url).responses.with_raw_response
        if self.way == "sync":
            raw = sdk.create(**request)
            return Answer(raw.parse().output, raw.headers.get(MARK, ""))
        told = sdk.create(**request, stream=True)
        return Answer(items_of(list(told.parse())), told.headers.get(MARK, ""))

    async def _ask_async(self, base_url: str, request: Item) -> Answer:
        sdk = self._async.with_options(base_url=base_url).responses.with_raw_response
        if self.way == "async":
            raw = await sdk.create(**request)
            return Answer(raw.parse().output, raw.headers.get(MARK, ""))
        told = await sdk.create(**request, stream=True)
        return Answer(items_of([event async for event in told.parse()]), told.headers.get(MARK, ""))

    def _note(self, request: httpx2.Request) -> None:
        self._bodies.append(request.read())

    async def _anote(self, request: httpx2.Request) -> None:
        self._bodies.append(await request.aread())


def items_of(events: list[ResponseStreamEvent]) -> list[ResponseOutputItem]:
    """Return the items of a stream, which must be complete."""
    assert events[-1].type == "response.completed"
    assert [event.sequence_number for event in events] == list(range(len(events)))
    return [event.item for event in events if event.type == "response.output_item.done"]
