"""Scene for the pictures: an hour of a proxy's traffic, played in seconds."""

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any, Final

from msgspec import structs

from tests.browser.stage import TOOLS, Agent, Stage
from tests.web.world import eventually

# Wall-clock time at the end of the scene: half past two on a day in March.
NOW_MS: Final = 1_773_325_811_000
# Time that a real upstream would take in addition, since a strict API responds at once. The time
# that the proxy adds is real.
THOUGHT_S: Final = (4.1, 2.7, 6.3, 3.4, 5.2, 1.9)
KEEPS_NOTHING: Final = {"store": False, "include": ["reasoning.encrypted_content"]}
LOST: Final[list[dict[str, Any]]] = [
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
SPOILT: Final[dict[str, Any]] = {
    "type": "reasoning",
    "id": "rs_68f0c2d1e4b781aa",
    "summary": [],
    "encrypted_content": "gAAAAABof-another-account" + "x" * 600,
}


@dataclass
class Hour:
    """The clock of the scene, which also dates what the recorder has recorded."""

    on: Stage

    async def at(self, age_s: float, request: Awaitable[Any]) -> None:
        """Let a request end so many seconds before the end of the scene."""
        recorder = self.on.app.recorder
        recorder._epoch_ms = lambda: NOW_MS - round(age_s * 1000)
        before = recorder._last
        await request
        # It is recorded after the client has its response.
        await eventually(lambda: bool(recorder._over) and recorder._over[-1].number > before)
        seen = recorder._over[-1]
        thought_s = THOUGHT_S[seen.number % len(THOUGHT_S)]
        times = seen.exchange.times
        times.started_s -= age_s
        times.total_ms = (times.total_ms or 0.0) + 1000 * thought_s
        times.first_byte_ms += 1000 * thought_s


async def play(on: Stage) -> asyncio.Task[Any]:
    """Let several types of clients send requests; return the task of the one that is in flight."""
    hour = Hour(on)
    on.app.recorder.listen(None)  # as if a page had just been open
    for minute in range(58, 1, -1):
        client = on.agent(key=f"sk-{minute % 5}", keeps_reasoning=minute % 4 == 0)
        client.history.append({"role": "user", "content": f"Trip {minute}"})
        age_s = minute * 60.0 + minute % 7
        for _ in range(2 + minute % 3):
            await hour.at(age_s, client.step())
            age_s -= 3
    planner = on.agent(key="sk-c", more=KEEPS_NOTHING)
    coder = on.agent(key="sk-b", more={"model": "gpt-5.4-mini"})
    writer = on.agent(key="sk-d", keeps_reasoning=True)
    planner.history.append({"role": "developer", "content": "You plan trips. " * 90})
    for client in (planner, coder, writer):
        client.history.append({"role": "user", "content": "Which of my trips will be rainy?"})
    await _interleaved(hour, planner, coder, writer)
    await hour.at(13.0, on.agent(key="sk-a").post({"input": "Hello"}, path="/embeddings"))
    cut = {"input": coder.history[:4], "tools": TOOLS}  # a call without its output
    await hour.at(10.0, coder.post(cut))
    lost = {"model": "gpt-5.4-mini", "input": LOST, "tools": TOOLS, "store": False}
    await hour.at(8.0, on.agent(key="sk-b").post(lost))
    spoilt = [*planner.history, SPOILT, {"role": "user", "content": "Well?"}]
    await hour.at(6.0, planner.post({"input": spoilt, "tools": TOOLS}))
    on.app.recorder._epoch_ms = lambda: NOW_MS
    on.api.behaviour = structs.replace(on.api.behaviour, delay_s=1.0)
    return asyncio.create_task(_streamed(writer))


async def _interleaved(hour: Hour, planner: Agent, *others: Agent) -> None:
    """Send the turns of several agents in turn; the first one rewrites its history at the end."""
    age_s = 78.0
    for turn in range(6):
        for client in (planner, *others):
            await hour.at(age_s, client.step())
            age_s -= 3.4
        if turn == 2:
            for client in (planner, *others):
                client.history.append({"role": "user", "content": "And the hotel?"})
        if turn == 4:  # as a client does that has the time of day in its instructions
            planner.history[0]["content"] += "It is half past two."


async def _streamed(agent: Agent) -> None:
    agent.history.append({"role": "user", "content": "Which should I move?"})
    await agent.post({"input": agent.history, "tools": TOOLS, "stream": True})
