"""
Lessons: what the turns of a conversation teach about what upstream refuses, for an hour.

That captured reasoning replaces what the client makes of it holds as long as its turn is kept:
upstream has seen those messages so, and the prefix must not move.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from reasoning_replay.core.dialects.base import Cure
from reasoning_replay.core.dialects.refusal_memory import (
    BLOB,
    DAMAGED,
    DOUBT,
    REMEMBERED_S,
    UNSENT,
    KnownRefusals,
)
from reasoning_replay.core.history.item_index import by_conversation
from reasoning_replay.core.history.model_names import family
from reasoning_replay.core.history.turns import Lesson, Turn

# The kind of a refusal of unknown words; and what is then done before the first attempt: what was
# captured before the turn is not injected; nothing is edited; all reasoning is left out.
FORM = "form"
OLDER, AS_GIVEN, NO_REASONING = "older", "as_given", "no_reasoning"
_LIFE_MS = int(REMEMBERED_S * 1000)


def with_lessons(
    refused: KnownRefusals, turns: Sequence[Turn], model: str, now_ms: int
) -> KnownRefusals:
    """
    Return what is refused, with what the turns that were found teach a request of a model.

    Cost: a look at each turn, unless an index tells that none of them teaches anything.
    """
    parts = by_conversation(turns)
    if parts and not any(part.names.has_lessons for part in parts.values()):
        return refused
    teachers = [turn for turn in turns if turn.lessons]
    if not teachers:
        return refused
    young = [turn for turn in teachers if turn.created_ms + _LIFE_MS > now_ms]
    lessons = frozenset(_lessons_of(young, turns, family(model)))
    return refused._replace(lessons=lessons.union(_damaged(teachers)))


def taught_by(cure: Cure, of_dialect: Iterable[tuple[str, str]]) -> tuple[Lesson, ...]:
    """Return what an accepted cure teaches about its conversation."""
    damaged = [Lesson(DAMAGED)] if cure.completed else []
    lasting = [Lesson(str(kind), what) for kind, what in of_dialect]
    return tuple(dict.fromkeys([*cure.lessons, *damaged, *lasting]))


def refused_by(
    cure: Cure, of_dialect: Iterable[tuple[str, str]]
) -> Iterator[tuple[str, str | bytes]]:
    """Yield the kind and the name of what upstream would refuse again, after an accepted cure."""
    yield from ((BLOB, blob) for blob in cure.lost)
    yield from ((DAMAGED, conversation) for conversation in cure.completed)
    yield from of_dialect


def with_doubt(cure: Cure, kind: str, turns: Sequence[Turn], model: str) -> Cure:
    """
    Return a cure with the doubt that it teaches, if it leaves out captured reasoning.

    A blob that upstream issued and refuses belongs to another account now, or to another model. So
    does whatever was captured before, by any model or by the others. It may be good again. What
    another model issued is still good for that model, so only the lesson tells of it.
    """
    if kind != BLOB:
        return cure
    refused = [turn for turn in turns if not cure.lost.isdisjoint(blobs_of(turn))]
    if not refused:
        return cure
    of = family(model)
    if any(is_of(turn, of) for turn in refused):
        return replace(cure, lessons=(*cure.lessons, Lesson(DOUBT)))
    good = {blob for turn in refused for blob in blobs_of(turn)}
    lessons = (*cure.lessons, Lesson(DOUBT, of))
    return replace(cure, lessons=lessons, lost=cure.lost - good, withheld=())


def lessons_of_form(*, without_reasoning: bool, is_doubted: bool) -> tuple[Lesson, ...]:
    """
    Return what is learned from a refusal of unknown words that was cured without reasoning.

    First, only what is older is left out. If newer reasoning is refused, too, all is.

    Args:
        without_reasoning: Whether the client's reasoning was left out, too; otherwise it was sent
            as it came.
        is_doubted: Whether what is older had been left out.
    """
    if is_doubted:
        return (Lesson(FORM, NO_REASONING if without_reasoning else AS_GIVEN),)
    return (Lesson(FORM, OLDER), *([Lesson(DOUBT)] if without_reasoning else []))


def _lessons_of(
    teachers: Sequence[Turn], turns: Sequence[Turn], model: str
) -> Iterator[tuple[str, str | bytes]]:
    for teacher in teachers:
        for kind, what in ((lesson.kind, lesson.what) for lesson in teacher.lessons):
            if kind == DOUBT:
                if what in ("", model):
                    yield from ((BLOB, blob) for blob in _older(teacher, turns, what))
            elif kind != DAMAGED:
                yield kind, what
                if (kind, what) == (FORM, OLDER):
                    yield from ((UNSENT, blob) for blob in _older(teacher, turns))


def _damaged(teachers: Iterable[Turn]) -> Iterator[tuple[str, bytes]]:
    """Yield the conversations in which the client damages its reasoning."""
    for teacher in teachers:
        if Lesson(DAMAGED) in teacher.lessons:
            yield DAMAGED, teacher.conversation


def _older(teacher: Turn, turns: Iterable[Turn], model: str = "") -> Iterator[bytes]:
    """Yield the blobs that were captured before a turn, except those of a model."""
    for turn in turns:
        is_of_it = turn.conversation == teacher.conversation
        is_older = is_of_it and turn.created_ms < teacher.created_ms
        if is_older and not (model and is_of(turn, model)):
            yield from blobs_of(turn)


def is_of(turn: Turn, model: str) -> bool:
    """Return whether a turn is of a family of models."""
    return model in {family(one) for one in turn.models}


def blobs_of(turn: Turn) -> Iterator[bytes]:
    """Yield the digests of all blobs of a turn."""
    for item in turn.items:
        for part in (*item.refused, *item.run):
            yield from part.blobs
