"""
Chat agent: a tool loop on the official SDK that keeps its history as plain messages.

It keeps the members that the SDK declares, and so drops reasoning, which the SDK does not know.
"""

import base64
import json
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

from openai import AsyncOpenAI, DefaultAsyncHttpxClient, DefaultHttpxClient, OpenAI
from reasoning_replay.strict_api.chat_vendors import joined
from typing_extensions import override

from tests.e2e.sdk_loop import RESULT, Message, SdkLoop

__all__ = ["CALL_MEMBERS", "CHAT_TOOLS", "MESSAGE_MEMBERS", "ChatAgent", "ChatKeeps"]

CALL_MEMBERS = ("extra_content", "provider_specific_fields")
MESSAGE_MEMBERS = (
    "reasoning_content",
    "reasoning",
    "reasoning_details",
    "thinking_blocks",
    *CALL_MEMBERS,
)
"""The members with reasoning, of any vendor."""

ChatKeeps = Literal[
    "everything",
    "declared",
    "respelled",
    "renamed",
    "emptied",
    "torn",
    "turned",
    "rewrapped",
]
"""
What the client sends again of an answer.

All of it; the members that the SDK declares; or these in other words: "" for a null content,
arguments serialised again, and ids of its own. Or all of it, but with the reasoning as text under
another name, as LiteLLM, Cline and OpenAI Agents do it; or with empty values in its place; or with
a piece of it, as libraries keep that do not join a member that they do not know; or with signatures
that are encoded twice. Or none of it, with parallel calls in another order, and a text where there
was none.
"""

CHAT_TOOLS: list[Message] = [
    {
        "type": "function",
        "function": {
            "name": name,
            "strict": True,  # demanded by the helper for streams
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}},
                "required": ["city"],
                "additionalProperties": False,
            },
        },
    }
    for name in ("get_weather", "find_trains")
]


@dataclass
class ChatAgent(SdkLoop):
    """
    A client with one conversation; see `SdkLoop`.

    Attributes:
        helps: Whether it reads streams with the helper of the SDK, which joins members that it does
            not know as it can.
    """

    keeps: ChatKeeps = "declared"
    helps: bool = False

    sdks = (OpenAI, AsyncOpenAI, DefaultHttpxClient, DefaultAsyncHttpxClient)
    tools = CHAT_TOOLS

    @override
    def create(self, sdk: Any) -> Any:
        return sdk.chat.completions.create

    @override
    def joined(self, events: list[Any]) -> Message:
        return join([chunk.to_dict(warnings=False) for chunk in events])

    @override
    def ask(self, sdk: Any, request: Message, streams: bool) -> Message:
        if streams and self.helps:
            with sdk.chat.completions.stream(**request) as events:
                return _joined(events.get_final_completion())
        answer = super().ask(sdk, request, streams)
        return answer if streams else _message(answer)

    @override
    async def ask_async(self, sdk: Any, request: Message, streams: bool) -> Message:
        if streams and self.helps:
            async with sdk.chat.completions.stream(**request) as events:
                return _joined(await events.get_final_completion())
        answer = await super().ask_async(sdk, request, streams)
        return answer if streams else _message(answer)

    @override
    def said(self, answer: Message) -> list[Message]:
        return [answer]

    @override
    def results(self, kept: list[Message]) -> list[Message]:
        return [
            {"role": "tool", "tool_call_id": call["id"], "content": RESULT}
            for call in kept[0].get("tool_calls") or ()
        ]

    @override
    def kept(self, answer: Message) -> list[Message]:
        return [self._kept(answer)]

    def _kept(self, answer: Message) -> Message:
        if self.keeps == "everything":
            return answer
        if self.keeps in _CHANGES:
            return _CHANGES[self.keeps](answer)
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


def _message(answer: Any) -> Message:
    """
    Return the message of an answer with all that the SDK kept of it.

    Raises:
        AssertionError: There is an error inside a 200.
    """
    assert answer.choices, answer.to_dict()
    made: Message = answer.choices[0].message.to_dict(warnings=False)
    return made


def _joined(answer: Any) -> Message:
    """Return the message that the helper made, with the members that the API takes back."""
    made = _message(answer) | {"role": "assistant"}
    kept = {name: made[name] for name in made if name in ("role", "content", *MESSAGE_MEMBERS)}
    calls = made.get("tool_calls") or ()
    kept["tool_calls"] = [
        {name: call[name] for name in ("id", "type", *CALL_MEMBERS) if name in call}
        | {"function": {name: call["function"][name] for name in ("name", "arguments")}}
        for call in calls
    ]
    return kept if calls else {name: kept[name] for name in kept if name != "tool_calls"}


