"""Memory of refusals: what upstream would refuse again from the same tenant and model."""

from collections.abc import Callable
from typing import NamedTuple

from reasoning_replay.core.dialects.base import Cure
from reasoning_replay.core.dialects.chat.heal.diagnosis import Diagnosis, RefusalKind
from reasoning_replay.core.dialects.chat.heal.fillers import FILLERS
from reasoning_replay.core.dialects.chat.members import CALL_MEMBERS, MESSAGE_MEMBERS
from reasoning_replay.core.dialects.refusal_memory import RefusalMemory
from reasoning_replay.core.history.lookup_keys import LookupResult
from reasoning_replay.core.history.model_names import family
from reasoning_replay.core.history.turns import Turn

__all__ = ["ChatRefusals", "Learnt"]

_NAMES = frozenset({*MESSAGE_MEMBERS, *CALL_MEMBERS})
_FILLER = "filler"  # the kind under which a filler that was accepted is recorded


class Learnt(NamedTuple):
    """
    What is known of a model from its refusals within the last hour.

    Attributes:
        refused: Members that it does not accept.
        demands: Whether it refuses messages without their reasoning.
        fillers: Members whose fillers it accepted in place of reasoning.
    """

    refused: frozenset[str] = frozenset()
    demands: bool = False
    fillers: tuple[str, ...] = ()


NOTHING = Learnt()


class ChatRefusals:
    """The refusals of one upstream. Each process records only those that it has seen."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Start empty; the clock is monotonic, in seconds."""
        self._memory = RefusalMemory(clock)

    def learn(self, scope: bytes, refusal: Diagnosis, cure: Cure, model: str) -> None:
        """Record an accepted cure."""
        of = family(model)
        self._memory.learn(scope, cure)
        for name in refusal.refused:
            self._memory.refuse(scope, RefusalKind.FIELD, f"{name} {of}")
        if refusal.kind is RefusalKind.LACKS_REASONING:
            self._memory.refuse(scope, RefusalKind.LACKS_REASONING, of)
        if cure.degraded:
            name = refusal.wanted or "extra_content"  # the only filler in place of a signature
            self._memory.refuse(scope, _FILLER, f"{name} {of}")

    def learnt(self, scope: bytes, model: str) -> Learnt:
        """Return what is known of a model; nothing, at the cost of one look, in the usual case."""
        if not self._memory.knows_tenant(scope):
            return NOTHING
        of, is_refused = family(model), self._memory.is_refused
        return Learnt(
            frozenset(n for n in _NAMES if is_refused(scope, RefusalKind.FIELD, f"{n} {of}")),
            is_refused(scope, RefusalKind.LACKS_REASONING, of),
            tuple(n for n in FILLERS if is_refused(scope, _FILLER, f"{n} {of}")),
        )

    def completes(self, scope: bytes, turn: Turn) -> bool:
        """Return whether captured reasoning must replace what the client makes of a turn's."""
        return self._memory.completes(scope, turn)

    def without_refused(self, scope: bytes, looked_up: LookupResult) -> LookupResult:
        """Withhold the reasoning whose signature upstream refused within the last hour."""
        return self._memory.without_refused(scope, looked_up)
