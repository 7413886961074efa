"""
SDK loop: one scripted client on the official SDKs, for each dialect a subclass.

It keeps its history as its users do, sends all of it each time, drops what it is told to, and
answers tool calls.
"""

import asyncio
import json
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Self

import httpx2

__all__ = ["MARK", "QUESTIONS", "RESULT", "ROUNDS_MAX", "Message", "SdkLoop", "Step", "Way"]

Message = dict[str, Any]
Way = Literal["sync", "sync-stream", "async", "async-stream"]
MARK = "x-reasoning-replay"
QUESTIONS = ("Where does it rain today?", "And tomorrow?")
RESULT = "7 degrees, rain"
ROUNDS_MAX = 8


@dataclass(frozen=True, slots=True)
class Step:
    """
    One request of a client.

    Attributes:
        sent: Its history, as the SDK wrote it.
        whole: The same history with all that the model said.
        body: The bytes that the SDK wrote.
        mark: The proxy's header on the response; "" if there was none.
    """

    sent: list[Message]
    whole: list[Message]
    body: bytes
    mark: str


@dataclass
class SdkLoop(ABC):
    """
    A client with one conversation: its history, and each request as it was written.

    Attributes:
        base_url: Where it sends its requests: a strict API, or a proxy in front of one.
        keeps: What it sends again of an answer.
        more: Members of every request in addition to model, tools and history.
        api_key: A key that no other client has, so that clients never meet in a shared store.
        model: The model that it asks.
        transport: The transport of the asynchronous ways; None for the SDK's own.
        history: What it sends.
        whole: The same, complete.
    """

    base_url: str
    way: Way = "async"
    keeps: str = ""
    more: Message = field(default_factory=dict)
    api_key: str = field(default_factory=lambda: f"sk-e2e-{secrets.token_hex(8)}")
    model: str = ""
    transport: httpx2.AsyncBaseTransport | None = None
    history: list[Any] = field(default_factory=list)
    whole: list[Any] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)

    # The classes of the SDK: its two clients, and their two HTTP clients.
    sdks: ClassVar[Sequence[Callable[..., Any]]] = ()
    member: ClassVar[str] = "messages"
    tools: ClassVar[Sequence[Message]] = ()

    _sync: Any = field(default=None, init=False)
    _async: Any = field(default=None, init=False)

    async def __aenter__(self) -> Self:
        """Open both clients, with their own connections and without TLS certificates."""
        self._marks: list[str] = []
        sdk, asdk, http, ahttp = self.sdks
        hooks = {"request": [self._note], "response": [self._note_mark]}
        ahooks = {"request": [self._anote], "response": [self._anote_mark]}
        plain = http(verify=False, event_hooks=hooks)
        spun = ahttp(verify=False, transport=self.transport, event_hooks=ahooks)
        options: Any = {"base_url": self.root(self.base_url), "max_retries": 0}
        options["api_key"] = self.api_key
        self._sync = sdk(**options, http_client=plain)
        self._async = asdk(**options, http_client=spun)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close both clients."""
        self._sync.close()
        await self._async.close()

    def root(self, base_url: str) -> str:
        """Return the base URL as the SDK wants it."""
        return base_url

    async def converse(self, questions: Iterable[str] = QUESTIONS) -> Self:
        """Ask each question, and answer tool calls until the model has finished."""
        for question in questions:
            self.say(question)
            for _ in range(ROUNDS_MAX):
                if not await self.step():
                    break
        return self

    def say(self, question: str) -> None:
        """Add a question of the user."""
        self.add({"role": "user", "content": question})

    def add(self, *messages: Any) -> None:
        """Add to the history what is no answer."""
        self.whole += messages
        self.history += messages

    async def step(self, base_url: str = "") -> bool:
        """
        Send the history, add the answer to it, and answer its calls.

        Args:
            base_url: Target of this request alone.

        Returns:
            Whether tools were called, so that the model waits for another request.
        """
        whole = list(self.whole)
        request = {
            "model": self.model,
            "tools": self.tools,
            self.member: self.told(),
            **self.more,
        }
        is_async, streams = self.way.startswith("async"), self.way.endswith("stream")
        sdk = self._async if is_async else self._sync
        if base_url:
            sdk = sdk.with_options(base_url=self.root(base_url))
        if is_async:
            answer = await self.ask_async(sdk, request, streams)
        else:
            answer = await asyncio.to_thread(self.ask, sdk, request, streams)
        sent = json.loads(self.bodies[-1])[self.member]
        self.steps.append(Step(sent, whole, self.bodies[-1], self.mark()))
        self.whole += self.said(answer)
        kept = self.kept(answer)
        self.history += kept
        results = self.results(kept)
        self.add(*results)
        return bool(results)

    def mark(self) -> str:
        """Return the proxy's header on the last response."""
        return self._marks[-1] if self._marks else ""

    def told(self) -> list[Message]:
        """Return the history as it is told by this client."""
        return list(self.history)

    def ask(self, sdk: Any, request: Message, streams: bool) -> Any:
        """Send a request, and return the answer as the SDK parsed it."""
        answer = self.create(sdk)(**request, stream=streams)
        return self.joined(list(answer)) if streams else answer

    async def ask_async(self, sdk: Any, request: Message, streams: bool) -> Any:
        """Send a request, and return the answer as the SDK parsed it."""
        answer = await self.create(sdk)(**request, stream=streams)
        return self.joined([event async for event in answer]) if streams else answer

    def create(self, sdk: Any) -> Callable[..., Any]:
        """Return the function of the SDK that sends a request."""
        raise NotImplementedError

    def joined(self, events: list[Any]) -> Any:
        """Return the answer that a stream had."""
        raise NotImplementedError

    @abstractmethod
    def said(self, answer: Any) -> list[Any]:
        """Return all that an answer says, as items or messages of a history."""

    @abstractmethod
    def kept(self, answer: Any) -> list[Any]:
        """Return what the history gets of an answer."""

    @abstractmethod
    def results(self, kept: list[Any]) -> list[Message]:
        """Return the results of the calls of an answer."""

    def _note(self, request: httpx2.Request) -> None:
        self.bodies.append(request.read())

    async def _anote(self, request: httpx2.Request) -> None:
        self.bodies.append(await request.aread())

    def _note_mark(self, response: httpx2.Response) -> None:
        self._marks.append(response.headers.get(MARK, ""))

    async def _anote_mark(self, response: httpx2.Response) -> None:
        self._marks.append(response.headers.get(MARK, ""))
