"""Lessons: a cure that was accepted is repeated before the first attempt."""

import pytest
from msgspec import structs
from reasoning_replay.core.dialects.base import Cure
from reasoning_replay.core.dialects.refusal_memory import RefusalMemory
from reasoning_replay.core.dialects.responses.dialect import ResponsesDialect
from reasoning_replay.core.dialects.responses.heal.captured import Case
from reasoning_replay.core.dialects.responses.heal.diagnosis import Diagnosis, Form, RefusalKind
from reasoning_replay.core.dialects.responses.heal.learned import with_learned
from reasoning_replay.core.dialects.responses.heal.repair import Repair
from reasoning_replay.core.dialects.responses.request import Request, read_request
from reasoning_replay.core.history.lookup_keys import LookupResult
from reasoning_replay.core.history.plan import Outcome
from reasoning_replay.core.history.turns import Lesson

from tests.core.dialects.responses.exchanges import SCOPE, decided, engine, found
from tests.core.dialects.responses.heal.played import (
    ASK,
    DEFAULT,
    maybe_cure_of,
    recalled_for,
    world_of,
)
from tests.core.dialects.responses.heal.test_cures import diagnosis_of
from tests.core.dialects.responses.notation import history, request_of, rows
from tests.core.engines import engine_of
from tests.core.world import MODEL, World, body, call, input_of, nameless, output

# Only upstream's words show which pair is broken: what was not captured is sent by value.
BY_VALUE = {"blamed", "item-moves-to-reasoning", "item-of-first-in-run", "item-of-last-in-run"}
# Only upstream's words show which item is wrong: it was not captured, or its type has no known ids.
ONLY_NAMED = BY_VALUE | {
    *("next-to-user-message", "reasoning-after-its-item", "run-of-two-unknown"),
    *("output", "users-message", "demanded-and-known"),
}
CURED = [
    row
    for row in rows("heal/cures.md")
    if row.values[4] != "(refused)"
    and row.id not in ONLY_NAMED
    and not {"given", "stateful"}.intersection(str(row.values[1]).replace(":", " ").split())
]


def repeated(
    request: Request, held: LookupResult, lessons: tuple[Lesson, ...]
) -> tuple[bytes, int]:
    """Return a request with the edits that its conversation has taught."""
    known = RefusalMemory(lambda: 0.0).known_to(b"")
    known = known._replace(lessons=frozenset((lesson.kind, lesson.what) for lesson in lessons))
    case = Case(request, request, Diagnosis(RefusalKind.OTHER), held, DEFAULT)
    return with_learned(case, known)


@pytest.mark.parametrize(("captured", "request_", "sent", "refusal", "want"), CURED)
def test_what_cured_a_conversation_is_done_before_the_first_attempt(
    captured: str, request_: str, sent: str, refusal: str, want: str
) -> None:
    """The request that was refused is sent at once as it was accepted; the plan injects."""
    world = world_of(*map(history, captured.split(" / "))) if captured else World()
    items, more = [ASK, *history(sent)], request_of(request_)
    diagnosis = diagnosis_of(refusal)
    cure = maybe_cure_of(world, items, diagnosis, **more)
    assert cure is not None
    if not cure.lessons:
        assert diagnosis.kind in (RefusalKind.BLOB, RefusalKind.NO_REASONING_MODEL)
        return
    request = read_request(body(items, **more), {})
    held = recalled_for(world, request, diagnosis)
    got, count = repeated(request, held, cure.lessons)
    if not count:
        assert got is request.body
        got = Case(request, request, diagnosis, held, DEFAULT).inject_again(got)
    assert input_of(got) == input_of(cure.body)


@pytest.mark.parametrize(
    ("captured", "request_", "sent", "refusal", "want"),
    [row for row in rows("heal/cures.md") if row.id in BY_VALUE],
)
def test_unknown_pairs_are_sent_by_value(
    captured: str, request_: str, sent: str, refusal: str, want: str
) -> None:
    """No pair can be checked by ids that are not there, and no reasoning is lost."""
    items = [ASK, *history(sent)]
    diagnosis = diagnosis_of(refusal)
    cure = maybe_cure_of(World(), items, diagnosis)
    assert cure is not None
    assert [lesson.what for lesson in cure.lessons] == [Form.BY_VALUE]
    request = read_request(body(items), {})
    got, _ = repeated(request, LookupResult(), cure.lessons)

    assert input_of(got) == [nameless(item) for item in items]


