"""Unsaved records: each is saved in the end, in linear time, whatever saves fail."""

from hypothesis import given
from hypothesis import strategies as st
from reasoning_replay.web.unsaved_records import RETRIED, UnsavedRecords

from tests.core.costs import assert_linear

lots = st.lists(
    st.tuples(
        st.dictionaries(st.binary(max_size=2), st.just(b"v")),
        st.dictionaries(st.binary(max_size=1), st.booleans()),
        st.booleans(),
    )
)


@given(lots)
def test_all_is_saved_at_last(
    added: list[tuple[dict[bytes, bytes], dict[bytes, bool], bool]],
) -> None:
    """What a failed save did not write is part of the next one; a key is saved once."""
    unsaved = UnsavedRecords()
    stored: dict[bytes, bytes] = {}
    led: list[bytes] = []
    for records, keys, fails in [*added, ({}, {}, False)]:
        unsaved.add(records, keys)
        lot = unsaved.take(is_last=False)
        assert not unsaved
        if fails:
            unsaved.give_back(lot)
            assert bool(unsaved) == any(lot)
        else:
            stored |= lot[0]
            led += lot[1]
    assert stored == {name: value for records, _, _ in added for name, value in records.items()}
    assert sorted(led) == sorted({key for _, keys, _ in added for key in keys})


def names(count: int, first: int = 0) -> dict[bytes, bytes]:
    """Return records with names of their own."""
    return {b"%d" % n: b"" for n in range(first, first + count)}


def test_many_failed_records_wait_for_the_last_save() -> None:
    """They are not passed on again with each item."""
    unsaved = UnsavedRecords()
    unsaved.add(names(RETRIED + 1), {b"k": True})
    unsaved.give_back(unsaved.take(is_last=False))
    unsaved.add(names(1, RETRIED + 1), {b"k": True, b"l": False})

    assert unsaved.take(is_last=False) == (names(1, RETRIED + 1), {b"l": False})
    assert unsaved
    assert unsaved.take(is_last=True) == (names(RETRIED + 1), {b"k": True})
    assert not unsaved


def test_a_store_that_fails_costs_linear_time() -> None:
    """Each save may fail."""

    def run(count: int) -> None:
        unsaved = UnsavedRecords()
        for n in range(count):
            unsaved.add(names(3, 3 * n), {b"%d" % n: True})
            unsaved.give_back(unsaved.take(is_last=False))

    assert_linear(int, run, 2_000)
