"""
Test client: the official SDK against one stand-in, with its history as plain messages.

It keeps whatever an answer had; a test drops what it wants.
"""

import json
from typing import Any

import pytest
from openai import AsyncOpenAI, BadRequestError

from tests.standin.chat.server import ChatStandIn

__all__ = ["RAIN", "SNOW", "TOOLS", "Client", "Message", "refused", "signed", "without"]

Message = dict[str, Any]

TOOLS: Any = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
        },
    }
]
RAIN: Message = {"role": "user", "content": "Where does it rain?"}
SNOW: Message = {"role": "user", "content": "Where does it snow?"}


class Client:
    """A client of one stand-in."""

    def __init__(self, standin: ChatStandIn) -> None:
        self.standin = standin
        self.sdk = AsyncOpenAI(base_url=standin.base_url, api_key="sk-one", max_retries=0)

    async def ask(self, *messages: Message, **more: Any) -> Message:
        """Send a history; return the whole message of the answer."""
        given = {"model": self.standin.family.model, "tools": TOOLS} | more
        sent: Any = list(messages)
        answer = await self.sdk.chat.completions.create(messages=sent, **given)
        made: Message = answer.choices[0].message.to_dict(mode="json", warnings=False)
        return made

    async def step(self, *messages: Message, **more: Any) -> list[Message]:
        """Send a history; return it with the answer, and a result for each of its calls."""
        made = await self.ask(*messages, **more)
        calls = made.get("tool_calls") or ()
        results = [
            {"role": "tool", "tool_call_id": call["id"], "content": "7 degrees"} for call in calls
        ]
        return [*messages, made, *results]

    async def close(self) -> None:
        """Close the connections."""
        await self.sdk.close()


def without(messages: list[Message], *names: str) -> list[Message]:
    """Return messages and calls without the named members."""
    bare = []
    for message in messages:
        kept = {name: message[name] for name in message if name not in names}
        if "tool_calls" in kept:
            kept["tool_calls"] = [
                {name: call[name] for name in call if name not in names}
                for call in kept["tool_calls"]
            ]
        bare.append(kept)
    return bare


async def refused(client: Client, *messages: Message, **more: Any) -> str:
    """Send a history that must be refused with 400; return the body."""
    with pytest.raises(BadRequestError) as caught:
        await client.ask(*messages, **more)
    return json.dumps(caught.value.response.json(), ensure_ascii=False)


def signed(message: Message, signature: str) -> Message:
    """Return a message whose first call has a signature."""
    first, *others = message["tool_calls"]
    extra = {"google": {"thought_signature": signature}}
    return {**message, "tool_calls": [{**first, "extra_content": extra}, *others]}
