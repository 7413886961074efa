"""Snapshots of one capture: later ones only add records, so that each record is written once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from reasoning_replay.core.dialects.captures import Origin
from reasoning_replay.core.dialects.responses.capture import ResponsesCapture
from reasoning_replay.core.history.lookup_keys import keys_of_turn
from reasoning_replay.core.history.records import records_of, records_of_part, turns_of
from reasoning_replay.core.history.turns import Context, TurnPart

from tests.core.streams import added, began, done, ended
from tests.core.world import Item, call, message, reasoning
from tests.fast_lane import examples

ORIGIN = Origin(Context(b"c" * 16, is_known=True), "gpt-5.6")
R1, R2, C1, C2 = reasoning("1"), reasoning("2"), call("1"), call("2")
ITEMS = [R1, C1, R2, message("1", "Sunny."), C2, reasoning("3"), call("3", status="incomplete")]


def captured(
    chunks: list[bytes], origin: Origin = ORIGIN, *, at_once: int = 1, max_items: int = 1 << 30
) -> list[TurnPart]:
    """Return the parts of a turn, handed out after each `at_once` chunks and at the end."""
    capture = ResponsesCapture(origin, 1 << 20)
    parts: list[TurnPart | None] = []
    for n, chunk in enumerate(chunks):
        capture.feed(chunk)
        capture.dirty = capture.dirty and n % at_once == 0
        while capture.dirty:
            parts.append(capture.snapshot(5 + n, max_items).part)
    capture.close()
    capture.dirty = True
    while capture.dirty:
        parts.append(capture.snapshot(50, max_items).part)
    return [part for part in parts if part is not None]


@given(
    st.permutations(range(len(ITEMS))),
    st.booleans(),
    st.integers(0, len(ITEMS)),
    st.integers(1, 4),
    st.integers(1, 3),
)
@examples(200)
def test_the_parts_are_the_turn(
    order: list[int], has_end: bool, cut: int, at_once: int, max_items: int
) -> None:
    """Each record and key is handed out once, for items in any order and late blobs."""
    chunks = [began(), *(added(n, ITEMS[n]) for n in order), *(done(n, ITEMS[n]) for n in order)]
    last = [{**item, "encrypted_content": "gAAAAlast"} for item in ITEMS]
    chunks = [*chunks[: len(chunks) - cut], *([ended(last, "completed")] if has_end else [])]

    wholes = captured(chunks, at_once=len(chunks) + 1)
    parts = captured(chunks, at_once=at_once, max_items=max_items)

    written: dict[bytes, bytes] = {}
    keys: set[bytes] = set()
    for part in parts:
        records = records_of_part(part)
        assert records.keys().isdisjoint(written)
        assert len(part.turn.items) <= max_items
        written |= records
        keys.update(keys_of_turn(part.turn))
    if not parts:
        assert not wholes
        return
    (whole,) = wholes
    turn = structs.replace(whole.turn, created_ms=parts[0].turn.created_ms)
    more = written.keys() - records_of(turn).keys()
    assert records_of(turn).items() <= written.items()
    assert {name[24:25] for name in more} <= {b"b"}  # of runs whose blobs became known one by one
    assert turns_of(turn.conversation, written) == [turn]
    assert keys == set(keys_of_turn(turn))


def test_a_repeated_item_adds_only_a_blob() -> None:
    """What was handed out never changes; an item after which a later one was is left out."""
    again, other = R1 | {"encrypted_content": "gAAAAother"}, C1 | {"arguments": "{}"}
    chunks = [began(), done(0, R1), done(1, C1), done(1, other), done(0, again), done(2, C2)]
    first, second = captured(chunks)
    same = captured([*chunks[:3], done(0, R1), ended([R1, C1], "completed")])
    late = [*chunks, ended([], "completed"), done(7, C2 | {"id": "x"}), done(5, R2)]

    assert [item.id for item in first.turn.items] == [C1["id"]]
    assert [len(part.blobs) for part in second.runs[0]] == [2]
    assert (second.first, second.has_head) == (1, False)
    assert [len(part.turn.items) for part in captured(late)] == [1, 1, 1]
    assert [len(part.turn.items) for part in same] == [1]  # a known blob is no news


def test_a_turn_has_the_age_of_its_first_snapshot() -> None:
    """Record names start with the age, so a turn that another exchange began keeps its age."""
    chunks = [began(), done(0, C1), ended([C1], "completed")]
    begun = Origin(Context(), "gpt-5.6", created_ms=3)

    assert {part.turn.created_ms for part in captured(chunks)} == {6}
    assert {part.turn.created_ms for part in captured(chunks, begun)} == {3}


@pytest.mark.parametrize(("after_ms", "want"), [(0, 50), (49, 50), (50, 51), (9_000, 9_001)])
def test_a_turn_is_later_than_the_turns_that_its_request_continues(
    after_ms: int, want: int
) -> None:
    """The clock of the replica that stored those turns may be ahead."""
    capture = ResponsesCapture(Origin(Context(), "gpt-5.6", after_ms=after_ms), 1 << 20)
    capture.feed(began() + done(0, C1) + ended([C1], "completed"))
    turn = capture.snapshot(50).turn

    assert turn is not None
    assert turn.created_ms == want
    assert capture.successor().after_ms == want


@pytest.mark.parametrize(
    ("chunks", "want"),
    [
        pytest.param([began(), done(1, C1)], [], id="earlier-item-missing"),
        pytest.param([began(), done(1, C1), done(0, R1)], [C1], id="earlier-item-arrived"),
        pytest.param([began(), done(2, C1), done(0, C2)], [C2], id="gap-between"),
        pytest.param([began(), done(1, C1), ended([], "incomplete")], [C1], id="end-of-response"),
    ],
)
def test_an_item_waits_for_all_earlier_items(chunks: list[bytes], want: list[Item]) -> None:
    """The reasoning before an item is stored with it, so it is saved only when that is complete."""
    capture = ResponsesCapture(ORIGIN, 1 << 20)
    for chunk in chunks:
        capture.feed(chunk)
    turn = capture.snapshot(5).turn

    assert turn is not None
    assert [item.id for item in turn.items] == [item["id"] for item in want]
