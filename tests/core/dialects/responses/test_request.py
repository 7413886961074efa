"""A request is read for what it says, however it is spelled."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from reasoning_replay.core.dialects.responses.request import ITEMS_MAX, Request, read_request
from reasoning_replay.core.history.items import Role
from reasoning_replay.core.history.turns import LINK_BYTES, TAIL_LINKS
from reasoning_replay.core.wire.json_spans import TooMany, Unspliceable

from tests.core.documents import Written, objects, spaces, values
from tests.core.world import Item, call, message, output, reasoning, user


def read(**fields: Any) -> Request:
    """Read a request of these fields."""
    return read_request(json.dumps(fields).encode(), {})


ASK, MORE = user("Weather?"), user("And tomorrow?")
R1, C1 = reasoning("1"), call("1")
HISTORY = [ASK, R1, C1, output(C1), message("1", "Sunny."), MORE]


def test_every_item_has_its_place() -> None:
    """Its bytes in the body, and how much the client had said before it."""
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


def test_fields_are_given_raw_and_as_text() -> None:
    """Raw as spelled, text as meant; absent and wrongly typed is nothing."""
    request = read_request(b'{"model":"\\u006d", "n":1.0e0}', {})

    assert (request.model, request.text("model"), request.raw("model")) == ("m", "m", b'"\\u006d"')
    assert (request.raw("n"), request.text("n")) == (b"1.0e0", "")
    assert (request.raw("x"), request.text("x")) == (b"", "")


@pytest.mark.parametrize("model", [None, 5, ["m"], {"m": 1}])
def test_a_model_of_another_type_is_unknown(model: object) -> None:
    """That is for upstream to refuse."""
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
def test_what_cannot_be_read_for_certain_is_refused(body: bytes) -> None:
    """The caller forwards it as it is: upstream has its own words for it."""
    with pytest.raises(Unspliceable):
        read_request(body, {})


def test_text_beyond_ascii_is_read() -> None:
    """UTF-8 in any script, at the right place."""
    body = '{"é":1,"input":[{"role":"user","content":"日本😀"},{"id":"x"}]}'.encode()
    request = read_request(body, {})

    assert request.places[0].item.text == "日本😀"
    assert [body[p.item.start : p.item.end] for p in request.places][1] == b'{"id":"x"}'
    assert request.links == read(input="日本😀").links


def test_half_a_character_in_a_text_is_read() -> None:
    """JavaScript writes lone surrogates where it cut a string; every place stays what it was."""
    body = b'{"input":[{"role":"user","content":"a\\ud83d"},{"id":"x\\udc00"}], "n":1.0e0}'
    request = read_request(body, {})
    items = [body[place.item.start : place.item.end] for place in request.places]

    assert items == [b'{"role":"user","content":"a\\ud83d"}', b'{"id":"x\\udc00"}']
    assert request.places[0].item.text == "a\ufffd"
    assert len(request.body) == len(body)


def without_client_items(request: Request) -> bool:
    """Tell whether nothing was said."""
    return not request.places and not request.links and len(request.chains) == 1


@pytest.mark.parametrize("given_input", [None, 5, True, {}, "", []])
def test_an_input_that_is_neither_text_nor_list_says_nothing(given_input: object) -> None:
    """Nor does an empty one, or none at all."""
    assert without_client_items(read(input=given_input))
    assert without_client_items(read())


@pytest.mark.parametrize("odd", [None, 5, "x", [], [[1], [2]], {}, {"type": 5}, {"role": []}])
def test_odd_items_are_what_the_client_said(odd: object) -> None:
    """They count as said, and cost nothing."""
    request = read(input=[ASK, odd, MORE])

    assert [place.item.role for place in request.places] == [Role.CLIENT] * 3
    assert len(request.links) == 3


STATEFUL = [
    pytest.param({}, False, id="neither"),
    pytest.param({"previous_response_id": None, "conversation": None}, False, id="null"),
    pytest.param({"previous_response_id": "resp_1"}, True, id="previous-response"),
    pytest.param({"conversation": "conv_1"}, True, id="conversation"),
    pytest.param({"conversation": {"id": "conv_1"}}, True, id="conversation-object"),
]


@pytest.mark.parametrize(("fields", "stateful"), STATEFUL)
def test_history_that_lies_with_upstream_is_unknown(
    fields: dict[str, object], *, stateful: bool
) -> None:
    """What had been said before cannot be told from such a request."""
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
def test_defaults_are_the_apis(
    fields: dict[str, object], *, stores: bool, background: bool
) -> None:
    """A response is stored and answered at once unless it is said otherwise."""
    request = read(**fields)

    assert (request.stores, request.is_background) == (stores, background)


def test_the_conversations_name_comes_from_headers_or_body() -> None:
    """One name, wherever the client writes it."""
    named = read(prompt_cache_key="abc")

    assert named.hint == read_request(b"{}", {"session-id": "abc"}).hint != b""
    assert (read().hint, read(prompt_cache_key=5).hint) == (b"", b"")
    assert named.context().hint == named.hint


def chain(items: list[Item] | str, **fields: Any) -> list[bytes]:
    """Return the chain of a history."""
    return read(input=items, **fields).chains


SPELLINGS = [
    pytest.param("Weather?", [ASK], id="string"),
    pytest.param([ASK], [{"type": "message", **ASK}], id="typed"),
    pytest.param([ASK], [user([{"type": "input_text", "text": "Weather?"}])], id="parts"),  # type: ignore[arg-type]
    pytest.param(HISTORY, [ASK, C1, output(C1), MORE], id="what-the-model-said-is-left-out"),
    pytest.param(
        [output(C1)], [output(C1) | {"call_id": "call_0", "id": "fco_1"}], id="calls-numbered-anew"
    ),
    pytest.param([ASK], [{"role": "system", "content": "x"}, ASK], id="system"),
    pytest.param([ASK], [ASK, {"role": "developer", "content": "x"}], id="developer"),
    pytest.param([ASK], [ASK, {"id": "rs_1"}], id="reference"),
]


@pytest.mark.parametrize(("one", "other"), SPELLINGS)
def test_one_history_has_one_chain(one: list[Item] | str, other: list[Item] | str) -> None:
    """Only what users and tools said is in it, however it is sent."""
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
    """The digest at its end is another one."""
    assert chain([ASK, MORE])[-1] != chain(other)[-1]


FRAMES = [
    pytest.param({}, {"instructions": ""}, True, id="empty-is-none"),
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
        id="the-roles-mean-the-same",
    ),
    pytest.param(
        {"input": [{"role": "system", "content": "a"}]},
        {"input": [{"role": "system", "content": "b"}]},
        False,
        id="system",
    ),
    pytest.param({"input": [ASK]}, {"input": [MORE]}, True, id="what-is-said-is-not-in-it"),
]


@pytest.mark.parametrize(("one", "other", "same"), FRAMES)
def test_the_frame_is_what_the_application_sets(
    one: dict[str, Any], other: dict[str, Any], *, same: bool
) -> None:
    """Instructions, system and developer messages; b"" when there are none."""
    assert (read(**one).frame == read(**other).frame) is same
    assert read().frame == b""
    assert read(**one).context().frame == read(**one).frame


@given(st.lists(st.sampled_from([ASK, MORE, R1, C1, output(C1)]), max_size=14))
@settings(max_examples=60, deadline=None)
def test_the_context_at_a_depth_is_that_of_the_history_up_to_it(items: list[Item]) -> None:
    """What a turn was told is found again in every longer history that goes on from it."""
    whole = read(input=items)

    assert len(whole.chains) == len(whole.links) + 1
    assert all(len(link) == LINK_BYTES for link in whole.links)
    for n, place in enumerate(whole.places):
        context, told = whole.context(place), read(input=items[:n]).context()
        left_out = {"answered": b"", "whole": b""}
        assert structs.replace(context, **left_out) == structs.replace(told, **left_out)
        assert whole.whole(place) == told.whole
        assert context.depth == place.depth
        assert context.tail == b"".join(whole.links[: place.depth][-TAIL_LINKS:])


@given(objects(values), spaces, st.lists(objects(values), max_size=2))
@settings(max_examples=25, deadline=None)
def test_any_object_is_a_request(written: Written, space: bytes, items: list[Written]) -> None:
    """Whatever is in it, reading it does not raise, and every byte is where it is said to be."""
    listed = space + b",".join(item.text for item in items)
    body = written.text.rstrip()[:-1] + (b"," if written.parts else b"")
    body += b'"input":[' + listed + b"]}"
    request = read_request(body, {})

    assert [place.item.raw for place in request.places] == [item.text for item in items]
    assert tuple(request.raw(key) for key in written.value) == written.parts


def test_a_request_of_very_many_items_is_not_read() -> None:
    """Nobody talks for that long; to read them all would hold up everybody else."""
    one = b'{"role":"user","content":"hi"}'
    with pytest.raises(TooMany):
        read_request(b'{"input":[' + (one + b",") * ITEMS_MAX + one + b"]}", {})
    assert len(read_request(b'{"input":[' + (one + b",") * 99 + one + b"]}", {}).places) == 100


@given(st.lists(st.sampled_from([ASK, MORE, C1, output(C1)]), max_size=9))
@settings(max_examples=30, deadline=None)
def test_the_newest_chain_is_the_same_alone_and_among_all(items: list[Item]) -> None:
    """Most requests need no other of them, so it is made by itself."""
    request = read(input=items)
    alone = request.context().chain

    assert alone == request.chains[-1]
    assert request.context().chain == alone
