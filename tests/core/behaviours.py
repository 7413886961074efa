"""
Tables of docs/internals/what-comes-back.md: `python -m tests.core.behaviours` writes them.

Each row is one behaviour of clients, played through the core by `player.py`. The text around the
tables is written by hand, and `write` keeps it.
"""

from collections.abc import Callable
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import Final

from tests.core import changes
from tests.core.player import CELLS, Behaviour, Cell, play
from tests.core.world import MODEL

PAGE: Final = Path(__file__).parents[2] / "docs/internals/what-comes-back.md"
HEAD: Final = (
    "| the client | tool loop, ids kept | tool loop, ids dropped | chat, ids kept"
    " | chat, ids dropped | why not all |\n|---|---|---|---|---|---|\n"
)
TOOLS: Final = tuple(cell for cell in CELLS if cell.has_tools)

FRAMED = "Short text counts only if nothing around it changed."
ALONE = "The first answer has only its text, and texts recur. A name would be enough."
PAST = "The proxy never saw that response."
STALE = "Without a lookup, a request goes out unchanged."
BEGAN = "Seven other conversations have the same first response."
TWIN = "Nothing distinguishes the two conversations."
LATER = "Its requests are the same bytes, so upstream sees what it saw for the first one."


def _says(text: str) -> Callable[[int], dict[str, str]]:
    return lambda n: {"instructions": text.format(n=n)}


def _suffix(n: int) -> dict[str, str]:
    return {"model": f"{MODEL}:nitro" if n % 2 else MODEL}


def _other_model(n: int) -> dict[str, str]:
    return {"model": MODEL if n < 3 else "o4-mini"}


ROWS: Final[dict[str, tuple[Behaviour, str]]] = {
    "sends the whole history unchanged": (Behaviour(), ""),
    "has the time in the instructions": (Behaviour(more=_says("It is {n} o'clock.")), ""),
    "hands over to agents with other instructions": (Behaviour(more=_says("Agent {n}.")), ""),
    "replaces the first system message": (Behaviour(changes.system_item_replaced), ""),
    "has the time in a developer message": (Behaviour(changes.clock_in_a_developer_item), ""),
    "updates an environment message at the start": (Behaviour(changes.environment_at_the_head), ""),
    "moves an environment message to the newest user turn": (
        Behaviour(changes.environment_moved),
        "",
    ),
    "adds retrieved passages to the newest user message": (Behaviour(changes.retrieval), ALONE),
    "rewrites the first user message": (
        Behaviour(changes.first_user_message_rewritten),
        ALONE,
    ),
    "clears old tool outputs": (Behaviour(changes.old_outputs_cleared, cells=TOOLS), ""),
    "shortens old tool outputs": (Behaviour(changes.old_outputs_shortened, cells=TOOLS), ""),
    "empties messages before calls": (Behaviour(changes.preambles_emptied, cells=TOOLS), ""),
    "rewrites messages before calls": (Behaviour(changes.preambles_rewritten, cells=TOOLS), ""),
    "drops messages before calls": (Behaviour(changes.preambles_dropped, cells=TOOLS), ""),
    "normalises quotes, dashes, spaces and Unicode, escapes HTML, removes citations": (
        Behaviour(changes.texts_normalised),
        "",
    ),
    "shortens the model's messages": (
        Behaviour(changes.answers_shortened),
        "A rewritten message is known only by its id or by a call next to it.",
    ),
    "sends messages as `role` and `content`, with `store: true`": (
        Behaviour(changes.easy_form, is_stored=True),
        "Encrypted content is requested from the second request on.",
    ),
    "sends only the last two user turns": (Behaviour(changes.window_of_2), ""),
    "sends only the last three user turns": (Behaviour(changes.window_of_3), ""),
    "cuts the start off, inside a turn": (
        Behaviour(changes.head_cut_amid_a_turn, cells=TOOLS),
        "",
    ),
    "replaces the start by a summary": (Behaviour(changes.head_summarised), ""),
    "replaces the start by a `compaction`": (Behaviour(changes.head_compacted), ""),
    "got one response without the proxy": (Behaviour(passes=frozenset({2})), PAST),
    "asks twice, keeps either response": (Behaviour(is_asked_twice=True), ""),
    "edits an earlier message and continues from it": (Behaviour(is_edited=True), ""),
    "has an upstream with counted ids": (Behaviour(call_id="call_{count:08}", is_counted=True), ""),
    "has an upstream that names the calls of each response `call_0`, `call_1`": (
        Behaviour(call_id="call_{k}", calls=2, cells=TOOLS),
        "",
    ),
    "renumbers calls": (Behaviour(changes.calls_renumbered, cells=TOOLS), ""),
    "puts outputs between parallel calls": (
        Behaviour(changes.outputs_interleaved, calls=2, cells=TOOLS),
        "",
    ),
    "sends half of the reasoning as `item_reference`": (
        Behaviour(changes.half_named, run=2, is_stored=True, cells=(Cell(True, True),)),
        "",
    ),
    "names the round before in `previous_response_id`, sends this round": (
        Behaviour(changes.newest_turn, names_round=True, is_stored=True, cells=TOOLS),
        "",
    ),
    "shares its key with seven conversations that began alike": (Behaviour(others=7), BEGAN),
    "shares its key with an identical conversation, at the same time": (
        Behaviour(others=1, are_twins=True, are_beside=True),
        TWIN,
    ),
    "shares its key with an identical conversation, before": (
        Behaviour(others=1, are_twins=True),
        LATER,
    ),
    "the same, each with its own `prompt_cache_key`": (
        Behaviour(others=1, are_twins=True, are_named=True),
        "",
    ),
    "meets failing lookups now and then": (Behaviour(fails=frozenset({2, 5})), STALE),
    "adds a routing suffix to the model name now and then": (Behaviour(more=_suffix), ""),
    "changes to another model": (
        Behaviour(more=_other_model),
        "A model does not accept another model's reasoning.",
    ),
}
"""What a client does -> the behaviour, and why not all reasoning is injected."""

