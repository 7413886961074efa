"""
Responses of the strict API, as strict about reasoning as OpenAI's.

An item needs the reasoning that led to it, and reasoning the item that it led to, by their ids. An
item without its id is accepted without its reasoning. What is stored may be referred to. A model
that does not reason emits none. It keeps what it stores in memory, and drops the oldest.
"""

import json
import secrets
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from http import HTTPStatus
from typing import Any, Final, NamedTuple

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
)
from reasoning_replay.strict_api.example_values import example
from reasoning_replay.strict_api.ledger import Judgement, Part
from reasoning_replay.strict_api.scenarios import CITIES, Script, pieces_of, tokens_of

__all__ = ["Responses"]

# Most entries that are kept of each kind.
ITEMS_MAX: Final = 10_000
HISTORIES_MAX: Final = 500
BLOB: Final = "encrypted_content"
INCLUDE: Final = "reasoning.encrypted_content"
WITHOUT_REASONING: Final = ("gpt-3", "gpt-4")
TOKENS_PER_THOUGHT: Final = 192
PREFIXES: Final = {"reasoning": "rs", "function_call": "fc", "message": "msg"}
OUTPUT: Final = "function_call_output"

# An item, its type, and the reasoning that led to it.
MISSING: Final = Rule(
    "Item '{}' of type '{}' was provided without its required 'reasoning' item: '{}'.",
    "github.com/cline/cline/issues/12242",
    "2026-07",
    param="input",
)
UNFOLLOWED: Final = Rule(
    "Item '{}' of type 'reasoning' was provided without its required following item.",
    "github.com/openai/openai-agents-python/issues/1660",
    "2025-09",
    param="input",
)
NOT_FOUND: Final = Rule(
    "Item with id '{}' not found. Items are not persisted when `store` is set to false. Try again"
    " with `store` set to true, or remove this item from your input.",
    "github.com/openai/openai-agents-python/issues/2063",
    "2025-11",
    status=HTTPStatus.NOT_FOUND,
    param="input",
)
DAMAGED: Final = Rule(
    "The encrypted content for item {} could not be verified. Reason: Encrypted content could not"
    " be decrypted or parsed.",
    "github.com/openai/codex/issues/8145",
    "2025-12",
    code="invalid_encrypted_content",
)
RENAMED: Final = Rule(
    "The encrypted content for item {} could not be verified. Reason: Encrypted content item_id did"
    " not match the target item id.",
    "github.com/openclaw/openclaw/issues/72602",
    "2026-04",
    code="invalid_encrypted_content",
)
DUPLICATE: Final = Rule(
    "Duplicate item found with id {}. Remove duplicate items from your input and try again.",
    "github.com/microsoft/vscode/issues/321977",
    "2026-06",
    param="input",
)
UNANSWERED: Final = Rule(
    "No tool output found for function call {}.",
    "github.com/microsoft/agent-framework/issues/3105",
    "2026-01",
    param="input",
)
ORPHAN: Final = Rule(
    "No tool call found for function call output with call_id {}.",
    "github.com/james-6-23/codex2api/issues/414",
    "2026-07",
    param="input",
)
UNKNOWN_PREVIOUS: Final = Rule(
    "Previous response with id '{}' not found.",
    "github.com/maximhq/bifrost/issues/2441",
    "2026-03",
    code="previous_response_not_found",
    param="previous_response_id",
)


class _Led(NamedTuple):
    """An emitted item, and its neighbours where one of the two is reasoning."""

    item: Item
    reasoning_id: str  # the reasoning that led to it; "" if none did
    follower: Item  # what it led to, if it is reasoning


