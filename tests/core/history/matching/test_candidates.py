"""Candidates: captured items found by their names and their content, each used once."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from reasoning_replay.core.dialects.responses.items import ResponsesItem as Read
from reasoning_replay.core.dialects.responses.items import read_item
from reasoning_replay.core.dialects.responses.request import read_request
from reasoning_replay.core.history.fingerprints import RANDOM_ID_CHARS, _origin_of
from reasoning_replay.core.history.item_index import IndexedTurns, ItemIndex, Match
from reasoning_replay.core.history.matching.candidates import (
    Candidates,
    ids_allow,
    says_the_same,
)
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
    match = Candidates([turn(f"resp_{drawn(1)}", C1, C2, ZERO)]).certain_match(read_of(item))

    assert (match.k if match is not None else None) == want


def test_an_id_of_two_items_is_not_certain() -> None:
    """An id that upstream used twice identifies neither item."""
    known = Candidates([turn(f"resp_{drawn(1)}", C1), turn(f"resp_{drawn(2)}", C1)])

    assert known.certain_match(read_of(C1)) is None


MINTED = "msg_68c96c54970481958484dea31f07926d"


@pytest.mark.parametrize(
    ("named", "may"),
    [
        pytest.param("", True, id="no-id"),
        pytest.param(MINTED, True, id="its-own"),
        pytest.param("msg_0", True, id="counted"),
        pytest.param("msg_00000000000000000000000000000000", True, id="counted-and-padded"),
        pytest.param("68c96c54-9704-8195-8484-dea31f07926d", True, id="uuid"),
        pytest.param("msg_68c96c54970481958484dea31f0792", True, id="another-length"),
        pytest.param("msg_68c96c54970481958484dea31f07926z", True, id="another-alphabet"),
        pytest.param("out_68c96c54970481958484dea31f07926e", True, id="another-prefix"),
        pytest.param("msg_68c96c54970481958484dea31f07926e", False, id="random-in-the-same-form"),
    ],
)
def test_another_id_in_upstreams_form_means_another_item(named: str, may: bool) -> None:
    """Equal content under such an id is from another response, which was not captured."""
    said = {**message("1", "OK."), "id": MINTED}
    assert ids_allow(read_of({**said, "id": named}), emitted(said)) is may


@pytest.mark.parametrize(
    ("ours", "theirs", "may"),
    [
        ("call_00000002", "call_00000001", False),
        ("call_1", "call_12", False),
        ("call_1", "call_1", True),
        ("mine_2", "call_1", True),
        ("x", "call_1", True),
    ],
)
def test_two_numbers_of_one_counter_are_two_calls(ours: str, theirs: str, may: bool) -> None:
    """A counted id or call id is not a certain name, but different numbers mean different items."""
    item = read_of({**C1, "id": "", "call_id": ours})

    assert ids_allow(item, emitted({**C1, "call_id": theirs})) is may
    bare = {**C1, "call_id": "", "id": ours}
    assert ids_allow(read_of(bare), emitted({**bare, "id": theirs})) is may


def test_long_names_are_compared_in_linear_time() -> None:
    """A client may send a name of a million digits; in quadratic time this test takes an hour."""
    long = "1" * 1_000_000
    ours, theirs = read_of({**C1, "id": "", "call_id": long + "x"}), emitted(C1)

    assert ids_allow(ours, theirs)
    assert not ids_allow(read_of({**C1, "call_id": long + "1"}), emitted({**C1, "call_id": long}))


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


def test_only_short_names_are_cached() -> None:
    """Long names are compared, but names invented by a client must not fill the cache."""
    before = _origin_of.cache_info().currsize
    long = ["msg_" + letter * RANDOM_ID_CHARS.stop for letter in "ab"]

    assert ids_allow(
        read_of(message("1", "hi", id=long[0])), emitted(message("1", "hi", id=long[1]))
    )
    assert _origin_of.cache_info().currsize == before


def test_a_used_item_and_a_contradictory_item_are_not_matched() -> None:
    """A used item is not found again, and a call with the name of another tool is no match."""
    known = Candidates([turn(f"resp_{drawn(1)}", C1, C2)])
    match = known.certain_match(read_of(C1))
    assert match is not None
    known.use(match)

    assert known.certain_match(read_of(C1)) is None
    assert known.certain_match(read_of({**C2, "name": "another"})) is None
    assert known.certain_match(read_of(C2)) == Match(match.turn, 1)


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


@given(TURNS, st.lists(SPOKEN, max_size=6))
@example([[{**call("1"), "id": NAMES[-1]}]], [{**message("1", "Done."), "id": NAMES[-1]}])
def test_items_are_matched_together_as_one_by_one(
    turns: list[list[Item]], sent: list[Item]
) -> None:
    """The fast path finds the same matches as a search item by item, and uses each item once."""
    places = read_request(body(sent), {}).places
    slow = Candidates(told(turns))
    want: dict[int, Match] = {}
    for index, place in enumerate(places):
        match = slow._certain_match(place.item)
        if match is not None:
            want[index] = match
            slow.use(match)

    known = Candidates(told(turns))
    matches, is_all = known.match_certain(places)

    assert matches == want
    unmatched = [place.item for n, place in enumerate(places) if n not in want]
    assert is_all == (not [item for item in unmatched if item.type in known.types])
    assert not any(known.is_free(match, places[n].item) for n, match in want.items())


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