def _renamed(answer: Message) -> Message:
    """Return a message with its reasoning as text, under a name that upstream did not use."""
    bare = _without_reasoning(answer)
    if "reasoning_content" in answer:
        return bare | {"reasoning": answer["reasoning_content"]}
    text = answer.get("reasoning")
    return bare | ({"reasoning_content": text} if text else {})


def _turned(answer: Message) -> Message:
    """Return a message with its calls in another order, and a text of the client's own."""
    bare = _without_reasoning(answer)
    if "tool_calls" in bare:
        bare["tool_calls"] = bare["tool_calls"][::-1]
        bare["content"] = bare.get("content") or "(no content)"
    return bare


def _emptied(answer: Message) -> Message:
    """Return a message with an empty value in place of each member with reasoning."""
    bare = _without_reasoning(answer)
    names = [name for name in MESSAGE_MEMBERS if answer.get(name)]
    if "reasoning_details" in names:
        names = ["reasoning_details"]  # the others say the same, and are not due
    bare |= {name: type(answer[name])() for name in names}
    for call, given in zip(bare.get("tool_calls", ()), answer.get("tool_calls", ()), strict=True):
        call |= {name: {} for name in CALL_MEMBERS if name in given}
    return bare


def _torn(answer: Message) -> Message:
    """Return a message with the last piece of each text, the first entry of details."""
    torn = dict(answer)
    for name in MESSAGE_MEMBERS:
        if isinstance(value := answer.get(name), str | list):
            torn[name] = value[-9:] if isinstance(value, str) else value[:1]
    if "tool_calls" in torn:
        torn["tool_calls"] = [
            {**call, "extra_content": {"google": {"thought_signature": _last(call)}}}
            if "extra_content" in call
            else call
            for call in torn["tool_calls"]
        ]
    return torn


def _last(call: Message) -> str:
    signature: str = call["extra_content"]["google"]["thought_signature"]
    return signature[-8:]


def _rewrapped(value: Any) -> Any:
    """Return a value with each signature in it encoded once more."""
    if isinstance(value, list):
        return [_rewrapped(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {
        name: base64.b64encode(one.encode()).decode() if name in _SIGNATURES else _rewrapped(one)
        for name, one in value.items()
    }


_SIGNATURES = ("thought_signature", "signature", "data")

_CHANGES: dict[str, Callable[[Message], Message]] = {
    "renamed": _renamed,
    "emptied": _emptied,
    "torn": _torn,
    "turned": _turned,
    "rewrapped": _rewrapped,
}


def _without_reasoning(answer: Message) -> Message:
    bare = {name: answer[name] for name in answer if name not in MESSAGE_MEMBERS}
    if "tool_calls" in bare:
        bare["tool_calls"] = [
            {name: call[name] for name in call if name not in CALL_MEMBERS}
            for call in bare["tool_calls"]
        ]
    return bare


def _respelled(arguments: str) -> str:
    return json.dumps(json.loads(arguments), separators=(",", ":"), sort_keys=True)


def join(chunks: Iterable[Message]) -> Message:
    """Return the message of a stream, as the vendors' own SDKs assemble it."""
    message: Message = {"role": "assistant", "content": None}
    calls: list[Message] = []
    deltas = (one["delta"] for chunk in chunks for one in chunk.get("choices") or ())
    for delta in deltas:
        for name, value in delta.items():
            if name == "tool_calls":
                for fragment in value or ():
                    _add_call(calls, fragment)
            elif value is not None and name != "role":
                is_first = message.get(name) is None or isinstance(value, dict)
                message[name] = value if is_first else message[name] + value
    message["content"] = message["content"] or None
    if calls:
        message["tool_calls"] = calls
    for name in {"reasoning_details", "thinking_blocks"} & message.keys():
        message[name] = joined(message[name])
    # Halves of a character, which two chunks brought, become one again.
    whole: Message = json.loads(json.dumps(message))
    return whole


def _add_call(calls: list[Message], fragment: Message) -> None:
    """Begin a call where a fragment has a name, else continue the last one of its index."""
    function = fragment.get("function") or {}
    if function.get("name"):
        calls.append({**fragment, "function": dict(function)})
        return
    index = fragment.get("index")
    call = next(one for one in reversed(calls) if one.get("index") == index)
    call["function"]["arguments"] += function.get("arguments") or ""
