"""
Ledger: every message that this stand-in has emitted, by the place where it was emitted.

Bounded: the oldest emissions are dropped first.
"""

import json
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

__all__ = ["Emission", "Ledger", "Visible"]

EMISSIONS_KEPT = 20_000
TEXT_ALIKE_CHARS = 8
"""A shorter text says too little to recognise a message by it."""


class Visible(Struct, frozen=True):
    """The part of a message that a person sees; calls are (name, arguments as canonical JSON)."""

    role: str
    text: str
    calls: tuple[tuple[str, str], ...]


class Emission(Struct, frozen=True, kw_only=True):
    """
    One emitted message.

    Attributes:
        place: The digest of the history that it answered (Reading.places).
        reasoning: Its reasoning by path (Reading.reasoning_of).
        due: The paths that a client must send again; the others are other forms of the same.
    """

    caller: str
    model: str
    place: str
    visible: Visible
    reasoning: Mapping[str, Any]
    due: frozenset[str]


class Ledger:
    """All emissions of one stand-in."""

    def __init__(self) -> None:
        self._emissions: OrderedDict[int, Emission] = OrderedDict()
        self._at: dict[tuple[str, Visible], list[int]] = {}
        self._values: dict[str, int] = {}
        self._attempts: OrderedDict[str, int] = OrderedDict()
        self._made = 0

    def __len__(self) -> int:
        """Return the number of emissions that are kept."""
        return len(self._emissions)

    def record(self, emission: Emission) -> None:
        """Record an emission."""
        self._made += 1
        self._emissions[self._made] = emission
        self._at.setdefault((emission.place, emission.visible), []).append(self._made)
        for value in emission.reasoning.values():
            self._values[_key(value)] = self._values.get(_key(value), 0) + 1
        if len(self._emissions) > EMISSIONS_KEPT:
            self._drop_oldest()

    def attempt(self, place: str) -> int:
        """Return how many responses were begun at a place before, and count one more."""
        self._attempts[place] = self._attempts.pop(place, 0) + 1
        if len(self._attempts) > EMISSIONS_KEPT:
            self._attempts.popitem(last=False)
        return self._attempts[place] - 1

    def at(self, place: str, visible: Visible) -> list[Emission]:
        """Return what was emitted at a place, and is visibly this message; the newest is last."""
        return [self._emissions[number] for number in self._at.get((place, visible), ())]

    def alike(self, caller: str, visible: Visible) -> list[Emission]:
        """
        Return what a caller was sent anywhere that shares a call or the text with a message.

        For clients that changed their history: they merged or split messages, or cut its start.
        """
        text = visible.text if len(visible.text) >= TEXT_ALIKE_CHARS else ""
        return [
            one
            for one in self._emissions.values()
            if one.caller == caller
            and (
                (text and text == one.visible.text)
                or not set(visible.calls).isdisjoint(one.visible.calls)
            )
        ]

    def has_emitted(self, value: object) -> bool:
        """Return whether a piece of reasoning was emitted anywhere, to any caller."""
        return _key(value) in self._values

    def _drop_oldest(self) -> None:
        number, one = self._emissions.popitem(last=False)
        numbers = self._at[one.place, one.visible]
        numbers.remove(number)
        if not numbers:
            del self._at[one.place, one.visible]
        for value in one.reasoning.values():
            key = _key(value)
            self._values[key] -= 1
            if not self._values[key]:
                del self._values[key]


def _key(value: object) -> str:
    return json.dumps(value, sort_keys=True)
