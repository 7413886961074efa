"""
Agent loop: a client that runs the tools that the model calls, and drops all reasoning.

It keeps everything else, as many apps do, and sends its whole history each time. What a request, an
answer and a result look like is in `wires`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final, Protocol

import aiohttp

from reasoning_replay.web.errors import MARK

__all__ = ["Item", "Loop", "LoopTurn", "Recorder", "Wire", "run_loop"]

Item = dict[str, Any]

TURNS_MAX: Final = 8
ASK: Final[Item] = {"role": "user", "content": "Which of my trips will be rainy?"}
REASONING: Final = ("reasoning", "reasoning_content", "thinking")


class Recorder(Protocol):
    """An upstream that keeps the histories that it received, refused ones included."""

    received: list[list[Item]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """
    One dialect, as a client sees it.

    Attributes:
        path: Path of a request, after the base URL.
        request: Returns the body of a request with a history.
        said: Returns what an answer adds to the history.
        kept: Returns the same without its reasoning.
        results: Returns the results of its calls.
        shown: Returns a history as items for the page: each has a type, and an id if it can.
    """

    path: str
    request: Callable[[list[Item]], Item]
    said: Callable[[Item], list[Item]]
    kept: Callable[[list[Item]], list[Item]]
    results: Callable[[list[Item]], list[Item]]
    shown: Callable[[Sequence[Item]], list[Item]]


@dataclass(frozen=True, slots=True)
class LoopTurn:
    """
    One request of a loop.

    Attributes:
        sent: The items that the client sent.
        received: The items that the upstream received.
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
        return _reasoning(item for item, is_added in self.turns[-1].lines() if is_added)


async def run_loop(base_url: str, upstream: Recorder, wire: Wire) -> Loop:
    """Run the loop to its end; `upstream` has recorded each request as it arrived."""
    loop = Loop()
    history = [ASK]
    headers = {"Authorization": "Bearer sk-demo"}
    async with aiohttp.ClientSession(headers=headers) as session:
        for _ in range(TURNS_MAX):
            before = len(upstream.received)
            async with session.post(base_url + wire.path, json=wire.request(history)) as response:
                answer = await response.json()
            arrived = upstream.received[before:][-1:]  # empty if the request never arrived
            received = wire.shown(arrived[0]) if arrived else []
            mark = response.headers.get(MARK, "")
            loop.turns.append(LoopTurn(wire.shown(history), received, response.status, mark))
            if response.status != HTTPStatus.OK:
                loop.error = answer["error"]["message"]
                break
            said = wire.said(answer)
            results = wire.results(said)
            loop.finished = not results
            if loop.finished:
                break
            loop.dropped += _reasoning(wire.shown(said))
            history += [*wire.kept(said), *results]
    return loop


def _reasoning(items: Iterable[Item]) -> list[str]:
    return [item["id"] for item in items if item["type"] in REASONING]
