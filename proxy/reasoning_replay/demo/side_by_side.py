"""Side-by-side page: two loops as plain text, in two columns, for a terminal 100 columns wide."""

import itertools
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from reasoning_replay.demo.agent_loop import Loop, LoopTurn
from reasoning_replay.web.errors import MARK
from reasoning_replay.wires import Item

__all__ = ["Ink", "side_by_side"]

COLUMN: Final = 48  # two columns and their separator: under 100
WIDTH: Final = 98
TAIL: Final = 6  # characters; ids of one type share their first ones and differ in the last


@dataclass(frozen=True, slots=True)
class Ink:
    """ANSI colours, if they are on."""

    is_on: bool

    def red(self, text: str) -> str:
        """Return the text in red."""
        return self._in(31, text)

    def green(self, text: str) -> str:
        """Return the text in green."""
        return self._in(32, text)

    def bold(self, text: str) -> str:
        """Return the text in bold."""
        return self._in(1, text)

    def _in(self, code: int, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.is_on and text.strip() else text


def side_by_side(straight: Loop, proxied: Loop, ink: Ink) -> Iterator[str]:
    """Yield the page line by line: the turns of both loops, and how each ended."""
    yield f"{ink.bold('directly to the API'.ljust(COLUMN))} | {ink.bold('through the proxy')}"
    pairs = itertools.zip_longest(straight.turns, proxied.turns)
    for number, (left, right) in enumerate(pairs, 1):
        yield f"{'-' * COLUMN}-+-{'-' * COLUMN}"
        blocks = [list(_block(number, turn, ink)) for turn in (left, right)]
        for one, other in itertools.zip_longest(*blocks, fillvalue=" " * COLUMN):
            yield f"{one} | {other}".rstrip()
    yield ""
    yield from _ending("Direct:    ", straight, ink)
    yield from _ending("Proxied:   ", proxied, ink)
    yield ""


def _block(number: int, turn: LoopTurn | None, ink: Ink) -> Iterator[str]:
    """Yield one turn; every line is as wide as a column."""
    if turn is None:
        yield f"turn {number} was not reached".ljust(COLUMN)
        return
    paint = ink.bold if turn.status == HTTPStatus.OK else ink.red
    mark = f"{MARK}: {turn.mark}" if turn.mark else ""
    yield paint(f"turn {number}: {turn.status}   {mark}".ljust(COLUMN))
    for item, is_added in turn.lines():
        line = f"  {'+' if is_added else ' '} {_described(item)}"[:COLUMN].ljust(COLUMN)
        yield ink.green(line) if is_added else line


def _described(item: Item) -> str:
    """Return an item's type and the end of its id, or of its `call_id` if it has no id."""
    kind = str(item["type"])
    prefix, _, rest = str(item.get("id") or item.get("call_id") or "").partition("_")
    return f"{kind:<21} {prefix}_..{rest[-TAIL:]}" if rest else kind


def _ending(title: str, loop: Loop, ink: Ink) -> Sequence[str]:
    """Return the result of a loop, wrapped to the width of the page."""
    turns = f"in turn {len(loop.turns)}"
    if not loop.finished:
        words = f"failed {turns} with {loop.turns[-1].status}: {loop.error}"
    else:
        given, dropped = len(loop.injected), len(loop.dropped)
        words = f"finished {turns}, with {given} of {dropped} dropped reasoning items injected"
    paint = ink.green if loop.finished else ink.red
    indent = " " * len(title)
    lines = textwrap.wrap(
        words, WIDTH, initial_indent=title, subsequent_indent=indent, break_long_words=False
    )
    return [paint(line) for line in lines]
