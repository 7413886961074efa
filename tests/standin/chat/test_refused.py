"""Rules of the vendors of Chat Completions that a client which only drops reasoning never meets."""

from collections.abc import Callable
from typing import Any

import pytest
from openai import APIError

from tests.standin.chat import FamilyName
from tests.standin.chat.client import RAIN, SNOW, TOOLS, Message, refused, signed, without

Ask = Callable[..., Any]
Change = Callable[[list[Message]], list[Message]]

DEEPSEEK = "The `reasoning_content` in the thinking mode must be passed back to the API."
KIMI = "reasoning_content is missing in assistant tool call message at index 1"
CORRUPTED = "Corrupted thought signature"
OFF = {"extra_body": {"thinking": {"type": "disabled"}}}


def bare(history: list[Message]) -> list[Message]:
    """Drop the reasoning of all messages."""
    return without(history, "reasoning_content", "reasoning_details", "extra_content")


def exchanged(history: list[Message]) -> list[Message]:
    """Put the reasoning of the first message into the second one."""
    first, second = history[1], history[3]
    if "extra_content" in first["tool_calls"][0]:
        mark = first["tool_calls"][0]["extra_content"]["google"]["thought_signature"]
        return [*history[:3], signed(second, mark), history[4]]
    other = {**second, "reasoning_content": first["reasoning_content"]}
    return [*history[:3], other, history[4]]


def foreign(history: list[Message]) -> list[Message]:
    """Add a member of other vendors."""
    return [history[0], {**history[1], "reasoning_content": "Hm."}, *history[2:]]


def detailed(change: Callable[[list[Any]], list[Any]]) -> Change:
    """Change the details of the first message."""
    return lambda history: [
        history[0],
        {**history[1], "reasoning_details": change(history[1]["reasoning_details"])},
        *history[2:],
    ]


# (vendor, the history that is sent, other members, the text of the refusal; "": accepted)
CASES: list[tuple[FamilyName, Change, Message, str]] = [
    ("deepseek", lambda h: [*h[:-2], *bare(h[-2:])], {}, DEEPSEEK),
    ("deepseek", lambda h: [*bare(h), SNOW], {}, ""),
    ("deepseek", bare, {"tools": []}, ""),
    ("deepseek", bare, OFF, ""),
    ("deepseek", exchanged, {}, "stand-in"),
    ("kimi", lambda h: [*bare(h), SNOW], {}, KIMI),
    ("kimi", lambda h: [*h, {"role": "assistant", "content": "Hm."}, SNOW], {}, ""),
    ("kimi", bare, OFF, ""),
    ("kimi", exchanged, {}, "stand-in"),
    ("gemini", lambda h: [*bare(h), SNOW], {}, ""),
    ("gemini", exchanged, {}, CORRUPTED),
    ("gemini", lambda h: h, {"model": "gemini-3.1-pro-preview"}, CORRUPTED),
    ("openrouter", lambda h: without(h, "reasoning"), {}, ""),
    ("openrouter", detailed(lambda d: d[::-1]), {}, CORRUPTED),
    ("openrouter", detailed(lambda d: d[1:]), {}, CORRUPTED),
    ("openrouter", detailed(lambda d: [d[0], {**d[1], "data": "AAAA"}]), {}, CORRUPTED),
    ("groq", foreign, {}, "[('messages.1' : property 'reasoning_content' is unsupported)]"),
    ("cerebras", foreign, {}, "property 'messages.1.assistant.reasoning_content' is unsupported"),
    ("lenient", bare, {}, ""),
    ("lenient", exchanged, {}, ""),
]


@pytest.mark.parametrize(("name", "change", "more", "words"), CASES)
async def test_a_history_is_refused_or_accepted(
    standins: Ask, name: FamilyName, change: Change, more: Message, words: str
) -> None:
    """Two steps of a loop are played, changed and sent again."""
    standin, client = await standins(name, loop="chain")
    history = await client.step(*(await client.step(RAIN)))

    if words:
        assert words in await refused(client, *change(history), **more)
    else:
        await client.ask(*change(history), **more)
    assert change is not exchanged or standin.found("wrong")


async def test_openrouter_refuses_foreign_ids_inside_a_200(standins: Ask) -> None:
    """An encrypted entry that names no call of its message: the status says nothing."""
    standin, client = await standins("openrouter")
    history = await client.step(RAIN)
    call = {**history[1]["tool_calls"][0], "id": "call_mine"}
    message = {**history[1], "tool_calls": [call]}
    given: Any = [RAIN, message, {**history[2], "tool_call_id": "call_mine"}]
    create = client.sdk.chat.completions.create

    answer = await create(model=standin.family.model, messages=given, tools=TOOLS)
    assert answer.model_extra["error"] == {"code": 400, "message": "Provider returned error"}
    stream = await create(model=standin.family.model, messages=given, tools=TOOLS, stream=True)
    with pytest.raises(APIError, match="Provider returned error"):
        await anext(stream)
