"""
One agent loop, run twice: straight at the strict stand-in, where it fails, and through the proxy.

Needs no key and no network: three servers on free loopback ports, gone when it ends.
"""

import asyncio
import itertools
import json
import os
import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

import aiohttp

from reasoning_replay.settings.model import Settings
from reasoning_replay.web.app import running
from reasoning_replay.web.errors import MARK
from tests.standin import StandIn

__all__ = ["run"]

Item = dict[str, object]

DEADLINE_S: Final = 20.0  # it takes a fraction of a second; this is for a machine that hangs
TURNS_MAX: Final = 8
COLUMN: Final = 48  # two columns and what parts them: under 100
WIDTH: Final = 98
TAIL: Final = 6  # ids of one conversation begin alike: their ends tell them apart
WANTED_ERROR: Final = "was provided without its required 'reasoning' item"

ASK: Final[Item] = {"role": "user", "content": "Which of my trips will be rainy?"}
MODEL: Final = "gpt-5.4"
TOOLS: Final[list[Item]] = [
    {
        "type": "function",
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    }
]

OPENING: Final = """\
One agent loop, run twice against a built-in stand-in for the API that is as strict as the real one.
The client keeps its calls and messages, ids included, and drops the reasoning, as many apps do.
Below is what upstream received in each turn; + marks what the proxy put back.
"""
CLOSING: Final = """\
In an app, set one variable and change nothing else:

    OPENAI_BASE_URL=http://127.0.0.1:8080/v1     while `reasoning-replay serve` is running
"""


