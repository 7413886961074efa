"""Scene for the README's picture: an afternoon of a proxy's traffic, played in a second."""

import asyncio
import itertools
from typing import Any

from msgspec import structs
from reasoning_replay.adapters.stores.base import StoreError

from tests.browser.stage import Agent, Stage
from tests.web.world import Hooked

__all__ = ["play"]

# Wall-clock time of the scene: half past two on a day in March.
NOW_MS = 1_773_325_811_000
# Age of each exchange, the newest first, and the time that a real upstream would take in addition,
# since a stand-in responds at once. The time that the proxy adds is real.
AGES_S = (6.0, 14.0, 43.0, 71.0, 78.0, 85.0)
THOUGHT_S = (4.1, 2.7, 6.3, 3.4, 5.2, 1.9)
KEEPS_NOTHING = {"store": False, "include": ["reasoning.encrypted_content"]}
LOST: list[dict[str, Any]] = [
    {"role": "developer", "content": "You plan trips. " * 20},
    {"role": "user", "content": "Where to?"},
    {
        "type": "function_call",
        "id": "fc_68f0c2d1e4b7819a",
        "call_id": "call_Zk3mQ9xT7bLw2RsV",
        "name": "get_weather",
        "arguments": '{"city":"Bergen"}',
    },
    {
        "type": "function_call_output",
        "call_id": "call_Zk3mQ9xT7bLw2RsV",
        "output": "rain " * 60,
    },
]
SPOILT: dict[str, Any] = {
    "type": "reasoning",
    "id": "rs_68f0c2d1e4b781aa",
    "summary": [],
    "encrypted_content": "gAAAAABof-another-account" + "x" * 600,
}


async def play(on: Stage) -> asyncio.Task[Any]:
    """Let several types of clients send requests; return the task of the one that is in flight."""
    planner = on.agent(key="sk-c", more=KEEPS_NOTHING)
    planner.history.append({"role": "developer", "content": "You plan trips. " * 90})
    await planner.ask("Which of my trips will be rainy?")
    await _without_store(on, planner)
    await on.agent(key="sk-b", more={"model": "gpt-5.4-mini"}).post({"input": LOST, "store": False})
    again = [*planner.history, {"role": "user", "content": "And the hotel?"}, SPOILT]
    await planner.post({"input": [*again, {"role": "user", "content": "Well?"}]})
    _as_of_a_day(on)
    on.standin.behaviour = structs.replace(on.standin.behaviour, delay_s=1.0)
    return asyncio.create_task(_streamed(planner))


async def _without_store(on: Stage, agent: Agent) -> None:
    async def fails(_: str) -> None:
        raise StoreError("it is away")

    store = on.app.store
    whole, store.inner = store.inner, Hooked(store.inner, fails)
    await agent.post({"input": agent.history[:4]})
    store.inner = whole
    while store.is_degraded:  # the store may be marked as failed
        await store.check()
        await asyncio.sleep(0.1)


def _as_of_a_day(on: Stage) -> None:
    recorder = on.app.recorder
    recorder._epoch_ms = lambda: NOW_MS
    for seen, age_s, thought_s in zip(
        reversed(recorder._over),
        itertools.chain(AGES_S, itertools.count(100.0, 9.0)),
        itertools.cycle(THOUGHT_S),
        strict=False,
    ):
        seen.started_s -= age_s
        if seen.took_s is not None:
            seen.took_s += thought_s
            seen.first_byte_ms += 1000 * thought_s


async def _streamed(agent: Agent) -> None:
    agent.history.append({"role": "user", "content": "Which should I move?"})
    await agent.post({"input": agent.history, "stream": True})
