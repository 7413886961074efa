"""
SDK loop: what the agents on the official SDKs have in common.

Each keeps its history as plain messages, sends all of it each time, and answers tool calls.
"""

import asyncio
import json
import secrets
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Self

import httpx2

from tests.e2e.agent import MARK, Way

__all__ = ["ROUNDS_MAX", "Message", "SdkLoop", "SdkStep"]

Message = dict[str, Any]
ROUNDS_MAX = 8


@dataclass(frozen=True, slots=True)
class SdkStep:
    """
    One request of an agent.

    Attributes:
        sent: Its messages, as the SDK wrote them.
        body: The bytes that the SDK wrote.
        mark: The proxy's header on the response; "" if there was none.
    """

    sent: list[Message]
    body: bytes
    mark: str


@dataclass
class SdkLoop(ABC):
    """
    A client with one conversation: its history, and each request as it was written.

    Attributes:
        base_url: Where it sends its requests: a stand-in, or a proxy in front of one.
        model: The model that it asks.
        keeps: What it sends again of an answer.
        more: Members of every request in addition to model, tools and messages.
        api_key: A key that no other agent has, so that agents never meet in a shared store.
    """

    base_url: str
    model: str
    way: Way = "async"
    keeps: str = ""
    more: Message = field(default_factory=dict)
    api_key: str = field(default_factory=lambda: f"sk-e2e-{secrets.token_hex(8)}")
    history: list[Message] = field(default_factory=list)
    steps: list[SdkStep] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._bodies: list[bytes] = []
        self._marks: list[str] = []
        self._hooks: Any = {"request": [self._note], "response": [self._note_mark]}
        self._ahooks: Any = {"request": [self._anote], "response": [self._anote_mark]}

    async def converse(self, questions: Iterable[str]) -> Self:
        """Ask each question, and answer tool calls until the model has finished."""
        for question in questions:
            self.history.append({"role": "user", "content": question})
            for _ in range(ROUNDS_MAX):
                if not await self.step():
                    break
        return self

    async def step(self) -> bool:
        """Send the history, add the answer and the results of its calls; return if it had calls."""
        request = {"model": self.model, "messages": self.told(), **self.more}
        if self.way.startswith("async"):
            answer = await self.ask_async(request, streams=self.way.endswith("stream"))
        else:
            streams = self.way.endswith("stream")
            answer = await asyncio.to_thread(self.ask, request, streams=streams)
        body = self._bodies[-1]
        self.steps.append(SdkStep(json.loads(body)["messages"], body, self._marks[-1]))
        kept = self.kept(answer)
        self.history.append(kept)
        results = self.results(kept)
        self.history += results
        return bool(results)

    def told(self) -> list[Message]:
        """Return the messages that it sends: the history, as it is told by this client."""
        return list(self.history)

    @abstractmethod
    def ask(self, request: Message, *, streams: bool) -> Message:
        """Send a request, and return the message of the answer."""

    @abstractmethod
    async def ask_async(self, request: Message, *, streams: bool) -> Message:
        """Send a request, and return the message of the answer."""

    @abstractmethod
    def kept(self, answer: Message) -> Message:
        """Return the message that the history gets for an answer."""

    @abstractmethod
    def results(self, kept: Message) -> list[Message]:
        """Return the messages with the results of its calls."""

    def _note(self, request: httpx2.Request) -> None:
        self._bodies.append(request.read())

    async def _anote(self, request: httpx2.Request) -> None:
        self._bodies.append(await request.aread())

    def _note_mark(self, response: httpx2.Response) -> None:
        self._marks.append(response.headers.get(MARK, ""))

    async def _anote_mark(self, response: httpx2.Response) -> None:
        self._marks.append(response.headers.get(MARK, ""))
