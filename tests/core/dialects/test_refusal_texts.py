"""Refusal texts: each row of the tables that read them has an example that it alone decides."""

import json
import re
from collections.abc import Iterator, Mapping

import pytest
from reasoning_replay.core.dialects.anthropic.heal import diagnosis as messages
from reasoning_replay.core.dialects.chat.heal import diagnosis as chat
from reasoning_replay.core.dialects.error_texts import Table, read_error
from reasoning_replay.core.dialects.gemini.heal import diagnosis as gemini
from reasoning_replay.core.dialects.registry import CHAT, DIALECTS, GEMINI, MESSAGES, RESPONSES
from reasoning_replay.core.dialects.responses.heal import diagnosis as responses

from tests.core.dialects.anthropic.heal import test_diagnosis as of_messages
from tests.core.dialects.chat.heal import test_diagnosis as of_chat
from tests.core.dialects.gemini.heal import test_diagnosis as of_gemini
from tests.core.dialects.responses.heal import test_diagnosis as of_responses

FIELDS = tuple((pattern, pattern.pattern) for pattern in chat.FIELDS)
TABLES: Mapping[str, list[Table[object]]] = {
    RESPONSES: [responses.TEXTS],
    CHAT: [chat.TEXTS, FIELDS],
    MESSAGES: [messages.TEXTS],
    GEMINI: [gemini.TEXTS],
}
EXAMPLES = {
    RESPONSES: [
        *(message for message, _ in of_responses.SAID),
        "The encrypted agent message content could not be decrypted.",
        "Unknown parameter: 'input[3].phase'.",
        "Unknown parameter: 'prompt_cache_key'.",
        "Unknown parameter: 'prompt_cache_options'.",
    ],
    CHAT: [read_error(json.dumps(body).encode()).message for _, body, _ in of_chat.SAID],
    MESSAGES: [
        *(message for message, _ in of_messages.TEXTS),
        f"{of_chat.ANTHROPIC} The block is bound to a different conversation.",
        "diagnostics: Extra inputs are not permitted",
    ],
    GEMINI: [*(message for message, _ in of_gemini.CASES), of_chat.BASE64],
}


def meaning_in(table: Table[object], text: str) -> object:
    """Return what the first row that matches makes of a text; None if no row does."""
    found = ((pattern.search(text), meaning) for pattern, meaning in table)
    return next(((meaning, match.groupdict()) for match, meaning in found if match), None)


def undecided(table: Table[object], examples: list[str]) -> Iterator[re.Pattern[str]]:
    """Yield the pattern of each row without which every example has the same meaning."""
    for n, (pattern, _) in enumerate(table):
        others = (*table[:n], *table[n + 1 :])
        mine = (text for text in examples if pattern.search(text))
        if all(meaning_in(table, text) == meaning_in(others, text) for text in mine):
            yield pattern


@pytest.mark.parametrize("dialect", [entry.name for entry in DIALECTS])
def test_each_row_has_an_example_that_it_decides(dialect: str) -> None:
    """A new row needs the text of a real refusal, which no other row reads in the same way."""
    for table in TABLES[dialect]:
        assert [*undecided(table, EXAMPLES[dialect])] == []


def test_a_row_without_an_example_is_found() -> None:
    """And so is one that another row makes useless."""
    row, same, unseen = (re.compile(text) for text in ("lacks", "lacks a", "an unknown text"))
    table = ((row, "a"), (same, "a"), (unseen, "b"))
    assert [*undecided(table, ["it lacks b"])] == [same, unseen]
