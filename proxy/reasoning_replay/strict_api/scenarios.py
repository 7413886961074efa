"""
Scenarios: what the model does next, whatever the wire format is.

A scenario is one string per answer to a question: R reasoning, T a text, C a call, A the answer.
Tests also have K, a call of a custom tool; W, a search of the API's own; X, reasoning that is
hidden; E, a text without words; and N, one without parts. The place in it follows from the results
since the last question, so any agent can be run: its own tools are called. Without tools, the model
answers at once.
"""

import itertools
import json
import secrets
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

# The first one is the default: a call, two at once, and an answer.
SCENARIOS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "tour": ("RC", "RCC", "RA"),
        "one-call": ("RC", "RA"),
        "parallel": ("RCCC", "RA"),
        "interleaved": ("RTRC", "RCRC", "RA"),
        "chain": ("RC", "RC", "RC", "RA"),
        "text-first": ("RTC", "RA"),
        "two-turns": ("RC", "RA"),
    }
)
# How many questions the command must ask.
QUESTIONS: Final[Mapping[str, int]] = MappingProxyType({"two-turns": 2})
CALLS: Final = frozenset("CK")
CITIES: Final = ("Oslo", "Bergen", "Bodø")
ANSWER: Final = "All of them, so take an umbrella. (This answer is scripted.)"
BYTES_PER_TOKEN: Final = 4


class Piece(NamedTuple):
    """
    One piece of an answer.

    Attributes:
        sign: What it is, as in a scenario.
        words: Its reasoning or its text; for a call, the city that it is about.
    """

    sign: str
    words: str


class Script(NamedTuple):
    """
    The model of a scenario.

    Attributes:
        scenario: One string per answer to a question.
        is_marked: Whether each text is unlike any other, so that it is recognised without ids.
    """

    scenario: tuple[str, ...] = SCENARIOS["tour"]
    is_marked: bool = False

    def pieces(self, answered: int, *, may_call: bool, must_call: bool = False) -> list[Piece]:
        """Return the pieces of the answer after as many results since the question."""
        signs = self._signs(answered) if may_call else self.scenario[-1]
        if must_call and CALLS.isdisjoint(signs):
            signs = "RC"
        calls = itertools.count(answered)
        cities = [CITIES[next(calls) % len(CITIES)] for sign in signs if sign in CALLS]
        mark = f" ({secrets.token_hex(4)})" if self.is_marked else ""
        given = iter(cities)
        made = []
        for sign in signs:
            match sign:
                case "R" | "X":
                    what = f"the weather of {' and '.join(cities)}"
                    plan = f"I need {what}." if cities else "I know enough."
                    words = f"Note {secrets.token_hex(4)}: {plan}"
                case "T":
                    words = f"Let me look it up.{mark}"
                case "A":
                    words = ANSWER + mark
                case "E" | "N":
                    words = ""
                case "W":
                    words = "weather"
                case _:
                    words = next(given)
            made.append(Piece(sign, words))
        return made

    def _signs(self, answered: int) -> str:
        *rounds, last = self.scenario
        called = 0
        for signs in rounds:
            if answered <= called:
                return signs
            called += sum(sign in CALLS for sign in signs)
        return last


def pieces_of(text: str) -> Iterator[str]:
    """Yield a text word by word, with the spaces."""
    words = text.split(" ") if text else []
    for word, after in itertools.zip_longest(words, [" "] * (len(words) - 1), fillvalue=""):
        yield word + after


def tokens_of(value: object) -> int:
    """Return the tokens of a JSON value, estimated from its bytes."""
    return len(json.dumps(value)) // BYTES_PER_TOKEN
