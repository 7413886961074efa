"""Item index: captured items by their names and content; one that grew is as one of all turns."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from reasoning_replay.core.dialects.responses.items import ResponsesItem as Read
from reasoning_replay.core.dialects.responses.items import read_item
from reasoning_replay.core.history.item_index import FoundTurns, IndexedTurns, ItemIndex
from reasoning_replay.core.history.matching.pairing import says_the_same
from reasoning_replay.core.history.turns import Context, Emitted, Turn, turn_id

from tests.core.world import Item, body, call, drawn, message, reasoning, search

LISTS = ("by_id", "by_call", "by_whole", "by_content", "children")


def emitted(item: Item) -> Emitted:
    """Return an item as the store keeps it."""
    read = read_of(item)
    return Emitted(read.type, read.id, read.call_id, read.name, read.content)


def read_of(item: Item) -> Read:
    """Return an item as it is read from a request."""
    return read_item(body([item]).split(b"[", 1)[1].rsplit(b"]", 1)[0])


def turn(name: str, *items: Item) -> Turn:
    """Return a turn that emitted these items."""
    context = Context(chain=b"c" * 16, is_known=True)
    kept = tuple(emitted(item) for item in items)
    return Turn(turn_id(name), b"v" * 16, b"", ("gpt-5",), True, 1, context, kept)


# So that names collide: ids used twice, ids as call ids, counted calls.
TWICE = call("1", call_id=call("2")["id"])
ZERO = call("3", call_id="call_0")
NAMED = call("4", call_id=f"resp_{drawn(1)}:call_0")
NAMES = [
    emitted(item)
    for item in (
        *(call("1"), call("2"), message("1", "Hi"), reasoning("1")),
        *(TWICE, ZERO, ZERO | {"name": "write"}, NAMED),
    )
]


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
    """The index that it grew from stays as it was: other requests may be using it."""
    grown = IndexedTurns(given[:1])
    for end in range(2, len(given) + 1):
        before, grown = grown, IndexedTurns(given[:end], grown)
        check(before.names, ItemIndex(given[: end - 1]))
    check(grown.names, ItemIndex(given))


@pytest.mark.parametrize(
    ("item", "same"),
    [
        pytest.param({**search("1"), "action": {"type": "open"}}, True, id="same-id"),
        pytest.param({**search("1"), "id": "x"}, True, id="same-words"),
        pytest.param({**search("1"), "id": "x", "action": {"type": "open"}}, False, id="other"),
        pytest.param({"type": "web_search_call"}, False, id="no-words"),
        pytest.param({**search("1"), "id": "x", "type": "file_search_call"}, False, id="type"),
    ],
)
def test_equal_items_have_the_same_id_or_content(item: Item, same: bool) -> None:
    """Two items are equal by id, or by type and content."""
    assert says_the_same(read_of(item), emitted(search("1"))) is same


def test_items_without_content_are_equal_by_type() -> None:
    """A client may send an image with nothing but its type."""
    bare = {"type": "image_generation_call"}

    assert says_the_same(read_of(bare), emitted({**bare, "id": "ig_1", "result": "x"}))
