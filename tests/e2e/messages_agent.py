"""
Messages agent: a tool loop on the SDK of Anthropic, as its users write them.

The SDK keeps reasoning; the agent drops it, as frameworks and stores of histories do.
"""

import base64
from dataclasses import dataclass
from typing import Any, Literal

from anthropic import Anthropic, AsyncAnthropic, DefaultAsyncHttpxClient, DefaultHttpxClient
from typing_extensions import override

from tests.e2e.sdk_loop import RESULT, Message, SdkLoop

__all__ = ["MESSAGES_TOOLS", "MessagesAgent", "MessagesKeeps"]

MessagesKeeps = Literal[
    "everything",
    "visible",
    "respelled",
    "worded",
    "placeholder",
    "unsigned",
    "emptied",
    "rewrapped",
    "unredacted",
    "first",
]
"""
What the client sends again of an answer.

All of it; all except reasoning; the same in other words: a string for a text, and sorted members in
the input of calls; all except reasoning without a text; or its calls, with another text ahead.
Or reasoning that it has damaged: without its signature, with an empty one, or with one that is
encoded twice; or only a part of it: without redacted blocks, or the first block alone.
"""
PLACEHOLDER = {
    "type": "text",
    "text": "[System: Empty message content sanitised to satisfy protocol]",
}

MESSAGES_TOOLS: list[Message] = [
    {
        "name": name,
        "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
    }
    for name in ("get_weather", "find_trains")
]
REASONING = ("thinking", "redacted_thinking")


@dataclass
class MessagesAgent(SdkLoop):
    """
    A client with one conversation; see `SdkLoop`.

    Attributes:
        marks: Whether it marks the end of its history for the cache, as many do.
    """

    keeps: MessagesKeeps = "visible"
    marks: bool = False

    sdks = (Anthropic, AsyncAnthropic, DefaultHttpxClient, DefaultAsyncHttpxClient)
    tools = MESSAGES_TOOLS

    def __post_init__(self) -> None:
        self.more = {"max_tokens": 4096, **self.more}

    @override
    def root(self, base_url: str) -> str:
        return base_url.removesuffix("/v1")  # the SDK adds it

    @override
    def ask(self, sdk: Any, request: Message, streams: bool) -> Message:
        if not streams:
            return _message(sdk.messages.create(**request))
        with sdk.messages.stream(**request) as answer:
            return _message(answer.get_final_message())

    @override
    async def ask_async(self, sdk: Any, request: Message, streams: bool) -> Message:
        if not streams:
            return _message(await sdk.messages.create(**request))
        async with sdk.messages.stream(**request) as answer:
            return _message(await answer.get_final_message())

    @override
    def said(self, answer: Message) -> list[Message]:
        return [{"role": "assistant", "content": answer["content"]}]

    @override
    def told(self) -> list[Message]:
        """Return the history with the mark of the cache at the end of its last message."""
        *before, last = self.history
        if not self.marks:
            return list(self.history)
        content = last["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        mark = {"cache_control": {"type": "ephemeral"}}
        return [*before, {**last, "content": [*blocks[:-1], blocks[-1] | mark]}]

    async def count(self) -> int:
        """Return the tokens of the history, as the API counts them."""
        rest = {name: value for name, value in self.more.items() if name != "max_tokens"}
        asked: Any = {"model": self.model, "messages": self.history, "tools": self.tools, **rest}
        counted = await self._async.messages.count_tokens(**asked)
        return int(counted.input_tokens)

    @override
    def results(self, kept: list[Message]) -> list[Message]:
        content = kept[0]["content"]
        blocks = content if isinstance(content, list) else []
        results = [
            {"type": "tool_result", "tool_use_id": block["id"], "content": RESULT}
            for block in blocks
            if block["type"] == "tool_use"
        ]
        return [{"role": "user", "content": results}] if results else []

    @override
    def kept(self, answer: Message) -> list[Message]:
        return [self._kept(answer)]

    def _kept(self, answer: Message) -> Message:
        blocks = [block for block in answer["content"] if self._keeps(block)]
        kept: Message = {"role": "assistant", "content": blocks}
        calls = [block for block in blocks if block["type"] == "tool_use"]
        if self.keeps == "placeholder" and calls:
            kept["content"] = [PLACEHOLDER, *calls]
        if self.keeps in {"unsigned", "emptied", "rewrapped"}:
            kept["content"] = [_damaged(block, self.keeps) for block in blocks]
        if self.keeps == "first":
            thoughts = [block for block in blocks if block["type"] in REASONING]
            kept["content"] = [block for block in blocks if block not in thoughts[1:]]
        if self.keeps == "respelled":
            blocks = [_respelled(block) for block in blocks]
            texts = [block["text"] for block in blocks if block["type"] == "text"]
            kept["content"] = texts[0] if len(texts) == len(blocks) == 1 else blocks
        return kept

    def _keeps(self, block: Message) -> bool:
        if block["type"] not in REASONING:
            return True
        if self.keeps == "worded":
            return bool(block.get("thinking"))
        if self.keeps == "unredacted":
            return bool(block["type"] == "thinking")
        return self.keeps not in {"visible", "respelled", "placeholder"}


def _message(answer: Any) -> Message:
    made: Message = answer.to_dict(warnings=False)
    return made


def _damaged(block: Message, how: str) -> Message:
    """Return a block without a good signature, as clients and gateways send it."""
    signature = block.get("signature", "")
    if not signature:
        return block
    if how == "unsigned":
        return {name: value for name, value in block.items() if name != "signature"}
    twice = base64.b64encode(signature.encode()).decode()
    return {**block, "signature": twice if how == "rewrapped" else ""}


def _respelled(block: Message) -> Message:
    if "input" not in block:
        return block
    return {**block, "input": dict(sorted(block["input"].items()))}
