"""
The tables of docs/how-it-works.md: `python -m tests.core.behaviours` writes them anew.

Each row is a behaviour of clients, played through the core by `player.py`. What stands around the
tables is written by hand, and left as it is.
"""

from collections.abc import Callable
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import Final

from tests.core import changes
from tests.core.player import CELLS, Behaviour, Cell, play
from tests.core.world import MODEL

__all__ = ["ROWS", "SHORT_ROWS", "tables", "write", "written"]

PAGE: Final = Path(__file__).parents[2] / "docs/how-it-works.md"
HEAD: Final = (
    "| the client | tool loop, ids kept | tool loop, ids dropped | chat, ids kept"
    " | chat, ids dropped | why not all |\n|---|---|---|---|---|---|\n"
)
TOOLS: Final = tuple(cell for cell in CELLS if cell.has_tools)

FRAMED = (
    "Without ids and calls, short words count only after exactly the same messages, under the same"
    " instructions."
)
LATER = "After a changed history, a short answer without an id and a call is no evidence."
PAST = "The proxy never saw that answer."
STALE = "A request whose lookup failed goes out as it came. The next one gets everything."
BEGAN = "Seven other conversations got the first answer in the same words, so it is ambiguous."
TWIN = "Nothing that can be seen tells the two conversations apart."


def _says(text: str) -> Callable[[int], dict[str, str]]:
    return lambda n: {"instructions": text.format(n=n)}


def _suffix(n: int) -> dict[str, str]:
    return {"model": f"{MODEL}:nitro" if n % 2 else MODEL}


def _other_model(n: int) -> dict[str, str]:
    return {"model": MODEL if n < 3 else "o4-mini"}


ROWS: Final[dict[str, tuple[Behaviour, str]]] = {
    "sends the whole history as it came": (Behaviour(), ""),
    "has a clock in the instructions": (Behaviour(more=_says("It is {n} o'clock.")), ""),
    "hands over to agents with other instructions": (Behaviour(more=_says("Agent {n}.")), ""),
    "replaces the system message at the head": (Behaviour(changes.system_item_replaced), ""),
    "has a clock in a developer message": (Behaviour(changes.clock_in_a_developer_item), ""),
    "renews an environment message at the head": (Behaviour(changes.environment_at_the_head), ""),
    "moves an environment message to the newest user message": (
        Behaviour(changes.environment_moved),
        "",
    ),
    "puts retrieved passages into the newest user message": (Behaviour(changes.retrieval), ""),
    "rewrites the first user message": (Behaviour(changes.first_user_message_rewritten), ""),
    "clears old tool outputs": (Behaviour(changes.old_outputs_cleared, cells=TOOLS), ""),
    "shortens old tool outputs": (Behaviour(changes.old_outputs_shortened, cells=TOOLS), ""),
    "empties messages ahead of calls": (Behaviour(changes.preambles_emptied, cells=TOOLS), ""),
    "rewrites messages ahead of calls": (Behaviour(changes.preambles_rewritten, cells=TOOLS), ""),
    "drops messages ahead of calls": (Behaviour(changes.preambles_dropped, cells=TOOLS), ""),
    "normalises quotes, dashes, spaces and Unicode, escapes HTML, removes citations": (
        Behaviour(changes.texts_normalised),
        "",
    ),
    "shortens the model's messages": (
        Behaviour(changes.answers_shortened),
        "A message that says something else is recognised by its id, or by a call beside it.",
    ),
    "sends messages as `role` and `content`, with `store` on": (
        Behaviour(changes.easy_form, is_stored=True),
        "Such messages need blobs, which are asked for from the second request on.",
    ),
    "sends the last two user turns": (Behaviour(changes.window_of_2), ""),
    "sends the last three user turns": (Behaviour(changes.window_of_3), ""),
    "cuts the head in the middle of a turn": (
        Behaviour(changes.head_cut_amid_a_turn, cells=TOOLS),
        "",
    ),
    "has a summary in place of the head": (Behaviour(changes.head_summarised), ""),
    "has a `compaction` in place of the head": (Behaviour(changes.head_compacted), ""),
    "got one answer past the proxy": (Behaviour(passes=frozenset({2})), PAST),
    "asks twice, keeps the first or the second answer": (Behaviour(is_asked_twice=True), ""),
    "edits an earlier message and goes on from there": (Behaviour(is_edited=True), ""),
    "has an upstream that counts ids": (Behaviour(call_id="call_{count:08}", is_counted=True), ""),
    "has an upstream that names calls `call_0`, `call_1` in each response": (
        Behaviour(call_id="call_{k}", calls=2, cells=TOOLS),
        "",
    ),
    "renumbers calls": (Behaviour(changes.calls_renumbered, cells=TOOLS), ""),
    "puts outputs between parallel calls": (
        Behaviour(changes.outputs_interleaved, calls=2, cells=TOOLS),
        "",
    ),
    "names half of the reasoning by `item_reference`": (
        Behaviour(changes.half_named, run=2, is_stored=True, cells=(Cell(True, True),)),
        "",
    ),
    "names the round before by `previous_response_id`, and sends the calls of this one": (
        Behaviour(changes.newest_turn, names_round=True, is_stored=True, cells=TOOLS),
        "",
    ),
    "shares its key with seven conversations that began alike": (Behaviour(others=7), BEGAN),
    "shares its key with one that says all the same now": (
        Behaviour(others=1, are_twins=True, are_beside=True),
        TWIN,
    ),
    "shares its key with one that said all the same before": (
        Behaviour(others=1, are_twins=True),
        TWIN,
    ),
    "… and each has a `prompt_cache_key` of its own": (
        Behaviour(others=1, are_twins=True, are_named=True),
        "",
    ),
    "meets a lookup that fails now and then": (Behaviour(fails=frozenset({2, 5})), STALE),
    "adds a routing suffix to the model's name now and then": (Behaviour(more=_suffix), ""),
    "changes to another model": (
        Behaviour(more=_other_model),
        "A model does not take another model's reasoning.",
    ),
}
"""What a client does -> the behaviour, and why not all reasoning comes back."""

