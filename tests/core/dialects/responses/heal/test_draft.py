"""Draft: drops, moves, edits and inserts items of an input; other bytes stay the same."""

import pytest
from reasoning_replay.core.dialects.responses.heal.draft import Draft, needs_output
from reasoning_replay.core.dialects.responses.items import read_item
from reasoning_replay.core.dialects.responses.request import read_request

SPACED = b'{"n": 1.0e0, "input" :[ {"id":"a"} ,\n{"id":"b"}\t, {"id":"c"} ], "model":"m"}'

# (order of the items, where p is an inserted one; the written input)
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
def test_untouched_items_keep_their_bytes(order: str, want: bytes) -> None:
    """White space between two old neighbours is kept; new neighbours are joined by a comma."""
    draft = Draft(read_request(SPACED, {}))
    named = {item.id: item for item in draft.items} | {"p": read_item(b'{"x":1}')}
    draft.items = [named[name] for name in order]

    assert draft.body() == b'{"n": 1.0e0, "input" :%s, "model":"m"}' % want


@pytest.mark.parametrize("sent", [SPACED, b'{"input":"Hi"}', b'{"input":[]}', b"{}"])
def test_without_edits_the_body_is_the_same_object(sent: bytes) -> None:
    """If nothing changes, the body is not copied."""
    assert Draft(read_request(sent, {})).body() is sent


# (item, its new id, the result)
NAMED = [
    (b'{"type":"m"}', "a", b'{"id":"a","type":"m"}'),
    (b'{"id":null, "type":"m"}', "a", b'{"id":"a","type":"m"}'),
    (b'{ "type":"m", "id":"b" }', "a", b'{"id":"a", "type":"m" }'),
    (b"{ }", "a", b'{"id":"a" }'),
    (b"{}", 'q"', b'{"id":"q\\""}'),
    (b'{"id":"a","id":"b"}', "c", b'{"id":"a","id":"b"}'),
    (b'{"id":"a","id":"b"}', None, b'{"id":"a","id":"b"}'),
    (b'{"id":"a","type":"m"}', None, b'{"type":"m"}'),
]


@pytest.mark.parametrize(("raw", "name", "want"), NAMED)
def test_an_id_is_replaced_or_removed(raw: bytes, name: str | None, want: bytes) -> None:
    """An item with two ids is left unchanged: readers disagree on which one counts."""
    draft, item = Draft(read_request(b"{}", {})), read_item(raw)
    if name is None:
        draft.leave_out("id", item)
    else:
        draft.set_id(item, name)

    assert draft.text(item) == want


@pytest.mark.parametrize(
    ("kind", "call_id", "want"),
    [
        ("function_call", "call_1", True),
        ("function_call", "", True),
        ("computer_call", "call_1", True),
        ("mcp_approval_request", "", True),
        ("program", "", True),
        ("call_of_the_future_call", "call_1", True),
        ("tool_search_call", "", True),
        ("message", "", False),
        ("web_search_call", "", False),
        ("mcp_call", "", False),
    ],
)
def test_some_items_need_an_output(kind: str, call_id: str, want: bool) -> None:
    """A call of any type with a `call_id` needs an output, and so do a few other known types."""
    assert needs_output(kind, call_id) is want
