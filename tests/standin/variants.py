"""
Scripted agent loops: the responses of the "model", one string each, and their items.

Notation: R reasoning, A assistant message, E an empty one, N one without parts, fc function call,
ctc custom tool call, ws hosted web search; one string per response. The loop restarts with every
user message. Its position follows from the number of tool outputs since then, so it needs no state.
"""

import json
import secrets
from collections.abc import Mapping, Sequence
from typing import Literal

from reasoning_replay.strict_api import Item
from reasoning_replay.strict_api.dialect import asked_at, text_of

from tests.standin.script import CALLS, TOPIC_CHARS, arguments, part_of

__all__ = ["LOOPS", "Variant", "perform"]

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

_OUTPUT_TEXT = {"type": "output_text", "annotations": [], "logprobs": []}


def perform(variant: Variant, body: Item, items: Sequence[Item], *, reasons: bool) -> list[Item]:
    """
    Build the items of the next response, reasoning with its words.

    Two conversations, or two rounds of one, have different texts.

    Args:
        variant: The loop.
        body: The request; calls go to its tools, or to made-up ones if there are none.
        items: The whole history.
        reasons: False leaves the reasoning out, as a model without it would.
    """
    asked = [text_of(item) for item in items if item.get("role") == "user"]
    since = items[asked_at(items, lambda item: item.get("role") == "user") + 1 :]
    answered = sum(str(item.get("type")).endswith("_call_output") for item in since)
    topic, round_ = (asked or ["this"])[-1][:TOPIC_CHARS], len(asked)
    parts = part_of(LOOPS[variant], answered).split()
    step = answered + 1
    made: list[Item] = []
    for at, part in enumerate(parts):
        item: Item = {"id": f"{_PREFIXES.get(part, part)}_{secrets.token_hex(24)}"}
        match part:
            case "R":
                if reasons:
                    words = f"**Step {len(made) + 1}**\n\nThinking about {topic}."
                    made.append({**item, "type": "reasoning", "summary": [], "words": words})
            case "ws":
                query = {"type": "search", "query": f"{topic}, part {at}"}
                item |= {"type": "web_search_call", "status": "completed", "action": query}
                made.append(item)
            case "fc" | "ctc":
                call_id = "call_0" if variant == "call_zero" else f"call_{secrets.token_hex(12)}"
                about = f"{topic}, round {round_}, step {step}"
                made.append({**item, **_call(part, body, about, step), "call_id": call_id})
                step += 1
            case _:
                ends = part == "A" and CALLS.isdisjoint(parts[at:])
                answer = f"Here is answer {round_} about {topic}."
                text = answer if ends else f"Let me look into {topic} first, step {step}."
                text = "" if part == "E" else text
                item |= {"type": "message", "status": "completed", "role": "assistant"}
                item["phase"] = "final_answer" if ends else "commentary"
                item["content"] = [{**_OUTPUT_TEXT, "text": text}] if part != "N" else []
                made.append(item)
    return made


_PREFIXES = {"R": "rs", "A": "msg", "E": "msg", "N": "msg"}


def _call(part: str, body: Item, about: str, step: int) -> Item:
    """Call a declared tool of the right type, each in turn."""
    kind, fallback = ("function", "lookup") if part == "fc" else ("custom", "run")
    declared = [tool for tool in body.get("tools") or () if tool.get("type") == kind]
    tools = [tool for tool in declared if tool.get("name")] or [{"name": fallback}]
    tool = tools[(step - 1) % len(tools)]
    call = {"type": f"{kind if part == 'fc' else 'custom_tool'}_call", "status": "completed"}
    if part == "ctc":
        return {**call, "name": tool["name"], "input": about}
    schema = tool.get("parameters")  # one that cannot be read is called as well
    given = arguments(schema if isinstance(schema, dict) else {}, about, step)
    return {**call, "name": tool["name"], "arguments": json.dumps(given)}
