"""Gemini's API refuses and accepts the same requests as Google's."""

import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from reasoning_replay.strict_api import Item, StrictApi
from reasoning_replay.wires import WIRES

from tests.strict_api import scripted
from tests.strict_api.scripted import ASKS, TOOL, listening

ASK = ASKS["gemini"]
OLD = "gemini-2.5-flash"


@pytest.fixture
async def upstream() -> AsyncIterator[StrictApi]:
    """A scripted upstream that listens."""
    async with listening("gemini") as upstream:
        yield upstream


async def ask(upstream: StrictApi, *contents: Item, **more: Any) -> tuple[int, Any]:
    """Send a history; return the status and the parts, or the text of the error."""
    status, said = await scripted.ask(upstream, "gemini", *contents, **more)
    return status, said if status != 200 else said["parts"]


def said(*parts: Item) -> Item:
    """Return a content of the model."""
    return {"role": "model", "parts": parts}


def results(*calls: Item) -> Item:
    """Return the content with the results of calls."""
    names = [call["functionCall"]["name"] for call in calls]
    parts = [{"functionResponse": {"name": name, "response": {"rain": 1}}} for name in names]
    return {"role": "user", "parts": parts}


def unsigned(part: Item) -> Item:
    """Return a part without its signature."""
    return {name: value for name, value in part.items() if name != "thoughtSignature"}


async def test_a_call_of_the_current_round_needs_its_signature(upstream: StrictApi) -> None:
    """A new question exempts older calls, and so does an older model."""
    _, (call,) = await ask(upstream, ASK)
    bare = [ASK, said(unsigned(call)), results(call)]
    status, words = await ask(upstream, *bare)
    assert status == 400
    assert words.startswith("Function call is missing a thought_signature in functionCall parts.")
    assert "`default_api:get_weather` , position 2." in words
    assert (await ask(upstream, *bare, said({"text": "Oslo."}), ASK))[0] == 200
    assert (await ask(upstream, *bare, model=OLD))[0] == 200
    assert (await ask(upstream, ASK, said(call), results(call)))[0] == 200


async def test_only_the_first_of_parallel_calls_is_signed(upstream: StrictApi) -> None:
    """The others need no signature."""
    _, (call,) = await ask(upstream, ASK)
    status, calls = await ask(upstream, ASK, said(call), results(call))
    assert status == 200
    assert ["thoughtSignature" in one for one in calls] == [True, False]
    assert (await ask(upstream, ASK, said(call), results(call), said(*calls), results(*calls)))[0]


@pytest.mark.parametrize(
    ("signature", "status"),
    [
        ("skip_thought_signature_validator", 200),
        ("c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I=", 200),
        ("context_engineering_is_the_way_to_go", 200),
        ("b3RoZXI=", 400),
    ],
)
async def test_a_signature_is_its_own_or_asks_not_to_be_checked(
    upstream: StrictApi, signature: str, status: int
) -> None:
    """Any other one is corrupted; an older model does not check it."""
    _, (call,) = await ask(upstream, ASK)
    foreign = {**call, "thoughtSignature": signature}
    got, words = await ask(upstream, ASK, said(foreign), results(call))
    assert got == status
    assert status == 200 or words == "Corrupted thought signature."
    assert (await ask(upstream, ASK, said(foreign), results(call), model=OLD))[0] == 200


@pytest.mark.parametrize("spelling", ["thoughtSignature", "thought_signature"])
async def test_both_alphabets_of_base64_are_the_same(upstream: StrictApi, spelling: str) -> None:
    """Google's SDK for Python sends the one that it has not received."""
    _, (call,) = await ask(upstream, ASK)
    signature = call["thoughtSignature"].translate(str.maketrans("+/", "-_"))
    given = {**unsigned(call), spelling: signature}
    assert (await ask(upstream, ASK, said(given), results(call)))[0] == 200
    judgement = upstream.exchanges[-1].judgement
    assert judgement is not None
    assert [one.state for one in judgement.findings] == ["whole"]


async def test_without_a_budget_it_does_not_think(upstream: StrictApi) -> None:
    """With `thinkingBudget: 0` nothing is signed; `includeThoughts` shows the thoughts."""
    config = {"thinkingConfig": {"thinkingBudget": 0}}
    _, (call,) = await ask(upstream, ASK, generationConfig=config)
    assert "thoughtSignature" not in call
    config = {"thinkingConfig": {"includeThoughts": True}}
    _, (thought, call) = await ask(upstream, ASK, generationConfig=config)
    assert thought["thought"]
    assert "thoughtSignature" in call


async def test_a_stream_is_sse_or_an_array(upstream: StrictApi) -> None:
    """It depends on `alt`; the signature of a text comes at its end, in a part of its own."""
    root = upstream.base_url.removesuffix("/v1")
    url = f"{root}/v1beta/models/gemini-3-flash:streamGenerateContent"
    body = {"contents": [ASK]}
    async with aiohttp.ClientSession() as session:
        async with session.post(url, json=body) as response:
            assert response.content_type == "application/json"
            array = await response.json()
        async with session.post(url + "?alt=sse", json=body) as response:
            assert response.content_type == "text/event-stream"
            lines = (await response.text()).split("\n\n")
    events = [json.loads(line.removeprefix("data: ")) for line in lines if line]
    for chunks in (array, events):
        parts = [one["candidates"][0]["content"]["parts"][0] for one in chunks]
        assert [*parts[-1]] == ["text", "thoughtSignature"]
        assert parts[-1]["text"] == ""
        assert chunks[-1]["candidates"][0]["finishReason"] == "STOP"
        assert "finishReason" not in chunks[0]["candidates"][0]


async def test_it_reads_either_spelling(upstream: StrictApi) -> None:
    """As SDKs send `dict`s of their users: `function_call` is `functionCall`."""
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    declared = {"name": "get_weather", "parameters_json_schema": schema}
    more = {"tools": [{"function_declarations": [declared]}]}
    _, (call,) = await ask(upstream, ASK, **more)
    assert call["functionCall"]["args"] == {"city": "Oslo"}
    snake = {"function_call": call["functionCall"], "thought_signature": call["thoughtSignature"]}
    said_so = {"function_response": {"name": "get_weather", "response": {"rain": 1}}}
    history = [ASK, said(snake), {"role": "user", "parts": [said_so]}]
    status, _ = await ask(upstream, *history, **more)
    judgement = upstream.exchanges[-1].judgement
    assert judgement is not None
    assert (status, [one.state for one in judgement.findings]) == (200, ["whole"])
    config = {"thinking_config": {"thinking_budget": 0}}
    _, (call,) = await ask(upstream, ASK, generation_config=config, **more)
    assert "thoughtSignature" not in call


async def test_a_vertex_path_and_schemas_in_upper_case(upstream: StrictApi) -> None:
    """Calls have arguments as a schema of Gemini's own types asks."""
    root = upstream.base_url.removesuffix("/v1")
    url = f"{root}/v1beta1/projects/p/locations/global/publishers/google/models/gemini-3-pro"
    schema = {"type": "OBJECT", "properties": {"city": {"type": "STRING"}}}
    tools = [{"functionDeclarations": [{"name": "get_weather", "parameters": schema}]}]
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{url}:generateContent", json={"contents": [ASK], "tools": tools}) as got,
    ):
        (part,) = WIRES["gemini"].read(await got.json()).said[0]["parts"]
    assert part["functionCall"]["args"] == {"city": "Oslo"}
    assert part["functionCall"]["name"] == TOOL["name"]
