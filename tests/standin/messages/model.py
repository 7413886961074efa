"""
Scripted model: the next response of an agent loop, block by block, with thoughts from a seed.

Notation of a loop: R reasoning, X redacted reasoning, A text, fc call, S a search of the server;
one string per response.
"""

from collections.abc import Callable, Mapping
from typing import Any

from reasoning_replay.strict_api import Item
from reasoning_replay.strict_api.dialect import text_of
from reasoning_replay.strict_api.messages import blocks_of, is_result, question

from tests.standin.judging import Behaviour
from tests.standin.script import TOPIC_CHARS, Cue, Source, arguments, part_of, subject, words

__all__ = ["LOOPS", "cue", "perform"]

Think = Callable[[str, list[Item]], Item]
"""Makes a block of reasoning from its sign in the loop and the blocks before it."""

LOOPS: Mapping[str, tuple[str, ...]] = {
    "one_call": ("R fc", "R A"),
    "parallel": ("R fc fc", "R A"),
    "chain": ("R fc", "R fc", "R A"),
    "gaps": ("R fc", "fc", "A"),
    "preamble": ("R A fc", "R A"),
    "redacted": ("X fc", "R X A"),
    "interleaved": ("R A R fc", "R R fc", "R A"),
    "ending": ("R fc R", "R A"),
    "search": ("R S R A fc", "R A"),
    "text": ("R A",),
    "plain": ("fc", "A"),
}
_WITHOUT_TOOLS = "R A"


def cue(body: Item, *, thinks: bool) -> Cue:
    """Return the facts of a request."""
    messages = body["messages"]
    since = messages[question(messages) + 1 :]
    asked = [one for at, one in enumerate(messages) if question(messages[: at + 1]) == at]
    is_forbidden = (body.get("tool_choice") or {}).get("type") == "none"
    topic = text_of(asked[-1]) if asked else ""
    return Cue(
        answered=sum(is_result(block) for one in since for block in blocks_of(one)),
        round=len(asked),
        topic=topic[:TOPIC_CHARS],
        tools=[tool for tool in body.get("tools") or () if not is_forbidden],
        thinks=thinks,
    )


def perform(cue: Cue, source: Source, think: Think, behaviour: Behaviour, ids: str) -> list[Item]:
    """
    Build the next response of a loop; without tools, the model answers at once.

    Args:
        cue: The facts of the request.
        source: Where ids are from.
        think: Makes the blocks of reasoning.
        behaviour: The loop, and what it says.
        ids: The ids of its calls, unless the behaviour has others.
    """
    loop, repeats = LOOPS[behaviour.loop], behaviour.repeats
    parts = (part_of(loop, cue.answered) if cue.tools else _WITHOUT_TOOLS).split()
    made: list[Item] = []
    called = 0
    for sign in parts:
        if sign in {"R", "X"}:
            if cue.thinks:
                made.append(think(sign, made))
        elif sign == "A":
            text = words(cue, calls="fc" in parts, repeats=repeats)
            made.append({"type": "text", "text": text})
        elif sign == "S":
            made += _search(source, subject(cue, 0, repeats=repeats))
        else:
            tool = cue.tools[(cue.answered + called) % len(cue.tools)]
            about = subject(cue, called, repeats=repeats)
            given = arguments(tool.get("input_schema") or {}, about, called)
            call_id = _call_id(behaviour.ids or ids, called, source)
            call = {"type": "tool_use", "id": call_id, "name": tool.get("name"), "input": given}
            made.append(call)
            called += 1
    return made


def _search(source: Source, query: str) -> list[Item]:
    """Return a search that the server ran, and what it found."""
    call_id = f"srvtoolu_01{source.digits('search', 22)}"
    found: dict[str, Any] = {
        "type": "web_search_result",
        "url": "https://example.org/rain",
        "title": "Rain",
        "encrypted_content": source.signature("found"),
    }
    return [
        {
            "type": "server_tool_use",
            "id": call_id,
            "name": "web_search",
            "input": {"query": query},
        },
        {"type": "web_search_tool_result", "tool_use_id": call_id, "content": [found]},
    ]


def _call_id(form: str, index: int, source: Source) -> str:
    """Return the id of a call. The form `counter` repeats in every turn."""
    digits = source.digits(f"call {index}", 32)
    made: Mapping[str, str] = {
        "toolu": f"toolu_01{digits[:22]}",
        "deepseek": f"call_{index:02}_{digits[:22]}",
        "counter": f"call_{index}",
    }
    return made[form]
