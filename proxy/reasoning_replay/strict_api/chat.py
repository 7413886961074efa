"""
Chat Completions of the strict API, as strict about reasoning as DeepSeek's and Moonshot's.

With thinking on and tools in a request, each assistant message since the last question needs the
key `reasoning_content`; for a model of Moonshot, each message with calls. A request that switches
thinking off gets no reasoning. With `reasoning_effort: low` it calls tools without a thought, and
says so by an empty text.
"""

import json
import secrets
import time
from collections.abc import Iterator, Sequence
from typing import Final

from typing_extensions import override

from reasoning_replay.strict_api.dialect import (
    Dialect,
    Item,
    Reading,
    Refused,
    Rule,
    asked_at,
    canonical,
    sse,
    text_of,
)
from reasoning_replay.strict_api.example_values import example
from reasoning_replay.strict_api.ledger import Judgement, Part
from reasoning_replay.strict_api.scenarios import Piece, pieces_of, tokens_of

REASONING: Final = "reasoning_content"

MISSING: Final = Rule(
    "The `reasoning_content` in the thinking mode must be passed back to the API.",
    "github.com/deepseek-ai/awesome-deepseek-agent/issues/51",
    "2026-05",
)
MISSING_KIMI: Final = Rule(
    "thinking is enabled but reasoning_content is missing in assistant tool call message at"
    " index {}",
    "github.com/Kilo-Org/kilocode/pull/5544",
    "2026-01",
)
UNANSWERED: Final = Rule(
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each"
    " 'tool_call_id'. (insufficient tool messages following tool_calls message)",
    "github.com/langgenius/dify/issues/32222",
    "2026-02",
)


class Chat(Dialect):
    """Chat Completions that have emitted nothing yet."""

    name = "chat"
    path = "/chat/completions"
    history = "messages"

    @override
    def read(self, body: Item) -> Reading:
        messages: list[Item] = body["messages"]
        parts = [
            part
            for at, message in enumerate(messages)
            for part in parts_of(message, f"messages[{at}]")
        ]
        return Reading(canonical(body.get("tools")), messages, parts)

    @override
    def refusals(self, body: Item, reading: Reading, judgement: Judgement) -> Iterator[Refused]:
        messages, start = reading.items, question(reading.items)
        is_kimi = "kimi" in str(body.get("model"))
        for at, message in enumerate(messages):
            calls = message.get("tool_calls") or ()
            if message.get("role") != "assistant":
                continue
            is_lacking = message.get(REASONING) is None and thinks(body)
            if is_lacking and is_kimi and calls:
                yield MISSING_KIMI(at)
            if is_lacking and not is_kimi and body.get("tools") and at > start:
                yield MISSING()
            results = {
                one.get("tool_call_id")
                for one in messages[at + 1 :][: len(calls)]
                if one.get("role") == "tool"
            }
            if {call.get("id") for call in calls} - results:
                yield UNANSWERED()

    @override
    def answer(self, body: Item, reading: Reading, judgement: Judgement) -> tuple[Item, list[Part]]:
        since = reading.items[question(reading.items) + 1 :]
        answered = sum(one.get("role") == "tool" for one in since)
        tools = [tool["function"] for tool in body.get("tools") or () if "function" in tool]
        may_call = bool(tools) and body.get("tool_choice") != "none"
        pieces = self.script.pieces(answered, may_call=may_call)
        message = _message_of(pieces, tools[answered % len(tools)] if tools else {})
        if not thinks(body):
            del message[REASONING]
        elif "tool_calls" in message and body.get("reasoning_effort") == "low":
            message[REASONING] = ""
        completion = {
            "id": secrets.token_hex(16),
            "object": "chat.completion",
            "created": int(time.time()),
            "model": body.get("model", ""),
            "choices": [
                {
                    "index": 0,
                    "message": message,
                    "logprobs": None,
                    "finish_reason": "tool_calls" if "tool_calls" in message else "stop",
                }
            ],
            "usage": _usage(judgement, message),
        }
        return completion, list(parts_of(message, "message"))

    @override
    def events(self, answer: Item) -> Iterator[bytes]:
        """Yield reasoning, text, calls, and then reason and usage."""
        (choice,) = answer["choices"]
        head = {name: answer[name] for name in ("id", "created", "model")}
        head["object"] = "chat.completion.chunk"
        for delta in _deltas(choice["message"]):
            unfinished = {"index": 0, "delta": delta, "finish_reason": None}
            yield sse({**head, "choices": [unfinished], "usage": None})
        end = {"index": 0, "delta": {"content": ""}, "finish_reason": choice["finish_reason"]}
        yield sse({**head, "choices": [end], "usage": answer["usage"]})
        yield b"data: [DONE]\n\n"

    @override
    def error(self, refused: Refused) -> Item:
        kind = "invalid_request_error"
        return {"error": {"message": refused.message, "type": kind, "param": None, "code": kind}}


