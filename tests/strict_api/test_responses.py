"""The Responses API refuses and accepts the same requests as OpenAI's API."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from reasoning_replay.strict_api import Item, StrictApi, responses

from tests.strict_api import scripted
from tests.strict_api.scripted import ASK, listening

BLOB = "encrypted_content"
TOOL: Item = {"type": "function", "name": "get_weather"}


@pytest.fixture
async def upstream() -> AsyncIterator[StrictApi]:
    """A scripted upstream that listens."""
    async with listening("responses") as upstream:
        yield upstream


async def ask(upstream: StrictApi, *items: Item, **more: Any) -> tuple[int, Any]:
    """Send a history; return the status and the output, or the error message."""
    return await scripted.ask(upstream, "responses", *items, **more)


async def respond(upstream: StrictApi, *items: Item, **more: Any) -> tuple[int, Any]:
    """Send a history; return the status and the whole response."""
    return await scripted.post(upstream, "responses", *items, **more)


def result(call: Item) -> Item:
    """Return the tool's result for a call."""
    return {"type": "function_call_output", "call_id": call["call_id"], "output": "rain"}


async def test_what_breaks_a_pair_is_refused(upstream: StrictApi) -> None:
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


async def test_a_call_without_its_id_needs_no_reasoning(upstream: StrictApi) -> None:
    """It is accepted without reasoning; with `rs_` id and blob, only if nothing is stored."""
    for stores, status in ((False, 200), (True, 400)):
        more = {"store": stores, "include": ["reasoning.encrypted_content"]}
        _, (reasoning, call) = await ask(upstream, ASK, **more)
        bare = {key: value for key, value in call.items() if key != "id"}
        assert (await ask(upstream, ASK, bare, result(call), **more))[0] == 200
        assert (await ask(upstream, ASK, reasoning, bare, result(call), **more))[0] == status
        other = {**bare, "call_id": "call_other"}
        assert (await ask(upstream, ASK, reasoning, other, result(other), **more))[0] == 400


async def test_encrypted_content_is_what_was_issued_for_the_item(
    upstream: StrictApi,
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
    assert (await ask(upstream, ASK, nameless, *rest))[0] == 400  # the call names its reasoning
    bare = {key: value for key, value in call.items() if key != "id"}
    assert (await ask(upstream, ASK, nameless, bare, result(call)))[0] == 200
    unknown = {"type": "reasoning", "id": "rs_unknown", "summary": []}
    status, words = await ask(upstream, ASK, unknown, *rest)
    assert (status, words[:36]) == (404, "Item with id 'rs_unknown' not found.")


async def test_a_model_that_does_not_reason_emits_none(upstream: StrictApi) -> None:
    """Calls of a model without reasoning are accepted without reasoning."""
    _, (call,) = await ask(upstream, ASK, model="gpt-4.1")
    assert call["type"] == "function_call"
    assert (await ask(upstream, ASK, call, result(call)))[0] == 200


async def test_a_required_call_is_made(upstream: StrictApi) -> None:
    """With `tool_choice` the model calls a tool each time: any one, or the named one."""
    other: Item = {"type": "function", "name": "find_trains"}
    both = {"tools": [TOOL, other]}
    history = [ASK]
    for _ in range(4):
        _, output = await ask(upstream, *history, tool_choice="required", **both)
        assert output[-1]["type"] == "function_call"
        history += [*output, *(result(call) for call in output if "call_id" in call)]
    _, (_, call) = await ask(upstream, ASK, tool_choice=other, **both)
    assert call["name"] == "find_trains"


async def test_arguments_fit_the_schema_of_the_tool(upstream: StrictApi) -> None:
    """Each required argument has a value of its type; a command only prints."""
    place = {"type": "object", "properties": {"inner": {"$ref": "#/$defs/Place"}}}
    members: Item = {
        "city": {"type": "string"},
        "unit": {"type": "string", "enum": ["celsius", "kelvin"]},
        "days": {"type": ["integer", "null"]},
        "dry": {"anyOf": [{"type": "boolean"}, {"type": "null"}]},
        "stops": {"type": "array", "items": {"type": "string"}},
        "sort": {"const": "trip"},
        "nothing": {"type": "null"},
        "cmd": {"type": "string"},
        "command": {"type": "array", "items": {"type": "string"}},
        "optional": {"type": "string"},
        "named": {"$ref": "#/$defs/Name"},
    }
    required = sorted(members.keys() - {"optional"})
    defined = {"$defs": {"Name": {"type": "string"}, "Place": place}}
    schema = {"type": "object", "properties": members, "required": required, **defined}
    _, (_, call) = await ask(upstream, ASK, tools=[{**TOOL, "parameters": schema}])
    assert json.loads(call["arguments"]) == {
        "city": "Oslo",
        "unit": "celsius",
        "days": 1,
        "dry": True,
        "stops": ["Oslo"],
        "sort": "trip",
        "nothing": None,
        "cmd": "echo Oslo",
        "command": ["echo", "Oslo"],
        "named": "Oslo",
    }
    endless = {**place, **defined}  # it contains itself
    assert (await ask(upstream, ASK, tools=[{**TOOL, "parameters": endless}]))[0] == 200


async def test_structured_output_fits_its_schema(upstream: StrictApi) -> None:
    """A request for JSON gets JSON that fits the schema, or any JSON if there is none."""
    schema = {"type": "object", "properties": {"umbrella": {"type": "boolean"}}}
    forms: list[tuple[Item, set[str]]] = [
        ({"type": "json_schema", "name": "trip", "schema": schema}, {"umbrella"}),
        ({"type": "json_object"}, {"answer"}),
    ]
    for form, members in forms:
        _, (_, message) = await ask(upstream, ASK, tools=[], text={"format": form})
        assert json.loads(message["content"][0]["text"]).keys() == members


async def test_references_stand_for_what_is_stored(upstream: StrictApi) -> None:
    """`item_reference` and `previous_response_id` name stored items, and nothing else."""
    _, first = await respond(upstream, ASK)
    _, call = first["output"]
    references = [{"type": "item_reference", "id": item["id"]} for item in first["output"]]
    assert (await ask(upstream, ASK, references[0], call, result(call)))[0] == 200
    status, words = await ask(upstream, ASK, *references, result(call))  # it does not stand for it
    assert (status, words[:18]) == (400, "No tool call found")
    previous = {"previous_response_id": first["id"]}
    assert (await ask(upstream, result(call), **previous))[0] == 200

    _, second = await respond(upstream, ASK, store=False)
    status, words = await ask(upstream, ASK, {"type": "item_reference", "id": "rs_unknown"})
    assert (status, words[:36]) == (404, "Item with id 'rs_unknown' not found.")
    status, words = await ask(upstream, ASK, previous_response_id=second["id"])
    assert (status, words) == (400, f"Previous response with id '{second['id']}' not found.")


async def test_it_drops_the_oldest(upstream: StrictApi, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may run for days: of each kind, only the newest entries are kept."""
    monkeypatch.setattr(responses, "HISTORIES_MAX", 1)
    ids = [(await respond(upstream, ASK, tools=[]))[1]["id"] for _ in range(2)]
    assert (await ask(upstream, ASK, previous_response_id=ids[1]))[0] == 200
    assert (await ask(upstream, ASK, previous_response_id=ids[0]))[0] == 400
