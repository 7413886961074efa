"""
Gemini agent: a tool loop on the SDK of Google, as its users write them.

The SDK keeps signatures; the agent drops them, as frameworks and stores of histories do.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Literal

import aiohttp
from google import genai
from google.genai import types

from tests.e2e.agent import Way
from tests.e2e.sdk_loop import ROUNDS_MAX

__all__ = ["GeminiAgent", "GeminiKeeps", "gemini_agent"]

GeminiKeeps = Literal["everything", "visible", "nameless"]
"""
What the client sends again of an answer.

All of it; all except signatures and thoughts; or that without the ids of calls, and with a text
that was streamed in pieces as one.
"""
Part = dict[str, Any]
TOOL = types.Tool(
    function_declarations=[
        types.FunctionDeclaration(
            name="get_weather",
            description="Tells the weather of a city.",
            parameters_json_schema={
                "type": "object",
                "properties": {"city": {"type": "string"}},
            },
        )
    ]
)


@dataclass
class GeminiAgent:
    """
    A client with one conversation.

    Attributes:
        history: Its contents.
        bodies: The bytes of each request, as the SDK wrote them.
    """

    client: genai.Client
    model: str
    way: Way
    keeps: GeminiKeeps = "visible"
    config: dict[str, Any] = field(default_factory=dict)
    history: list[Part] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)

    async def converse(self, questions: Iterable[str]) -> None:
        """Ask each question, and answer tool calls until the model has finished."""
        for question in questions:
            self.history.append({"role": "user", "parts": [{"text": question}]})
            for _ in range(ROUNDS_MAX):
                if not await self.step():
                    break

    async def step(self) -> bool:
        """Send the history, add the answer and the results of its calls; return if it had calls."""
        off = types.AutomaticFunctionCallingConfig(disable=True)
        config = types.GenerateContentConfig(
            tools=[TOOL], automatic_function_calling=off, **self.config
        )
        asked: Any = {"model": self.model, "contents": self.history, "config": config}
        if self.way.startswith("async"):
            answers = await self._ask_async(asked)
        else:
            answers = await asyncio.to_thread(lambda: [*self._ask(asked)])
        parts = [part for answer in answers for part in _parts_of(answer)]
        kept = [*self._kept(parts)]
        self.history.append({"role": "model", "parts": kept})
        calls = [part["function_call"] for part in kept if "function_call" in part]
        said = {"response": {"result": "7 degrees, rain"}}
        results = [{name: one[name] for name in one if name != "args"} | said for one in calls]
        if results:
            parts = [{"function_response": one} for one in results]
            self.history.append({"role": "user", "parts": parts})
        return bool(results)

    def _ask(self, asked: Any) -> Iterator[types.GenerateContentResponse]:
        models = self.client.models
        if self.way.endswith("stream"):
            yield from models.generate_content_stream(**asked)
        else:
            yield models.generate_content(**asked)

    async def _ask_async(self, asked: Any) -> list[types.GenerateContentResponse]:
        models = self.client.aio.models
        if self.way.endswith("stream"):
            return [one async for one in await models.generate_content_stream(**asked)]
        return [await models.generate_content(**asked)]

    def _kept(self, parts: Iterable[Part]) -> Iterator[Part]:
        """Yield the parts that the history gets."""
        if self.keeps == "everything":
            yield from parts
            return
        text = ""
        for part in parts:
            visible = {name: part[name] for name in part if name != "thought_signature"}
            if part.get("thought") or visible == {"text": ""}:
                continue
            if self.keeps == "nameless" and "text" in visible:
                text += visible["text"]
                continue
            if text:
                yield {"text": text}
                text = ""
            if self.keeps == "nameless" and "function_call" in visible:
                call = visible["function_call"]
                visible["function_call"] = {name: call[name] for name in call if name != "id"}
            yield visible
        if text:
            yield {"text": text}


def _parts_of(answer: types.GenerateContentResponse) -> Iterator[Part]:
    for candidate in answer.candidates or ():
        for part in (candidate.content and candidate.content.parts) or ():
            yield part.model_dump(exclude_none=True)


@asynccontextmanager
async def gemini_agent(
    base_url: str, model: str, way: Way, keeps: GeminiKeeps = "visible", **config: Any
) -> AsyncIterator[GeminiAgent]:
    """
    Open an agent with a key that no other agent has.

    It ignores a proxy that the environment names.

    Args:
        base_url: Where it sends its requests; it may end in `/v1`.
        model: The model that it asks.
        way: How it asks.
        keeps: What it sends again of an answer.
        config: Members of the configuration of each request.
    """
    bodies: list[bytes] = []

    async def note(
        _: object, __: SimpleNamespace, sent: aiohttp.TraceRequestChunkSentParams
    ) -> None:
        bodies.append(sent.chunk)

    trace = aiohttp.TraceConfig()
    trace.on_request_chunk_sent.append(note)
    hooks = {"request": [lambda request: bodies.append(request.read())]}
    async with aiohttp.ClientSession(trace_configs=[trace]) as session:
        options = types.HttpOptions(
            base_url=base_url.removesuffix("/v1"),
            client_args={"trust_env": False, "event_hooks": hooks},
            aiohttp_client=session,
        )
        client = genai.Client(api_key=f"key-{secrets.token_hex(8)}", http_options=options)
        try:
            yield GeminiAgent(client, model, way, keeps, config, bodies=bodies)
        finally:
            await client.aio.aclose()
            client.close()
