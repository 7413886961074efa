"""Cache diagnosis as a judge: an injection that moved would be named, and none is."""

from typing import Any

import aiohttp
import pytest
from reasoning_replay.strict_api import DIALECTS, SCENARIOS, Item, Script, StrictApi
from reasoning_replay.wires import WIRES

from tests.e2e.proxies import proxied
from tests.strict_api.scripted import TOOL

VENDORS = {"responses": ("openai", "gpt-5.6"), "messages": ("anthropic", "claude-sonnet-4-6")}
TOLD = {"responses": "prompt_cache_diagnostics", "messages": "diagnostics"}
HIT: dict[str, Item] = {"responses": {"type": "cache_hit"}, "messages": {}}
HEADERS = {"Authorization": "Bearer sk-a"}
QUESTIONS = 3


async def told_of(dialect: str, scenario: str, loses: int = -1) -> list[Any]:
    """
    Let a client that drops its reasoning ask some questions; return what it was told each time.

    Before the request number `loses`, the proxy forgets all.
    """
    profile, model = VENDORS[dialect]
    wire = WIRES[dialect]
    api = StrictApi(DIALECTS[dialect](Script(SCENARIOS[scenario], is_marked=True)))
    settings = {"upstream_profile": profile, "cache_diagnosis": "on"}
    found: list[Any] = []
    history: list[Item] = []
    async with (
        api,
        proxied(api, **settings) as one,
        proxied(api, **settings) as other,
        aiohttp.ClientSession(headers=HEADERS) as session,
    ):
        for _ in range(QUESTIONS):
            history.append(wire.says("Where does it rain?"))
            calls: Any = True
            while calls:
                base_url = other if 0 <= loses <= len(found) else one
                url = base_url + wire.path_of(model)
                body = wire.request(model, history, TOOL)
                if base_url == other:
                    named = {"comparison_response_id": found[-1]["id"]}
                    body["prompt_cache_options"] = named
                async with session.post(url, json=body) as response:
                    answer = await response.json()
                    assert response.status == 200, answer
                found.append(answer)
                reply = wire.read(answer)
                calls = reply.calls
                history += [*reply.kept, *wire.results(calls, "7 degrees")]
    return [answer.get(TOLD[dialect]) for answer in found]


@pytest.mark.parametrize("scenario", ["tour", "interleaved", "chain"])
@pytest.mark.parametrize("dialect", VENDORS)
async def test_no_injection_moves(dialect: str, scenario: str) -> None:
    """Each request after the first begins as the one before, in the words of its vendor."""
    told = await told_of(dialect, scenario)
    assert told == [None, *[HIT[dialect]] * (len(told) - 1)]


async def test_an_injection_that_moved_would_be_named() -> None:
    """A proxy that lost its memory injects nothing where the one before it did."""
    told = await told_of("responses", "text-first", loses=3)
    reasons = [one.get("reason") for one in told if one]
    assert "input_changed" in reasons
