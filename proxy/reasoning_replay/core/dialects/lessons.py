"""Lessons: what the turns of a conversation teach about what upstream refuses, for an hour."""

from collections.abc import Iterable, Iterator, Sequence

from reasoning_replay.core.dialects.base import Cure
from reasoning_replay.core.dialects.refusal_memory import (
    BLOB,
    DAMAGED,
    DOUBT,
    REMEMBERED_S,
    KnownRefusals,
)
from reasoning_replay.core.history.model_names import family
from reasoning_replay.core.history.turns import Lesson, Turn

_LIFE_MS = int(REMEMBERED_S * 1000)


def with_lessons(
    refused: KnownRefusals, turns: Sequence[Turn], model: str, now_ms: int
) -> KnownRefusals:
    """
    Return what is refused, with what the turns that were found teach a request of a model.

    Cost: a look at each turn, if none of them teaches anything.
    """
    teachers = [turn for turn in turns if turn.lessons and turn.created_ms + _LIFE_MS > now_ms]
    if not teachers:
        return refused
    return refused._replace(lessons=frozenset(_lessons_of(teachers, turns, family(model))))


def taught_by(cure: Cure, of_dialect: Iterable[tuple[str, str]]) -> tuple[Lesson, ...]:
    """Return what an accepted cure teaches about its conversation."""
    damaged = [Lesson(DAMAGED)] if cure.completed else []
    lasting = [Lesson(str(kind), what) for kind, what in of_dialect]
    return tuple(dict.fromkeys([*cure.lessons, *damaged, *lasting]))


def _lessons_of(
    teachers: Sequence[Turn], turns: Sequence[Turn], model: str
) -> Iterator[tuple[str, str | bytes]]:
    for teacher in teachers:
        for kind, what in ((lesson.kind, lesson.what) for lesson in teacher.lessons):
            if kind == DAMAGED:
                yield DAMAGED, teacher.conversation
            elif kind != DOUBT:
                yield kind, what
            elif what in ("", model):
                for turn in turns:
                    if _is_doubted(turn, teacher, what):
                        yield from ((BLOB, blob) for blob in blobs_of(turn))


def _is_doubted(turn: Turn, teacher: Turn, model: str) -> bool:
    is_older = turn.created_ms < teacher.created_ms
    if turn.conversation != teacher.conversation or not is_older:
        return False
    return not (model and is_of(turn, model))


def is_of(turn: Turn, model: str) -> bool:
    """Return whether a turn is of a family of models."""
    return model in {family(one) for one in turn.models}


def blobs_of(turn: Turn) -> Iterator[bytes]:
    """Yield the digests of all blobs of a turn."""
    for item in turn.items:
        for part in item.run:
            yield from part.blobs
