"""Each refusal of the vendors that sign reasoning, next to what they accept."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from openai import APIError

from tests.standin.chat.client import RAIN, SNOW, TOOLS, refused, signed, without
from tests.standin.chat.joining import join

Ask = Callable[..., Any]

# --- Gemini ---


async def test_gemini_demands_the_first_call_of_each_step(standins: Ask) -> None:
    """In the current round; the error is an array, and names the call and its position."""
    _, client = await standins("gemini", loop="parallel")
    history = await client.step(RAIN)
    assert ["extra_content" in call for call in history[1]["tool_calls"]] == [True, False, False]
    bare = without(history, "extra_content")

    said = await refused(client, *bare)
    assert said.startswith('[{"error": {"code": 400, "message": "Function call is missing a')
    assert "function call `default_api:get_weather` , position 2." in said
    assert '"status": "INVALID_ARGUMENT"' in said
    await client.ask(*history)
    await client.ask(*bare, SNOW)


async def test_gemini_refuses_other_signatures(standins: Ask) -> None:
    """Of another call, changed, or not base64; the documented value is accepted and counted."""
    standin, client = await standins("gemini", loop="chain")
    history = await client.step(*(await client.step(RAIN)))
    first, second = history[1], history[3]
    signature = first["tool_calls"][0]["extra_content"]["google"]["thought_signature"]

    for wrong in (signature, "AAAA"):
        said = await refused(client, *history[:3], signed(second, wrong), history[4])
        assert "Corrupted thought signature." in said
    said = await refused(client, history[0], signed(first, signature.replace("/", "_")), history[2])
    assert "Invalid value at 'contents[1].parts[0].thought_signature' (TYPE_BYTES)" in said
    assert standin.found("filler") == []
    await client.ask(history[0], signed(first, "skip_thought_signature_validator"), history[2])
    assert len(standin.found("filler")) == 1


async def test_gemini_refuses_signatures_of_another_model(standins: Ask) -> None:
    """A signature is bound to its model."""
    _, client = await standins("gemini")
    history = await client.step(RAIN)
    assert "Corrupted" in await refused(client, *history, model="gemini-3.1-pro-preview")


# --- OpenRouter ---


async def test_openrouter_demands_the_details_of_gemini(standins: Ask) -> None:
    """The upstream's error is inside the gateway's; the text alone is not enough."""
    _, client = await standins("openrouter")
    history = await client.step(RAIN)
    said = json.loads(await refused(client, *without(history, "reasoning_details")))

    assert said["error"]["message"] == "Provider returned error"
    assert said["error"]["metadata"]["raw"].startswith(
        "Gemini models require OpenRouter reasoning details to be preserved in each request."
    )
    assert "default_api:get_weather` , position 2" in said["error"]["metadata"]["raw"]
    await client.ask(*history)
    await client.ask(*without(history, "reasoning"))


async def test_openrouter_demands_the_emitted_sequence(standins: Ask) -> None:
    """Other order, other data, and missing entries are refused."""
    _, client = await standins("openrouter")
    history = await client.step(RAIN)
    text, blob = history[1]["reasoning_details"]

    for details in ([blob, text], [blob], [text, {**blob, "data": "AAAA"}]):
        message = {**history[1], "reasoning_details": details}
        assert "Corrupted thought signature" in await refused(client, RAIN, message, history[2])


async def test_openrouter_refuses_foreign_ids_inside_a_200(standins: Ask) -> None:
    """An encrypted entry that names no call of its message: the status says nothing."""
    standin, client = await standins("openrouter")
    history = await client.step(RAIN)
    call = {**history[1]["tool_calls"][0], "id": "call_mine"}
    message = {**history[1], "tool_calls": [call]}
    given: Any = [RAIN, message, {**history[2], "tool_call_id": "call_mine"}]
    create = client.sdk.chat.completions.create

    answer = await create(model=standin.family.model, messages=given, tools=TOOLS)
    assert answer.choices is None
    assert answer.model_extra["error"] == {"code": 400, "message": "Provider returned error"}
    stream = await create(model=standin.family.model, messages=given, tools=TOOLS, stream=True)
    with pytest.raises(APIError, match="Provider returned error"):
        await anext(stream)
    assert [one.status for one in standin.received] == [200, 200, 200]


async def test_openrouter_refuses_damaged_details_of_claude(standins: Ask) -> None:
    """They may be left out, but not be changed."""
    _, client = await standins("openrouter")
    claude = {"model": "anthropic/claude-haiku-4.5"}
    history = await client.step(RAIN, **claude)
    (entry,) = history[1]["reasoning_details"]
    damaged = {**history[1], "reasoning_details": [{**entry, "text": "Other."}]}

    said = await refused(client, RAIN, damaged, history[2], **claude)
    assert "messages.1.content.0: Invalid `signature` in `thinking` block" in said
    await client.ask(*history, **claude)
    await client.ask(*without(history, "reasoning_details"), **claude)


async def test_openrouter_accepts_fragments(standins: Ask) -> None:
    """A client may send what it was streamed, not joined."""
    standin, client = await standins("openrouter")
    stream = await client.sdk.chat.completions.create(
        model=standin.family.model, messages=[RAIN], tools=TOOLS, stream=True
    )
    chunks = [chunk.model_dump() async for chunk in stream]
    message = join(chunks)
    fragments = [
        fragment
        for chunk in chunks
        for fragment in chunk["choices"][0]["delta"].get("reasoning_details") or ()
    ]
    assert len(fragments) > len(message["reasoning_details"])
    result = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "7"}
    await client.ask(RAIN, {**message, "reasoning_details": fragments}, result)
    assert standin.found("wrong", "missing") == []


async def test_openrouter_demands_nothing_of_other_models(standins: Ask) -> None:
    """GPT without its details is accepted, and counted."""
    standin, client = await standins("openrouter")
    gpt = {"model": "openai/gpt-5"}
    history = await client.step(RAIN, **gpt)
    assert [one["type"] for one in history[1]["reasoning_details"]] == [
        "reasoning.summary",
        "reasoning.encrypted",
    ]
    await client.ask(*without(history, "reasoning_details"), **gpt)
    assert [finding.path for _, finding in standin.found("missing")] == ["reasoning_details"]
