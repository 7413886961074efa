"""The demo's upstream refuses and accepts the same requests as OpenAI's API."""

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from reasoning_replay.demo.upstream import SCRIPT, Item, ScriptedUpstream

from tests.e2e.agent import Agent, Way

ASK: Item = {"role": "user", "content": "Where does it rain?"}
BLOB = "encrypted_content"


@pytest.fixture
async def upstream() -> AsyncIterator[ScriptedUpstream]:
    """A scripted upstream that listens."""
    async with ScriptedUpstream() as upstream:
        yield upstream


async def ask(upstream: ScriptedUpstream, *items: Item, **more: Any) -> tuple[int, Any]:
    """Send a history; return the status and the output, or the error message."""
    body = {"model": "gpt-5.4", "input": list(items), **more}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{upstream.base_url}/responses", json=body) as response,
    ):
        answer = await response.json()
    return response.status, answer.get("output") or answer["error"]["message"]


def result(call: Item) -> Item:
    """Return the tool's result for a call."""
    return {"type": "function_call_output", "call_id": call["call_id"], "output": "rain"}


@pytest.mark.parametrize("way", ["async", "sync-stream"])
async def test_a_client_that_keeps_everything_is_served(
    upstream: ScriptedUpstream, way: Way
) -> None:
    """The official SDK reads all responses, as JSON and as a stream, in the order of SCRIPT."""
    async with Agent(upstream.base_url, way, "everything", is_marked=False) as agent:
        await agent.converse(["Where does it rain today?", "And tomorrow?"])

    assert len(upstream.received) == len(agent.steps) == 2 * len(SCRIPT)
    kinds = [item["type"] for item in agent.whole if item.get("type") in {"reasoning", "message"}]
    assert kinds == ["reasoning", "reasoning", "reasoning", "message"] * 2


async def test_what_breaks_a_pair_is_refused(upstream: ScriptedUpstream) -> None:
    """Reasoning and the item that it led to are refused alone or apart from each other."""
    _, (reasoning, call) = await ask(upstream, ASK)
    output = result(call)

    status, words = await ask(upstream, ASK, call, output)
    assert status == 400
    assert words == (
        f"Item '{call['id']}' of type 'function_call' was provided without its required "
        f"'reasoning' item: '{reasoning['id']}'."
    )
    alone = f"Item '{reasoning['id']}' of type 'reasoning' was provided without its required"
    for items in ([ASK, reasoning], [ASK, reasoning, ASK, call, output], [reasoning, ASK, call]):
        status, words = await ask(upstream, *items)
        assert (status, words) == (400, f"{alone} following item.")
    assert (await ask(upstream, ASK, reasoning, call, output))[0] == 200


async def test_a_call_without_its_id_needs_no_reasoning(upstream: ScriptedUpstream) -> None:
    """A call without its id is accepted with or without its reasoning."""
    _, (reasoning, call) = await ask(upstream, ASK)
    bare = {key: value for key, value in call.items() if key != "id"}
    assert (await ask(upstream, ASK, bare, result(call)))[0] == 200
    assert (await ask(upstream, ASK, reasoning, bare, result(call)))[0] == 200
    other = {**bare, "call_id": "call_other"}
    assert (await ask(upstream, ASK, reasoning, other, result(other)))[0] == 400


async def test_encrypted_content_is_what_was_issued_for_the_item(
    upstream: ScriptedUpstream,
) -> None:
    """Only issued content is accepted; it is returned if included or if store is false."""
    included = {"include": ["reasoning.encrypted_content"]}
    _, (hidden, _call) = await ask(upstream, ASK)
    _, (other, _call) = await ask(upstream, ASK, store=False)
    _, (reasoning, call) = await ask(upstream, ASK, **included)
    assert BLOB not in hidden
    assert other[BLOB] != reasoning[BLOB]
    rest = (call, result(call))

    for blob in ("gAAAAmade-up", other[BLOB], reasoning[BLOB][:-1]):
        status, words = await ask(upstream, ASK, {**reasoning, BLOB: blob}, *rest)
        assert status == 400
        assert words.startswith("The encrypted content for item rs_")
    nameless = {key: value for key, value in reasoning.items() if key != "id"}
    assert (await ask(upstream, ASK, nameless, *rest))[0] == 200
    unknown = {"type": "reasoning", "id": "rs_unknown", "summary": []}
    status, words = await ask(upstream, ASK, unknown, *rest)
    assert (status, words[:36]) == (404, "Item with id 'rs_unknown' not found.")


async def test_a_model_that_does_not_reason_emits_none(upstream: ScriptedUpstream) -> None:
    """Calls of a model without reasoning are accepted without reasoning."""
    _, (call,) = await ask(upstream, ASK, model="gpt-4.1")
    assert call["type"] == "function_call"
    assert (await ask(upstream, ASK, call, result(call)))[0] == 200
