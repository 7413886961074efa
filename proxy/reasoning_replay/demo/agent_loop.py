"""
Agent loop: a client that runs the tools that the model calls, and drops all reasoning.

It keeps everything else, as many apps do, and sends its whole history each time.
"""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

import aiohttp

from reasoning_replay.strict_api import StrictApi
from reasoning_replay.web.errors import MARK
from reasoning_replay.wires import Item, Wire

TURNS_MAX: Final = 8
ASK: Final = "Which of my trips will be rainy?"
WEATHER: Final[Item] = {
    "name": "get_weather",
    "description": "Tells the weather of a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}
RESULT: Final = "7 degrees, rain"


@dataclass(frozen=True, slots=True)
class LoopTurn:
    """
    One request of a loop.

    Attributes:
        sent: The parts of the history that the client sent.
        received: The parts of the history that the upstream received.
        status: The status of the response.
        mark: The proxy's header on the response; "" if it is missing.
    """

    sent: list[Item]
    received: list[Item]
    status: int
    mark: str

    def lines(self) -> Iterator[tuple[Item, bool]]:
        """Yield each received part, and whether the proxy injected it."""
        at = 0
        for part in self.received:
            is_sent = at < len(self.sent) and part == self.sent[at]
            at += is_sent
            yield part, not is_sent


@dataclass(slots=True)
class Loop:
    """
    One run of the agent loop.

    Attributes:
        error: The API's message if a turn was refused.
        finished: Whether the last response called no tool.
    """

    turns: list[LoopTurn] = field(default_factory=list)
    error: str = ""
    finished: bool = False

    @property
    def injected(self) -> int:
        """The number of parts that were injected into the last request."""
        return sum(is_added for _, is_added in self.turns[-1].lines())


async def run_loop(base_url: str, upstream: StrictApi, wire: Wire, model: str) -> Loop:
    """Run the loop to its end; `upstream` records each request as it arrives."""
    loop = Loop()
    history = [wire.says(ASK)]
    headers = {"Authorization": "Bearer sk-demo"}
    async with aiohttp.ClientSession(headers=headers) as session:
        for _ in range(TURNS_MAX):
            upstream.received.clear()
            body = wire.request(model, history, WEATHER)
            async with session.post(base_url + wire.path_of(model), json=body) as response:
                answer = await response.json()
            arrived = upstream.received[-1] if upstream.received else []
            mark = response.headers.get(MARK, "")
            turn = LoopTurn(_parts(history), _parts(arrived), response.status, mark)
            loop.turns.append(turn)
            if response.status != HTTPStatus.OK:
                loop.error = answer["error"]["message"]
                break
            reply = wire.read(answer)
            loop.finished = not reply.calls
            if loop.finished:
                break
            history += [*reply.kept, *wire.results(reply.calls, RESULT)]
    return loop


def _parts(history: Iterable[Item]) -> list[Item]:
    return [part for item in history for part in _parts_of(item)]


def _parts_of(item: Item) -> Iterator[Item]:
    """Yield what an item or a message is made of; each part has a type, and an id if it can."""
    if "type" in item:  # an item of Responses
        yield item
        return
    if "parts" in item:  # a content of Gemini
        yield from _parts_of_content(item)
        return
    if text := item.get("reasoning_content"):
        yield {"type": "reasoning_content", "id": f"text_{_digest(text)}"}
    content = item.get("content") or []
    for block in content if isinstance(content, list) else [{"type": "text"}]:
        match block["type"]:
            case "text" if item["role"] == "tool":
                yield {"type": "tool", "call_id": item["tool_call_id"]}
            case "text":
                yield {"type": f"message ({item['role']})"}
            case "thinking":
                yield {"type": "thinking", "id": f"signature_{_digest(block['signature'])}"}
            case kind:
                yield {"type": kind, "id": block.get("id") or block.get("tool_use_id")}
    for call in item.get("tool_calls") or ():
        yield {"type": "tool_call", "id": call["id"]}


def _parts_of_content(content: Item) -> Iterator[Item]:
    for part in content["parts"]:
        if signature := part.get("thoughtSignature"):
            yield {"type": "thoughtSignature", "id": f"signature_{_digest(signature)}"}
        kind = next((name for name in ("functionCall", "functionResponse") if name in part), "")
        text = {"type": f"text ({content['role']})"}
        yield {"type": kind, "id": part[kind].get("id")} if kind else text


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
