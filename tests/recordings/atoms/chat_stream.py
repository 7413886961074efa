"""Streams of Chat Completions: the message that the deltas of the first choice add up to."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

_JOINED = frozenset({"content", "reasoning_content", "reasoning", "reasoning_text", "refusal"})


def assembled(body: bytes) -> tuple[dict[str, Any] | None, list[Mapping[str, Any]]]:
    """
    Join the deltas of a stream.

    Returns:
        The message, or None if the stream failed or has no finish reason; and all deltas.
    """
    message: dict[str, Any] = {}
    deltas: list[Mapping[str, Any]] = []
    has_ended = False
    for event in _events(body):
        if event.get("error"):
            return None, deltas
        for choice in event.get("choices") or []:
            if choice.get("index"):
                continue
            delta = choice.get("delta") or {}
            deltas.append(delta)
            _join(message, delta)
            has_ended = has_ended or bool(choice.get("finish_reason"))
    return (message if has_ended else None), deltas


def _join(message: dict[str, Any], delta: Mapping[str, Any]) -> None:
    for name, value in delta.items():
        if value is None:
            continue
        if name == "tool_calls":
            for call in value:
                _join_call(message.setdefault(name, []), call)
        elif isinstance(value, list):  # `reasoning_details`, or `content` of Mistral
            had = message.get(name) or []
            message[name] = (had if isinstance(had, list) else [{"text": had}]) + value
        elif name in _JOINED and isinstance(value, str):
            had = message.get(name) or ""
            message[name] = [*had, {"text": value}] if isinstance(had, list) else had + value
        else:
            message[name] = value


def _join_call(calls: list[dict[str, Any]], delta: Mapping[str, Any]) -> None:
    """Add a fragment to its call: an index that comes again with another id is another call."""
    index, call_id = delta.get("index"), delta.get("id")
    same = [one for one in calls if one["index"] == index and index is not None]
    this = same[-1] if same else None
    function = delta.get("function") or {}
    if this is None or (call_id and this["id"] and call_id != this["id"]):
        this = {"index": index, "id": "", "function": {"name": "", "arguments": ""}}
        calls.append(this)
    for name, value in delta.items():
        if value is not None and name not in ("function", "index"):
            this[name] = value or this.get(name, value)
    this["function"]["name"] += str(function.get("name") or "")
    this["function"]["arguments"] += str(function.get("arguments") or "")


def _events(body: bytes) -> Iterator[dict[str, Any]]:
    for line in body.replace(b"\r\n", b"\n").split(b"\n"):
        if line.startswith(b"data:"):
            try:
                event = json.loads(line[5:])
            except ValueError:
                continue  # `[DONE]`
            if isinstance(event, dict):
                yield event
