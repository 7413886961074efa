"""Lessons: what an accepted cure taught holds for its conversation, for an hour."""

from collections.abc import Callable

import msgspec
import pytest
from msgspec import structs
from reasoning_replay.adapters.stores.contract.turns import turn
from reasoning_replay.core.dialects.base import Cure
from reasoning_replay.core.dialects.lessons import taught_by, with_doubt, with_lessons
from reasoning_replay.core.dialects.refusal_memory import (
    BLOB,
    DAMAGED,
    DOUBT,
    KnownRefusals,
    RefusalMemory,
)
from reasoning_replay.core.history.records import FORMAT, records_of, turns_of
from reasoning_replay.core.history.turns import Lesson, Reasoning, Turn

HOUR_MS = 3_600_000
MODEL = "gpt-5.4-2026-03-05"


def made(number: int, *lessons: Lesson, of: str = "c", model: str = MODEL) -> Turn:
    """Return a turn with a blob of its own, and what the cure of its request taught."""
    one = turn(f"t{number}", of, number)
    part = Reasoning(f"rs_{number}", b"{}", (b"blob %d" % number,), has_blob=True)
    items = (structs.replace(one.items[0], run=(part,)),)
    return structs.replace(one, items=items, models=(model,), lessons=lessons)


def known(*turns: Turn, model: str = MODEL, now_ms: int = 10) -> KnownRefusals:
    """Return what a process that has seen no refusal knows with these turns."""
    return with_lessons(RefusalMemory(lambda: 0.0).known_to(b"s"), turns, model, now_ms)


def doubted(refused: KnownRefusals) -> list[int]:
    """Return the numbers of the turns whose blobs are not good."""
    return [n for n in range(9) if refused.has(BLOB, b"blob %d" % n)]


@pytest.mark.parametrize(("now_ms", "is_known"), [(HOUR_MS + 4, True), (HOUR_MS + 5, False)])
def test_a_lesson_holds_for_an_hour_after_its_turn(now_ms: int, *, is_known: bool) -> None:
    """Every process that finds the turn knows it."""
    refused = known(made(5, Lesson("field", "status")), now_ms=now_ms)

    assert refused.has("field", "status") == is_known
    assert refused.is_empty != is_known
    assert not refused.has("field", "content")


def test_turns_without_lessons_cost_nothing() -> None:
    """What is known stays the same object."""
    refused = RefusalMemory(lambda: 0.0).known_to(b"s")
    assert with_lessons(refused, [made(1), made(2)], MODEL, 10) is refused


@pytest.mark.parametrize("now_ms", [10, 9 * HOUR_MS])
def test_damage_concerns_the_conversation_of_the_turn(now_ms: int) -> None:
    """As long as it is kept; another one that was found may come from another client."""
    refused = known(made(1, Lesson("field", "status"), Lesson(DAMAGED)), now_ms=now_ms)
    assert refused.has("field", "status") == (now_ms == 10)
    assert refused.completes(made(2))
    assert not refused.completes(made(2, of="other"))


# What the lesson names, the request's model, and the turns that are doubted
DOUBTS = [
    pytest.param("", MODEL, [1, 2], id="account"),
    pytest.param("", "o3", [1, 2], id="account-any-model"),
    pytest.param("gpt-5.4", MODEL, [2], id="model"),
    pytest.param("gpt-5.4", "o3", [], id="model-and-back"),
]


@pytest.mark.parametrize(("what", "model", "want"), DOUBTS)
def test_doubt_concerns_what_was_captured_before(what: str, model: str, want: list[int]) -> None:
    """Newer reasoning is good, and so is that of the model that refused another's."""
    turns = [made(1), made(2, model="o3"), made(3, Lesson(DOUBT, what)), made(4)]
    other = made(0, of="other")
    assert doubted(known(other, *turns, model=model)) == want


# The models of the turns whose blobs are refused, and what is learned and remembered of the cure
REFUSED = [
    pytest.param([MODEL], [Lesson(DOUBT)], True, id="own"),
    pytest.param(["o3", MODEL], [Lesson(DOUBT)], True, id="own-among-others"),
    pytest.param(["o3"], [Lesson(DOUBT, "gpt-5.4")], False, id="other"),
    pytest.param([], [], True, id="unknown"),
]


@pytest.mark.parametrize(("models", "lessons", "is_lost"), REFUSED)
def test_what_another_model_issued_is_still_good_for_it(
    models: list[str], lessons: list[Lesson], *, is_lost: bool
) -> None:
    """No process remembers it as refused, and no store withholds it: the lesson names the model."""
    turns = [made(n, model=model) for n, model in enumerate(models)]
    lost = frozenset([b"blob %d" % n for n in range(len(turns))] or [b"unknown"])
    cure = Cure(b"", lost=lost, withheld=tuple(turns))

    got = with_doubt(cure, BLOB, [*turns, made(8)], MODEL)

    assert [*got.lessons] == lessons
    assert (got.lost, got.withheld) == ((lost, cure.withheld) if is_lost else (frozenset(), ()))
    assert with_doubt(cure, "field", turns, MODEL) is cure


def test_a_blob_that_is_not_captured_is_lost_in_any_case() -> None:
    """Only what another model is known to have issued is still good."""
    cure = Cure(b"", lost=frozenset([b"blob 1", b"unknown"]))
    assert with_doubt(cure, BLOB, [made(1, model="o3")], MODEL).lost == {b"unknown"}


def test_what_is_doubted_is_not_injected() -> None:
    """A look-up gives the turn without that reasoning."""
    refused = known(old := made(1), made(2, Lesson(DOUBT)))
    assert refused.has(BLOB, b"blob 1")
    assert old.without_reasoning(lambda blob: refused.has(BLOB, blob)).items[0].withheld


def test_a_cure_teaches_each_thing_once() -> None:
    """What its dialect says, what it says itself, and whether the client damages reasoning."""
    cure = Cure(b"", lessons=(Lesson("id"),), completed=frozenset([b"c"]))
    got = taught_by(cure, [("id", ""), ("field", "x")])
    assert got == (Lesson("id"), Lesson(DAMAGED), Lesson("field", "x"))
    assert taught_by(Cure(b""), []) == ()


def test_a_store_keeps_the_lessons_of_a_turn() -> None:
    """They are part of its head; several heads of one turn teach all that any of them does."""
    first, second = made(1, Lesson("a"), Lesson("b", "x")), made(1, Lesson("b", "x"), Lesson("c"))
    (got,) = turns_of(first.conversation, records_of(first) | records_of(second))
    assert sorted(got.lessons, key=str) == [Lesson("a"), Lesson("b", "x"), Lesson("c")]


def _without_last(value: bytes) -> bytes:
    return FORMAT + msgspec.msgpack.encode(msgspec.msgpack.decode(value[1:])[:-1])


def _with_one_more(value: bytes) -> bytes:
    return FORMAT + msgspec.msgpack.encode([*msgspec.msgpack.decode(value[1:]), 7])


@pytest.mark.parametrize("edit", [_without_last, _with_one_more])
def test_replicas_of_other_versions_read_the_same_turns(edit: Callable[[bytes], bytes]) -> None:
    """An older record has no lessons, and an older replica reads over what it does not know."""
    whole = made(1)
    records = {
        name: edit(value) if name[24:25] == b"h" else value
        for name, value in records_of(whole).items()
    }
    assert turns_of(whole.conversation, records) == [whole]
