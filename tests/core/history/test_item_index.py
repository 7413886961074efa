"""Item index: one that grew, and several that are joined, are as one that is made of all turns."""

from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from reasoning_replay.core.history.item_index import FoundTurns, IndexedTurns, ItemIndex
from reasoning_replay.core.history.turns import Turn

from tests.core.history.matching.test_names import emitted, turn
from tests.core.world import call, message, reasoning

NAMES = [emitted(item) for item in (call("1"), call("2"), message("1", "Hi"), reasoning("1"))]
LISTS = ("by_id", "by_call", "by_whole", "by_content", "children")


def turns(conversation: bytes) -> st.SearchStrategy[list[Turn]]:
    """Draw turns of a conversation; their items and parents recur, their ids do not."""
    some = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3)

    def made(items: list[list[Any]]) -> list[Turn]:
        of = [turn(f"{conversation!r}{n}") for n in range(len(items))]
        return [
            structs.replace(
                one, conversation=conversation, items=tuple(its), parent=of[n - 1].id if n else b""
            )
            for n, (one, its) in enumerate(zip(of, items, strict=True))
        ]

    return st.lists(some, min_size=1, max_size=3).map(made)


def shown(lists: Mapping[Any, Sequence[Any]]) -> dict[Any, Any]:
    """Return the lists of an index, with what they are of."""
    assert len(lists) == len([*lists])
    return {key: [*lists[key]] for key in lists if lists[key]}


def check(index: ItemIndex, whole: ItemIndex) -> None:
    """Compare two indexes of the same turns."""
    for name in LISTS:
        assert shown(getattr(index, name)) == shown(getattr(whole, name)), name
    assert {**index.turns} == {**whole.turns}
    assert index.parentless == whole.parentless
    assert index.types >= whole.types
    assert index.names_recur >= whole.names_recur


def test_one_name_in_two_conversations() -> None:
    """It recurs, so it is not random; of a turn that is in both, the later copy counts."""
    one, two = turn("one", call("1")), turn("two", call("1"), call("2"))
    joined = FoundTurns({b"1": IndexedTurns([one]), b"2": IndexedTurns([two])}).names
    check(joined, ItemIndex([one, two]))
    assert joined.names_recur

    copy = structs.replace(one, items=two.items)
    joined = FoundTurns({b"1": IndexedTurns([one]), b"2": IndexedTurns([copy])}).names
    check(joined, ItemIndex([copy]))


@given(turns(b"one"), turns(b"two"), turns(b"one"))
def test_joined_indexes_are_as_one(one: list[Turn], two: list[Turn], other: list[Turn]) -> None:
    """Also of conversations that share a turn: then the later copy counts."""
    for parts in ([one, two], [one, other], [other, two, one]):
        every = {each.id: each for part in parts for each in part}
        found = FoundTurns({b"%d" % n: IndexedTurns(part) for n, part in enumerate(parts)})
        order = [each for part in parts for each in part if every[each.id] is each]
        check(found.names, ItemIndex(order))


@given(turns(b"one"))
def test_an_index_that_grew_is_as_one_of_all(given: list[Turn]) -> None:
    """The index that it grew from stays as it was."""
    grown = ItemIndex(given[:1])
    for each in given[1:]:
        before, grown = grown, grown.after(each)
        check(before, ItemIndex([*before.turns.values()]))
    check(grown, ItemIndex(given))
