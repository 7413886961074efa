"""
Cache diagnosis: why a prompt cache missed, as OpenAI and Anthropic tell a caller that asks.

The caller names a response. What the API reads before an answer is compared with what it read
before that one, and the first difference is told, in the vendor's words.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from reasoning_replay.strict_api.ledger import CHARACTERS_PER_TOKEN

FINGERPRINTS_MAX: Final = 2_000


class Fingerprint(NamedTuple):
    """
    What an API read before an answer.

    Attributes:
        settings: By the reason that a difference is: what stands before the history, in the order
            in which the vendor compares it.
        history: The history, part by part.
        last: As `settings`, of what is compared after the history.
    """

    settings: Mapping[str, str]
    history: Sequence[str]
    last: Mapping[str, str] = {}


class Miss(NamedTuple):
    """A miss: its reason, and the tokens of the older prompt before the difference and after it."""

    reason: str
    missed: int
    reusable: int = 0


class Fingerprints:
    """The newest fingerprints, by the id of the answer."""

    def __init__(self, changed: str) -> None:
        """Start without any; `changed` is the reason of a history that differs."""
        self._changed = changed
        self._known: dict[str, Fingerprint] = {}

    def keep(self, answer_id: str, now: Fingerprint) -> None:
        """Keep a fingerprint; drop the oldest one above FINGERPRINTS_MAX."""
        self._known[answer_id] = now
        if len(self._known) > FINGERPRINTS_MAX:
            del self._known[next(iter(self._known))]

    def __contains__(self, answer_id: object) -> bool:
        return answer_id in self._known

    def miss(self, answer_id: str, now: Fingerprint) -> Miss | None:
        """Return why the prompt of a known answer is no prefix of this one; None if it is."""
        before = self._known[answer_id]
        size = _tokens(before.history)
        for reason, value in before.settings.items():
            if now.settings[reason] != value:
                return Miss(reason, size)
        pairs = zip(before.history, now.history, strict=False)
        common = next((at for at, (a, b) in enumerate(pairs) if a != b), len(now.history))
        if common < len(before.history):
            reusable = _tokens(before.history[:common])
            return Miss(self._changed, size - reusable, reusable)
        changed = (reason for reason, value in before.last.items() if now.last[reason] != value)
        return next((Miss(reason, size) for reason in changed), None)


def _tokens(history: Sequence[str]) -> int:
    return sum(map(len, history)) // CHARACTERS_PER_TOKEN
