"""
Scripted Responses model: the demo's Responses API, as strict about reasoning as OpenAI's.

It refuses a request, with the error messages of OpenAI's API, if

- an item is sent without the reasoning that led to it,
- reasoning is not directly followed by the item that it led to,
- reasoning has an unknown id and no encrypted content, or encrypted content that was not issued,
- it refers to an item or a response that the API does not store.

It keeps what it issued in memory, and drops the oldest. A model that does not reason emits none.
"""

import hashlib
import json
import secrets
import time
from collections.abc import Iterator, Sequence
from http import HTTPStatus
from typing import Any, Final, NamedTuple

from reasoning_replay.demo.example_values import example
from reasoning_replay.demo.scripted_api import Api, Item, Refused, sse
from reasoning_replay.demo.scripted_steps import ANSWER, CITIES, next_step, pieces_of, tokens_of

__all__ = ["responses_api"]

# Most entries that are kept of each kind.
ITEMS_MAX: Final = 10_000
HISTORIES_MAX: Final = 500
BLOB: Final = "encrypted_content"
INCLUDE: Final = "reasoning.encrypted_content"
WITHOUT_REASONING: Final = ("gpt-3", "gpt-4")
TOKENS_PER_THOUGHT: Final = 192


def responses_api() -> Api:
    """Return an API that has issued nothing yet."""
    return Api(
        path="/responses",
        history="input",
        answer=_Issued().answer,
        events=_events,
        error=_error,
    )


class _Emitted(NamedTuple):
    """An item of an output, and its neighbours where one of the two is reasoning."""

    item: Item
    reasoning_id: str  # the reasoning that led to it; "" if none did
    follower: Item  # what it led to, if it is reasoning


class _Issued:
    """The newest items and responses that an API has issued."""

    def __init__(self) -> None:
        self._emitted: dict[str, _Emitted] = {}  # by id, and reasoning by its content as well
        self._stored: dict[str, Item] = {}  # by id
        self._histories: dict[str, list[Item]] = {}  # response id -> its input and its output
        self._prefixes: dict[bytes, None] = {}  # digests of the histories that the cache holds

    def answer(self, body: Item) -> Item:
        """
        Return the response to a request.

        Raises:
            Refused: An item is alone, was not issued, or is not stored.
        """
        items = self._resolved(body)
        self._judge(items)
        output = _output_for(body, items)
        before: Item = {}
        for item, following in zip(output, [*output[1:], {}], strict=True):
            is_led = before.get("type") == "reasoning"
            emitted = _Emitted(item, before["id"] if is_led else "", following)
            for name in filter(None, (item["id"], item.get(BLOB))):
                _keep(self._emitted, name, emitted)
            before = item
        stores = body.get("store") is not False
        hides = stores and INCLUDE not in (body.get("include") or ())
        shown = [
            {name: item[name] for name in item if not hides or name != BLOB} for item in output
        ]
        response = _response_of(body, shown, *self._sizes(items))
        if stores:
            for item in shown:
                _keep(self._stored, item["id"], item)
            _keep(self._histories, response["id"], [*items, *shown], HISTORIES_MAX)
        return response

    def _resolved(self, body: Item) -> list[Item]:
        """Return the whole history of a request, references resolved."""
        previous = body.get("previous_response_id")
        if previous and previous not in self._histories:
            words = f"Previous response with id '{previous}' not found."
            code, param = "previous_response_not_found", "previous_response_id"
            raise Refused(words, code=code, param=param)
        items = list(self._histories[previous]) if previous else []
        for item in body["input"]:
            is_reference = item.get("type") == "item_reference"
            if is_reference and item.get("id") not in self._stored:
                raise _not_found(str(item.get("id")))
            items.append(self._stored[item["id"]] if is_reference else item)
        return items

    def _judge(self, items: Sequence[Item]) -> None:
        """Check that each item has its reasoning, and each reasoning its item."""
        before: set[str] = set()
        for item, following in zip(items, [*items[1:], {}], strict=True):
            item_id, blob = item.get("id") or "", item.get(BLOB) or ""
            emitted = self._emitted.get(blob or item_id)
            if item.get("type") == "reasoning":
                if blob and (emitted is None or item_id not in ("", emitted.item["id"])):
                    shown = item_id or f"{blob[:4]}...{blob[-4:]}"
                    words = f"The encrypted content for item {shown} could not be verified."
                    raise Refused(words, code="invalid_encrypted_content", param="input")
                if emitted is None:
                    raise _not_found(item_id)
                item_id = emitted.item["id"]
                if not _is_same(following, emitted.follower):
                    raise _without(item_id, "reasoning", "following item.")
            elif emitted and emitted.reasoning_id and emitted.reasoning_id not in before:
                needed = f"'reasoning' item: '{emitted.reasoning_id}'."
                raise _without(item_id, item.get("type", "message"), needed)
            before.add(item_id)

    def _sizes(self, items: list[Item]) -> tuple[int, int]:
        """Return the tokens of a history, and those of its longest prefix that was sent before."""
        digest, size, cached = hashlib.sha256(), 0, 0
        for item in items:
            digest.update(json.dumps(item).encode())
            size += tokens_of(item)
            if digest.digest() in self._prefixes:
                cached = size
            _keep(self._prefixes, digest.digest(), None)
        return size, cached


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


