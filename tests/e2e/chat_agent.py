"""
Chat agent: a tool loop on the official SDK that keeps its history as plain messages.

It keeps the members that the SDK declares, and so drops reasoning, which the SDK does not know.
"""

import asyncio
import json
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, Self

import httpx2
from openai import AsyncOpenAI, DefaultAsyncHttpxClient, DefaultHttpxClient, OpenAI

from tests.e2e.agent import MARK, Way
from tests.standin.chat.joining import join

__all__ = ["CHAT_TOOLS", "ChatAgent", "ChatKeeps", "ChatStep", "Message"]

Message = dict[str, Any]
ChatKeeps = Literal["everything", "declared", "respelled"]
"""
What the client sends again of an answer.

All of it; the members that the SDK declares; or these in other words: "" for a null content,
arguments serialised again, and ids of its own.
"""

CHAT_TOOLS: list[Message] = [
    {
        "type": "function",
        "function": {
            "name": name,
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
        },
    }
    for name in ("get_weather", "find_trains")
]
ROUNDS_MAX = 8


@dataclass(frozen=True, slots=True)
class ChatStep:
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
class ChatAgent:
    """
    A client with one conversation: its history, and each request as it was written.

    Attributes:
        base_url: Where it sends its requests: a stand-in, or a proxy in front of one.
        model: The model that it asks.
        more: Members of every request in addition to model, tools and messages.
        api_key: A key that no other agent has, so that agents never meet in a shared store.
    """

    base_url: str
    model: str
    way: Way = "async"
    keeps: ChatKeeps = "declared"
    more: Message = field(default_factory=dict)
    api_key: str = field(default_factory=lambda: f"sk-e2e-{secrets.token_hex(8)}")
    history: list[Message] = field(default_factory=list)
    steps: list[ChatStep] = field(default_factory=list)

    async def __aenter__(self) -> Self:
        """Open both clients, with their own connections and without TLS certificates."""
        self._bodies: list[bytes] = []
        self._marks: list[str] = []
        plain = DefaultHttpxClient(
            verify=False, event_hooks={"request": [self._note], "response": [self._note_mark]}
        )
        spun = DefaultAsyncHttpxClient(
            verify=False, event_hooks={"request": [self._anote], "response": [self._anote_mark]}
        )
        options: Any = {"base_url": self.base_url, "api_key": self.api_key, "max_retries": 0}
        self._sync = OpenAI(**options, http_client=plain)
        self._async = AsyncOpenAI(**options, http_client=spun)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close both clients."""
        self._sync.close()
        await self._async.close()

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
        request = {
            "model": self.model,
            "tools": CHAT_TOOLS,
            "messages": list(self.history),
            "stream": self.way.endswith("stream"),
            **self.more,
        }
        if self.way.startswith("async"):
            answer = await self._ask_async(request)
        else:
            answer = await asyncio.to_thread(self._ask_sync, request)
        body = self._bodies[-1]
        self.steps.append(ChatStep(json.loads(body)["messages"], body, self._marks[-1]))
        kept = self._kept(answer)
        self.history.append(kept)
        for call in kept.get("tool_calls") or ():
            result = {"role": "tool", "tool_call_id": call["id"], "content": "7 degrees, rain"}
            self.history.append(result)
        return bool(kept.get("tool_calls"))

    def _kept(self, answer: Message) -> Message:
        """Return the message that the history gets for an answer."""
        if self.keeps == "everything":
            return answer
        is_respelled = self.keeps == "respelled"
        kept: Message = {"role": "assistant", "content": answer.get("content")}
        if is_respelled and not kept["content"]:
            kept["content"] = ""
        calls = [
            {
                # Without an id from the model, a client must make one.
                "id": (not is_respelled and call["id"]) or f"call_{secrets.token_hex(16)}",
                "type": "function",
                "function": {
                    "name": call["function"]["name"],
                    "arguments": _respelled(call["function"]["arguments"])
                    if is_respelled
                    else call["function"]["arguments"],
                },
            }
            for call in answer.get("tool_calls") or ()
        ]
        return kept | ({"tool_calls": calls} if calls else {})

    def _ask_sync(self, request: Message) -> Message:
        answer: Any = self._sync.chat.completions.create(**request)
        if request["stream"]:
            return join([chunk.to_dict(warnings=False) for chunk in answer])
        return _message(answer)

    async def _ask_async(self, request: Message) -> Message:
        answer: Any = await self._async.chat.completions.create(**request)
        if request["stream"]:
            return join([chunk.to_dict(warnings=False) async for chunk in answer])
        return _message(answer)

    def _note(self, request: httpx2.Request) -> None:
        self._bodies.append(request.read())

    async def _anote(self, request: httpx2.Request) -> None:
        self._bodies.append(await request.aread())

    def _note_mark(self, response: httpx2.Response) -> None:
        self._marks.append(response.headers.get(MARK, ""))

    async def _anote_mark(self, response: httpx2.Response) -> None:
        self._marks.append(response.headers.get(MARK, ""))


def _message(answer: Any) -> Message:
    """
    Return the message of an answer with all that the SDK kept of it.

    Raises:
        AssertionError: There is an error inside a 200.
    """
    assert answer.choices, answer.to_dict()
    made: Message = answer.choices[0].message.to_dict(warnings=False)
    return made


def _respelled(arguments: str) -> str:
    return json.dumps(json.loads(arguments), separators=(",", ":"), sort_keys=True)
