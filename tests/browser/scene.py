"""A quarter of an hour of a proxy's life in a second, for the picture in the README."""

import asyncio
from typing import Any

from msgspec import structs

from tests.browser.stage import Agent, Stage

__all__ = ["play"]


async def play(on: Stage) -> asyncio.Task[Any]:
    """Let clients of several kinds pass; return the one that is still under way."""
    careful = on.agent(key="sk-a", keeps_reasoning=True, more={"model": "gpt-5.4-mini"})
    await careful.ask("What is the capital of Norway?")
    planner = on.agent(
        key="sk-c", more={"store": False, "include": ["reasoning.encrypted_content"]}
    )
    planner.history.append({"role": "developer", "content": "You plan trips. " * 90})
    await planner.ask("Which of my trips will be rainy?")
    stranger = on.agent(key="sk-b")
    lost = [
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
    await stranger.post({"input": lost, "store": False})
    await on.agent(key="").post({"input": "Hello?"})
    await planner.post({"input": [*planner.history, {"role": "user", "content": "And the hotel?"}]})
    on.standin.behaviour = structs.replace(on.standin.behaviour, delay_s=1.0)
    return asyncio.create_task(_streamed(planner))


async def _streamed(agent: Agent) -> None:
    agent.history.append({"role": "user", "content": "Which should I move?"})
    await agent.post({"input": agent.history, "stream": True})
