"""
Scripted steps: what the model of a scripted API does next, whatever the wire format is.

It follows CALLS: one entry for each step since the last question of the user. Without tools, it
answers at once.
"""

import itertools
import secrets
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from reasoning_replay.demo.scripted_model import CITIES

__all__ = ["ANSWER", "BYTES_PER_TOKEN", "CALLS", "Step", "next_step", "pieces_of"]

# The calls of each answer, in order; the last one is a text. Each has reasoning.
CALLS: Final = (1, 2, 0)
ANSWER: Final = "All of them. This answer is scripted, so take an umbrella."
BYTES_PER_TOKEN: Final = 4


class Step(NamedTuple):
    """
    One step of the model.

    Attributes:
        number: Steps since the question, this one not included.
        cities: The city of each call; none if it answers.
        thought: Its reasoning, unlike any other.
    """

    number: int
    cities: Sequence[str]
    thought: str


def next_step(number: int, answered: int, *, may_call: bool) -> Step:
    """Return the step after as many steps and results since the question."""
    count = CALLS[number % len(CALLS)] if may_call else 0
    cities = [CITIES[(answered + at) % len(CITIES)] for at in range(count)]
    plan = f"I need the weather of {' and '.join(cities)}." if cities else "I know enough."
    return Step(number, cities, f"Step {number + 1}, note {secrets.token_hex(4)}: {plan}")


def pieces_of(text: str) -> Iterator[str]:
    """Yield a text word by word, with the spaces."""
    words = text.split(" ") if text else []
    for word, after in itertools.zip_longest(words, [" "] * (len(words) - 1), fillvalue=""):
        yield word + after
