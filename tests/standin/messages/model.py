"""
Scripted model: the next response of an agent loop, block by block, with thoughts from a seed.

Notation of a loop: R reasoning, X redacted reasoning, A text, fc call, S a search of the server;
one string per response.
"""

import hashlib
from collections.abc import Callable, Mapping
from typing import Any, Literal

from tests.standin.common.judging import Message
from tests.standin.common.script import (
    TOPIC_CHARS,
    Cue,
    Source,
    arguments,
    part_of,
    subject,
    words,
)
from tests.standin.messages.blocks import Block, asks, blocks_of, last_question, text_of

__all__ = ["LOOPS", "IdForm", "Loop", "Think", "cue", "perform", "thinks"]

Loop = Literal[
    "one_call",
    "parallel",
    "chain",
    "gaps",
    "preamble",
    "redacted",
    "interleaved",
    "search",
    "text",
    "plain",
]
IdForm = Literal["toolu", "deepseek", "counter"]
Think = Callable[[str, list[Block]], Block]
"""Makes a block of reasoning from its sign in the loop and the blocks before it."""

LOOPS: Mapping[Loop, tuple[str, ...]] = {
    "one_call": ("R fc", "R A"),
    "parallel": ("R fc fc", "R A"),
    "chain": ("R fc", "R fc", "R A"),
    "gaps": ("R fc", "fc", "A"),
    "preamble": ("R A fc", "R A"),
    "redacted": ("X fc", "R X A"),
    "interleaved": ("R A R fc", "R R fc", "R A"),
    "search": ("R S R A fc", "R A"),
    "text": ("R A",),
    "plain": ("fc", "A"),
}
_WITHOUT_TOOLS = "R A"


def cue(body: Message, *, thinks_unasked: bool) -> Cue:
    """Return the facts of a request."""
    messages = body["messages"]
    asked_at = last_question(messages)
    questions = [one for one in messages if asks(one)]
    is_forbidden = (body.get("tool_choice") or {}).get("type") == "none"
    return Cue(
        answered=sum(
            block.get("type") == "tool_result"
            for one in messages[asked_at + 1 :]
            for block in blocks_of(one)
        ),
        round=len(questions),
        topic=text_of(questions[-1])[:TOPIC_CHARS] if questions else "this",
        tools=[tool for tool in body.get("tools") or () if not is_forbidden],
        thinks=thinks(body, unasked=thinks_unasked),
    )


def thinks(body: Message, *, unasked: bool) -> bool:
    """Return whether thinking is on; `unasked`: also without the member."""
    kind = (body.get("thinking") or {}).get("type")
    return unasked if kind is None else kind != "disabled"


def perform(
    loop: Loop, cue: Cue, source: Source, think: Think, *, ids: IdForm, repeats: bool
) -> list[Block]:
    """
    Build the next response of a loop.

    Args:
        loop: The loop; without tools, the model answers at once.
        cue: The facts of the request.
        source: Where ids are from.
        think: Makes the blocks of reasoning.
        ids: The ids of its calls.
        repeats: Whether it says the same in every turn, so that only places differ.
    """
    parts = (part_of(LOOPS[loop], cue.answered) if cue.tools else _WITHOUT_TOOLS).split()
    made: list[Block] = []
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
            call_id = _call_id(ids, called, source)
            call = {"type": "tool_use", "id": call_id, "name": tool.get("name"), "input": given}
            made.append(call)
            called += 1
    return made


def _search(source: Source, query: str) -> list[Block]:
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


def _call_id(form: IdForm, index: int, source: Source) -> str:
    """Return the id of a call. The form `counter` repeats in every turn."""
    digits = source.digits(f"call {index}", 32)
    made: Mapping[IdForm, str] = {
        "toolu": f"toolu_01{hashlib.sha256(digits.encode()).hexdigest()[:22]}",
        "deepseek": f"call_{index:02}_{digits[:22]}",
        "counter": f"call_{index}",
    }
    return made[form]
