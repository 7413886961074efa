"""
Scripted steps: what the model of a scripted API does next, whatever the wire format is.

It follows CALLS, by the results since the last question of the user. Without tools, it answers at
once.
"""

import itertools
import json
import secrets
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

__all__ = ["ANSWER", "CALLS", "CITIES", "Step", "next_step", "pieces_of", "tokens_of"]

# Results so far -> calls of the next answer: one, then two, then a text.
CALLS: Final = (1, 2, 1, 0)
CITIES: Final = ("Oslo", "Bergen", "Bodø")
ANSWER: Final = "All of them, so take an umbrella. (This answer is scripted.)"
BYTES_PER_TOKEN: Final = 4


class Step(NamedTuple):
    """
    One step of the model.

    Attributes:
        cities: The city of each call; none if it answers.
        thought: Its reasoning, unlike any other.
    """

    cities: Sequence[str]
    thought: str


def next_step(answered: int, *, may_call: bool, must_call: bool = False) -> Step:
    """Return the step after as many results since the question."""
    count = CALLS[answered % len(CALLS)] if may_call else 0
    if must_call:
        count = max(1, count)
    cities = [CITIES[(answered + at) % len(CITIES)] for at in range(count)]
    plan = f"I need the weather of {' and '.join(cities)}." if cities else "I know enough."
    return Step(cities, f"Note {secrets.token_hex(4)}: {plan}")


def pieces_of(text: str) -> Iterator[str]:
    """Yield a text word by word, with the spaces."""
    words = text.split(" ") if text else []
    for word, after in itertools.zip_longest(words, [" "] * (len(words) - 1), fillvalue=""):
        yield word + after


def tokens_of(value: object) -> int:
    """Return the tokens of a JSON value, estimated from its bytes."""
    return len(json.dumps(value)) // BYTES_PER_TOKEN
