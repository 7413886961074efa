"""
Scripted model: the responses of the demo's API, as items and as stream events.

It follows SCRIPT: one entry for each request since the last user message. A request without
function tools, or with a model that does not reason, gets no calls, or no reasoning.
"""

import itertools
import json
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from reasoning_replay.demo.example_values import example

__all__ = ["SCRIPT", "Item", "events_of", "output_for", "response_of"]

Item = dict[str, Any]

# The output of each response, in order. Real models emit these shapes.
SCRIPT: Final[tuple[tuple[str, ...], ...]] = (
    ("reasoning", "function_call"),
    ("function_call",),
    ("reasoning", "function_call"),
    ("reasoning", "message"),
)
CITIES: Final = ("Oslo", "Bergen", "Bodø")
PREFIXES: Final = {"reasoning": "rs", "function_call": "fc", "message": "msg"}
WITHOUT_REASONING: Final = ("gpt-3", "gpt-4")
QUOTED_CHARS: Final = 60
BYTES_PER_TOKEN: Final = 4
TOKENS_PER_THOUGHT: Final = 192


def output_for(body: Item, items: Sequence[Item]) -> list[Item]:
    """
    Return the complete output items for a request.

    Args:
        body: The request.
        items: Its whole history, references resolved.
    """
    asked_at = max((at for at, item in enumerate(items) if item.get("role") == "user"), default=0)
    since = items[asked_at:]
    answered = sum(item.get("type") == "function_call_output" for item in since)
    tools = _tools(body)
    # Only a model that may answer comes to the end of the script.
    must_call = body.get("tool_choice", "auto") not in ("auto", "none")
    script = SCRIPT[:-1] if must_call else SCRIPT
    kinds = script[answered % len(script)] if tools else SCRIPT[-1]
    if str(body.get("model")).startswith(WITHOUT_REASONING):
        kinds = tuple(kind for kind in kinds if kind != "reasoning")
    city = CITIES[answered % len(CITIES)]
    makers: dict[str, Callable[[], Item]] = {
        "reasoning": _reasoning,
        "function_call": lambda: _call(tools[answered % len(tools)], city),
        "message": lambda: _message(_answer(body, since)),
    }
    return [
        {"id": f"{PREFIXES[kind]}_{secrets.token_hex(24)}", "type": kind} | makers[kind]()
        for kind in kinds
    ]


def response_of(body: Item, output: list[Item], input_bytes: int, cached_bytes: int) -> Item:
    """Return a completed response; its tokens are estimated from bytes."""
    thoughts = TOKENS_PER_THOUGHT * sum(item["type"] == "reasoning" for item in output)
    read, cached = input_bytes // BYTES_PER_TOKEN, cached_bytes // BYTES_PER_TOKEN
    wrote = thoughts + sum(len(_shown(item)) for item in output) // BYTES_PER_TOKEN
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


def events_of(response: Item) -> Iterator[Item]:
    """Yield a response as stream events, with their sequence numbers."""
    for number, event in enumerate(_events(response)):
        yield {**event, "sequence_number": number}


# --- items ---


def _tools(body: Item) -> list[Item]:
    """Return the functions that the model may call."""
    choice = body.get("tool_choice")
    if choice == "none":
        return []
    tools = [tool for tool in body.get("tools") or () if tool.get("type") == "function"]
    name = choice.get("name") if isinstance(choice, dict) else None
    return [tool for tool in tools if tool.get("name") == name] or tools


def _reasoning() -> Item:
    return {"summary": [], "encrypted_content": "gAAAA" + secrets.token_urlsafe(640)}


def _call(tool: Item, city: str) -> Item:
    return {
        "status": "completed",
        "call_id": f"call_{secrets.token_hex(12)}",
        "name": tool.get("name", ""),
        "arguments": json.dumps(example(tool.get("parameters") or {}, city)),
    }


def _message(text: str) -> Item:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"status": "completed", "role": "assistant", "content": [part]}


def _answer(body: Item, since: Sequence[Item]) -> str:
    """Return the text of a message: it quotes the question and the results of the tools."""
    said = [_plain(item.get("output")) for item in since if "output" in item]
    told = f" Your tools said: {' / '.join(said)}." if said else ""
    asked = _plain(since[0].get("content")) if since else ""
    text = f'You asked: "{asked}".{told} This answer is scripted, so take an umbrella.'
    form = (body.get("text") or {}).get("format") or {}
    match form.get("type"):
        case "json_schema":
            return json.dumps(example(form.get("schema") or {}, CITIES[0]))
        case "json_object":
            return json.dumps({"answer": text})
        case _:
            return text


def _plain(content: object) -> str:
    """Return the start of the text of a content, which is a string or a list of parts."""
    parts = content if isinstance(content, list) else [{"text": content or ""}]
    text = " ".join(str(part.get("text", "")) for part in parts)
    return text[:QUOTED_CHARS]


def _shown(item: Item) -> str:
    return item.get("arguments") or "".join(part["text"] for part in item.get("content") or ())


# --- events ---


def _events(response: Item) -> Iterator[Item]:
    begun = {**response, "status": "in_progress", "output": [], "usage": None}
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    for index, item in enumerate(response["output"]):
        place = {"output_index": index, "item_id": item["id"]}
        empty: Item = {"message": {"content": []}, "function_call": {"arguments": ""}}
        opened = item | empty.get(item["type"], {})
        if "status" in item:
            opened["status"] = "in_progress"
        yield {"type": "response.output_item.added", "output_index": index, "item": opened}
        if item["type"] == "function_call":
            stem, text = "response.function_call_arguments", item["arguments"]
            yield {"type": f"{stem}.delta", **place, "delta": text}
            yield {"type": f"{stem}.done", **place, "name": item["name"], "arguments": text}
        elif item["type"] == "message":
            yield from _text_events(item["content"][0], {**place, "content_index": 0})
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": "response.completed", "response": response}


def _text_events(part: Item, place: Item) -> Iterator[Item]:
    """Yield the events of a text, word by word."""
    yield {"type": "response.content_part.added", **place, "part": part | {"text": ""}}
    words = part["text"].split(" ")
    for word, after in itertools.zip_longest(words, [" "] * (len(words) - 1), fillvalue=""):
        delta: Item = {"delta": word + after, "logprobs": []}
        yield {"type": "response.output_text.delta", **place, **delta}
    done = {"text": part["text"], "logprobs": []}
    yield {"type": "response.output_text.done", **place, **done}
    yield {"type": "response.content_part.done", **place, "part": part}
