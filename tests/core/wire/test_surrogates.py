"""Surrogates: a lone one is replaced or marked, and no other byte changes."""

import json
import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reasoning_replay.core.wire.json_spans import text
from reasoning_replay.core.wire.surrogates import (
    LONE_MAX,
    SURROGATES_MAX,
    marked,
    readable,
    unmarked,
)

from tests.fast_lane import examples

SURROGATES = [
    pytest.param(rb'"\ud83d"', rb'"\ufffd"', id="high-alone"),
    pytest.param(rb'"\uDE00 "', rb'"\ufffd "', id="low-alone"),
    pytest.param(rb'"\ud83d\ude00"', rb'"\ud83d\ude00"', id="pair"),
    pytest.param(rb'"\uD83D\uDE00"', rb'"\uD83D\uDE00"', id="pair-in-capitals"),
    pytest.param(rb'"\ud83d\ud83d\ude00"', rb'"\ufffd\ud83d\ude00"', id="high-before-a-pair"),
    pytest.param(rb'"\ude00\ud83d"', rb'"\ufffd\ufffd"', id="wrong-order"),
    pytest.param(rb'"\ud83dx\ude00"', rb'"\ufffdx\ufffd"', id="apart"),
    pytest.param(rb'"\ud83d\n"', rb'"\ufffd\n"', id="before-an-escape"),
    pytest.param(rb'"\\ud83d"', rb'"\\ud83d"', id="escaped-backslash"),
    pytest.param(rb'"\\\ud83d"', rb'"\\\ufffd"', id="after-an-escaped-backslash"),
    pytest.param(rb'"\u0041\ud7ff\ue000"', rb'"\u0041\ud7ff\ue000"', id="no-surrogates"),
]


@pytest.mark.parametrize(("document", "want"), SURROGATES)
def test_lone_surrogates_are_replaced(document: bytes, want: bytes) -> None:
    """A lone surrogate becomes the replacement character, and no other byte changes."""
    assert readable(document) == want
    assert text(want) is not None


# The plain way, one escape at a time: a pair of surrogates, a lone one (the group), or any other.
ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|u([dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
pieces = st.sampled_from(
    [
        *(b"\\", rb"\\", b"u", rb"\u", rb"\n", b'"', b"\n", b"\xc3", b"d83d", b"zz"),
        *(rb"\ud83d", rb"\uDE00", rb"\udbFf", rb"\uDfff", rb"\ud8", rb"\ud83", rb"\u0041"),
        *(rb"\ud7ff", rb"\ue000", rb"\ufdd0"),
    ]
)


@given(st.lists(pieces, max_size=12).map(b"".join))
@examples(500)
def test_any_bytes_are_read_one_escape_at_a_time(document: bytes) -> None:
    """It need not be JSON: a body is cut, or a backslash is outside a string."""

    def alone(new: bytes, kept: int) -> bytes:
        return ESCAPE.sub(lambda found: new + found[1][:kept] if found[1] else found[0], document)

    assert readable(document) == alone(rb"\ufffd", 0)
    assert marked(document) == alone(rb"\ufdd0", 4)


@pytest.mark.parametrize("change", [readable, marked])
@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b'"a\0 \\ud83d"', id="a-byte-that-json-never-holds"),
        pytest.param(b'"' + rb"\ud83d" * (LONE_MAX + 1) + b'"', id="too-many-alone"),
        pytest.param(
            b'"' + rb"\ud83d\uDE00" * (SURROGATES_MAX // 2) + b'\\ud83d"', id="too-many-pairs"
        ),
        pytest.param(rb'"\n \u0041 \ud83d\ude00 \ud83"', id="none"),
    ],
)
def test_a_document_that_is_not_changed_is_the_same_object(
    change: Callable[[bytes], bytes], body: bytes
) -> None:
    """The caller sees that it need not be read again."""
    assert change(body) is body


def test_thousands_of_lone_surrogates_are_replaced() -> None:
    """The limits are far above the requests of real clients."""
    body = b'"' + rb"\ud83d\uDE00 \uDE00" * 10_000 + b'"'
    assert text(readable(body)) == "\U0001f600 \ufffd" * 10_000


@pytest.mark.parametrize(
    ("document", "mark"),
    [
        (rb'"\ud83d"', rb'"\ufdd0d83d"'),
        (rb'"a \uDE00 \\ud83d"', rb'"a \ufdd0DE00 \\ud83d"'),
        (rb'"\ud83d\ude00 \ufdd0 \n"', rb'"\ud83d\ude00 \ufdd0 \n"'),
        (rb'"\\ufdd0d83d \ud83d"', rb'"\\ufdd0d83d \ufdd0d83d"'),
        (b'"plain"', b'"plain"'),
    ],
)
def test_half_a_character_is_marked_and_restored(document: bytes, mark: bytes) -> None:
    """A decoder accepts the mark; whole characters and escaped backslashes stay as they are."""
    assert marked(document) == mark
    assert isinstance(json.loads(mark), str)
    assert unmarked(mark) == document
