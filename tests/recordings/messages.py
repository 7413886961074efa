"""
Adapter for Anthropic Messages: reasoning is a block of a message, before the block that it led to.

The judge's own reading of the wire, written from the facts and the recordings.
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from tests.recordings import rawjson
from tests.recordings.adapter import (
    Adapter,
    Addition,
    Altered,
    Atom,
    Role,
    Said,
    folded,
    leaves_of,
)
from tests.recordings.wire import events

_REASONING = frozenset({"thinking", "redacted_thinking"})
_FIELDS = ("thinking", "signature", "data")
_CONTENT = "content"
_MARK = "cache_control"
_BINDING = re.compile(r"claude-[a-z]+-(?:5[-.][1-9]|[6-9])(?!\d)")

Block = Mapping[str, Any]


class Messages(Adapter):
    """The adapter of Anthropic Messages."""

    name = folder = "messages"
    path = "/v1/messages"

    def answer(self, body: bytes, *, is_stream: bool) -> Said | None:
        """Return the message of a response; a stream counts if it has a stop reason."""
        if is_stream:
            message = _assembled(body)
            return None if message is None else _said(message, "")
        text = body.decode()
        message = json.loads(text)
        return _said(message, text) if message.get("type") == "message" else None

    def binds(self, request: str) -> bool:
        """Return whether the model checks the history before its blocks: Claude 5.1 and later."""
        return _BINDING.search(str(json.loads(request).get("model"))) is not None

    def said(self, raw: str) -> Said:
        """Parse one element of `messages`."""
        return _said(json.loads(raw), raw)

    def without(self, raw: str, atoms: Collection[Atom]) -> str:
        """Remove blocks of the message."""
        at = rawjson.member(raw, _CONTENT)
        if at is None or raw[at.start] != "[":
            return raw
        spans = rawjson.elements(raw, at.start)
        blocks = [json.loads(raw[span.start : span.end]) for span in spans]
        gone = [
            n
            for n, place in _places(blocks)
            if (held := list(_atoms(blocks[n], place))) and all(atom in atoms for atom in held)
        ]
        return rawjson.apply(raw, rawjson.removals(spans, gone))

    def additions(self, sent: str, got: str, *_args: object) -> Sequence[Addition]:
        """Return the blocks that were added, each with a comma before the block that follows it."""
        mine, theirs = rawjson.member(sent, _CONTENT), rawjson.member(got, _CONTENT)
        if mine is None or theirs is None or got[theirs.start] != "[":
            raise Altered(f"not a list of blocks: {got[:80]}")
        spans = rawjson.elements(got, theirs.start)
        raws = [got[span.start : span.end] for span in spans]
        blocks = [json.loads(raw) for raw in raws]
        value = sent[mine.start : mine.end]
        is_text = value[0] == '"'
        kept = set() if is_text else {json.dumps(one) for one in json.loads(value)}
        added = [(n, where) for n, where in _places(blocks) if json.dumps(blocks[n]) not in kept]
        if is_text:
            new = "".join(raws[n] + "," for n, _ in added)
            expected = f'[{new}{{"type":"text","text":{value}}}]'
            bare = got[: theirs.start] + value + got[theirs.end :]
            is_theirs = got[theirs.start : theirs.end] == expected and bare == sent
        else:
            bare = got
            for n, _ in reversed(added):
                end = spans[n].end
                bare = bare[: spans[n].start] + bare[end:].removeprefix(",")
            is_theirs = bare == sent
        if not is_theirs:
            raise Altered(f"not the client's bytes: {got[:80]}")
        return [
            Addition(raws[n], tuple(_atoms(blocks[n], where)), frozenset(leaves_of(blocks[n])))
            for n, where in added
        ]


def _said(message: Mapping[str, Any], raw: str) -> Said:
    blocks = _blocks(message.get(_CONTENT))
    others = [one for one in blocks if one.get("type") not in _REASONING]
    text = "".join(str(one.get("text") or "") for one in others if one.get("type") == "text")
    calls = [one for one in others if one.get("type") != "text"]
    places = list(_places(blocks))
    return Said(
        Role.MODEL if message.get("role", "assistant") == "assistant" else Role.CLIENT,
        (folded(text), *(_shown(one) for one in calls)),
        tuple(str(one.get("id") or "") for one in calls),
        tuple(atom for n, place in places for atom in _atoms(blocks[n], place)),
        tuple(
            Atom(place, str(blocks[n]["type"]), "", is_text=True)
            for n, place in places
            if not list(_atoms(blocks[n], place))
        ),
        raw,
        frozenset(leaves_of(message)),
    )


def _blocks(content: Any) -> Sequence[Block]:
    return content if isinstance(content, list) else [{"type": "text", "text": content or ""}]


def _places(blocks: Sequence[Block]) -> Iterator[tuple[int, str]]:
    """Yield the index of each reasoning block, and how many other blocks are before it."""
    others = 0
    for n, block in enumerate(blocks):
        if block.get("type") in _REASONING:
            yield n, f"after {others}"
        else:
            others += 1


def _atoms(block: Block, place: str) -> Iterator[Atom]:
    """Yield what a reasoning block holds."""
    for name in _FIELDS:
        if block.get(name):
            yield Atom(place, name, str(block[name]), is_text=name == "thinking")


def _shown(block: Block) -> str:
    """Return a call, or another block, in a form that survives the usual client edits."""
    if "input" in block:
        return f"{block.get('name')} {json.dumps(block['input'], sort_keys=True)}"
    return json.dumps(
        {name: value for name, value in block.items() if name != _MARK}, sort_keys=True
    )


def _assembled(body: bytes) -> Mapping[str, Any] | None:
    """Join the events of a stream; None without a stop reason."""
    blocks: dict[int, dict[str, Any]] = {}
    inputs: dict[int, str] = {}
    has_stopped = False
    for event in events(body):
        match event.get("type"):
            case "content_block_start":
                blocks[event["index"]] = dict(event["content_block"])
            case "content_block_delta":
                at, delta = event["index"], event["delta"]
                _join(blocks[at], delta)
                inputs[at] = inputs.get(at, "") + delta.get("partial_json", "")
            case "message_delta":
                has_stopped = has_stopped or bool(event["delta"].get("stop_reason"))
    for at, text in inputs.items():
        if text:
            blocks[at]["input"] = json.loads(text)
    return {_CONTENT: [blocks[at] for at in sorted(blocks)]} if has_stopped else None


def _join(block: dict[str, Any], delta: Block) -> None:
    """Add a delta to its block: texts are joined, a signature comes whole."""
    for name in ("text", "thinking"):
        if name in delta:
            block[name] = (block.get(name) or "") + delta[name]
    if "signature" in delta:
        block["signature"] = delta["signature"]
