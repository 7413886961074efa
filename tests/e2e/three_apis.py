"""
Three APIs: histories, responses and refusals, as each of them writes the same ones.

What a history says does not depend on the API, so that one script is drawn for all.
"""

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

__all__ = [
    "API",
    "WRITERS",
    "Entry",
    "Habit",
    "Item",
    "Part",
    "refusal",
    "responses_answer",
    "responses_history",
    "tools",
]

API = Literal["responses", "chat", "messages"]
Item = dict[str, Any]


@dataclass(frozen=True)
class Part:
    """What a model emits: reasoning (`r`), a message (`m`) or a call (`c`)."""

    kind: str
    id: str
    text: str
    call_id: str = ""
    phase: str = ""


@dataclass(frozen=True)
class Entry:
    """One entry of a history: a user's message, an output, or the parts of a turn."""

    kind: str
    text: str = ""
    call_id: str = ""
    parts: tuple[Part, ...] = ()


@dataclass(frozen=True)
class Habit:
    """
    How a client writes its requests.

    Attributes:
        keeps: How much reasoning it sends back: of ten parts.
        ids: Whether it keeps ids.
        spaced, ascii: How it writes JSON.
        members: Other members of the body, before and after the history.
    """

    keeps: int
    ids: bool
    spaced: bool
    ascii: bool
    before: Item
    after: Item
    status: bool = False
    stream: bool = False


