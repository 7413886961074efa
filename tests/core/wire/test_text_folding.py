"""Text folding: one form for all spellings of a text, while different texts stay different."""

import tracemalloc
import unicodedata
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reasoning_replay.core.wire.text_folding import NORMALISED_MAX_CHARS, PART_CHARS, folded

LINK = "([stat.ethz.ch](https://stat.ethz.ch/CRAN/?utm_source=openai))"
WWW = "([rdrr.io](https://www.rdrr.io/x?y=1&amp;z=2))"
SPAN = "\ue200cite\ue202turn0search0\ue202turn1view2\ue201"

# (text as upstream wrote it, text as clients send it)
SAME = [
    pytest.param("It\u2019s \u201cfine\u201d", 'It\'s "fine"', id="quotes"),
    pytest.param("\u201eja\u201c \u201ahm\u2018", "\"ja\" 'hm'", id="german-quotes"),
    pytest.param("a\u2010b\u2011c\u2013d\u2014e\u22121", "a-b-c-d-e-1", id="dashes"),
    pytest.param("Well\u2026", "Well...", id="ellipsis"),
    pytest.param("caf\u00e9", "cafe\u0301", id="decomposed"),
    pytest.param("\ufb01ve \uff11\uff0c\u2122", "five 1,TM", id="compatible"),
    pytest.param("7\u00a0\u202f\u00b0C\n\n", "7 \u00b0C", id="white-space"),
    pytest.param("\ufeffa\u200bb\u200d\u00ad", "ab", id="zero-width"),
    pytest.param(
        "<b> & \"c\" 'd' e", "&lt;b&gt; &amp; &quot;c&#34; &#39;d&#x27;&nbsp;e", id="html"
    ),
    pytest.param("<", "&amp;amp;lt;", id="escaped-thrice"),
    pytest.param(f"It was released. {LINK}\n\nAnd", "It was released.\n\nAnd", id="web-citation"),
    pytest.param(f"On that day {LINK}.", "On that day.", id="before-a-full-stop"),
    pytest.param(f"So {LINK} {WWW}", "So", id="two-web-citations"),
    pytest.param("Rain\u30104:0\u2020source\u3011\u30104:1\u2020a.pdf\u3011.", "Rain.", id="file"),
    pytest.param(f"Rain. {SPAN} Snow.{SPAN}", "Rain. Snow.", id="private-use"),
    pytest.param("In\ue200filecite\ue202turn0file1\ue201, too", "In, too", id="private-use-file"),
]
# (a text, another text)
OTHER = [
    pytest.param("10\u00b2", "102", id="superscript"),
    pytest.param("1\u00bd", "11\u20442", id="fraction"),
    pytest.param("1\u2460", "11", id="circled"),
    pytest.param("H\u2082O", "H2O", id="subscript"),
    pytest.param("ab", "a b", id="word-boundary"),
    pytest.param("cafe", "caf\u00e9", id="accent"),
    pytest.param("Yes", "yes", id="case"),
    pytest.param("- 1", "1", id="dash"),
    pytest.param("Take [1]", "Take [2]", id="number-in-brackets"),
    pytest.param("([here](https://a.io/1))", "([here](https://a.io/2))", id="link-with-words"),
    pytest.param("[a.io](https://a.io/1)", "[a.io](https://a.io/2)", id="link-of-the-text"),
    pytest.param(f"{LINK}s", "s", id="inside-a-word"),
    pytest.param("\ue200entity\ue202Oslo\ue201", "", id="visible-markup"),
    pytest.param("\u30104\u3011", "", id="brackets-alone"),
    pytest.param("&lt", "<", id="no-escape"),
]
# Texts that are hard to parse.
HARD = (
    f"{LINK}|{SPAN}|\u30101\u2020s\u3011|([a.io](https://a.io/|))|\u30101\u2020|\u3011|&amp;|&lt;"
    "|&nbsp;|&|amp;|lt;|;|\u0338|\u0301\u0316|\uff06|e|\u00e9|\u00b2|\u2011|\u200b|\u00b4| |.|x"
).split("|")
LONG = ["\u0344" * 40, "\u2057" * 12]
pieces = st.sampled_from(HARD + LONG) | st.characters()
texts = st.lists(pieces, max_size=12).map("".join)