@dataclass(frozen=True, slots=True)
class Turn:
    """
    One request of a loop.

    Attributes:
        sent: Its input, as the client wrote it.
        received: Its input, as upstream saw it in the end.
        status: What the client was answered.
        mark: The proxy's header on the answer; "" when there was none.
    """

    sent: list[Item]
    received: list[Item]
    status: int
    mark: str

    def lines(self) -> Iterator[tuple[Item, bool]]:
        """Yield each received item, and whether it is one that the client did not send."""
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
        error: The API's message when a turn was refused.
        dropped: Ids of the reasoning that the client did not keep, up to its last request.
        finished: Whether the last answer asked for no further tool.
    """

    turns: list[Turn] = field(default_factory=list)
    error: str = ""
    dropped: list[object] = field(default_factory=list)
    finished: bool = False

    @property
    def restored(self) -> list[object]:
        """Ids of the reasoning that was put back into the last request, in its order."""
        added = (item for item, is_added in self.turns[-1].lines() if is_added)
        return [item["id"] for item in added if item["type"] == "reasoning"]


def run() -> int:
    """
    Run both loops and print them side by side.

    Returns:
        The exit code: 0 when the straight loop failed for want of its reasoning and the loop
        through the proxy finished with all of it; 1 otherwise, with a line that says so.
    """
    try:
        straight, proxied = asyncio.run(_both())
    except (OSError, aiohttp.ClientError, TimeoutError) as error:
        print(f"The demo could not be run on loopback: {str(error) or type(error).__name__}")
        return 1
    ink = _Ink(is_on=sys.stdout.isatty() and "NO_COLOR" not in os.environ)
    print(OPENING)
    for line in _side_by_side(straight, proxied, ink):
        print(line)
    faults = _faults(straight, proxied)
    for fault in faults:
        print(ink.red(f"Not as expected: {fault}"))
    if not faults:
        print(CLOSING)
    return int(bool(faults))


async def _both() -> tuple[Loop, Loop]:
    async with asyncio.timeout(DEADLINE_S), StandIn("chain") as standin:
        settings = Settings(
            upstream_url=standin.base_url,
            listen="127.0.0.1:0",
            admin_listen="127.0.0.1:0",
            log_level="error",
        )
        async with running(settings) as app:
            straight = await _loop(standin.base_url, standin)
            return straight, await _loop(f"{app.url}/v1", standin)


# The client...


async def _loop(base_url: str, standin: StandIn) -> Loop:
    """Ask, run the tools that are called, and ask again with the whole history but reasoning."""
    loop = Loop()
    history = [ASK]
    headers = {"Authorization": "Bearer sk-demo"}
    async with aiohttp.ClientSession(headers=headers) as session:
        for _ in range(TURNS_MAX):
            request = {"model": MODEL, "input": history, "tools": TOOLS}
            before = len(standin.received)
            async with session.post(f"{base_url}/responses", json=request) as response:
                answer = await response.json()
            arrived = standin.received[before:][-1:]  # none, if it never got there
            received = json.loads(arrived[0].body)["input"] if arrived else []
            mark = response.headers.get(MARK, "")
            loop.turns.append(Turn(list(history), received, response.status, mark))
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
            history += [*kept, *map(_outcome, calls)]
    return loop


def _outcome(call: Item) -> Item:
    weather = "7 degrees, rain"
    return {"type": "function_call_output", "call_id": call["call_id"], "output": weather}


# What is judged of it...


def _faults(straight: Loop, proxied: Loop) -> list[str]:
    """Say what did not happen that should have, one line for each."""
    faults = []
    if WANTED_ERROR not in straight.error:
        faults.append("the straight loop did not fail for want of its reasoning.")
    if not proxied.finished:
        faults.append(f"the loop through the proxy did not finish. {proxied.error}".rstrip())
    elif not proxied.restored or proxied.restored != proxied.dropped:
        given = f"{len(proxied.restored)} of {len(proxied.dropped)}"
        faults.append(f"the proxy gave back {given} dropped reasoning items.")
    return faults


# What is shown of it...


@dataclass(frozen=True, slots=True)
class _Ink:
    is_on: bool

    def red(self, text: str) -> str:
        return self._in(31, text)

    def green(self, text: str) -> str:
        return self._in(32, text)

    def bold(self, text: str) -> str:
        return self._in(1, text)

    def _in(self, code: int, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.is_on and text.strip() else text


def _side_by_side(straight: Loop, proxied: Loop, ink: _Ink) -> Iterator[str]:
    yield f"{ink.bold('straight to the API'.ljust(COLUMN))} | {ink.bold('through the proxy')}"
    pairs = itertools.zip_longest(straight.turns, proxied.turns)
    for number, (left, right) in enumerate(pairs, 1):
        yield f"{'-' * COLUMN}-+-{'-' * COLUMN}"
        blocks = [list(_block(number, turn, ink)) for turn in (left, right)]
        for one, other in itertools.zip_longest(*blocks, fillvalue=" " * COLUMN):
            yield f"{one} | {other}".rstrip()
    yield ""
    yield from _ending("Straight:  ", straight, ink)
    yield from _ending("Proxied:   ", proxied, ink)
    yield ""


def _block(number: int, turn: Turn | None, ink: _Ink) -> Iterator[str]:
    """Write one turn down, every line as wide as a column."""
    if turn is None:
        yield f"turn {number} was never reached".ljust(COLUMN)
        return
    paint = ink.bold if turn.status == HTTPStatus.OK else ink.red
    mark = f"{MARK}: {turn.mark}" if turn.mark else ""
    yield paint(f"turn {number}: {turn.status}   {mark}".ljust(COLUMN))
    for item, is_added in turn.lines():
        line = f"  {'+' if is_added else ' '} {_described(item)}"[:COLUMN].ljust(COLUMN)
        yield ink.green(line) if is_added else line


def _described(item: Item) -> str:
    """Name an item by its type and the end of its id; by its `call_id` where it has no other."""
    kind = str(item.get("type", f"message ({item.get('role')})"))
    prefix, _, rest = str(item.get("id") or item.get("call_id") or "").partition("_")
    return f"{kind:<21} {prefix}_..{rest[-TAIL:]}" if rest else kind


def _ending(title: str, loop: Loop, ink: _Ink) -> Sequence[str]:
    """Say how a loop ended, wrapped to the width of the page."""
    turns = f"in turn {len(loop.turns)}"
    if not loop.finished:
        words = f"failed {turns} with {loop.turns[-1].status}: {loop.error}"
    else:
        given, dropped = len(loop.restored), len(loop.dropped)
        words = f"finished {turns}, with {given} of {dropped} dropped reasoning items given back"
    paint = ink.green if loop.finished else ink.red
    indent = " " * len(title)
    lines = textwrap.wrap(
        words, WIDTH, initial_indent=title, subsequent_indent=indent, break_long_words=False
    )
    return [paint(line) for line in lines]
