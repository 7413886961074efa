"""Side-by-side page: two loops as plain text, in two columns, for a terminal 100 columns wide."""

import itertools
import textwrap
from collections.abc import Iterator, Sequence
from http import HTTPStatus
from typing import Final, NamedTuple

from reasoning_replay.demo.agent_loop import Loop, LoopTurn
from reasoning_replay.web.errors import MARK
from reasoning_replay.wires import Item

BOLD: Final = 1
RED: Final = 31
GREEN: Final = 32
COLUMN: Final = 48  # two columns and their separator: under 100
WIDTH: Final = 98
TAIL: Final = 6  # characters; ids of one type share their first ones and differ in the last


class Ink(NamedTuple):
    """ANSI colours, if they are on."""

    is_on: bool

    def paint(self, colour: int, text: str) -> str:
        """Return the text in a colour of this module."""
        return f"\x1b[{colour}m{text}\x1b[0m" if self.is_on and text.strip() else text


def side_by_side(straight: Loop, proxied: Loop, ink: Ink) -> Iterator[str]:
    """Yield the page line by line: the turns of both loops, and how each ended."""
    heads = "directly to the API".ljust(COLUMN), "through the proxy"
    yield " | ".join(ink.paint(BOLD, head) for head in heads)
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
    colour = BOLD if turn.status == HTTPStatus.OK else RED
    mark = f"{MARK}: {turn.mark}" if turn.mark else ""
    yield ink.paint(colour, f"turn {number}: {turn.status}   {mark}".ljust(COLUMN))
    for item, is_added in turn.lines():
        line = f"  {'+' if is_added else ' '} {_described(item)}"[:COLUMN].ljust(COLUMN)
        yield ink.paint(GREEN, line) if is_added else line


def _described(item: Item) -> str:
    """Return an item's type and the end of its id, or of its `call_id` if it has no id."""
    kind = str(item["type"])
    name = str(item.get("id") or item.get("call_id") or "")
    prefix, mark, _ = name.partition("_")
    return f"{kind:<21} {prefix if mark else ''}{mark}..{name[-TAIL:]}" if name else kind


def _ending(title: str, loop: Loop, ink: Ink) -> Sequence[str]:
    """Return the result of a loop, wrapped to the width of the page."""
    turns = f"in turn {len(loop.turns)}"
    if not loop.finished:
        words = f"failed {turns} with {loop.turns[-1].status}: {loop.error}"
    else:
        words = f"finished {turns}, with {loop.injected} dropped reasoning items injected"
    colour = GREEN if loop.finished else RED
    indent = " " * len(title)
    lines = textwrap.wrap(
        words, WIDTH, initial_indent=title, subsequent_indent=indent, break_long_words=False
    )
    return [ink.paint(colour, line) for line in lines]