SHORT_ROWS: Final = {
    "sends the whole history unchanged": "",
    "has the time in the instructions": FRAMED,
    "has the time in a developer message": FRAMED,
    "updates an environment message at the start": FRAMED,
    "moves an environment message to the newest user turn": FRAMED,
    "adds retrieved passages to the newest user message": FRAMED,
    "clears old tool outputs": "",
    "empties messages before calls": "",
    "sends only the last three user turns": (
        "The rest of the history equals an earlier request of the same conversation."
    ),
    "replaces the start by a summary": FRAMED,
    "got one response without the proxy": PAST,
    "asks twice, keeps either response": "Both responses have the same text.",
    "edits an earlier message and continues from it": (
        "The edit and its response have the same text as before."
    ),
    "has an upstream with counted ids": "",
    "has an upstream that names the calls of each response `call_0`, `call_1`": "",
    "shares its key with seven conversations that began alike": BEGAN,
    "shares its key with an identical conversation, at the same time": TWIN,
    "shares its key with an identical conversation, before": LATER,
    "the same, each with its own `prompt_cache_key`": "",
    "meets failing lookups now and then": STALE,
}
"""What a client does where all text is short and repeated -> why not all is injected."""


def tables() -> tuple[str, str]:
    """Play everything and return both tables, without their headings."""
    short = {name: (replace(ROWS[name][0], is_short=True), why) for name, why in SHORT_ROWS.items()}
    return _table(ROWS), _table(short)


def written() -> tuple[str, str]:
    """Return both tables as the page has them."""
    _, first, second = _parts()
    return _rows_of(first), _rows_of(second)


def write() -> None:
    """Write both tables into the page."""
    above, *rest = _parts()
    below = [part.removeprefix(_rows_of(part)) for part in rest]
    made = zip(tables(), below, strict=True)
    PAGE.write_text(above + "".join(HEAD + rows + text for rows, text in made))


def _parts() -> list[str]:
    return PAGE.read_text().split(HEAD)


def _rows_of(part: str) -> str:
    """Return the table rows at the beginning of a part of the page."""
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