def _not_found(item_id: str) -> Refused:
    words = f"Item with id '{item_id}' not found. Remove this item from your input and try again."
    return Refused(words, HTTPStatus.NOT_FOUND, param="input")


def _without(item_id: str, kind: str, needed: str) -> Refused:
    words = f"Item '{item_id}' of type '{kind}' was provided without its required {needed}"
    return Refused(words, param="input")


def _error(refused: Refused) -> Item:
    kind = "invalid_request_error"
    error = {"message": refused.message, "type": kind, "param": refused.param}
    return {"error": error | {"code": refused.code}}


# --- responses ---


def _output_for(body: Item, items: Sequence[Item]) -> list[Item]:
    """Return the complete output items for a request with this whole history."""
    asked_at = max((at for at, item in enumerate(items) if item.get("role") == "user"), default=0)
    answered = sum(item.get("type") == "function_call_output" for item in items[asked_at:])
    choice = body.get("tool_choice", "auto")
    tools = [tool for tool in body.get("tools") or () if tool.get("type") == "function"]
    if isinstance(choice, dict):
        tools = [tool for tool in tools if tool.get("name") == choice.get("name")] or tools
    may_call = bool(tools) and choice != "none"
    step = next_step(
        answered, may_call=may_call, must_call=may_call and choice not in ("auto", "none")
    )
    output: list[Item] = []
    if not str(body.get("model")).startswith(WITHOUT_REASONING):
        blob = "gAAAA" + secrets.token_urlsafe(640)
        output.append({"type": "reasoning", "summary": [], BLOB: blob})
    for city in step.cities:
        tool = tools[answered % len(tools)]
        arguments = json.dumps(example(tool.get("parameters") or {}, city))
        call_id = f"call_{secrets.token_hex(12)}"
        call = {"name": tool.get("name", ""), "arguments": arguments, "call_id": call_id}
        output.append({"type": "function_call", "status": "completed", **call})
    if not step.cities:
        part = {"type": "output_text", "text": _text_for(body), "annotations": []}
        message = {"status": "completed", "role": "assistant", "content": [part]}
        output.append({"type": "message", **message})
    prefixes = {"reasoning": "rs", "function_call": "fc", "message": "msg"}
    return [{"id": f"{prefixes[one['type']]}_{secrets.token_hex(24)}", **one} for one in output]


def _text_for(body: Item) -> str:
    form = (body.get("text") or {}).get("format") or {}
    match form.get("type"):
        case "json_schema":
            return json.dumps(example(form.get("schema") or {}, CITIES[0]))
        case "json_object":
            return json.dumps({"answer": ANSWER})
    return ANSWER


def _response_of(body: Item, output: list[Item], read: int, cached: int) -> Item:
    """Return a completed response; its tokens are estimated from bytes."""
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
            "input_tokens_details": {"cached_tokens": cached},
            "output_tokens": wrote,
            "output_tokens_details": {"reasoning_tokens": thoughts},
            "total_tokens": read + wrote,
        },
    }


# --- events ---


def _events(response: Item) -> Iterator[bytes]:
    """Yield a response as stream events, with their sequence numbers."""
    begun = {**response, "status": "in_progress", "output": [], "usage": None}
    events: list[Item] = [
        {"type": "response.created", "response": begun},
        {"type": "response.in_progress", "response": begun},
    ]
    for index, item in enumerate(response["output"]):
        empty: Item = {"message": {"content": []}, "function_call": {"arguments": ""}}
        opened = item | empty.get(item["type"], {})
        if "status" in item:
            opened["status"] = "in_progress"
        events.append({"type": "response.output_item.added", "output_index": index, "item": opened})
        events += _deltas(item, {"output_index": index, "item_id": item["id"]})
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    events.append({"type": "response.completed", "response": response})
    for number, event in enumerate(events):
        yield sse({**event, "sequence_number": number})


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
