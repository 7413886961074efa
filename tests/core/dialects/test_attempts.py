"""Attempts: at most three requests, and the client's own bytes are among them."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from reasoning_replay.core.dialects.added_members import AddedMember
from reasoning_replay.core.dialects.attempts import Attempts
from reasoning_replay.core.dialects.base import Bodies, Cure
from reasoning_replay.core.dialects.lessons import AS_GIVEN, FORM, NO_REASONING, OLDER
from reasoning_replay.core.dialects.refusal_memory import DOUBT
from reasoning_replay.core.dialects.responses.heal.diagnosis import Diagnosis, RefusalKind
from reasoning_replay.core.history.turns import Lesson

GIVEN, SENT = b'{"input":"given"}', b'{"input":"sent"}'
UNKNOWN, FOREIGN, ORPHAN, OTHER = (
    Diagnosis(RefusalKind(kind)) for kind in ("form", "blob", "lacks_output", "other")
)
AGENT = Diagnosis(RefusalKind.BLOB, is_of_agent=True)


def played(
    attempts: Attempts, refusals: Sequence[Diagnosis], cures: Sequence[bytes | None]
) -> list[str]:
    """Return what is sent after each refusal; a cure that is asked for is the next of `cures`."""
    left, sent = list(cures), []
    for refusal in refusals:
        for wish in attempts.wishes(refusal):
            cure = wish.cure
            if wish.bodies is not None and (body := left.pop(0) if left else None) is not None:
                cure = Cure(body, is_clients_own=body == GIVEN)
            if cure is not None and attempts.is_new(cure):
                last = " last" if wish.without_reasoning else ""
                sent.append(f"{attempts.note(wish, cure).body.decode()} {wish.refusal.kind}{last}")
                break
        else:
            break
    return sent


# Whether the proxy edited the request, the refusals, the cures, and what is sent
PLAYED = [
    pytest.param(True, [UNKNOWN] * 3, [b"1"], ["1 form", "GIVEN form"], id="ours"),
    pytest.param(True, [FOREIGN] * 3, [b"1"], ["1 blob", "GIVEN blob"], id="ours-understood"),
    pytest.param(True, [FOREIGN] * 3, [None], ["GIVEN blob", "2 blob"], id="ours-no-cure"),
    pytest.param(True, [UNKNOWN] * 3, [GIVEN, b"2"], ["GIVEN form", "2 form last"], id="own"),
    pytest.param(False, [UNKNOWN] * 3, [b"1", b"2"], ["1 form", "2 form last"], id="theirs"),
    pytest.param(False, [UNKNOWN] * 3, [None, b"2"], ["2 form last"], id="in-normal-form"),
    pytest.param(False, [UNKNOWN] * 3, [], [], id="nothing-to-change"),
    pytest.param(False, [UNKNOWN, FOREIGN] * 3, [b"1", b"2"], ["1 form", "2 blob"], id="two"),
    pytest.param(False, [FOREIGN] * 3, [b"1", b"1", b"2"], ["1 blob", "2 form last"], id="again"),
    pytest.param(
        False, [ORPHAN] * 3, [b"1", b"2"], ["1 lacks_output", "2 lacks_output"], id="pair"
    ),
    pytest.param(False, [ORPHAN] * 3, [None, b"2"], [], id="never-by-reasoning"),
    pytest.param(True, [ORPHAN] * 3, [None, b"2"], [], id="never-by-edits"),
    pytest.param(True, [AGENT] * 3, [b"1", b"2"], [], id="incurable"),
    pytest.param(True, [UNKNOWN, OTHER], [b"1"], ["1 form", "GIVEN form"], id="ours-then-other"),
    pytest.param(False, [UNKNOWN, OTHER], [b"1", b"2"], ["1 form"], id="theirs-then-other"),
    pytest.param(True, [OTHER], [b"1"], [], id="other"),
]


@pytest.mark.parametrize(("is_edited", "refusals", "cures", "want"), PLAYED)
def test_what_is_sent(
    is_edited: bool,
    refusals: Sequence[Diagnosis],
    cures: Sequence[bytes | None],
    want: list[str],
) -> None:
    """The client's own bytes follow an edit of the proxy; nothing is sent twice."""
    attempts = Attempts(Bodies(GIVEN, SENT if is_edited else GIVEN))
    if is_edited and cures == [None]:
        cures = [None, b"2"]
    expected = [line.replace("GIVEN", GIVEN.decode()) for line in want]
    assert played(attempts, refusals, cures) == expected
    assert len(attempts.tried) <= 2
    own = attempts.has_tried_own
    assert own or refusals[0] in (OTHER, ORPHAN, AGENT)


