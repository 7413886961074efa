"""
Chat Completions of the strict API, as strict about reasoning as the vendor of the model.

With thinking on and tools in a request, each assistant message since the last question needs the
key `reasoning_content`; for a model of Moonshot, each message with calls. What vendors with another
form demand is in `chat_vendors`. A request that switches thinking off gets no reasoning. With
`reasoning_effort: low` a model of DeepSeek calls tools without a thought, and says so by an empty
text.
"""

import json
import re
import secrets
import time
from collections.abc import Iterator, Sequence
from typing import Final

from typing_extensions import override

from reasoning_replay.strict_api import chat_vendors
from reasoning_replay.strict_api.chat_vendors import REASONING, VENDORS, vendor_of
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
    """
    Chat Completions that have emitted nothing yet.

    Attributes:
        vendor: The vendor of the model that is asked.
    """

    name = "chat"
    path = "/chat/completions"
    history = "messages"
    vendor = "deepseek"

    @override
    def read(self, body: Item) -> Reading:
        messages: list[Item] = body["messages"]
        self.vendor = vendor_of(body.get("model"))
        member = VENDORS[self.vendor].member
        parts = [
            part
            for at, message in enumerate(messages)
            for part in parts_of(message, f"messages[{at}]", member)
        ]
        return Reading(canonical(body.get("tools")), messages, parts)

    @override
    def refusals(self, body: Item, reading: Reading, judgement: Judgement) -> Iterator[Refused]:
        messages, start = reading.items, question(reading.items)
        is_kimi, is_text = self.vendor == "kimi", self.vendor in {"kimi", "deepseek"}
        for at, message in enumerate(messages):
            calls = message.get("tool_calls") or ()
            if message.get("role") != "assistant":
                continue
            is_lacking = is_text and message.get(REASONING) is None and thinks(body)
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
        wrong = {index_of(one.path) for one in judgement.lost if one.state != "missing"}
        yield from chat_vendors.refusals(self.vendor, body, start, wrong)

    @override
    def answer(self, body: Item, reading: Reading, judgement: Judgement) -> tuple[Item, list[Part]]:
        since = reading.items[question(reading.items) + 1 :]
        answered = sum(one.get("role") == "tool" for one in since)
        tools = [tool["function"] for tool in body.get("tools") or () if "function" in tool]
        may_call = bool(tools) and body.get("tool_choice") != "none"
        pieces = self.script.pieces(answered, may_call=may_call)
        model = str(body.get("model"))
        message = self._message_of(pieces, tools[answered % len(tools)] if tools else {})
        if thinks(body):
            message = chat_vendors.with_reasoning(self.vendor, model, message, pieces)
        if (
            self.vendor == "deepseek"
            and body.get("reasoning_effort") == "low"
            and message.get("tool_calls")
        ):
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
                    "finish_reason": self._reason(message),
                }
            ],
            "usage": _usage(judgement, message),
        }
        return completion, list(parts_of(message, "message", VENDORS[self.vendor].member))

    def _reason(self, message: Item) -> str:
        """Return why an answer ended; Google's says "stop" also before calls (recorded)."""
        return "tool_calls" if "tool_calls" in message and self.vendor != "gemini" else "stop"

    def call_id(self, name: str, at: int) -> str:
        """Return the id of a call."""
        return VENDORS[self.vendor].call_id(name, at)

    def cut(self, text: str) -> Iterator[str]:
        """Yield a text as the deltas of a stream have it."""
        yield from pieces_of(text)

    @override
    def events(self, answer: Item) -> Iterator[bytes]:
        """Yield reasoning, text, calls, and then reason and usage."""
        (choice,) = answer["choices"]
        head = {name: answer[name] for name in ("id", "created", "model")}
        head["object"] = "chat.completion.chunk"
        for comment in VENDORS[self.vendor].comments:
            yield f": {comment}\n\n".encode()
        for delta in chat_vendors.deltas(self.vendor, choice["message"], self.cut):
            unfinished = {"index": 0, "delta": delta, "finish_reason": None}
            yield sse({**head, "choices": [unfinished], "usage": None})
        end = {"index": 0, "delta": {"content": ""}, "finish_reason": choice["finish_reason"]}
        yield sse({**head, "choices": [end], "usage": answer["usage"]})
        yield b"data: [DONE]\n\n"

    @override
    def error(self, refused: Refused) -> Item | list[Item]:
        return chat_vendors.error(self.vendor, refused)

    def _message_of(self, pieces: Sequence[Piece], tool: Item) -> Item:
        """Return an assistant message: one text, and the calls."""
        cities = [words for sign, words in pieces if sign == "C"]
        message: Item = {
            "role": "assistant",
            "content": "".join(words for sign, words in pieces if sign in {"T", "A"}),
        }
        if cities:
            message["tool_calls"] = [self._call(tool, at, city) for at, city in enumerate(cities)]
        return message

    def _call(self, tool: Item, at: int, city: str) -> Item:
        arguments = json.dumps(example(tool.get("parameters") or {}, city))
        name = tool.get("name", "")
        function = {"name": name, "arguments": arguments}
        return {"index": at, "id": self.call_id(name, at), "type": "function", "function": function}


def index_of(path: str) -> int:
    """Return the index of the message that a path is about."""
    found = re.match(r"messages\[(\d+)", path)
    return int(found[1]) if found else -1


def parts_of(message: Item, path: str, member: str = REASONING) -> Iterator[Part]:
    """Yield the parts of a message whose reasoning is in `member`; an empty text is none."""
    if message.get("role") != "assistant":
        yield Part("given", path, canonical(message))
        return
    if thought := chat_vendors.thought_in(message, member):
        yield Part("reasoning", f"{path}.{member}", thought)
    if content := text_of(message):
        yield Part("said", f"{path}.content", canonical(["assistant", content]))
    for at, call in enumerate(message.get("tool_calls") or ()):
        function = call.get("function") or {}
        value = canonical([function.get("name"), canonical(function.get("arguments"))])
        names = (call["id"],) if call.get("id") else ()
        if signature := chat_vendors.thought_in(call, member):
            yield Part("reasoning", f"{path}.tool_calls[{at}].{member}", signature)
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