class Responses(Dialect):
    """A Responses API that has issued nothing yet."""

    name = "responses"
    path = "/responses"
    history = "input"

    def __init__(self, script: Script, *, is_strict: bool = False) -> None:
        super().__init__(script, is_strict=is_strict)
        self._emitted: dict[str, _Led] = {}  # by id, and reasoning by its content as well
        self._stored: dict[str, Item] = {}  # by id
        self._histories: dict[str, list[Item]] = {}  # response id -> its input and its output

    @override
    def read(self, body: Item) -> Reading:
        previous = body.get("previous_response_id")
        if previous and previous not in self._histories:
            raise UNKNOWN_PREVIOUS(previous)
        items = list(self._histories[previous]) if previous else []
        kept = len(items)
        for item in body["input"]:
            is_reference = item.get("type") == "item_reference"
            if is_reference and item.get("id") not in self._stored:
                raise NOT_FOUND(item.get("id"))
            items.append(self._stored[item["id"]] if is_reference else item)
        paths = [f"input[{at - kept}]" if at >= kept else "" for at in range(len(items))]
        parts = [self._part(item, path) for item, path in zip(items, paths, strict=True)]
        frame = canonical([body.get("instructions"), body.get("tools")])
        return Reading(frame, items, parts)

    def _part(self, item: Item, path: str) -> Part:
        """Return an item as a part; stored reasoning may come without its content."""
        names = tuple(filter(None, (item.get("id"), item.get("call_id"))))
        match item.get("type", "message"):
            case "reasoning":
                blob = item.get(BLOB) or ""
                if not blob and item.get("id") in self._stored and item["id"] in self._emitted:
                    blob = self._emitted[item["id"]].item[BLOB]
                return Part("reasoning", path, blob, names)
            case "function_call":
                value = canonical([item.get("name"), canonical(item.get("arguments"))])
                return Part("said", path, value, names)
            case "message" if item.get("role") == "assistant":
                return Part("said", path, canonical(["assistant", _text_of(item)]), names)
        return Part("given", path, canonical(item))

    @override
    def refusals(self, body: Item, reading: Reading, judgement: Judgement) -> Iterator[Refused]:
        yield from self._pairs(reading.items)
        yield from _calls(reading.items)

    def _pairs(self, items: Sequence[Item]) -> Iterator[Refused]:
        """Each item has its reasoning, and each reasoning its item; both only once."""
        before: set[str] = set()
        for item, following in zip(items, [*items[1:], {}], strict=True):
            item_id, blob = item.get("id") or "", item.get(BLOB) or ""
            led = self._emitted.get(blob or item_id)
            if item_id and item_id in before:
                yield DUPLICATE(item_id)
            if item.get("type") == "reasoning":
                if blob and led is None:
                    yield DAMAGED(item_id or f"{blob[:4]}...{blob[-4:]}")
                elif led is None or (not blob and item_id not in self._stored):
                    yield NOT_FOUND(item_id)
                elif item_id not in {"", led.item["id"]}:
                    yield RENAMED(item_id)
                elif following.get("type") != "reasoning" and not _is_same(following, led.follower):
                    yield UNFOLLOWED(led.item["id"])
                item_id = led.item["id"] if led else item_id
            elif led and led.reasoning_id and led.reasoning_id not in before:
                yield MISSING(item_id, item.get("type", "message"), led.reasoning_id)
            before.add(item_id)

    @override
    def answer(self, body: Item, reading: Reading, judgement: Judgement) -> tuple[Item, list[Part]]:
        output = self._output_for(body, reading.items)
        self._keep_pairs(output)
        stores = body.get("store") is not False
        hides = stores and INCLUDE not in (body.get("include") or ())
        shown = [
            {name: item[name] for name in item if not hides or name != BLOB} for item in output
        ]
        response = _response_of(body, shown, judgement)
        if stores:
            for item in shown:
                _keep(self._stored, item["id"], item)
            _keep(self._histories, response["id"], [*reading.items, *shown], HISTORIES_MAX)
        said = [self._part(item, f"output[{at}]") for at, item in enumerate(output)]
        return response, said

    def _keep_pairs(self, output: Sequence[Item]) -> None:
        """Keep which reasoning led to which items: to all up to the next reasoning."""
        reasoning_id = ""
        for item, following in zip(output, [*output[1:], {}], strict=True):
            is_reasoning = item["type"] == "reasoning"
            led = _Led(item, "" if is_reasoning else reasoning_id, following)
            for name in filter(None, (item["id"], item.get(BLOB))):
                _keep(self._emitted, name, led)
            reasoning_id = item["id"] if is_reasoning else reasoning_id

    def _output_for(self, body: Item, items: Sequence[Item]) -> list[Item]:
        """Return the complete output items for a request with this whole history."""
        since = items[asked_at(items, lambda item: item.get("role") == "user") + 1 :]
        answered = sum(item.get("type") == OUTPUT for item in since)
        choice = body.get("tool_choice", "auto")
        tools = [tool for tool in body.get("tools") or () if tool.get("type") == "function"]
        if isinstance(choice, dict):
            tools = [tool for tool in tools if tool.get("name") == choice.get("name")] or tools
        may_call = bool(tools) and choice != "none"
        must_call = may_call and choice not in ("auto", "none")
        output: list[Item] = []
        for sign, words in self.script.pieces(answered, may_call=may_call, must_call=must_call):
            match sign:
                case "R" if str(body.get("model")).startswith(WITHOUT_REASONING):
                    pass
                case "R":
                    blob = "gAAAA" + secrets.token_urlsafe(640)
                    output.append({"type": "reasoning", "summary": [], BLOB: blob})
                case "C":
                    output.append(_call(tools[answered % len(tools)], words))
                case _:
                    text = _text_for(body, words) if sign == "A" else words
                    part = {"type": "output_text", "text": text, "annotations": []}
                    message = {"status": "completed", "role": "assistant", "content": [part]}
                    output.append({"type": "message", **message})
        return [{"id": f"{PREFIXES[one['type']]}_{secrets.token_hex(24)}", **one} for one in output]

    @override
    def events(self, answer: Item) -> Iterator[bytes]:
        begun = {**answer, "status": "in_progress", "output": [], "usage": None}
        events: list[Item] = [
            {"type": "response.created", "response": begun},
            {"type": "response.in_progress", "response": begun},
        ]
        for index, item in enumerate(answer["output"]):
            empty: Item = {"message": {"content": []}, "function_call": {"arguments": ""}}
            opened = item | empty.get(item["type"], {})
            if "status" in item:
                opened["status"] = "in_progress"
            place = {"output_index": index}
            events.append({"type": "response.output_item.added", **place, "item": opened})
            events += _deltas(item, {**place, "item_id": item["id"]})
            events.append({"type": "response.output_item.done", **place, "item": item})
        events.append({"type": "response.completed", "response": answer})
        for number, event in enumerate(events):
            yield sse({**event, "sequence_number": number})

    @override
    def error(self, refused: Refused) -> Item:
        kind = "invalid_request_error"
        error = {"message": refused.message, "type": kind, "param": refused.param}
        return {"error": error | {"code": refused.code}}


