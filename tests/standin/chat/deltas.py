"""
Deltas: a message cut into the chunks that its vendor streams, reasoning first.

The pieces of a message, joined as the vendor's own SDK joins them, are that message again.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from tests.standin.chat.answers import written
from tests.standin.chat.families import CallIndex, Family
from tests.standin.chat.model import ChatBehaviour
from tests.standin.script import pieces

__all__ = ["stream"]

Delta = dict[str, Any]


class Cutting(NamedTuple):
    """How a message is cut: see families.CallIndex and ChatBehaviour.halves."""

    call_index: CallIndex
    halves: bool


def stream(
    family: Family, answer: Mapping[str, Any], behaviour: ChatBehaviour, *, wants_usage: bool
) -> Iterator[bytes]:
    """Yield the frames of a stream: comments, chunks, usage and `[DONE]`."""
    (choice,), usage = answer["choices"], answer["usage"]
    cutting = Cutting(behaviour.call_index or family.call_index, behaviour.halves)
    head = {name: answer[name] for name in ("id", "created", "model")}
    head["object"] = "chat.completion.chunk"

    def frame(**rest: Any) -> bytes:
        return b"data: " + written(family, head | rest) + b"\n\n"

    for comment in family.comments:
        yield f": {comment}\n\n".encode()
    always = {"deepseek": {"usage": None}, "gemini": {"usage": usage}}.get(family.name, {})
    for delta in _DELTAS.get(family.name, _plain)(family, choice["message"], cutting):
        yield frame(choices=[{"index": 0, "delta": delta, "finish_reason": None}], **always)
    if behaviour.end == "error":
        last = {"index": 0, "delta": {"content": ""}, "finish_reason": "error"}
        yield frame(error=choice["error"], choices=[last])
    else:
        last = {"index": 0, "delta": _LAST.get(family.name, {})}
        last["finish_reason"] = choice["finish_reason"]
        yield frame(choices=[last], **({"usage": usage} if always else {}))
    if wants_usage and not always:
        yield frame(choices=[], usage=usage)
    yield b"data: [DONE]\n\n"


_LAST: Mapping[str, Delta] = {
    "deepseek": {"content": "", "reasoning_content": None},
    "openrouter": {"content": "", "role": "assistant", "reasoning": None},
    "gemini": {"role": "assistant"},
}


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


def _litellm(family: Family, made: Mapping[str, Any], cutting: Cutting) -> Iterator[Delta]:
    """Fragments of a block have its index, and the last one its signature; each comes twice."""

    def delta(text: str, **signed: str) -> Delta:
        blocks = [{"type": "thinking", "thinking": text, **signed, "index": 0}]
        fields = {"thinking_blocks": blocks}
        named = {"thinking_blocks": blocks, "provider_specific_fields": fields}
        return {"reasoning_content": text, **named, "content": ""}

    for block in made.get("thinking_blocks") or ():
        for piece in pieces(block["thinking"], cutting.halves):
            yield delta(piece)
        yield delta("", signature=block["signature"])
    for piece in pieces(made["content"], cutting.halves):
        yield {"content": piece}
    yield from _calls(made, cutting)


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


_DELTAS = {
    "deepseek": _deepseek,
    "gemini": _gemini,
    "litellm": _litellm,
    "openrouter": _openrouter,
}