def parts_of(message: Item, path: str) -> Iterator[Part]:
    """Yield the parts of a message; an empty text is none."""
    if message.get("role") != "assistant":
        yield Part("given", path, canonical(message))
        return
    if thought := message.get(REASONING):
        yield Part("reasoning", f"{path}.{REASONING}", str(thought))
    if content := text_of(message):
        yield Part("said", f"{path}.content", canonical(["assistant", content]))
    for at, call in enumerate(message.get("tool_calls") or ()):
        function = call.get("function") or {}
        value = canonical([function.get("name"), canonical(function.get("arguments"))])
        names = (call["id"],) if call.get("id") else ()
        yield Part("said", f"{path}.tool_calls[{at}]", value, names)


def question(messages: Sequence[Item]) -> int:
    """Return the index of the last question of the user; a round starts after it."""
    return asked_at(messages, lambda message: message.get("role") == "user")


def thinks(body: Item) -> bool:
    """Return whether thinking is on; each vendor switches it off by another parameter."""
    template = body.get("chat_template_kwargs") or {}
    reasoning = body.get("reasoning") or {}
    return not (
        (body.get("thinking") or {}).get("type") == "disabled"
        or False in (body.get("enable_thinking"), template.get("enable_thinking"))
        or "none" in (body.get("reasoning_effort"), reasoning.get("effort"))
        or False in (body.get("think"), reasoning.get("enabled"))
    )


def _message_of(pieces: Sequence[Piece], tool: Item) -> Item:
    """Return an assistant message: one reasoning, one text, and the calls."""
    cities = [words for sign, words in pieces if sign == "C"]
    message: Item = {
        "role": "assistant",
        "content": "".join(words for sign, words in pieces if sign in {"T", "A"}),
        REASONING: "\n\n".join(words for sign, words in pieces if sign == "R"),
    }
    if cities:
        message["tool_calls"] = [_call(tool, at, city) for at, city in enumerate(cities)]
    return message


def _call(tool: Item, at: int, city: str) -> Item:
    arguments = json.dumps(example(tool.get("parameters") or {}, city))
    function = {"name": tool.get("name", ""), "arguments": arguments}
    call_id = f"call_{at:02}_{secrets.token_hex(11)}"
    return {"index": at, "id": call_id, "type": "function", "function": function}


def _usage(judgement: Judgement, message: Item) -> Item:
    """Return the estimated tokens, with the cached ones in both forms that vendors use."""
    read, cached, wrote = judgement.tokens, judgement.cached, tokens_of(message)
    return {
        "prompt_tokens": read,
        "completion_tokens": wrote,
        "total_tokens": read + wrote,
        "prompt_tokens_details": {"cached_tokens": cached},
        "prompt_cache_hit_tokens": cached,
        "prompt_cache_miss_tokens": read - cached,
    }


def _deltas(message: Item) -> Iterator[Item]:
    yield {"role": "assistant", "content": "", **({REASONING: ""} if REASONING in message else {})}
    for name in (REASONING, "content"):
        for word in pieces_of(message.get(name) or ""):
            yield {name: word}
    for call in message.get("tool_calls") or ():
        function = call["function"]
        yield {"tool_calls": [call | {"function": function | {"arguments": ""}}]}
        for word in pieces_of(function["arguments"]):
            rest = {"index": call["index"], "function": {"arguments": word}}
            yield {"tool_calls": [rest]}
