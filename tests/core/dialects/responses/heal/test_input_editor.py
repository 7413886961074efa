"""Input editor: drops, moves, edits and inserts items of an input; other bytes stay the same."""

import json

import pytest
from reasoning_replay.core.dialects.responses.heal.input_editor import (
    InputPiece,
    body_of,
    dropped,
    is_answered,
    pieces_of,
    put_in,
    runs_of,
)
from reasoning_replay.core.dialects.responses.items import read_item
from reasoning_replay.core.dialects.responses.request import read_request

from tests.core.dialects.responses.heal.played import ASK, MORE, hollow, reference
from tests.core.world import (
    Item,
    body,
    call,
    drawn,
    input_of,
    message,
    nameless,
    output,
    reasoning,
    search,
)

R1, R2, R3 = reasoning("1"), reasoning("2"), reasoning("3")
C1, C2 = call("1"), call("2")
SAID, WS = message("1", "Sunny."), search("1")
SCREEN: Item = {"type": "computer_call", "id": f"cu_{drawn(1)}", "call_id": f"call_{drawn(1)}"}
FRAME: Item = {"role": "system", "content": "Be brief."}


def pieces(*items: Item) -> list[InputPiece]:
    """Return the pieces of a request with these items."""
    return pieces_of(read_request(body(list(items)), {}))


def shown(given: list[InputPiece]) -> list[Item]:
    """Return the items that the pieces stand for."""
    return [json.loads(piece.raw) for piece in given]


SPACED = b'{"n": 1.0e0, "input" :[ {"id":"a"} ,\n{"id":"b"}\t, {"id":"c"} ], "model":"m"}'

# (order of the pieces, where p is an inserted one; the written input)
WRITTEN = [
    pytest.param("abc", b'[ {"id":"a"} ,\n{"id":"b"}\t, {"id":"c"} ]', id="unchanged"),
    pytest.param("ab", b'[ {"id":"a"} ,\n{"id":"b"} ]', id="last-dropped"),
    pytest.param("bc", b'[ {"id":"b"}\t, {"id":"c"} ]', id="first-dropped"),
    pytest.param("ac", b'[ {"id":"a"},{"id":"c"} ]', id="middle-dropped"),
    pytest.param("bca", b'[ {"id":"b"}\t, {"id":"c"},{"id":"a"} ]', id="moved"),
    pytest.param("apbc", b'[ {"id":"a"},{"x":1},{"id":"b"}\t, {"id":"c"} ]', id="inserted"),
    pytest.param(
        "pabc", b'[ {"x":1},{"id":"a"} ,\n{"id":"b"}\t, {"id":"c"} ]', id="inserted-first"
    ),
    pytest.param("abcp", b'[ {"id":"a"} ,\n{"id":"b"}\t, {"id":"c"},{"x":1} ]', id="inserted-last"),
    pytest.param("", b"[  ]", id="all-dropped"),
]


@pytest.mark.parametrize(("order", "want"), WRITTEN)
def test_untouched_pieces_keep_their_bytes(order: str, want: bytes) -> None:
    """White space between two old neighbours is kept; new neighbours are joined by a comma."""
    request = read_request(SPACED, {})
    named = {piece.item.id: piece for piece in pieces_of(request)} | {"p": put_in(b'{"x":1}', None)}

    got = body_of(request, [named[name] for name in order])

    assert got == b'{"n": 1.0e0, "input" :%s, "model":"m"}' % want


@pytest.mark.parametrize("sent", [SPACED, b'{"input":"Hi"}', b'{"input":[]}', b"{}"])
def test_unchanged_pieces_return_the_same_object(sent: bytes) -> None:
    """If nothing changes, the body is not copied."""
    request = read_request(sent, {})

    assert body_of(request, pieces_of(request)) is sent


# (item, the id it gets, the result)
NAMED = [
    (b'{"type":"m"}', "a", b'{"id":"a","type":"m"}'),
    (b'{"id":null, "type":"m"}', "a", b'{"id":"a","type":"m"}'),
    (b'{ "type":"m", "id":"b" }', "a", b'{"id":"a", "type":"m" }'),
    (b"{ }", "a", b'{"id":"a" }'),
    (b"{}", 'q"', b'{"id":"q\\""}'),
    (b'{"id":"a","id":"b"}', "c", b'{"id":"a","id":"b"}'),
]


@pytest.mark.parametrize(("raw", "name", "want"), NAMED)
def test_a_new_id_replaces_any_other(raw: bytes, name: str, want: bytes) -> None:
    """An item with two ids is left unchanged."""
    piece = put_in(raw, None)
    piece.name(name)

    assert piece.raw == want


