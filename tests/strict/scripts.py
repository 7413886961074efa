"""Scripts: what the model of a strict upstream says, in words that are hard to carry."""

import secrets
from collections.abc import Mapping

from reasoning_replay.strict_api.scenarios import CALLS, Piece, Script
from typing_extensions import override

__all__ = ["LOOPS", "Marked", "Repeating"]

LOOPS: Mapping[str, tuple[str, ...]] = {
    "one_call": ("RC", "RA"),
    "parallel": ("RCCC", "RA"),
    "interleaved": ("RWRWRA",),
    "chain": ("RC", "C", "RC", "RA"),
    "preamble": ("RTC", "RA"),
    "hosted": ("RWRC", "RA"),
    "message": ("RA",),
    "custom": ("RK", "RA"),
    "two_reasoning": ("RRC", "RCRC", "RA"),
    "call_zero": ("RC", "C", "RC", "RA"),
    "announced": ("RTCC", "RA"),
    "searched": ("RWC", "RA"),
    "empty_text": ("REC", "RA"),
    "no_parts": ("RNC", "RA"),
}
"""
Those of Responses. Down to `call_zero`, where each call has one id, they were recorded, except
`custom`; clients reported the others.
"""

# Characters that JSON escapes in different ways; so many of the last one that pieces of any odd
# size end inside one of them.
ODD = (
    '“rain”.\n\nA "quoted" word, a path C:\\tmp, 7 °C, 雨, a tab\t, a slash / and '
    + "\U0001f327" * 10
)


class Marked(Script):
    """A script of which no two pieces are alike."""

    @override
    def pieces(self, answered: int, *, may_call: bool, must_call: bool = False) -> list[Piece]:
        said = Script.pieces(self, answered, may_call=may_call, must_call=must_call)
        return [_odd(one) if one.sign in "RX" else _marked(one) for one in said]


class Repeating(Script):
    """A script that says the same in each answer, so that only places differ."""

    @override
    def pieces(self, answered: int, *, may_call: bool, must_call: bool = False) -> list[Piece]:
        said = Script.pieces(self, answered, may_call=may_call, must_call=must_call)
        return [
            _odd(one) if one.sign in "RX" else one._replace(words=f"Rain, part {at}.")
            for at, one in enumerate(said)
        ]


def _odd(one: Piece) -> Piece:
    return one._replace(words=f"Thought {secrets.token_hex(6)} about {ODD}")


def _marked(one: Piece) -> Piece:
    is_said = one.words or one.sign in CALLS
    return one._replace(words=f"{one.words} ({secrets.token_hex(6)})") if is_said else one