def test_lessons_of_others_change_nothing() -> None:
    """A lesson that is about a model, a blob or another dialect has no cure; nor has a good one."""
    items = [ASK, *history("r1 c1 o1")]
    request = read_request(body(items), {})
    lessons = (
        *(Lesson("lacks_reasoning", "gpt-5"), Lesson("field", "gpt-5"), Lesson("blob", "x")),
        *(Lesson("binding"), Lesson("form", "as_given"), Lesson("bad_id"), Lesson("duplicate")),
    )
    held = recalled_for(World(), request, diagnosis_of("form"))
    got, count = repeated(request, held, lessons)

    assert got is request.body
    assert count == 0


def test_the_clients_own_form_teaches_no_form() -> None:
    """What was injected was refused: that is no fault of the client's items."""
    sent, given = [ASK, *history("r1 c1 o1")], [ASK, *history("c1 o1")]
    cure = maybe_cure_of(
        world_of(*map(history, ["r1 c1"])), sent, Diagnosis(RefusalKind.FORM), given=given
    )
    assert cure is not None
    assert cure.is_clients_own
    assert not any(lesson.kind == "form" for lesson in cure.lessons)


@pytest.mark.parametrize("kind", ["lacks_reasoning", "input", "form"])
def test_what_injection_alone_does_is_no_repair(kind: str) -> None:
    """As soon as the store responds again, a conversation is as it was before its refusal."""
    one = engine()
    plain = found(one)
    (turn,) = plain.turns
    taught = LookupResult([structs.replace(turn, lessons=(Lesson(kind),))])
    unknown = call("9")
    known_only = [ASK, *history("c1 o1")]
    same, made = (decided(engine(), body(known_only), held) for held in (plain, taught))

    assert made.body == same.body
    assert input_of(made.body) == [ASK, *history("r1 c1 o1")]
    assert (made.repairs, made.outcomes) == ({}, {Outcome.INJECTED: 1})
    assert made.injected_bytes == same.injected_bytes > 0

    half = decided(engine(), body([*known_only, unknown, output(unknown)]), taught)
    assert [item.get("id") for item in input_of(half.body)][-2:] == [None, None]
    assert (half.repairs, half.outcomes[Outcome.INJECTED]) == ({Repair.LEARNED: 1}, 1)


def test_a_lesson_is_a_repair() -> None:
    """It is counted, and can be switched off."""
    one = engine()
    (turn,) = found(one).turns
    taught = structs.replace(turn, lessons=(Lesson("bad_id"),))
    items = [ASK, *history("r1 c1:badid o1")]
    made = decided(one, body(items), LookupResult([taught]))

    assert input_of(made.body) == [ASK, *history("r1 c1 o1")]
    assert made.repairs == {Repair.LEARNED: 1}
    off = engine_of(ResponsesDialect(DEFAULT, "never", ()))
    for kind in ("bad_id", "form"):
        taught = structs.replace(turn, lessons=(Lesson(kind),))
        left = decided(off, body(items), LookupResult([taught]))
        assert input_of(left.body) == items
        assert left.repairs == {}


FORMS = [
    pytest.param("bad_id", "id", {"store": False}, "c1:noid o1", "r1 c1:noid o1", id="named"),
    pytest.param("bad_id", "no_ids", {}, "c1 o1", "r1:noid c1:noid o1", id="nameless"),
    pytest.param("field", "by_id", {}, "c1 o1", "r1:hollow c1 o1", id="by-id"),
    pytest.param("field", "by_id", {}, "r1 c1 o1", "r1:hollow c1 o1", id="by-id-and-kept"),
]


@pytest.mark.parametrize(("kind", "what", "more", "sent", "want"), FORMS)
def test_the_form_that_upstream_takes_is_injected(
    kind: str, what: str, more: dict[str, bool], sent: str, want: str
) -> None:
    """The plan knows it as well as the cure."""
    one = engine()
    (turn,) = found(one).turns
    taught = structs.replace(turn, lessons=(Lesson(kind, what),))
    made = decided(one, body([ASK, *history(sent)], **more), LookupResult([taught]))

    assert input_of(made.body) == [ASK, *history(want)]


def test_include_is_not_sent_to_a_model_that_refuses_it() -> None:
    """Neither the client's own nor the proxy's."""
    one = engine(include="always")
    refusal, cure = Diagnosis(RefusalKind.INCLUDE), Cure(b"")
    one.learn(SCOPE, refusal, cure, MODEL)
    made = decided(one, body([ASK], include=["reasoning.encrypted_content"]), LookupResult())

    assert b"include" not in made.body
    assert made.repairs == {Repair.LEARNED: 1}
