"""
Scripted model: the next turn of an agent loop, with thoughts that follow from a seed and a place.

Notation of a loop: R reasoning, A text, fc call; one string per response. The loop restarts with
every user message. Its position follows from the number of tool messages since then, so the model
needs no state: the same history, asked again, differs in its thoughts alone.
"""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from tests.standin.chat.families import Family, IdForm
from tests.standin.chat.messages import Message, last_user, text_of

__all__ = ["LOOPS", "Call", "Cue", "Loop", "Source", "Turn", "cue", "perform", "thinks"]

Loop = Literal["one_call", "parallel", "chain", "gaps", "preamble", "text", "plain"]

LOOPS: Mapping[Loop, tuple[str, ...]] = {
    "one_call": ("R fc", "R A"),
    "parallel": ("R fc fc fc", "R A"),
    "chain": ("R fc", "R fc", "R A"),
    "gaps": ("R fc", "fc", "R fc", "A"),
    "preamble": ("R A fc", "R A"),
    "text": ("R A",),
    "plain": ("fc", "A"),
}
_WITHOUT_TOOLS = ("R A",)
_TOPIC_CHARS = 40
_SIGNATURE_BYTES = 180
_REPEATED = "rain"


class Cue(Struct, frozen=True, kw_only=True):
    """
    The facts of a request that the next turn depends on.

    Attributes:
        answered: Tool messages since the last user message.
        round: User messages.
        topic: The start of the last one.
        tools: The functions that may be called.
        thinks: Whether thinking is on.
    """

    answered: int
    round: int
    topic: str
    tools: Sequence[Mapping[str, Any]]
    thinks: bool


class Call(Struct, frozen=True):
    """One call of a tool; `arguments` is JSON."""

    id: str
    name: str
    arguments: str
    signature: str = ""


class Turn(Struct, frozen=True, kw_only=True):
    """
    One response of the model.

    Attributes:
        text: Its content; "" if there is none.
        calls: Its calls.
        thought: Its reasoning in words; "" if it did not think.
        signature: The signature of all of it, for families that sign; "" if it is not signed.
    """

    text: str
    calls: tuple[Call, ...]
    thought: str
    signature: str


class Source:
    """Digits, ids and thoughts of one response: repeatable, and unlike those of any other."""

    def __init__(self, seed: bytes, place: str, number: int) -> None:
        self._seed = seed + f"/{place}/{number}/".encode()

    def digits(self, label: str, count: int) -> str:
        """Return hexadecimal digits for a label."""
        return hashlib.shake_256(self._seed + label.encode()).hexdigest(count)[:count]

    def signature(self, label: str) -> str:
        """Return a signature: standard base64, with all of its characters."""
        raw = hashlib.shake_256(self._seed + label.encode()).digest(_SIGNATURE_BYTES)
        return base64.b64encode(raw + b"\xfb\xff\xfe.").decode()

    def thought(self, topic: str) -> str:
        """Return reasoning in words, with characters that JSON escapes in different ways."""
        return (
            f"Thought {self.digits('thought', 12)} about “{topic}”.\n\n"
            'A "quoted" word, a path C:\\tmp, 7 °C, 雨, a tab\t, a slash / and '
        ) + "\U0001f327" * 10  # so many that pieces of any odd size end inside one of them


def cue(body: Message) -> Cue:
    """Return the facts of a request."""
    messages: Sequence[Message] = body["messages"]
    start = last_user(messages)
    asked = [text_of(one) for one in messages if one.get("role") == "user"]
    is_forbidden = body.get("tool_choice") == "none"
    return Cue(
        answered=sum(one.get("role") in {"tool", "function"} for one in messages[start + 1 :]),
        round=len(asked),
        topic=asked[-1][:_TOPIC_CHARS] if asked else "this",
        tools=[
            tool["function"]
            for tool in body.get("tools") or ()
            if tool.get("type") == "function" and not is_forbidden
        ],
        thinks=thinks(body),
    )


def thinks(body: Message) -> bool:
    """Return whether thinking is on; every vendor switches it off by another parameter."""
    template = body.get("chat_template_kwargs") or {}
    reasoning = body.get("reasoning") or {}
    return not (
        (body.get("thinking") or {}).get("type") == "disabled"
        or False in {body.get("enable_thinking"), template.get("enable_thinking")}
        or body.get("reasoning_effort") == "none"
        or reasoning.get("enabled") is False
        or reasoning.get("effort") == "none"
        or body.get("think") is False
    )


def perform(
    loop: Loop, cue: Cue, family: Family, source: Source, *, ids: IdForm, repeats: bool
) -> Turn:
    """
    Build the next turn of a loop.

    Args:
        loop: The loop; without tools, the model answers at once.
        cue: The facts of the request.
        family: Its vendor.
        source: Where ids, signatures and thoughts are from.
        ids: The ids of its calls.
        repeats: Whether it says the same in every turn, so that only places differ.
    """
    parts = (_script(loop, cue.answered) if cue.tools else _WITHOUT_TOOLS[0]).split()
    is_thinking = cue.thinks and "R" in parts
    is_signed = is_thinking or (family.always_signs and "fc" in parts)
    count = parts.count("fc")
    calls = []
    for index in range(count):
        tool = cue.tools[(cue.answered + index) % len(cue.tools)]
        name = str(tool.get("name"))
        subject = _subject(cue, index, repeats=repeats)
        calls.append(
            Call(
                _call_id(ids, name, index, source),
                name,
                json.dumps(_arguments(tool, subject, index), ensure_ascii=False),
                source.signature("call") if is_signed and not index else "",
            )
        )
    text = ""
    if "A" in parts:
        what = _REPEATED if repeats else f"{cue.topic}, round {cue.round}, step {cue.answered}"
        text = f"Let me look into {what}." if calls else f"Here is the answer about {what}."
    return Turn(
        text=text,
        calls=tuple(calls),
        thought=source.thought(cue.topic) if is_thinking else "",
        signature=source.signature("turn") if is_signed else "",
    )


def _script(loop: Loop, answered: int) -> str:
    """Return the response of a loop after as many calls as were answered; later, its last one."""
    *rounds, last = LOOPS[loop]
    called = 0
    for parts in rounds:
        if answered <= called:
            return parts
        called += parts.split().count("fc")
    return last


def _subject(cue: Cue, index: int, *, repeats: bool) -> str:
    if repeats:
        return f"{_REPEATED} {index}"
    return f"{cue.topic}, round {cue.round}, step {cue.answered}, part {index}"


def _arguments(tool: Mapping[str, Any], subject: str, index: int) -> dict[str, object]:
    """Return a value for each argument of a tool; `query` if it has none."""
    wanted = (tool.get("parameters") or {}).get("properties") or {"query": {"type": "string"}}
    values: Mapping[str, object] = {"integer": index, "number": index, "boolean": True}
    return {name: values.get(str(schema.get("type")), subject) for name, schema in wanted.items()}


def _call_id(form: IdForm, name: str, index: int, source: Source) -> str:
    """Return the id of a call. The forms `kimi`, `counter` and `empty` repeat in every turn."""
    digits = source.digits(f"call {index}", 32)
    uuid = "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
    ids: Mapping[IdForm, str] = {
        "deepseek": f"call_{index:02}_{digits[:22]}",
        "kimi": f"functions.{name}:{index}",
        "counter": f"call_{index}",
        "empty": "",
        "google": f"function-call-{int(digits[:15], 16)}",
        "tool": f"tool_{name}_{digits[:20]}",
        "uuid": f"fc_{uuid}",
        "short": digits[:9],
        "random": f"call_{digits[:24]}",
    }
    return ids[form]
