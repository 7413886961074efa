"""
Deltas: a message cut into the chunks that its vendor streams, reasoning first.

The pieces of a message, joined as the vendor's own SDK joins them, are that message again.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from tests.standin.chat.answers import End, Head, finish, written
from tests.standin.chat.families import CallIndex, Family
from tests.standin.common.script import pieces

__all__ = ["Cutting", "stream"]

Delta = dict[str, Any]


class Cutting(Struct, frozen=True, kw_only=True):
    """
    How a message is cut.

    Attributes:
        call_index: See families.CallIndex.
        halves: Whether a piece may end inside a character, as an escaped half of it.
        usage: Whether the request asked for a chunk with the usage.
    """

    call_index: CallIndex
    halves: bool = False
    usage: bool = False


def stream(
    family: Family, head: Head, messages: Sequence[Mapping[str, Any]], end: End, cutting: Cutting
) -> Iterator[bytes]:
    """Yield the frames of a stream: comments, chunks, usage and `[DONE]`."""
    for comment in family.comments:
        yield f": {comment}\n\n".encode()
    per_choice = [_chunks(family, index, made, end, cutting) for index, made in enumerate(messages)]
    for row in itertools.zip_longest(*per_choice):  # choices are interleaved
        for choice in row:
            if choice is not None:
                yield _frame(family, head, {"choices": [choice]} | _always(family, choice, head))
    if end == "error":
        error = {"code": 502, "message": "Upstream error"}
        last = {"index": 0, "delta": {"content": ""}, "finish_reason": "error"}
        yield _frame(family, head, {"error": error, "choices": [last]})
    if cutting.usage and family.name not in {"deepseek", "gemini"}:
        yield _frame(family, head, {"choices": [], "usage": dict(head.usage)})
    yield b"data: [DONE]\n\n"


def _chunks(
    family: Family, index: int, made: Mapping[str, Any], end: End, cutting: Cutting
) -> Iterator[Mapping[str, Any]]:
    deltas = {
        "deepseek": _deepseek,
        "gemini": _gemini,
        "openrouter": _openrouter,
    }.get(family.name, _plain)(family, made, cutting)
    for delta in deltas:
        yield {"index": index, "delta": delta, "finish_reason": None}
    if end != "error":
        yield {"index": index, "delta": _last(family), "finish_reason": finish(family, made, end)}


def _last(family: Family) -> Delta:
    match family.name:
        case "deepseek":
            return {"content": "", "reasoning_content": None}
        case "openrouter":
            return {"content": "", "role": "assistant", "reasoning": None}
        case "gemini":
            return {"role": "assistant"}
        case _:
            return {}


def _always(family: Family, choice: Mapping[str, Any], head: Head) -> Delta:
    """Return the usage of a chunk, where a vendor sends one without being asked."""
    match family.name:
        case "deepseek":
            return {"usage": dict(head.usage) if choice["finish_reason"] else None}
        case "gemini":
            return {"usage": dict(head.usage)}
        case _:
            return {}


def _deepseek(family: Family, made: Mapping[str, Any], cutting: Cutting) -> Iterator[Delta]:
    """Each delta has both texts, and null for the one that it does not continue."""
    thought = made.get("reasoning_content")
    yield {"role": "assistant", "content": None, **_if_any("reasoning_content", thought, "")}
    for piece in pieces(thought, cutting.halves):
        yield {"content": None, "reasoning_content": piece}
    for piece in pieces(made["content"], cutting.halves):
        yield {"content": piece, "reasoning_content": None}
    yield from _calls(made, cutting)


def _gemini(family: Family, made: Mapping[str, Any], cutting: Cutting) -> Iterator[Delta]:
    """Calls are whole, each with its signature; that of a text is on its last delta."""
    for index, call in enumerate(made.get("tool_calls") or ()):
        yield {"role": "assistant", "tool_calls": [_indexed(call, index, cutting)]}
    texts = list(pieces(made["content"], cutting.halves))
    for piece in texts[:-1]:
        yield {"role": "assistant", "content": piece}
    for piece in texts[-1:]:
        signed = _if_any("extra_content", made.get("extra_content"))
        yield {"role": "assistant", "content": piece, **signed}


def _openrouter(family: Family, made: Mapping[str, Any], cutting: Cutting) -> Iterator[Delta]:
    """Each delta repeats role and content; fragments of one entry share index and type."""
    common: Delta = {"content": "", "role": "assistant"}
    for entry in made.get("reasoning_details") or ():
        signed = {"signature"} & entry.keys()
        for name in ("text", "summary"):
            for piece in pieces(entry.get(name), cutting.halves):
                rest = {key: entry[key] for key in entry if key not in {name, *signed}}
                fragment = {**rest, name: piece}
                yield {**common, "reasoning": piece, "reasoning_details": [fragment]}
        if "data" in entry:
            yield {**common, "reasoning": None, "reasoning_details": [entry]}
        if signed:  # a fragment of its own, without a text
            rest = {key: entry[key] for key in entry if key != "text"}
            yield {**common, "reasoning": None, "reasoning_details": [rest]}
    for piece in pieces(made["content"], cutting.halves):
        yield {"content": piece, "role": "assistant"}
    for delta in _calls(made, cutting):
        yield {"content": None, "role": "assistant", **delta}


def _plain(family: Family, made: Mapping[str, Any], cutting: Cutting) -> Iterator[Delta]:
    """Kimi, Groq, Cerebras and local servers: a delta has only the member that it continues."""
    yield {"role": "assistant", "content": ""}
    name = family.form
    if made.get(name) == "":
        yield {name: ""}
    for piece in pieces(made.get(name), cutting.halves):
        yield {name: piece}
    for piece in pieces(made["content"], cutting.halves):
        yield {"content": piece}
    yield from _calls(made, cutting)


def _calls(made: Mapping[str, Any], cutting: Cutting) -> Iterator[Delta]:
    """Yield the head of each call, and then its arguments in pieces."""
    for index, call in enumerate(made.get("tool_calls") or ()):
        function = {"name": call["function"]["name"], "arguments": ""}
        yield {"tool_calls": [_indexed({**call, "function": function}, index, cutting)]}
        for piece in pieces(call["function"]["arguments"], cutting.halves):
            rest = {"function": {"arguments": piece}}
            yield {"tool_calls": [_indexed(rest, index, cutting)]}


def _indexed(call: Mapping[str, Any], index: int, cutting: Cutting) -> Delta:
    match cutting.call_index:
        case "own":
            return {"index": index, **call}
        case "zero":
            return {**call, "index": 0}
        case "none":
            return {name: call[name] for name in call if name != "index"}


def _if_any(name: str, value: object, shown: object = None) -> Delta:
    """Return a member, unless its value is None; `shown` takes the place of the value."""
    return {} if value is None else {name: value if shown is None else shown}


def _frame(family: Family, head: Head, rest: Mapping[str, Any]) -> bytes:
    chunk = {
        "id": head.id,
        "object": "chat.completion.chunk",
        "created": head.created,
        "model": head.model,
        **rest,
    }
    return b"data: " + written(family, chunk) + b"\n\n"
