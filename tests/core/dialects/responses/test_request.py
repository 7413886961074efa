"""Request: a request body and its items, read in the same way however they are spelled."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from reasoning_replay.core.dialects.responses.request import Request, read_request
from reasoning_replay.core.history.items import Role
from reasoning_replay.core.history.turns import LINK_BYTES, TAIL_LINKS
from reasoning_replay.core.wire.json_spans import Unspliceable

from tests.core.documents import Written, objects, spaces, values
from tests.core.world import Item, call, message, output, reasoning, user
from tests.fast_lane import examples


def chains(request: Request) -> list[bytes]:
    """Return the digest of the chain before each link, and after the last one."""
    return [request.chain(depth) for depth in range(len(request.said) + 1)]


def read(**fields: Any) -> Request:
    """Read a request with these fields."""
    return read_request(json.dumps(fields).encode(), {})


ASK, MORE = user("Weather?"), user("And tomorrow?")
R1, C1 = reasoning("1"), call("1")
HISTORY = [ASK, R1, C1, output(C1), message("1", "Sunny."), MORE]


def test_every_item_has_a_range_and_a_depth() -> None:
    """The range locates its bytes; the depth counts the earlier items of the client."""
    body = b'{"model":"m", "input" : [ {"role":"user","content":"a"} ,\n{"type":"reasoning"},{}]}'
    request = read_request(body, {})

    assert request.body is body
    assert [body[p.item.start : p.item.end] for p in request.places] == [
        b'{"role":"user","content":"a"}',
        b'{"type":"reasoning"}',
        b"{}",
    ]
    assert [p.item.raw for p in request.places] == [
        body[p.item.start : p.item.end] for p in request.places
    ]
    assert [p.depth for p in request.places] == [0, 1, 1]


def test_fields_are_read_raw_and_as_text() -> None:
    """`raw` returns the bytes and `text` the decoded string; absent and wrong types are empty."""
    request = read_request(b'{"model":"\\u006d", "n":1.0e0}', {})

    assert (request.model, request.text("model"), request.raw("model")) == ("m", "m", b'"\\u006d"')
    assert (request.raw("n"), request.text("n")) == (b"1.0e0", "")
    assert (request.raw("x"), request.text("x")) == (b"", "")


@pytest.mark.parametrize("model", [None, 5, ["m"], {"m": 1}])
def test_a_model_of_another_type_is_unknown(model: object) -> None:
    """The request is left to upstream to refuse."""
    assert read(model=model).model == ""


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"[]", id="array"),
        pytest.param(b'{"input":[{}]', id="cut"),
        pytest.param(b'{"input":[],"input":[]}', id="key-twice"),
        pytest.param(b'{"input":"\xff"}', id="not-utf-8"),
        pytest.param(b'{"x":["\xc3("]}', id="not-utf-8-within"),
        pytest.param(b'{"input":[' + b"[" * 99_999 + b"]" * 99_999 + b"]}", id="too-deep"),
    ],
)
def test_an_ambiguous_body_raises(body: bytes) -> None:
    """The caller forwards the body unchanged, and upstream reports its own error."""
    with pytest.raises(Unspliceable):
        read_request(body, {})


def test_text_beyond_ascii_is_read() -> None:
    """UTF-8 of any script is decoded, and byte ranges stay correct."""
    body = '{"é":1,"input":[{"role":"user","content":"日本😀"},{"id":"x"}]}'.encode()
    request = read_request(body, {})

    assert request.places[0].item.text == "日本😀"
    assert [body[p.item.start : p.item.end] for p in request.places][1] == b'{"id":"x"}'
    assert request.said == read(input="日本😀").said


def test_half_a_character_in_a_text_is_read() -> None:
    """JavaScript writes lone surrogates where it splits a string; all byte ranges stay correct."""
    body = b'{"input":[{"role":"user","content":"a\\ud83d"},{"id":"x\\udc00"}], "n":1.0e0}'
    request = read_request(body, {})
    items = [body[place.item.start : place.item.end] for place in request.places]

    assert items == [b'{"role":"user","content":"a\\ud83d"}', b'{"id":"x\\udc00"}']
    assert request.places[0].item.text == "a\ufffd"
    assert len(request.body) == len(body)


def without_client_items(request: Request) -> bool:
    """Return whether the request has no items."""
    return not request.places and not request.said and len(chains(request)) == 1


@pytest.mark.parametrize("given_input", [None, 5, True, {}, "", []])
def test_an_input_that_is_neither_text_nor_list_has_no_items(given_input: object) -> None:
    """An empty or missing input has no items either."""
    assert without_client_items(read(input=given_input))
    assert without_client_items(read())


@pytest.mark.parametrize("odd", [None, 5, "x", [], [[1], [2]], {}, {"type": 5}, {"role": []}])
def test_odd_items_count_as_items_of_the_client(odd: object) -> None:
    """They are part of the history, and reading them does not raise."""
    request = read(input=[ASK, odd, MORE])

    assert [place.item.role for place in request.places] == [Role.CLIENT] * 3
    assert len(request.said) == 3


STATEFUL = [
    pytest.param({}, False, id="neither"),
    pytest.param({"previous_response_id": None, "conversation": None}, False, id="null"),
    pytest.param({"previous_response_id": "resp_1"}, True, id="previous-response"),
    pytest.param({"conversation": "conv_1"}, True, id="conversation"),
    pytest.param({"conversation": {"id": "conv_1"}}, True, id="conversation-object"),
]


@pytest.mark.parametrize(("fields", "stateful"), STATEFUL)
def test_a_history_stored_at_upstream_is_unknown(
    fields: dict[str, object], *, stateful: bool
) -> None:
    """The request does not contain the earlier items."""
    request = read(input=[ASK], **fields)

    assert request.is_stateful is stateful
    assert request.context().is_known is not stateful


@pytest.mark.parametrize(
    ("fields", "stores", "background"),
    [
        ({}, True, False),
        ({"store": None, "background": None}, True, False),
        ({"store": True, "background": True}, True, True),
        ({"store": False, "background": False}, False, False),
        ({"store": "false", "background": "true"}, True, False),
    ],
)
def test_defaults_are_those_of_the_api(
    fields: dict[str, object], *, stores: bool, background: bool
) -> None:
    """By default a response is stored and is not created in the background."""
    request = read(**fields)

    assert (request.stores, request.is_background) == (stores, background)


def chain(items: list[Item] | str, **fields: Any) -> list[bytes]:
    """Return the chain of a history."""
    return chains(read(input=items, **fields))


SPELLINGS = [
    pytest.param("Weather?", [ASK], id="string"),
    pytest.param([ASK], [{"type": "message", **ASK}], id="typed"),
    pytest.param([ASK], [user([{"type": "input_text", "text": "Weather?"}])], id="parts"),  # type: ignore[arg-type]
    pytest.param(HISTORY, [ASK, C1, output(C1), MORE], id="model-items-are-left-out"),
    pytest.param(
        [output(C1)], [output(C1) | {"call_id": "call_0", "id": "fco_1"}], id="calls-renumbered"
    ),
    pytest.param([ASK], [{"role": "system", "content": "x"}, ASK], id="system"),
    pytest.param([ASK], [ASK, {"role": "developer", "content": "x"}], id="developer"),
    pytest.param([ASK], [ASK, {"id": "rs_1"}], id="reference"),
]


@pytest.mark.parametrize(("one", "other"), SPELLINGS)
def test_one_history_has_one_chain(one: list[Item] | str, other: list[Item] | str) -> None:
    """The chain covers only items of users and tools, however they are spelled."""
    assert chain(one) == chain(other)
    assert chain(one, instructions="x") == chain(one)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param([MORE, ASK], id="order"),
        pytest.param([ASK], id="shorter"),
        pytest.param([ASK, ASK, MORE], id="repeated"),
        pytest.param([user("Weather?And tomorrow?")], id="run-together"),
        pytest.param([ASK, user("And today?")], id="other-words"),
    ],
)
def test_another_history_has_another_chain(other: list[Item]) -> None:
    """The last digest of the chain differs."""
    assert chain([ASK, MORE])[-1] != chain(other)[-1]


FRAMES = [
    pytest.param({}, {"instructions": ""}, True, id="empty-counts-as-absent"),
    pytest.param({"instructions": "a"}, {"instructions": "b"}, False, id="instructions"),
    pytest.param({}, {"instructions": "a"}, False, id="none"),
    pytest.param(
        {"input": [{"role": "system", "content": "a"}]},
        {"input": [{"role": "system", "content": [{"type": "input_text", "text": "a"}]}]},
        True,
        id="parts",
    ),
    pytest.param(
        {"input": [{"role": "system", "content": "a"}]},
        {"input": [ASK, {"role": "developer", "content": "a"}]},
        True,
        id="roles-are-equivalent",
    ),
    pytest.param(
        {"input": [{"role": "system", "content": "a"}]},
        {"input": [{"role": "system", "content": "b"}]},
        False,
        id="system",
    ),
    pytest.param({"input": [ASK]}, {"input": [MORE]}, True, id="user-items-are-not-in-it"),
]


@pytest.mark.parametrize(("one", "other", "same"), FRAMES)
def test_the_frame_covers_the_instructions_of_the_application(
    one: dict[str, Any], other: dict[str, Any], *, same: bool
) -> None:
    """The frame covers instructions, system and developer messages; it is b"" without them."""
    assert (read(**one).frame == read(**other).frame) is same
    assert read().frame == b""
    assert read(**one).context().frame == read(**one).frame


@given(st.lists(st.sampled_from([ASK, MORE, R1, C1, output(C1)]), max_size=14))
@examples(60)
def test_the_context_at_a_place_is_that_of_the_shorter_history(items: list[Item]) -> None:
    """The context of an earlier turn is found again in every longer history that continues it."""
    whole = read(input=items)

    assert len(chains(whole)) == len(whole.said) + 1
    links = [said[:LINK_BYTES] for said in whole.said]
    for n, place in enumerate(whole.places):
        context, told = whole.context(place), read(input=items[:n]).context()
        left_out = {"model_traces": b"", "whole": b""}
        assert structs.replace(context, **left_out) == structs.replace(told, **left_out)
        assert whole.whole(place) == told.whole
        assert context.depth == place.depth
        assert context.tail == b"".join(links[: place.depth][-TAIL_LINKS:])


@given(objects(values), spaces, st.lists(objects(values), max_size=2))
@examples(25)
def test_any_object_is_a_request(written: Written, space: bytes, items: list[Written]) -> None:
    """Reading never raises, and every byte range is correct."""
    listed = space + b",".join(item.text for item in items)
    body = written.text.rstrip()[:-1] + (b"," if written.parts else b"")
    body += b'"input":[' + listed + b"]}"
    request = read_request(body, {})

    assert [place.item.raw for place in request.places] == [item.text for item in items]
    assert tuple(request.raw(key) for key in written.value) == written.parts


@given(st.lists(st.sampled_from([ASK, MORE, C1, output(C1)]), max_size=9))
@examples(30)
def test_the_newest_chain_is_the_same_computed_alone(items: list[Item]) -> None:
    """Most requests need only the newest chain, so it can be computed without the others."""
    request = read(input=items)
    alone = request.context().chain

    assert alone == request.chain(len(request.said))
    assert request.context().chain == alone
