"""Lessons: what a cure teaches holds for its tenant and model."""

import pytest
from reasoning_replay.core.dialects.base import Cure
from reasoning_replay.core.dialects.chat.heal.cure import Learnt, learnt_of, lessons
from reasoning_replay.core.dialects.chat.heal.diagnosis import Diagnosis, RefusalKind
from reasoning_replay.core.dialects.refusal_memory import RefusalMemory

MINE, THEIRS = b"mine", b"theirs"
MODEL, OTHER = "vendor-large-1", "other-small-2"
FIELD = Diagnosis(RefusalKind.FIELD, refused=frozenset({"reasoning", "extra_content"}))
LACKS = Diagnosis(RefusalKind.LACKS_REASONING, "reasoning_content")
BLOB = Diagnosis(RefusalKind.BLOB)


@pytest.mark.parametrize(
    ("refusal", "cure", "learnt"),
    [
        pytest.param(FIELD, Cure(b""), Learnt(refused=FIELD.refused), id="refused-member"),
        pytest.param(LACKS, Cure(b"", injected=1), Learnt(demands=True), id="demands"),
        pytest.param(
            LACKS,
            Cure(b"", degraded=1),
            Learnt(demands=True, fillers=("reasoning_content",)),
            id="filler",
        ),
        pytest.param(
            BLOB, Cure(b"", degraded=1), Learnt(fillers=("extra_content",)), id="filler-of-a-call"
        ),
    ],
)
def test_what_a_cure_teaches(refusal: Diagnosis, cure: Cure, learnt: Learnt) -> None:
    """It holds for its tenant and model only: the next request is sent right from the start."""
    one = RefusalMemory(lambda: 0.0)
    for kind, what in lessons(refusal, cure, MODEL):
        one.refuse(MINE, kind, what)
    assert learnt_of(one.known_to(MINE), MODEL) == learnt
    assert learnt_of(one.known_to(MINE), OTHER) == Learnt()
    assert learnt_of(one.known_to(THEIRS), MODEL) == Learnt()
