"""Patterns: the cost of each regular expression is in proportion to the text, however hostile."""

import time

import pytest

from tests.core.costs import assert_linear
from tests.core.patterns import Found, patterns, texts

# The error of an upstream is cut to this many characters; it is the longest text of a diagnosis.
CHARS = 4096
# A cost that grows with the square of the text is more than this. Only to find what to look at: a
# slow machine looks at more.
SUSPICIOUS_S = 0.0005
# Patterns that see no text of a client or an upstream.
OWN_TEXT = {
    "reasoning_replay.settings.": "the operator's settings",
    "reasoning_replay.check.": "the operator's settings, and what `check` reads of the replies",
    "reasoning_replay.web.admin.inspector.page.": "a page of the package",
    "reasoning_replay.web.admin.inspector.totals.": "the metrics of the process",
}
FOREIGN = [found for found in patterns() if not found.name.startswith(tuple(OWN_TEXT))]


@pytest.mark.parametrize("found", FOREIGN, ids=lambda found: found.name)
def test_a_pattern_is_linear_in_its_text(found: Found) -> None:
    """The text repeats any character, pair or beginning that the pattern looks for."""
    for make in texts(found.pattern):
        for method in found.methods:
            run = getattr(found.pattern, method)
            text = make(CHARS // 2)
            began_s = time.thread_time()
            run(text)
            if time.thread_time() - began_s > SUSPICIOUS_S:
                assert_linear(make, run, CHARS // 2)


def test_the_patterns_of_all_structures_are_found() -> None:
    """They are in global variables, tables, classes, defaults of functions, and calls."""
    names = {found.name.removeprefix("reasoning_replay.") for found in patterns()}
    assert names >= {
        "core.wire.json_spans._TO_KEY",
        "core.dialects.chat.heal.diagnosis.FIELDS",  # a tuple
        "core.dialects.anthropic.heal.diagnosis.TEXTS",  # a tuple of tuples
        "core.dialects.path_faults.route_of",  # an attribute of an object
        "web.admin.conversations",  # a call
    }
