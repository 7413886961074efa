"""Names: captured items found by their ids, each used once, and the index that finds them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reasoning_replay.core.dialects.responses.items import ResponsesItem as Read
from reasoning_replay.core.dialects.responses.items import read_item
from reasoning_replay.core.dialects.responses.request import read_request
from reasoning_replay.core.history.item_index import IndexedTurns, ItemIndex, Match
from reasoning_replay.core.history.lookup_keys import LookupResult
from reasoning_replay.core.history.matching.alignment import Alignment
from reasoning_replay.core.history.matching.by_id import match_names
from reasoning_replay.core.history.matching.pairing import says_the_same
from reasoning_replay.core.history.turns import Context, Emitted, Turn, turn_id

from tests.core.world import Item, body, call, drawn, message, search

C1, C2 = call("1"), call("2")
ZERO = call("3", call_id="call_0")
CHAIN = b"c" * 16


def emitted(item: Item) -> Emitted:
    """Return an item as the store keeps it."""
    read = read_of(item)
    return Emitted(read.type, read.id, read.call_id, read.name, read.content)


def read_of(item: Item) -> Read:
    """Return an item as it is read from a request."""
    return read_item(body([item]).split(b"[", 1)[1].rsplit(b"]", 1)[0])


def turn(name: str, *items: Item, knows: bool = True) -> Turn:
    """Return a turn that emitted these items."""
    context = Context(chain=CHAIN, is_known=knows)
    kept = tuple(emitted(item) for item in items)
    return Turn(turn_id(name), b"v" * 16, b"", ("gpt-5",), True, 1, context, kept)


def matched(items: list[Item], *turns: Turn) -> dict[int, Match]:
    """Return the items of a request that their names identify."""
    found = Alignment(read_request(body(items), {}), LookupResult(turns))
    match_names(found)
    return found.matches


@pytest.mark.parametrize(
    ("item", "want"),
    [
        pytest.param(C1, 0, id="both"),
        pytest.param({**C1, "call_id": "x"}, 0, id="id"),
        pytest.param({**C1, "id": "x"}, 0, id="call-id"),
        pytest.param({**C1, "id": "x", "call_id": C1["id"]}, 0, id="id-as-call-id"),
        pytest.param({**C1, "call_id": C2["call_id"]}, None, id="contradictory"),
        pytest.param({**C1, "name": "other"}, None, id="another-tool"),
        pytest.param({**ZERO, "id": "x"}, None, id="counted-call-id"),
        pytest.param(
            {**ZERO, "id": "x", "call_id": f"resp_{drawn(1)}:call_0"}, 2, id="by-response"
        ),
        pytest.param(
            {**C1, "id": "", "call_id": f"resp_{drawn(2)}:call_0"}, None, id="no-such-turn"
        ),
    ],
)
def test_a_name_of_a_single_item_is_certain(item: Item, want: int | None) -> None:
    """Certain names are an id, a random call id, and a response id inside a call id."""
    found = matched([item], turn(f"resp_{drawn(1)}", C1, C2, ZERO))

    assert [match.k for match in found.values()] == ([] if want is None else [want])


def test_an_id_of_two_items_is_not_certain() -> None:
    """An id that upstream used twice identifies neither item."""
    twice = [turn(f"resp_{drawn(n)}", C1) for n in (1, 2)]

    assert matched([C1], *twice) == {}


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


def test_a_used_item_and_a_contradictory_item_are_not_matched() -> None:
    """A captured item is found once, and a call with the name of another tool is no match."""
    known = turn(f"resp_{drawn(1)}", C1, C2)

    assert matched([C1, C1, {**C2, "name": "another"}], known) == {0: Match(known, 0)}
    assert matched([C1, C2], known) == {0: Match(known, 0), 1: Match(known, 1)}


# A few names, so that they collide: ids used twice, ids as call ids, numbered calls.
NAMES = ("", "fc_a8K2mPq", "fc_b7Lx93Q", "call_m4Nz81c", "call_0", f"resp_{drawn(1)}:call_0")
SPOKEN = st.one_of(
    st.builds(
        lambda one, other, tool: {**call("1"), "id": one, "call_id": other, "name": tool},
        st.sampled_from(NAMES),
        st.sampled_from(NAMES),
        st.sampled_from(("read", "write")),
    ),
    st.builds(lambda one: {**message("1", "Done."), "id": one}, st.sampled_from(NAMES)),
)
TURNS = st.lists(st.lists(SPOKEN, max_size=3), min_size=1, max_size=4)


def told(turns: list[list[Item]]) -> list[Turn]:
    """Return turns that emitted these items."""
    return [turn(f"resp_{n:08}", *items) for n, items in enumerate(turns)]


def test_an_extended_index_leaves_the_one_before_it_as_it_was() -> None:
    """Other requests may be using it; a name may be of both turns."""
    first, second = told([[call("1")], [call("1"), message("2", "Done.")]])
    before = ItemIndex([first])
    kept = attributes(before)

    assert attributes(before.after(second)) == attributes(ItemIndex([first, second]))
    assert attributes(before) == kept


@given(TURNS)
def test_an_index_is_extended_turn_by_turn(turns: list[list[Item]]) -> None:
    """An extended ItemIndex equals one that is built from all turns."""
    all_of_them = told(turns)
    grown = IndexedTurns(all_of_them[:1])
    for end in range(2, len(all_of_them) + 1):
        before, kept = grown, attributes(grown.names)
        grown = IndexedTurns(all_of_them[:end], before)
        assert attributes(before.names) == kept

    assert attributes(grown.names) == attributes(ItemIndex(all_of_them))


def attributes(names: ItemIndex) -> dict[str, object]:
    """Return a copy of all that the index holds."""
    return {
        "turns": dict(names.turns),
        "types": set(names.types),
        "by_id": {name: [*found] for name, found in names.by_id.items()},
        "by_call": {name: [*found] for name, found in names.by_call.items()},
    }