def test_an_item_with_a_repeated_key_is_not_cut() -> None:
    """If a key occurs twice, readers disagree on its value, so it is not removed."""
    piece = put_in(b'{"id":"a","id":"b","type":"m"}', None)
    piece.leave_out("id")

    assert piece.raw == b'{"id":"a","id":"b","type":"m"}'


def test_a_piece_has_a_kind() -> None:
    """A bare reasoning id and a reference to reasoning count as reasoning."""
    items = [R1, hollow(R1), reference(R1), {"id": "rs_1"}, reference(SAID), C1, output(C1), ASK]

    assert [p.is_reasoning for p in pieces(*items)] == [True] * 4 + [False] * 4
    assert [p.is_output for p in pieces(*items)] == [False] * 6 + [True, False]


@pytest.mark.parametrize(
    ("item", "want"),
    [
        (C1, True),
        ({"type": "function_call"}, True),
        (SCREEN, True),
        ({"type": "mcp_approval_request"}, True),
        ({"type": "program"}, True),
        ({"type": "call_of_the_future_call", "call_id": "call_1"}, True),
        ({"type": "tool_search_call", "call_id": None}, True),
        (SAID, False),
        (WS, False),
        ({"type": "mcp_call"}, False),
    ],
)
def test_some_items_need_an_output(item: Item, want: bool) -> None:
    """A call of any type with a `call_id` needs an output, and so do a few other known types."""
    read = read_item(json.dumps(item).encode())

    assert is_answered(read.type, read.call_id) is want


# (history; for each run, the number of reasoning items and of items that follow them)
RUNS = [
    ([ASK, R1, C1, C2, output(C1)], [(1, 2)]),
    ([R1, R2, SAID, R3, C1], [(2, 1), (1, 1)]),
    ([R1, ASK, SAID], [(1, 0)]),
    ([SAID, R1], [(1, 0)]),
    ([R1, reference(SAID), output(C1), C2], [(1, 1)]),
    ([R1, FRAME, SAID], [(1, 0)]),
    ([ASK, SAID, C1], []),
]


@pytest.mark.parametrize(("items", "want"), RUNS)
def test_a_run_leads_to_the_items_after_it(items: list[Item], want: list[tuple[int, int]]) -> None:
    """The group of a run ends where another party speaks."""
    found = [(len(run.reasoning), len(run.group)) for run in runs_of(pieces(*items))]

    assert found == want


# (history, indexes of the refused items, items that are left)
DROPPED = [
    pytest.param([R1, C1], [0], [nameless(C1)], id="id-of-its-group"),
    pytest.param(
        [R1, SAID, C1, output(C1)],
        [0],
        [nameless(SAID), nameless(C1), output(C1)],
        id="all-ids-of-its-group",
    ),
    pytest.param([R1, WS, R2, SAID], [0], [R2, SAID], id="hosted"),
    pytest.param([R1, SCREEN, output(SCREEN)], [0], [SCREEN, output(SCREEN)], id="answered"),
    pytest.param([R1, C1, R2, C2], [2], [R1, C1, nameless(C2)], id="others-stay"),
    pytest.param([R1, R2, C1], [0], [nameless(R2), nameless(C1)], id="half-a-run-by-value"),
    pytest.param([R1, R2, WS], [0], [nameless(R2), WS], id="half-a-run-hosted"),
    pytest.param([R1, hollow(R2), C1], [0], [nameless(C1)], id="half-a-run-hollow"),
    pytest.param([R1, reference(SAID)], [0], [reference(SAID)], id="reference-keeps-its-id"),
    pytest.param([R1, nameless(C1)], [0], [nameless(C1)], id="no-ids"),
    pytest.param(
        [R1, C1, output(C1), C2, output(C2), SAID, ASK, SAID],
        [0],
        [nameless(C1), output(C1), nameless(C2), output(C2), nameless(SAID), ASK, SAID],
        id="calls-between-outputs",
    ),
    pytest.param([R1, C1, output(C1), WS], [0], [nameless(C1), output(C1), WS], id="hosted-later"),
    pytest.param([R1, C1, output(C1), R2, C2], [0], [nameless(C1), output(C1), R2, C2], id="next"),
    pytest.param([ASK, MORE], [], [ASK, MORE], id="nothing"),
]


@pytest.mark.parametrize(("items", "refused", "want"), DROPPED)
def test_reasoning_is_dropped_with_the_ids_that_demand_it(
    items: list[Item], refused: list[int], want: list[Item]
) -> None:
    """Ids of the group and hosted items are dropped with it, but never half of a unit."""
    given = pieces(*items)

    assert shown(dropped(given, [given[n] for n in refused])) == want
    assert input_of(body(items)) == items
