"""
Wires: what a request and an answer look like to a client, for each dialect, as data.

`check --prove` and the demo are such clients. They keep all but the reasoning: items of other
types, the members that an SDK declares, and other blocks. A new dialect is one entry of WIRES.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from reasoning_replay.core.dialects.chat.members import (
    CALL_MEMBERS,
    MESSAGE_MEMBERS,
    reasoning_of,
    says_nothing,
)
from reasoning_replay.core.dialects.gemini.parts import SIGNATURES
from reasoning_replay.core.dialects.registry import CHAT, GEMINI, MESSAGES, RESPONSES

Item = dict[str, Any]

MODEL: Final = "{model}"  # stands for the model in a path
# The members that the API declares, and so those that its clients keep.
_OF_MESSAGE: Final = ("role", "content", "tool_calls")
_OF_CALL: Final = ("id", "type", "function")
# Gemini's call, and what its result repeats of it.
_CALL: Final = "functionCall"
_OF_FUNCTION: Final = ("name", "id")
# Claude up to 4.6 thinks with a budget, as other vendors' models do; later models refuse one.
_HAS_BUDGET: Final = re.compile(r"claude-(?:[123]|[a-z]+-4(?:[-.][0-6])?(?!\d|[-.]\d(?!\d)))")


class Reply(NamedTuple):
    """
    What a client reads of an answer.

    Attributes:
        said: The items or messages of the answer.
        kept: The same without the reasoning.
        calls: Ids of the calls of its tools, or what else a result must repeat of each.
        sealed: For each reasoning item, whether it is encrypted or signed.
    """

    said: list[Item]
    kept: list[Item]
    calls: list[str]
    sealed: list[bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """
    The wire format of one dialect.

    Attributes:
        path: Path of its requests, after the base URL; MODEL in it stands for the model.
        history: Member of a request that has the history.
        tool: Returns the entry of `tools` for a function.
        results: Returns the results of calls, all with one text.
        read: Reads a JSON answer; raises an error of lookup or type if it has another form.
        says: Returns a text of the user.
        demanded: Returns further members that each request for a model must have.
        stateless: Members of a request of which the API shall store nothing.
        headers: Headers of each request, which every client of the API sends.
    """

    path: str
    history: str
    tool: Callable[[Item], Item]
    results: Callable[[Sequence[str], str], list[Item]]
    read: Callable[[Item], Reply]
    says: Callable[[str], Item] = lambda text: {"role": "user", "content": text}
    demanded: Callable[[str], Mapping[str, Any]] = lambda _: {}
    stateless: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)

    def path_of(self, model: str) -> str:
        """Return the path of requests to a model."""
        return self.path.replace(MODEL, quote(model, safe=""))

    def request(self, model: str, history: list[Item], *functions: Item) -> Item:
        """Return the body of a request with a history; the model may call these functions."""
        named = {} if MODEL in self.path else {"model": model}
        tools = [self.tool(function) for function in functions]
        return {**named, self.history: history, "tools": tools, **self.demanded(model)}


def _read_response(answer: Item) -> Reply:
    output: list[Item] = answer["output"]
    kept = [item for item in output if item.get("type") != "reasoning"]
    return Reply(
        output,
        kept,
        [item["call_id"] for item in kept if item.get("type") == "function_call"],
        [bool(one.get("encrypted_content")) for one in output if one.get("type") == "reasoning"],
    )


def _read_completion(answer: Item) -> Reply:
    message: Item = answer["choices"][0]["message"]
    calls: list[Item] = message.get("tool_calls") or []
    kept = _only(message, _OF_MESSAGE)
    if calls:
        kept["tool_calls"] = [_only(call, _OF_CALL) for call in calls]
    sealed = [*_sealed(message, MESSAGE_MEMBERS, is_of_call=False)]
    for call in calls:
        sealed += _sealed(call, CALL_MEMBERS, is_of_call=True)
    return Reply([message], [kept], [call["id"] for call in calls], sealed)


def _read_message(answer: Item) -> Reply:
    blocks: list[Item] = answer["content"]
    reasoning = [one for one in blocks if one["type"] in {"thinking", "redacted_thinking"}]
    kept = [one for one in blocks if one not in reasoning]
    return Reply(
        [{"role": "assistant", "content": blocks}],
        [{"role": "assistant", "content": kept}] if kept else [],
        [one["id"] for one in kept if one["type"] == "tool_use"],
        [bool(one.get("signature") or one.get("data")) for one in reasoning],
    )


def _read_content(answer: Item) -> Reply:
    parts: list[Item] = answer["candidates"][0]["content"]["parts"]
    bare = [
        {name: value for name, value in part.items() if name not in SIGNATURES}
        for part in parts
        if not part.get("thought")
    ]
    kept = [part for part in bare if any(part.values())]
    return Reply(
        [{"role": "model", "parts": parts}],
        [{"role": "model", "parts": kept}] if kept else [],
        [json.dumps(_only(part[_CALL], _OF_FUNCTION)) for part in kept if _CALL in part],
        [True for part in parts if any(part.get(name) for name in SIGNATURES)],
    )


def _function_responses(calls: Sequence[str], text: str) -> list[Item]:
    said = [json.loads(call) | {"response": {"result": text}} for call in calls]
    return [{"role": "user", "parts": [{"functionResponse": one} for one in said]}] if said else []


def _results_in_one_message(calls: Sequence[str], text: str) -> list[Item]:
    results = [{"type": "tool_result", "tool_use_id": call, "content": text} for call in calls]
    return [{"role": "user", "content": results}] if results else []


def _thinking(model: str) -> Item:
    has_budget = "claude" not in model or _HAS_BUDGET.search(model)
    budget = {"type": "enabled", "budget_tokens": 1024}
    return {"max_tokens": 4096, "thinking": budget if has_budget else {"type": "adaptive"}}


def _only(given: Item, names: Iterable[str]) -> Item:
    return {name: given[name] for name in names if name in given}


def _sealed(given: Item, names: Iterable[str], *, is_of_call: bool) -> Iterator[bool]:
    """Yield for each member with reasoning whether it has a signature."""
    for name in names:
        value = json.dumps(given.get(name)).encode()
        if not says_nothing(name, value):
            part = reasoning_of(name, value, is_of_call=is_of_call)
            yield part is not None and part.has_blob


WIRES: Final[Mapping[str, Wire]] = MappingProxyType(
    {
        RESPONSES: Wire(
            path="/responses",
            history="input",
            tool=lambda function: {"type": "function", **function, "strict": True},
            results=lambda calls, text: [
                {"type": "function_call_output", "call_id": call, "output": text} for call in calls
            ],
            read=_read_response,
            stateless={"store": False},
        ),
        CHAT: Wire(
            path="/chat/completions",
            history="messages",
            tool=lambda function: {"type": "function", "function": function},
            results=lambda calls, text: [
                {"role": "tool", "tool_call_id": call, "content": text} for call in calls
            ],
            read=_read_completion,
        ),
        MESSAGES: Wire(
            path="/messages",
            history="messages",
            tool=lambda function: {
                "name": function["name"],
                "description": function["description"],
                "input_schema": function["parameters"],
            },
            results=_results_in_one_message,
            read=_read_message,
            demanded=_thinking,
            headers={"anthropic-version": "2023-06-01"},
        ),
        GEMINI: Wire(
            path=f"/models/{MODEL}:generateContent",
            history="contents",
            tool=lambda function: {
                "functionDeclarations": [
                    {
                        "name": function["name"],
                        "description": function["description"],
                        "parametersJsonSchema": function["parameters"],
                    }
                ]
            },
            results=_function_responses,
            read=_read_content,
            says=lambda text: {"role": "user", "parts": [{"text": text}]},
        ),
    }
)
