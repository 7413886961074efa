"""Responses agent: a small client on the official SDK that drops reasoning."""

from dataclasses import dataclass
from typing import Any, Literal

from openai import AsyncOpenAI, DefaultAsyncHttpxClient, DefaultHttpxClient, OpenAI
from openai.types.responses import ResponseOutputItem, ResponseStreamEvent
from typing_extensions import override

from tests.e2e.sdk_loop import MARK, QUESTIONS, RESULT, Message, SdkLoop, Step, Way

__all__ = ["MARK", "MODEL", "QUESTIONS", "Agent", "Item", "Keeps", "Step", "Way", "items_of"]

Item = Message
Keeps = Literal["everything", "ids", "no-ids"]
"""What the client replays of a response: all, all except reasoning, or the same without ids."""

MODEL = "gpt-5.4"
ID_IS_OPTIONAL = ("function_call", "custom_tool_call", "message")


@dataclass
class Agent(SdkLoop):
    """
    A client with one conversation; see `SdkLoop`.

    Items that it replays unchanged are the SDK's own objects; trimmed ones are plain dictionaries.

    Attributes:
        is_marked: Whether responses carry the proxy's header.
    """

    keeps: Keeps = "ids"
    model: str = MODEL
    is_marked: bool = True

    sdks = (OpenAI, AsyncOpenAI, DefaultHttpxClient, DefaultAsyncHttpxClient)
    member = "input"
    tools = (
        {
            "type": "function",
            "name": "get_weather",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
        },
        {"type": "custom", "name": "run_code"},
    )

    @override
    def create(self, sdk: Any) -> Any:
        return sdk.responses.create

    @override
    def joined(self, events: list[Any]) -> Any:
        return items_of(events)

    @override
    def said(self, answer: Any) -> list[Item]:
        return [item.to_dict() for item in _output(answer)]

    @override
    def kept(self, answer: Any) -> list[Any]:
        kept: list[Any] = []
        for item in _output(answer):
            if item.type == "reasoning" and self.keeps != "everything":
                continue
            if self.keeps == "no-ids" and item.type in ID_IS_OPTIONAL:
                emitted = item.to_dict()
                kept.append({name: emitted[name] for name in emitted if name != "id"})
            else:
                kept.append(item)
        return kept

    @override
    def results(self, kept: list[Any]) -> list[Item]:
        items = [one if isinstance(one, dict) else one.to_dict() for one in kept]
        return [
            {"type": f"{one['type']}_output", "call_id": one["call_id"], "output": RESULT}
            for one in items
            if one["type"] in {"function_call", "custom_tool_call"}
        ]


def _output(answer: Any) -> list[ResponseOutputItem]:
    output: list[ResponseOutputItem] = answer if isinstance(answer, list) else answer.output
    return output


def items_of(events: list[ResponseStreamEvent]) -> list[ResponseOutputItem]:
    """Return the items of a stream, which must be complete."""
    assert events[-1].type == "response.completed"
    assert [event.sequence_number for event in events] == list(range(len(events)))
    return [event.item for event in events if event.type == "response.output_item.done"]