# Whether what is older had been left out, what is accepted, and what is learned
LEARNED = [
    pytest.param(False, GIVEN, (Lesson(FORM, OLDER),), id="own"),
    pytest.param(True, GIVEN, (Lesson(FORM, AS_GIVEN),), id="own-again"),
    pytest.param(False, b"bare", (Lesson(FORM, OLDER), Lesson(DOUBT)), id="bare"),
    pytest.param(True, b"bare", (Lesson(FORM, NO_REASONING),), id="bare-again"),
]


@pytest.mark.parametrize(("is_doubted", "body", "want"), LEARNED)
def test_what_unknown_words_teach(is_doubted: bool, body: bytes, want: tuple[Lesson, ...]) -> None:
    """What is older is left out; all is only if newer reasoning is refused, too."""
    is_own = body == GIVEN
    bodies = Bodies(GIVEN, SENT if is_own else GIVEN, is_doubted=is_doubted)
    attempts = Attempts(bodies)
    *_, wish = attempts.wishes(UNKNOWN)
    if is_own:
        assert wish.cure is not None
        assert attempts.note(wish, wish.cure).lessons == want
    else:
        assert attempts.note(wish, Cure(body)).lessons == want


@pytest.mark.parametrize("body", [GIVEN, b'{"input":"cured","key":"k"}', b'{"input":"cured"}'])
def test_a_cache_key_that_was_added_is_known_in_the_next_request(body: bytes) -> None:
    """The cure of the second refusal takes it out before it reads the request."""
    key = AddedMember("cache_key", b',"key":"k"')
    bodies = replace(Bodies(GIVEN, GIVEN), added=(key,))
    attempts = Attempts(bodies)
    wish = next(attempts.wishes(UNKNOWN))
    attempts.note(wish, Cure(body, is_clients_own=body == GIVEN))
    after = next(attempts.wishes(FOREIGN))
    assert after.bodies is not None
    assert (after.bodies.sent, after.bodies.added) == (body, (key,) if key.text in body else ())


def test_two_faults_teach_both_cures() -> None:
    """The second cure edits the first: the request that is accepted has both."""
    attempts = Attempts(Bodies(GIVEN, GIVEN))
    first = Cure(b"1", present=-2, lessons=(Lesson("bad_id"),), lost=frozenset([b"a"]))
    second = Cure(b"2", present=-1, lessons=(Lesson("duplicate"),), completed=frozenset([b"c"]))
    attempts.note(next(attempts.wishes(ORPHAN)), first)
    cure = attempts.note(next(attempts.wishes(FOREIGN)), second)

    assert cure.lessons == (Lesson("bad_id"), Lesson("duplicate"))
    assert (cure.lost, cure.completed) == (first.lost, second.completed)
    assert cure.present == -3


def test_what_was_refused_as_a_whole_teaches_nothing() -> None:
    """A cure that starts from the client's own request has no edit of the one before it."""
    attempts = Attempts(Bodies(GIVEN, GIVEN))
    attempts.note(next(attempts.wishes(ORPHAN)), Cure(b"1", lessons=(Lesson("bad_id"),)))
    *_, last = attempts.wishes(FOREIGN)

    assert Lesson("bad_id") not in attempts.note(last, Cure(b"2")).lessons