SHORT_ROWS: Final = {
    "sends the whole history as it came": "",
    "has a clock in the instructions": FRAMED,
    "has a clock in a developer message": FRAMED,
    "renews an environment message at the head": FRAMED,
    "moves an environment message to the newest user message": FRAMED,
    "puts retrieved passages into the newest user message": FRAMED,
    "clears old tool outputs": LATER,
    "empties messages ahead of calls": "",
    "sends the last three user turns": (
        "What is left of the history is word for word an earlier request of the same conversation,"
        " and is taken for it."
    ),
    "has a summary in place of the head": FRAMED,
    "got one answer past the proxy": PAST,
    "asks twice, keeps the first or the second answer": (
        "Both answers say the same, and nothing tells which one was kept."
    ),
    "edits an earlier message and goes on from there": (
        "The message is replaced by the same words, and the answer says the same."
    ),
    "has an upstream that counts ids": "",
    "has an upstream that names calls `call_0`, `call_1` in each response": "",
    "shares its key with seven conversations that began alike": BEGAN,
    "shares its key with one that says all the same now": TWIN,
    "shares its key with one that said all the same before": TWIN,
    "… and each has a `prompt_cache_key` of its own": "",
    "meets a lookup that fails now and then": STALE,
}
"""The same, where the same short words are said again and again."""


def tables() -> tuple[str, str]:
    """Play everything; return both tables, without their heads."""
    short = {name: (replace(ROWS[name][0], is_short=True), why) for name, why in SHORT_ROWS.items()}
    return _table(ROWS), _table(short)


def written() -> tuple[str, str]:
    """Return both tables as they stand in the page."""
    _, first, second = _parts()
    return _rows_of(first), _rows_of(second)


def write() -> None:
    """Write both tables into the page."""
    above, *rest = _parts()
    behind = [part.removeprefix(_rows_of(part)) for part in rest]
    made = zip(tables(), behind, strict=True)
    PAGE.write_text(above + "".join(HEAD + rows + text for rows, text in made))


def _parts() -> list[str]:
    return PAGE.read_text().split(HEAD)


def _rows_of(part: str) -> str:
    """Return the rows that a part of the page begins with."""
    return "".join(takewhile(lambda line: line.startswith("|"), part.splitlines(keepends=True)))


def _table(rows: dict[str, tuple[Behaviour, str]]) -> str:
    return "".join(_row(name, *row) for name, row in rows.items())


def _row(name: str, behaviour: Behaviour, why: str) -> str:
    cells = [_cell(behaviour, cell) for cell in CELLS]
    return f"| {' | '.join([name, *cells, why])} |\n"


def _cell(behaviour: Behaviour, cell: Cell) -> str:
    if cell not in behaviour.cells:
        return "–"  # noqa: RUF001
    restored, due, twins, wrong = play(behaviour, cell)
    assert not wrong
    return f"{restored} of {due}" + (f", {twins} of a twin" if twins else "")


if __name__ == "__main__":
    write()