def compact(value: object) -> bytes:
    """Return JSON without spaces."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def stays(part: Part, habit: Habit) -> bool:
    """Return whether a client keeps this part; always the same for the same part."""
    return part.kind != "r" or int(part.id[:4], 16) % 10 < habit.keeps


def tools(api: API, description: str) -> list[Item]:
    """Return the only tool, described at length: so every body is long enough to be known."""
    schema = {"type": "object", "properties": {"where": {"type": "string"}}}
    tool: Item = {"name": "get_weather", "description": description}
    if api == "messages":
        return [tool | {"input_schema": schema}]
    tool["parameters"] = schema
    if api == "chat":
        return [{"type": "function", "function": tool}]
    return [{"type": "function"} | tool]


def responses_item(part: Part, ids: bool = True) -> Item:
    """Return a part as an item of `output`."""
    item: Item
    if part.kind == "r":
        item = {"id": f"rs_{part.id}", "type": "reasoning", "summary": []}
        item["encrypted_content"] = f"gAAAA{part.id}{part.text.replace(' ', 'x')}=="
    elif part.kind == "c":
        arguments = json.dumps({"where": part.text}, ensure_ascii=False)
        item = {"id": f"fc_{part.id}", "type": "function_call", "call_id": part.call_id}
        item |= {"name": "get_weather", "arguments": arguments}
    else:
        content = [{"type": "output_text", "text": part.text, "annotations": []}]
        item = {"id": f"msg_{part.id}", "type": "message", "role": "assistant"}
        item |= {"status": "completed", "content": content}
        if part.phase:
            item["phase"] = part.phase
    if not ids:
        del item["id"]
    return item


def responses_history(entries: Sequence[Entry], habit: Habit) -> list[Item]:
    """Return a history as `input`."""
    found: list[Item] = []
    for entry in entries:
        if entry.kind == "user":
            found.append({"role": "user", "content": entry.text})
        elif entry.kind == "out":
            found.append(
                {"type": "function_call_output", "call_id": entry.call_id, "output": entry.text}
            )
        for part in entry.parts:
            if not stays(part, habit):
                continue
            item = responses_item(part, habit.ids or part.kind == "r")
            if part.kind == "m" and habit.status:
                item = {"role": "assistant", "content": part.text}
            found.append(item)
    return found


def responses_answer(parts: Sequence[Part], rid: str, model: str, stream: bool) -> list[bytes]:
    """Return a response in pieces."""
    items = [responses_item(part) for part in parts]
    done = {"id": f"resp_{rid}", "object": "response", "model": model, "status": "completed"}
    if not stream:
        return [compact(done | {"output": items})]
    found: list[tuple[str, Item]] = [
        ("response.created", {"response": done | {"status": "in_progress", "output": []}})
    ]
    for index, item in enumerate(items):
        at = {"output_index": index}
        found.append(("response.output_item.added", at | {"item": item | {"status": "x"}}))
        found.append(("response.output_item.done", at | {"item": item}))
    found.append(("response.completed", {"response": done | {"output": items}}))
    return [
        b"event: %s\ndata: %s\n\n" % (kind.encode(), compact({"type": kind} | data))
        for kind, data in found
    ]


def chat_message(parts: Sequence[Part], habit: Habit | None = None) -> Item:
    """Return parts as one message."""
    there = [part for part in parts if habit is None or stays(part, habit)]
    content = " ".join(part.text for part in there if part.kind == "m")
    found: Item = {"role": "assistant", "content": content or None}
    if reasoning := " ".join(part.text for part in there if part.kind == "r"):
        found["reasoning_content"] = reasoning
    if calls := [chat_call(part) for part in there if part.kind == "c"]:
        found["tool_calls"] = calls
    return found


def chat_call(part: Part) -> Item:
    """Return a call."""
    function = {"name": "get_weather", "arguments": json.dumps({"where": part.text})}
    return {"id": part.call_id, "type": "function", "function": function}


def chat_history(entries: Sequence[Entry], habit: Habit) -> list[Item]:
    """Return a history as `messages`."""
    found: list[Item] = []
    for entry in entries:
        if entry.kind == "user":
            found.append({"role": "user", "content": entry.text})
        elif entry.kind == "out":
            found.append({"role": "tool", "tool_call_id": entry.call_id, "content": entry.text})
        else:
            found.append(chat_message(entry.parts, habit))
    return found


def chat_answer(parts: Sequence[Part], rid: str, model: str, stream: bool) -> list[bytes]:
    """Return a completion in pieces."""
    message = chat_message(parts)
    reason = "tool_calls" if "tool_calls" in message else "stop"
    top = {"id": f"chatcmpl-{rid}", "model": model}
    if not stream:
        choice = {"index": 0, "message": message, "finish_reason": reason}
        return [compact(top | {"object": "chat.completion", "choices": [choice]})]
    deltas: list[Item] = [{"role": "assistant"}]
    deltas += [{key: message[key]} for key in ("reasoning_content", "content") if message.get(key)]
    for index, call in enumerate(message.get("tool_calls", [])):
        deltas.append({"tool_calls": [{"index": index} | call]})
    choices: list[Item] = [{"index": 0, "delta": d, "finish_reason": None} for d in deltas]
    choices.append({"index": 0, "delta": {}, "finish_reason": reason})
    chunks = [top | {"object": "chat.completion.chunk", "choices": [one]} for one in choices]
    return [b"data: %s\n\n" % compact(one) for one in chunks] + [b"data: [DONE]\n\n"]


def messages_block(part: Part) -> Item:
    """Return a part as a content block."""
    if part.kind == "r":
        if int(part.id[-1], 16) < 3:
            return {"type": "redacted_thinking", "data": f"Eo{part.id}"}
        return {"type": "thinking", "thinking": part.text, "signature": f"Er{part.id}=="}
    if part.kind == "c":
        given = {"where": part.text}
        return {"type": "tool_use", "id": part.call_id, "name": "get_weather", "input": given}
    return {"type": "text", "text": part.text}


def messages_history(entries: Sequence[Entry], habit: Habit) -> list[Item]:
    """Return a history as `messages`."""
    found: list[Item] = []
    for entry in entries:
        if entry.kind == "user":
            found.append({"role": "user", "content": entry.text})
        elif entry.kind == "out":
            block = {"type": "tool_result", "tool_use_id": entry.call_id, "content": entry.text}
            found.append({"role": "user", "content": [block]})
        else:
            blocks = [messages_block(part) for part in entry.parts if stays(part, habit)]
            if blocks:
                found.append({"role": "assistant", "content": blocks})
    return found


def messages_answer(parts: Sequence[Part], rid: str, model: str, stream: bool) -> list[bytes]:
    """Return a message in pieces."""
    blocks = [messages_block(part) for part in parts]
    reason = "tool_use" if any(part.kind == "c" for part in parts) else "end_turn"
    usage = {"input_tokens": 1, "output_tokens": 1}
    top: Item = {"id": f"msg_{rid}", "type": "message", "role": "assistant", "model": model}
    top |= {"stop_sequence": None, "usage": usage}
    if not stream:
        return [compact(top | {"content": blocks, "stop_reason": reason})]
    found: list[Item] = [
        {"type": "message_start", "message": top | {"content": [], "stop_reason": None}}
    ]
    for index, block in enumerate(blocks):
        at = {"index": index}
        begun, deltas = dict(block), []
        if block["type"] == "thinking":
            begun |= {"thinking": "", "signature": ""}
            deltas.append({"type": "thinking_delta", "thinking": block["thinking"]})
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
        elif block["type"] == "text":
            begun["text"] = ""
            deltas.append({"type": "text_delta", "text": block["text"]})
        elif block["type"] == "tool_use":
            begun["input"] = {}
            given = json.dumps(block["input"])
            deltas.append({"type": "input_json_delta", "partial_json": given})
        found.append({"type": "content_block_start", "content_block": begun} | at)
        found += [{"type": "content_block_delta", "delta": delta} | at for delta in deltas]
        found.append({"type": "content_block_stop"} | at)
    found.append({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage})
    found.append({"type": "message_stop"})
    return [b"event: %s\ndata: %s\n\n" % (one["type"].encode(), compact(one)) for one in found]


def refusal(api: API, rng: random.Random, parts: Sequence[Part]) -> bytes:
    """Draw a refusal that an API has been seen to send; it names some of these parts."""
    ids = {kind: [part.id for part in parts if part.kind == kind] or ["0a"] for kind in "rmc"}
    calls = [part.call_id for part in parts if part.kind == "c"] or ["call_x"]
    message = rng.choice(REFUSALS[api]).format(
        rs=f"rs_{rng.choice(ids['r'])}",
        msg=f"msg_{rng.choice(ids['m'])}",
        fc=f"fc_{rng.choice(ids['c'])}",
        call=rng.choice(calls),
        bad="Invalid `signature` in `thinking` block",
        at=f"messages.{rng.choice((1, 3, 5))}",
    )
    fault: Item = {"message": message, "type": "invalid_request_error"}
    if api == "messages":
        return compact({"type": "error", "error": fault})
    param = "input" if api == "responses" else "messages"
    return compact({"error": fault | {"param": param, "code": None}})


REFUSALS: dict[API, list[str]] = {
    "responses": """\
