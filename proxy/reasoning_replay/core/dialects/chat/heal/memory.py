"""Lessons: what upstream would refuse again from the same tenant and model."""

from collections.abc import Iterator
from typing import NamedTuple

from reasoning_replay.core.dialects.base import Cure
from reasoning_replay.core.dialects.chat.heal.diagnosis import Diagnosis, RefusalKind
from reasoning_replay.core.dialects.chat.heal.fillers import FILLERS
from reasoning_replay.core.dialects.chat.members import CALL_MEMBERS, MESSAGE_MEMBERS
from reasoning_replay.core.dialects.refusal_memory import KnownRefusals
from reasoning_replay.core.history.model_names import family

__all__ = ["Learnt", "learnt_of", "lessons"]

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


_NOTHING = Learnt()


def lessons(refusal: Diagnosis, cure: Cure, model: str) -> Iterator[tuple[str, str]]:
    """Yield what an accepted cure teaches about a model; see `Dialect.lessons`."""
    of = family(model)
    for name in refusal.refused:
        yield RefusalKind.FIELD, f"{name} {of}"
    if refusal.kind is RefusalKind.LACKS_REASONING:
        yield RefusalKind.LACKS_REASONING, of
    if cure.degraded:
        name = refusal.wanted or "extra_content"  # the only filler in place of a signature
        yield _FILLER, f"{name} {of}"


def learnt_of(refused: KnownRefusals, model: str) -> Learnt:
    """Return what is known of a model; nothing, at the cost of one look, in the usual case."""
    if refused.is_empty:
        return _NOTHING
    of, has = family(model), refused.has
    return Learnt(
        frozenset(name for name in _NAMES if has(RefusalKind.FIELD, f"{name} {of}")),
        has(RefusalKind.LACKS_REASONING, of),
        tuple(name for name in FILLERS if has(_FILLER, f"{name} {of}")),
    )
