"""Snapshots of one capture: later ones only add records, so that each record is written once."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reasoning_replay.core.dialects.captures import Origin
from reasoning_replay.core.dialects.responses.capture import ResponsesCapture
from reasoning_replay.core.history.turns import Context, Turn, records_of, turns_of

from tests.core.streams import added, began, done, ended
from tests.core.world import Item, call, message, reasoning

ORIGIN = Origin(Context(b"c" * 16, is_known=True), "gpt-5.6")
R1, R2, C1, C2 = reasoning("1"), reasoning("2"), call("1"), call("2")
ITEMS = [R1, C1, R2, message("1", "Sunny."), C2, reasoning("3"), call("3", status="incomplete")]


def snapshots(chunks: list[bytes], origin: Origin = ORIGIN) -> list[Turn]:
    """Return the turn known after each chunk of a stream, and at its end."""
    capture = ResponsesCapture(origin, 1 << 20)
    found = []
    for n, chunk in enumerate(chunks):
        capture.feed(chunk)
        found.append(capture.snapshot(5 + n).turn)
    capture.close()
    found.append(capture.snapshot(50).turn)
    return [turn for turn in found if turn is not None]


@given(st.permutations(range(len(ITEMS))), st.booleans(), st.integers(0, len(ITEMS)))
@settings(max_examples=200, deadline=None)
def test_a_record_is_written_once(order: list[int], has_end: bool, cut: int) -> None:
    """This holds for every order of finished items, and if the last event adds more blobs."""
    chunks = [began(), *(added(n, ITEMS[n]) for n in order), *(done(n, ITEMS[n]) for n in order)]
    last = [{**item, "encrypted_content": "gAAAAlast"} for item in ITEMS]
    chunks = [*chunks[: len(chunks) - cut], *([ended(last, "completed")] if has_end else [])]

    turns = snapshots(chunks)

    written: dict[bytes, bytes] = {}
    for before, after in pairwise(map(records_of, turns)):
        assert {name for name in before if name[24:25] == b"i"} <= set(after)
    for turn in turns:
        records = records_of(turn)
        assert records_of(turn, written).keys() == records.keys() - written.keys()
        assert all(written.get(name, value) == value for name, value in records.items())
        written |= records
    assert turns_of(turns[-1].conversation, written) == turns[-1:]


def test_a_turn_has_the_age_of_its_first_snapshot() -> None:
    """Record names start with the age, so a turn that another exchange began keeps its age."""
    chunks = [began(), done(0, C1), ended([C1], "completed")]
    begun = Origin(Context(), "gpt-5.6", created_ms=3)

    assert {turn.created_ms for turn in snapshots(chunks)} == {5}
    assert {turn.created_ms for turn in snapshots(chunks, begun)} == {3}


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
