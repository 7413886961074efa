"""
Text folding: one spelling for all copies of a text, so that they have the same digest.

Clients store a text as their screens or databases need it: with straight quotes, in another
Unicode form, with HTML escapes, without citations. Folding never changes the meaning of letters
and digits, so texts with different meanings keep different digests. A folded text is only hashed,
never sent.
"""

import re
import unicodedata

__all__ = ["folded"]

# Includes the compatibility forms that NFKC turns into these characters, so one pass is enough.
_SAME = {
    "'": "\u2018\u2019\u201a\u201b",
    '"': "\u201c\u201d\u201e\u201f",
    # Hyphens, dashes, and the minus sign.
    "-": "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe31\ufe32\ufe58",
    "...": "\u2026",
    # Characters without width: a soft hyphen, spaces, joiners, direction marks.
    "": "\u00ad\u200b\u200c\u200d\u200e\u200f\u2060\ufeff",
}
_PLAIN = {ord(mark): plain for plain, marks in _SAME.items() for mark in marks}
_TYPOGRAPHY = re.compile(f"[{''.join(map(chr, _PLAIN))}]+")
# Two classes of characters are not normalised. NFKC would turn the first into another number: 10²
# is not 102. Long runs of combining marks would cost quadratic time (Unicode limits a run to 30).
_AS_IT_IS = re.compile(
    "([ª²³¹º¼-¾\u2070-\u209f\u2150-\u218f\u2460-\u24ff\u3200-\u33ff\U0001f100-\U0001f16f]"
    r"|[^\x00-\x7f\w\s]{33,})"
)

_ESCAPED = {
    "amp": "&",
    "lt": "<",
    "gt": ">",
    "quot": '"',
    "#34": '"',
    "apos": "'",
    "#39": "'",
    "#039": "'",
    "#x27": "'",
    "nbsp": " ",
}
# Matches a text that was escaped several times, too. NFKC would join U+0338 with the character
# before it.
_ESCAPE = re.compile(f"&(?:amp;)*({'|'.join(_ESCAPED)});(?!\u0338)")

# Citations as OpenAI writes them: a link in parentheses that shows its own host (web search of the
# API, in all recorded traffic), 【4:0†source】 (file search) and private-use spans (the models' own
# form). `[1]` stays: it may be an index or a choice. A citation ends a word or a sentence. It holds
# no white space, so removing one never forms a new one.
_CITATION = re.compile(
    r" ?(?:"
    r"\(\[(?P<host>[\w.-]+)\]\(https?://(?:www\.)?(?P=host)(?:[/?#][^\s()]*)?\)\)"
    r"|【\d+(?::\d+)?†[^\s【】]*】"
    "|\ue200(?:file)?cite\ue202[\\w\ue202-]+\ue201"
    ")(?=[.,:!?]*+(?: |\\Z|\\(\\[|【|\ue200))"
)
_IN_CITATIONS = ("](http", "†", "\ue201")


def folded(text: str) -> str:
    """
    Return the one spelling that all copies of a text share; folding is idempotent.

    >>> folded("7 °C — “fine”… &amp;  cold.【4:0†source】")
    '7 °C - "fine"... & cold.'
    """
    if not text.isascii():
        text = _TYPOGRAPHY.sub(_plain, text)
        if not unicodedata.is_normalized("NFKC", text):  # a cheap check for almost every text
            text = _normalised(text)
    if "&" in text:
        text = _ESCAPE.sub(_unescaped, text)
    text = " ".join(text.split())
    if any(mark in text for mark in _IN_CITATIONS):
        text = _CITATION.sub("", text).strip()
    return text


def _normalised(text: str) -> str:
    parts = _AS_IT_IS.split(text)
    parts[::2] = [unicodedata.normalize("NFKC", part) for part in parts[::2]]
    return "".join(parts)


def _plain(marks: re.Match[str]) -> str:
    return marks[0].translate(_PLAIN)


def _unescaped(escape: re.Match[str]) -> str:
    return _ESCAPED[escape[1]]
