"""
Scripted agent loops: the responses of the "model", one string each, and their items.

Notation: R reasoning, A assistant message, E an empty one, N one without parts, fc function call,
ctc custom tool call, ws hosted web search; one string per response. The loop restarts with every
user message. Its position follows from the number of tool outputs since then, so it needs no state.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tests.standin.mint import Ids
from tests.standin.script import CALLS, arguments, part_of
from tests.standin.shapes import (
    CustomToolCall,
    FunctionCall,
    InputItem,
    Message,
    OutputItem,
    OutputText,
    Reasoning,
    ReasoningText,
    SearchAction,
    SummaryText,
    Tool,
    WebSearchCall,
    plain_text,
)

__all__ = ["LOOPS", "Cue", "Variant", "cue", "perform", "progress"]

Variant = Literal[
    "one_call",
    "parallel",
    "interleaved",
    "chain",
    "preamble",
    "hosted",
    "message",
    "custom",
    "two_reasoning",
    "call_zero",
    "announced",
    "searched",
    "empty_text",
    "no_parts",
]

LOOPS: Mapping[Variant, tuple[str, ...]] = {
    "one_call": ("R fc", "R A"),
    "parallel": ("R fc fc fc", "R A"),
    "interleaved": ("R ws R ws R A",),
    "chain": ("R fc", "fc", "R fc", "R A"),
    "preamble": ("R A fc", "R A"),
    "hosted": ("R ws R fc", "R A"),
    "message": ("R A",),
    "custom": ("R ctc", "R A"),
    "two_reasoning": ("R R fc", "R fc R fc", "R A"),
    "call_zero": ("R fc", "fc", "R fc", "R A"),
    "announced": ("R A fc fc", "R A"),
    "searched": ("R ws fc", "R A"),
    "empty_text": ("R E fc", "R A"),
    "no_parts": ("R N fc", "R A"),
}
"""The shapes down to `call_zero` were recorded, except `custom`; clients reported the others."""

_EMPTY: Mapping[str, tuple[OutputText, ...]] = {"E": (OutputText(text=""),), "N": ()}
_TOPIC_CHARS = 40
_FUNCTION = Tool(type="function", name="lookup")
_CUSTOM = Tool(type="custom", name="run")


class Cue(Struct, frozen=True, kw_only=True):
    """
    The input of the "model": the facts of a request that its response depends on.

    `answered` counts the tool outputs since the last user message, `topic` is the start of that
    message, `round` counts the user messages. So two conversations, or two rounds of one, have
    different texts. `thinks_aloud` emits reasoning as text.
    """

    answered: int
    round: int
    topic: str
    tools: Sequence[Tool] = ()
    summarises: bool = False
    thinks_aloud: bool = False


def progress(items: Sequence[InputItem], before: int = 0) -> int:
    """Count the tool outputs since the last user message, and `before` if there is none."""
    answered = before
    for item in items:
        if item.role == "user":
            answered = 0
        elif item.type is not None and item.type.endswith("_call_output"):
            answered += 1
    return answered


def cue(
    items: Sequence[InputItem], tools: Sequence[Tool], *, before: int = 0, summarises: bool = False
) -> Cue:
    """
    Read the cue from a request.

    Args:
        items: The `input`.
        tools: The declared tools; calls go to them, or to made-up ones if there are none.
        before: Tool outputs already answered in the response being continued.
        summarises: Whether the request asks for reasoning summaries.
    """
    asked = [plain_text(item.content) for item in items if item.role == "user"]
    return Cue(
        answered=progress(items, before),
        round=len(asked),
        topic=asked[-1][:_TOPIC_CHARS] if asked else "this",
        tools=tools,
        summarises=summarises,
    )


def perform(variant: Variant, cue: Cue, ids: Ids, *, reasons: bool) -> tuple[OutputItem, ...]:
    """
    Build the items of the next response, without ciphertext.

    Args:
        variant: The loop.
        cue: The facts of the request.
        ids: The source of ids.
        reasons: False leaves the reasoning out, as a model without it would.
    """
    parts = part_of(LOOPS[variant], cue.answered).split()
    calls = cue.answered
    made: list[OutputItem] = []
    for at, part in enumerate(parts):
        step = calls + 1
        if part == "R":
            if reasons:
                made.append(_reasoning(ids.item("rs"), cue, len(made) + 1))
        elif part == "A":
            ends = CALLS.isdisjoint(parts[at:])
            made.append(_message(ids.item("msg"), cue, step, ends=ends))
        elif part in _EMPTY:
            message = _message(ids.item("msg"), cue, step, ends=False)
            made.append(replace(message, content=_EMPTY[part]))
        elif part == "ws":
            made.append(
                WebSearchCall(
                    id=ids.item("ws"),
                    action=SearchAction(query=f"{cue.topic}, part {at}"),
                )
            )
        else:
            made.append(
                _call(
                    part,
                    ids.item(part),
                    "call_0" if variant == "call_zero" else ids.call(),
                    cue,
                    step,
                )
            )
            calls += 1
    return tuple(made)


def _reasoning(item_id: str, cue: Cue, step: int) -> Reasoning:
    text = f"**Step {step}**\n\nThinking about {cue.topic}."
    return Reasoning(
        id=item_id,
        summary=(SummaryText(text=text),) if cue.summarises else (),
        content=(ReasoningText(text=text),) if cue.thinks_aloud else (),
    )


def _message(item_id: str, cue: Cue, step: int, *, ends: bool) -> Message:
    text = (
        f"Here is answer {cue.round} about {cue.topic}."
        if ends
        else f"Let me look into {cue.topic} first, step {step}."
    )
    return Message(
        id=item_id,
        content=(OutputText(text=text),),
        phase="final_answer" if ends else "commentary",
    )


def _call(
    part: str, item_id: str, call_id: str, cue: Cue, step: int
) -> FunctionCall | CustomToolCall:
    """Call a declared tool of the right type, each in turn."""
    kind, fallback = ("function", _FUNCTION) if part == "fc" else ("custom", _CUSTOM)
    tools = [tool for tool in cue.tools if tool.type == kind and tool.name] or [fallback]
    tool = tools[(step - 1) % len(tools)]
    name = tool.name or ""
    subject = f"{cue.topic}, round {cue.round}, step {step}"
    if part == "ctc":
        return CustomToolCall(id=item_id, call_id=call_id, name=name, input=subject)
    return FunctionCall(
        id=item_id, call_id=call_id, name=name, arguments=_arguments(tool, subject, step)
    )


def _arguments(tool: Tool, subject: str, step: int) -> str:
    """Fill in the arguments of a tool; one with a schema that cannot be read is called as well."""
    schema = msgspec.json.decode(tool.parameters)
    given = arguments(schema if isinstance(schema, dict) else {}, subject, step)
    return msgspec.json.encode(given).decode()