def _calls(items: Sequence[Item]) -> Iterator[Refused]:
    """Each call has its output, and each output its call, in this order."""
    waiting: dict[str, None] = {}
    made: defaultdict[str, int] = defaultdict(int)
    for item in items:
        call_id = str(item.get("call_id"))
        if item.get("type") == "function_call":
            waiting[call_id] = None
            made[call_id] += 1
        elif item.get("type") == OUTPUT:
            if not made[call_id]:
                yield ORPHAN(call_id)
            waiting.pop(call_id, None)
    for call_id in waiting:
        yield UNANSWERED(call_id)


def _keep(kept: dict[Any, Any], key: object, value: object, most: int = ITEMS_MAX) -> None:
    """Add an entry; drop the oldest one above `most`."""
    kept[key] = value
    if len(kept) > most:
        del kept[next(iter(kept))]


def _is_same(item: Item, emitted: Item) -> bool:
    """Return whether a client's item is the emitted one; clients may omit its id."""
    if item.get("id"):
        return bool(item["id"] == emitted.get("id"))
    kind = item.get("type", "message")
    return kind == emitted.get("type") and item.get("call_id") == emitted.get("call_id")


def _text_of(item: Item) -> str:
    content = item.get("content")
    if isinstance(content, list):
        return "".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    return str(content or "")


def _call(tool: Item, city: str) -> Item:
    arguments = json.dumps(example(tool.get("parameters") or {}, city))
    call_id = f"call_{secrets.token_hex(12)}"
    call = {"name": tool.get("name", ""), "arguments": arguments, "call_id": call_id}
    return {"type": "function_call", "status": "completed", **call}


def _text_for(body: Item, answer: str) -> str:
    """Return the answer, in the form that the request asks for."""
    form = (body.get("text") or {}).get("format") or {}
    match form.get("type"):
        case "json_schema":
            return json.dumps(example(form.get("schema") or {}, CITIES[0]))
        case "json_object":
            return json.dumps({"answer": answer})
    return answer


def _response_of(body: Item, output: list[Item], judgement: Judgement) -> Item:
    """Return a completed response; its tokens are estimated from bytes."""
    read = judgement.tokens
    thoughts = TOKENS_PER_THOUGHT * sum(item["type"] == "reasoning" for item in output)
    wrote = thoughts + tokens_of([item for item in output if item["type"] != "reasoning"])
    return {
        "id": f"resp_{secrets.token_hex(24)}",
        "object": "response",
        "created_at": int(time.time()),
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "model": body.get("model", ""),
        "output": output,
        "parallel_tool_calls": True,
        "previous_response_id": body.get("previous_response_id"),
        "store": body.get("store") is not False,
        "tool_choice": "auto",
        "tools": body.get("tools") or [],
        "usage": {
            "input_tokens": read,
            "input_tokens_details": {"cached_tokens": judgement.cached},
            "output_tokens": wrote,
            "output_tokens_details": {"reasoning_tokens": thoughts},
            "total_tokens": read + wrote,
        },
    }


def _deltas(item: Item, place: Item) -> Iterator[Item]:
    """Yield the events between the first and the last one of an item."""
    if item["type"] == "function_call":
        stem, text = "response.function_call_arguments", item["arguments"]
        yield {"type": f"{stem}.delta", **place, "delta": text}
        yield {"type": f"{stem}.done", **place, "name": item["name"], "arguments": text}
    elif item["type"] == "message":
        (part,) = item["content"]
        place |= {"content_index": 0}
        yield {"type": "response.content_part.added", **place, "part": part | {"text": ""}}
        for word in pieces_of(part["text"]):
            delta = {"delta": word, "logprobs": []}
            yield {"type": "response.output_text.delta", **place, **delta}
        done = {"text": part["text"], "logprobs": []}
        yield {"type": "response.output_text.done", **place, **done}
        yield {"type": "response.content_part.done", **place, "part": part}
