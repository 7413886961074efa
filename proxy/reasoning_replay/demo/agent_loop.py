"""
Agent loop: a client that runs the tools that the model calls, and drops all reasoning.

It keeps calls and messages with their ids, as many apps do, and sends its whole history each time.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

import aiohttp

from reasoning_replay.demo.upstream import Item, ScriptedUpstream
from reasoning_replay.web.errors import MARK

__all__ = ["Loop", "LoopTurn", "run_loop"]

TURNS_MAX: Final = 8
ASK: Final[Item] = {"role": "user", "content": "Which of my trips will be rainy?"}
MODEL: Final = "gpt-5.4"
TOOLS: Final[list[Item]] = [
    {
        "type": "function",
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    }
]


@dataclass(frozen=True, slots=True)
class LoopTurn:
    """
    One request of a loop.

    Attributes:
        sent: The input that the client sent.
        received: The input that the upstream received.
        status: The status of the response.
        mark: The proxy's header on the response; "" if it is missing.
    """

    sent: list[Item]
    received: list[Item]
    status: int
    mark: str

    def lines(self) -> Iterator[tuple[Item, bool]]:
        """Yield each received item, and whether the proxy injected it."""
        at = 0
        for item in self.received:
            is_sent = at < len(self.sent) and item == self.sent[at]
            at += is_sent
            yield item, not is_sent


@dataclass(slots=True)
class Loop:
    """
    One run of the agent loop.

    Attributes:
        error: The API's message if a turn was refused.
        dropped: Ids of the reasoning that the client dropped before its last request.
        finished: Whether the last response called no tool.
    """

    turns: list[LoopTurn] = field(default_factory=list)
    error: str = ""
    dropped: list[str] = field(default_factory=list)
    finished: bool = False

    @property
    def injected(self) -> list[str]:
        """Ids of the reasoning that was injected into the last request, in input order."""
        added = (item for item, is_added in self.turns[-1].lines() if is_added)
        return [item["id"] for item in added if item["type"].startswith("reasoning")]


async def run_loop(base_url: str, upstream: ScriptedUpstream) -> Loop:
    """Run the loop to its end; `upstream` has recorded each request as it arrived."""
    loop = Loop()
    history = [ASK]
    headers = {"Authorization": "Bearer sk-demo"}
    async with aiohttp.ClientSession(headers=headers) as session:
        for _ in range(TURNS_MAX):
            request = {"model": MODEL, "input": history, "tools": TOOLS}
            before = len(upstream.received)
            async with session.post(f"{base_url}/responses", json=request) as response:
                answer = await response.json()
            arrived = upstream.received[before:][-1:]  # empty if the request never arrived
            received = arrived[0] if arrived else []
            mark = response.headers.get(MARK, "")
            loop.turns.append(LoopTurn(list(history), received, response.status, mark))
            if response.status != HTTPStatus.OK:
                loop.error = answer["error"]["message"]
                break
            output: list[Item] = answer["output"]
            kept = [item for item in output if item["type"] != "reasoning"]
            calls = [item for item in kept if item["type"] == "function_call"]
            loop.finished = not calls
            if loop.finished:
                break
            loop.dropped += [item["id"] for item in output if item["type"] == "reasoning"]
            history += [*kept, *map(_result, calls)]
    return loop


def _result(call: Item) -> Item:
    weather = "7 degrees, rain"
    return {"type": "function_call_output", "call_id": call["call_id"], "output": weather}
