"""
Scripted model: the next turn of an agent loop, with thoughts that follow from a seed and a place.

Notation of a loop: R reasoning, A text, fc call; one string per response. The loop restarts with
every user message. Its position follows from the number of tool messages since then, so the model
needs no state: the same history, asked again, differs in its thoughts alone.
"""

import json
from collections.abc import Mapping

from msgspec import Struct
from reasoning_replay.strict_api import Item
from reasoning_replay.strict_api.chat import question, thinks
from reasoning_replay.strict_api.dialect import text_of

from tests.standin.chat.families import CallIndex, Family
from tests.standin.judging import Behaviour
from tests.standin.script import TOPIC_CHARS, Cue, Source, arguments, part_of, subject, words

__all__ = ["LOOPS", "Call", "ChatBehaviour", "Turn", "cue", "perform"]

LOOPS: Mapping[str, tuple[str, ...]] = {
    "one_call": ("R fc", "R A"),
    "parallel": ("R fc fc fc", "R A"),
    "chain": ("R fc", "R fc", "R A"),
    "gaps": ("R fc", "fc", "R fc", "A"),
    "preamble": ("R A fc", "R A"),
    "text": ("R A",),
    "plain": ("fc", "A"),
}
_WITHOUT_TOOLS = "R A"


class ChatBehaviour(Behaviour, kw_only=True):
    """
    Behaviour of a stand-in for Chat Completions.

    Attributes:
        call_index: See families.CallIndex; None for that of its family.
        halves: Whether a delta may end inside a character, as an escaped half of it.
    """

    call_index: CallIndex | None = None
    halves: bool = False


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


def cue(body: Item) -> Cue:
    """Return the facts of a request."""
    messages: list[Item] = body["messages"]
    since = messages[question(messages) + 1 :]
    asked = [text_of(one) for one in messages if one.get("role") == "user"]
    is_forbidden = body.get("tool_choice") == "none"
    return Cue(
        answered=sum(one.get("role") in {"tool", "function"} for one in since),
        round=len(asked),
        topic=asked[-1][:TOPIC_CHARS] if asked else "this",
        tools=[
            tool["function"]
            for tool in body.get("tools") or ()
            if tool.get("type") == "function" and not is_forbidden
        ],
        thinks=thinks(body),
    )


def perform(cue: Cue, family: Family, source: Source, behaviour: ChatBehaviour) -> Turn:
    """Build the next turn of a loop; without tools, the model answers at once."""
    loop, repeats = LOOPS[behaviour.loop], behaviour.repeats
    parts = (part_of(loop, cue.answered) if cue.tools else _WITHOUT_TOOLS).split()
    is_thinking = cue.thinks and "R" in parts
    is_signed = is_thinking or (family.always_signs and "fc" in parts)
    calls = []
    for index in range(parts.count("fc")):
        tool = cue.tools[(cue.answered + index) % len(cue.tools)]
        name = str(tool.get("name"))
        about = subject(cue, index, repeats=repeats)
        given = arguments(tool.get("parameters") or {}, about, index)
        calls.append(
            Call(
                _call_id(behaviour.ids or family.ids, name, index, source),
                name,
                json.dumps(given, ensure_ascii=False),
                source.signature("call") if is_signed and not index else "",
            )
        )
    return Turn(
        text=words(cue, calls=bool(calls), repeats=repeats) if "A" in parts else "",
        calls=tuple(calls),
        thought=source.thought(cue.topic) if is_thinking else "",
        signature=source.signature("turn") if is_signed else "",
    )


def _call_id(form: str, name: str, index: int, source: Source) -> str:
    """Return the id of a call. The forms `kimi`, `counter` and `empty` repeat in every turn."""
    digits = source.digits(f"call {index}", 32)
    uuid = "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
    ids: Mapping[str, str] = {
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
