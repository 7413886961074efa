"""
Text folding: one spelling for all copies of a text, so that they have the same digest.

Clients store a text as their screens or databases need it: with straight quotes, in another
Unicode form, with HTML escapes, without citations. Folding never changes the meaning of letters
and digits, so texts with different meanings keep different digests. A folded text is only hashed,
never sent.
"""

import re
import unicodedata

# Longer texts keep their Unicode form: normalising takes up to a microsecond for each character.
NORMALISED_MAX_CHARS = 128 * 1024

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
_PLAIN = [(mark, plain) for plain, marks in _SAME.items() for mark in marks]
# Three classes of characters are not normalised. NFKC would turn the first into another number: 10²
# is not 102. It would write out the second as whole sentences, of up to 18 characters each. Long
# runs of combining marks would cost quadratic time (Unicode limits a run to 30).
_AS_IT_IS = re.compile(
    "((?:[ª²³¹º¼-¾\u2070-\u209f\u2150-\u218f\u2460-\u24ff\u3200-\u33ff\U0001f100-\U0001f16f]"
    r"|[\ufdfa\ufdfb]|[^\x00-\x7f\w\s]{33,})+)"
)

_ESCAPED = {
    "lt": "<",
    "gt": ">",
    "quot": '"',
    "#34": '"',
    "apos": "'",
    "#39": "'",
    "#039": "'",
    "#x27": "'",
    "nbsp": " ",
    "amp": "&",  # the last one, so that its result begins no other
}
# Each matches a text that was escaped several times, too. NFKC would join U+0338 with the character
# before it.
_ESCAPES = [
    (
        f"{name};",
        re.compile(f"&(?:amp;)*+{name};(?!\u0338)" if name != "amp" else "&(?:amp;)+(?!\u0338)"),
        plain,
    )
    for name, plain in _ESCAPED.items()
]

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
# A longer text is split into words in parts.
PART_CHARS = 64 * 1024
_IN_CITATIONS = ("](http", "†", "\ue201")


def folded(text: str) -> str:
    """
    Return the one spelling that all copies of a text share; folding is idempotent.

    Cost: linear; a result is never longer than four times the text.

    >>> folded("7 °C — “fine”… &amp;  cold.【4:0†source】")
    '7 °C - "fine"... & cold.'
    """
    if not text.isascii():
        for mark, plain in _PLAIN:
            text = text.replace(mark, plain)
        # The check is cheap for almost every text.
        if len(text) <= NORMALISED_MAX_CHARS and not unicodedata.is_normalized("NFKC", text):
            text = _normalised(text)
    if "&" in text:
        for end, escape, plain in _ESCAPES:
            if end in text:
                text = escape.sub(plain, text)
    text = _spaced(text)
    if any(mark in text for mark in _IN_CITATIONS):
        text = _CITATION.sub("", text).strip()
    return text


def _spaced(text: str) -> str:
    """Return a text with single spaces between its words, and none around it."""
    if len(text) <= PART_CHARS:
        return " ".join(text.split())
    # A list of all words would take up to fifty times the memory of the text.
    parts: list[str] = []
    for at in range(0, len(text), PART_CHARS):
        part = text[at : at + PART_CHARS]
        words = " ".join(part.split())
        if words:
            is_apart = part[0].isspace() or (at and text[at - 1].isspace())
            parts.append(" " + words if is_apart and parts else words)
    return "".join(parts)


def _normalised(text: str) -> str:
    parts = _AS_IT_IS.split(text)
    parts[::2] = [unicodedata.normalize("NFKC", part) for part in parts[::2]]
    return "".join(parts)