Item '{fc}' of type 'function_call' was provided without its required 'reasoning' item: '{rs}'.
Item '{rs}' of type 'reasoning' was provided without its required following item.
Duplicate item found with id {msg}. Remove duplicate items from your input and try again.
Item with id '{rs}' not found. Items are not persisted when `store` is set to false.
The encrypted content for item {rs} could not be verified.
The encrypted content could not be decrypted.
The encrypted content was not issued to this caller.
Invalid 'input[1].id': 'item_1'. Expected an ID that begins with 'fc'.
Missing required parameter: 'input[1].id'.
No tool output found for function call {call}.
Unknown parameter: 'input[1].status'.
Encrypted content is not supported.
Invalid value: 'input[3]' is not a valid item.
Element 3 of the history is not acceptable.
Encrypted content is not supported with this model.
Reasoning input items can only be provided to a reasoning or computer use model.""".splitlines(),
    "chat": """\
The `reasoning_content` in the thinking mode must be passed back to the API.
Missing `reasoning_content` field in the assistant message at message index 2.
preserved thinking (thinking.keep=all) requires reasoning_content on every assistant message
property 'reasoning_content' is unsupported
{at}.assistant.reasoning_content: Extra inputs are not permitted
Corrupted thought signature.
Provider returned error
Element 3 of the history is not acceptable.""".splitlines(),
    "messages": """\
{at}.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`.
{at}.content.0: {bad}
{at}.content.0: {bad}. The block is bound to a different conversation.
{at}.content.0: `thinking` blocks in the latest assistant message cannot be modified.
{at}: When thinking is disabled, an `assistant` message in the final position cannot have `thinking`
{at}.content.0: Input tag 'thinking' found using 'type' does not match any of the expected tags
{at}.content.0.thinking: Input should be a valid string
Element 3 of the history is not acceptable.""".splitlines(),
}


Writer = tuple[
    str,
    str,
    Callable[[Sequence[Entry], Habit], list[Item]],
    Callable[[Sequence[Part], str, str, bool], list[bytes]],
]
WRITERS: dict[API, Writer] = {
    "responses": (
        "/responses",
        "input",
        responses_history,
        responses_answer,
    ),
    "chat": ("/chat/completions", "messages", chat_history, chat_answer),
    "messages": ("/messages", "messages", messages_history, messages_answer),
}
