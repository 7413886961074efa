"""
Gemini agent: a tool loop on the SDK of Google, as its users write them.

The SDK keeps signatures; the agent drops them, as frameworks and stores of histories do.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Literal, Self

import aiohttp
from google import genai
from google.genai import types
from typing_extensions import override

from tests.e2e.sdk_loop import RESULT, SdkLoop

__all__ = ["GeminiAgent", "GeminiKeeps"]

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
class GeminiAgent(SdkLoop):
    """A client with one conversation; see `SdkLoop`. `more` are members of the configuration."""

    keeps: GeminiKeeps = "visible"

    member = "contents"

    async def __aenter__(self) -> Self:
        """Open the client; it ignores a proxy that the environment names."""
        trace = aiohttp.TraceConfig()
        trace.on_request_chunk_sent.append(self._note_chunk)
        self._session = aiohttp.ClientSession(trace_configs=[trace])
        hooks = {"request": [self._note]}
        options = types.HttpOptions(
            base_url=self.base_url.removesuffix("/v1"),
            client_args={"trust_env": False, "event_hooks": hooks},
            aiohttp_client=self._session,
        )
        self._marks: list[str] = []
        self._sync = genai.Client(api_key=self.api_key, http_options=options)
        self._async = self._sync.aio
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._async.aclose()
        self._sync.close()
        await self._session.close()

    async def _note_chunk(
        self, _: object, __: SimpleNamespace, sent: aiohttp.TraceRequestChunkSentParams
    ) -> None:
        self.bodies.append(sent.chunk)

    @override
    def say(self, question: str) -> None:
        self.add({"role": "user", "parts": [{"text": question}]})

    @override
    def ask(self, sdk: Any, request: Part, streams: bool) -> Any:
        asked = self._asked(request)
        if streams:
            return [*sdk.models.generate_content_stream(**asked)]
        return [sdk.models.generate_content(**asked)]

    @override
    async def ask_async(self, sdk: Any, request: Part, streams: bool) -> Any:
        asked = self._asked(request)
        if streams:
            return [one async for one in await sdk.models.generate_content_stream(**asked)]
        return [await sdk.models.generate_content(**asked)]

    def _asked(self, request: Part) -> Any:
        off = types.AutomaticFunctionCallingConfig(disable=True)
        config = types.GenerateContentConfig(
            tools=[TOOL], automatic_function_calling=off, **self.more
        )
        return {"model": self.model, "contents": request["contents"], "config": config}

    @override
    def said(self, answer: Any) -> list[Part]:
        return [{"role": "model", "parts": [part for one in answer for part in _parts_of(one)]}]

    @override
    def kept(self, answer: Any) -> list[Part]:
        (whole,) = self.said(answer)
        return [{"role": "model", "parts": [*self._kept(whole["parts"])]}]

    @override
    def results(self, kept: list[Part]) -> list[Part]:
        calls = [one["function_call"] for one in kept[0]["parts"] if "function_call" in one]
        said = {"response": {"result": RESULT}}
        results = [{name: one[name] for name in one if name != "args"} | said for one in calls]
        parts = [{"function_response": one} for one in results]
        return [{"role": "user", "parts": parts}] if parts else []

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
