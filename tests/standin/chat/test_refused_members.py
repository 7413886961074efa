"""Vendors that refuse unknown members, and a server that refuses nothing."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace
from openai import BadRequestError, UnprocessableEntityError

from tests.standin.chat import FAMILIES, FamilyName
from tests.standin.chat.client import RAIN, refused, signed, without

Ask = Callable[..., Any]


PLACE = "messages.1.assistant.reasoning_content"
UNSUPPORTED: list[tuple[FamilyName, str]] = [
    ("groq", "[('messages.1' : property 'reasoning_content' is unsupported)]"),
    ("cerebras", f"{PLACE}: property '{PLACE}' is unsupported"),
    ("mistral", "extra_forbidden"),
]


@pytest.mark.parametrize(("name", "words"), UNSUPPORTED)
async def test_foreign_members_are_refused(standins: Ask, name: FamilyName, words: str) -> None:
    """`reasoning_content` is unknown there; the field of the answer is accepted."""
    standin, client = await standins(name)
    history = await client.step(RAIN)
    await client.ask(*history)
    assert standin.judged[-1].count("equal") == 1

    foreign = {**history[1], "reasoning_content": "Hm."}
    with pytest.raises((BadRequestError, UnprocessableEntityError)) as caught:
        await client.ask(RAIN, foreign, history[2])
    assert words in json.dumps(caught.value.response.json())
    assert caught.value.status_code == (422 if name == "mistral" else 400)
    with pytest.raises((BadRequestError, UnprocessableEntityError)):
        await client.ask(RAIN, signed(history[1], "AAAA"), history[2])


async def test_a_vendor_may_refuse_its_own_field(standins: Ask) -> None:
    """As DeepSeek did in 2025: the answer has a member that a request may not have."""
    family = replace(FAMILIES["groq"], form="reasoning_content")
    _, client = await standins(family)
    history = await client.step(RAIN)
    assert "is unsupported" in await refused(client, *history)
    await client.ask(*without(history, "reasoning_content"))


async def test_a_lenient_server_accepts_all_and_counts(standins: Ask) -> None:
    """What it lacked, and what was wrong, is in its record."""
    standin, client = await standins("lenient", loop="chain")
    history = await client.step(*(await client.step(RAIN)))
    first, second = history[1], history[3]
    wrong = {**second, "reasoning_content": first["reasoning_content"]}

    await client.ask(*without(history, "reasoning_content"))
    await client.ask(*history[:3], wrong, history[4])
    assert [one.count("missing") for one in standin.judged] == [0, 0, 2, 0]
    assert [one.count("wrong") for one in standin.judged] == [0, 0, 0, 1]
    assert standin.judged[-1].refusal is None