@pytest.mark.parametrize(("written", "kept"), SAME)
def test_spellings_of_one_text_are_one(written: str, kept: str) -> None:
    """Typing, displaying or storing a text in another spelling keeps its folded form."""
    assert folded(written) == folded(kept)


@pytest.mark.parametrize(("one", "other"), OTHER)
def test_other_texts_are_others(one: str, other: str) -> None:
    """A text that could be another answer is never folded."""
    assert folded(one) != folded(other)


@given(texts)
def test_folding_twice_is_folding_once(text: str) -> None:
    """The folded form is not folded further."""
    assert folded(folded(text)) == folded(text)


def test_each_character_is_folded_completely() -> None:
    """No character becomes one that would fold further or a digit that it was not."""
    for code in range(0x20000):
        mark = chr(code)
        once = folded(mark)
        assert folded(once) == once, hex(code)
        assert mark.isdecimal() or not any(map(str.isdecimal, once)), hex(code)


LETTERS = "abzAZ019\u00e9\u00df\u0436\u65e5\u00b2\u00bd\u2460\u00aa"
MARKS = " -.!](\u2019\u201c\u2014\u2026\u200b\u00a0"


@given(st.text(LETTERS + MARKS))
def test_letters_and_digits_stay(text: str) -> None:
    """Texts with different letters or digits never have one digest."""
    assert list(filter(str.isalnum, folded(text))) == list(filter(str.isalnum, text))


@given(st.text(max_size=20), st.sampled_from(["NFC", "NFD"]))
def test_canonical_forms_are_one(text: str, form: Literal["NFC", "NFD"]) -> None:
    """A client may store its texts in either normal form."""
    assert folded(unicodedata.normalize(form, text)) == folded(text)


def test_a_long_run_of_marks_stays_as_it_is() -> None:
    """Sorting it would take quadratic time."""
    marks = "\u0301\u0316"
    assert folded("a" + marks) != "a" + marks
    assert folded("a" + marks * 20 + " b\u2013") == "a" + marks * 20 + " b-"


def test_no_text_swells() -> None:
    """NFKC writes some characters out as whole sentences; a small body would become a large one."""
    characters = (chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000)
    for one in characters:
        if len(unicodedata.normalize("NFKC", one)) > 1:
            assert len(folded(one)) <= 4, hex(ord(one))


def test_a_very_long_text_keeps_its_unicode_form() -> None:
    """Normalising is the one slow step; the other steps apply to a text of any length."""
    length = NORMALISED_MAX_CHARS - 1
    assert folded("\ufb01" + " " * length) == "fi"
    assert folded("\ufb01\u2019 &amp;" + " " * length) == "\ufb01' &"


@given(st.text("ab \n\u2003", max_size=30))
def test_a_long_text_is_folded_in_parts_as_a_short_one_at_once(text: str) -> None:
    """Where the parts of a long text are cut changes nothing."""
    long = text * (2 * PART_CHARS // max(1, len(text)) + 1)
    assert folded(long) == " ".join(long.split())
    assert folded("x" * (PART_CHARS - 15) + text) == " ".join(
        ("x" * (PART_CHARS - 15) + text).split()
    )


def test_folding_a_long_text_takes_a_few_times_its_memory() -> None:
    """A text of very short words does not become a list of all its words."""
    text = "x " * 1_000_000
    tracemalloc.start()
    try:
        folded(text)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 4 * len(text)


def test_a_part_of_white_space_alone_is_one_space() -> None:
    """Much white space between or around words is folded as little of it."""
    gap = " \n" * PART_CHARS
    assert folded(gap) == ""
    assert folded(f"{gap}a{gap}b{gap}") == "a b"
