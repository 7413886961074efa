"""Packed edits are the edits themselves: in the same order, with the same result."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st
from reasoning_replay.core.wire import json_spans
from reasoning_replay.core.wire.json_spans import Edit
from reasoning_replay.core.wire.packed_edits import NO_EDITS, PackedEdits

from tests.fast_lane import examples

BODY = bytes(range(48, 88))


@st.composite
def edits(draw: st.DrawFn) -> list[Edit]:
    """Draw edits of ranges that do not overlap, some of them of the same place, in any order."""
    cuts = sorted(draw(st.lists(st.integers(0, len(BODY)), max_size=12)))
    ranges = [*zip(cuts[::2], cuts[1::2], strict=False)]
    inserted = (
        [(at, at) for at in draw(st.lists(st.sampled_from(cuts), max_size=4))] if cuts else []
    )
    inside = [(at, _) for at, _ in inserted if not any(a < at < b for a, b in ranges)]
    return draw(
        st.permutations([Edit(*each, b"<%d>" % n) for n, each in enumerate([*ranges, *inside])])
    )


@examples(200)
@given(edits(), st.integers(0, 20))
def test_edits_that_are_added_are_applied_like_all_of_them(made: Sequence[Edit], at: int) -> None:
    """Wherever the list is cut in two: before, after, in between, or at the same place."""
    packed = PackedEdits(made[:at]).plus(made[at:])
    assert packed.apply(BODY) == json_spans.apply(BODY, made)
    assert b"".join(packed.pieces(BODY)) == packed.apply(BODY)
    assert [*packed] == sorted(made, key=json_spans.PLACE)
    assert packed.new_bytes == sum(len(edit.new) for edit in made)
    assert packed[1:] == (*packed,)[1:]


def test_an_edit_in_between_finds_its_place() -> None:
    """It is neither before all others nor after."""
    ends = PackedEdits([Edit(1, 2, b"a"), Edit(8, 8, b"c")])
    made = ends.plus([Edit(4, 5, b"b")])
    assert [edit.new for edit in made] == [b"a", b"b", b"c"]
    assert made[1] == Edit(4, 5, b"b")


def test_no_edits_cost_no_copy() -> None:
    """Nothing to change means the very same objects."""
    some = PackedEdits([Edit(1, 1, b"x")])
    assert NO_EDITS.apply(BODY) is BODY
    assert some.plus(()) is some
    assert not NO_EDITS
