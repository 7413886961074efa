"""Digests of items: the same content has the same digest, however a client writes it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reasoning_replay.core.dialects.responses.items import ResponsesItem, read_item
from reasoning_replay.core.wire.digest import digest

from tests.core.documents import Written, objects, scalars
from tests.fast_lane import examples


def item(**fields: object) -> ResponsesItem:
    """Read an item with these fields."""
    return read_item(json.dumps(fields).encode())


PART = {"type": "output_text", "text": "x"}


def said(content: object, **more: object) -> ResponsesItem:
    """Read an assistant's message."""
    return item(**{"role": "assistant", "content": content, **more})


def called(**more: object) -> ResponsesItem:
    """Read a call."""
    return item(**{"type": "function_call", "name": "f", "arguments": '{"a":1,"b":[2.5]}', **more})


REFUSAL = {"type": "refusal", "refusal": "I can't."}
ANNOTATED = PART | {"annotations": [{"type": "url_citation"}], "logprobs": []}
HELLO = [{"type": "output_text", "text": "Hel"}, {"type": "output_text", "text": "lo  you\n"}]

# (item as upstream emitted it, item as a client sends it)
SAME_CONTENT = [
    pytest.param(said("Hello you"), said(HELLO), id="parts-joined"),
    pytest.param(said([PART]), said([ANNOTATED]), id="annotations-dropped"),
    pytest.param(said([PART]), said([{"type": "text", "text": "x"}]), id="part-type-renamed"),
    pytest.param(said("a  b\n"), said(" a b"), id="white-space-folded"),
    pytest.param(said("It\u2019s 7\u2026"), said("It's 7..."), id="typography-folded"),
    pytest.param(said([PART]), said([PART, REFUSAL]), id="refusal-after-its-text"),
    pytest.param(
        said([REFUSAL]), said([REFUSAL | {"refusal": "I can\u2019t. "}]), id="refusal-folded"
    ),
    pytest.param(
        said([REFUSAL]),
        said([REFUSAL | {"refusal": "I "}, {"type": "refusal", "refusal": "can't."}]),
        id="refusals-joined",
    ),
    pytest.param(said("x", id="msg_1", status="completed"), said("x"), id="id-dropped"),
    pytest.param(said("é"), read_item('{"role":"assistant","content":"é"}'.encode()), id="escapes"),
    pytest.param(called(), called(arguments='{ "a" : 1, "b" : [2.50] }'), id="spacing"),
    pytest.param(called(), called(arguments='{"b":[2.5],"a":1}'), id="key-order"),
    pytest.param(called(), called(arguments={"a": 1, "b": [2.5]}), id="not-encoded"),
    pytest.param(called(), called(arguments=json.dumps('{"a":1,"b":[2.5]}')), id="encoded-twice"),
    pytest.param(
        called(), called(arguments=json.dumps(json.dumps('{"a":1,"b":[2.5]}'))), id="encoded-thrice"
    ),
    pytest.param(called(), called(call_id="c", id="fc_1", status="completed"), id="ids"),
    pytest.param(
        item(type="web_search_call", action={"query": "x", "type": "search"}),
        item(type="web_search_call", action={"type": "search", "query": "x"}, id="ws_1"),
        id="action",
    ),
]
OTHER_CONTENT = [
    pytest.param(said("x"), said("y"), id="text"),
    pytest.param(said("ab"), said("a b"), id="word-boundary"),
    pytest.param(said([REFUSAL]), said("I can't."), id="refused"),
    pytest.param(said([REFUSAL]), said([REFUSAL | {"refusal": "I won't."}]), id="refusal"),
    pytest.param(called(), called(arguments='{"a":2,"b":[2.5]}'), id="argument"),
    pytest.param(called(), called(name="g"), id="name"),
    pytest.param(called(), called(type="custom_tool_call"), id="type"),
    pytest.param(called(), called(arguments=None), id="no-arguments"),
    pytest.param(called(arguments="x"), called(arguments=None, input="x"), id="other-field"),
    pytest.param(called(arguments="not json"), called(arguments="not  json"), id="free-text"),
    pytest.param(
        item(type="shell_call", action={"commands": ["ls"]}),
        item(type="shell_call", action={"commands": ["rm"]}),
        id="action",
    ),
    pytest.param(
        item(type="file_search_call", queries=["a"]),
        item(type="file_search_call", queries=["b"]),
        id="queries",
    ),
    pytest.param(item(type="program", code="a"), item(type="program", code="b"), id="code"),
    pytest.param(
        item(type="apply_patch_call", operation={"path": "a"}),
        item(type="apply_patch_call", operation={"path": "b"}),
        id="operation",
    ),
]


@pytest.mark.parametrize(("emitted", "sent"), SAME_CONTENT)
def test_content_is_the_same_in_every_spelling(emitted: ResponsesItem, sent: ResponsesItem) -> None:
    """Two spellings of the same content have the same digest."""
    assert emitted.content == sent.content != b""


@pytest.mark.parametrize(("one", "other"), OTHER_CONTENT)
def test_other_content_has_another_digest(one: ResponsesItem, other: ResponsesItem) -> None:
    """Any change of the text or the call changes the digest."""
    assert b"" != one.content != other.content != b""


@pytest.mark.parametrize(
    "empty",
    [
        said(""),
        said(" \n"),
        said([]),
        said(None),
        said([{"type": "refusal", "refusal": None}]),
        said([{"type": "of_the_future", "refusal": "x"}]),
        said(["x"]),
        item(type="web_search_call", id="ws_1"),
        item(),
    ],
)
def test_an_item_without_content_has_no_digest(empty: ResponsesItem) -> None:
    """An empty item cannot be matched by its content."""
    assert empty.content == b""


def test_the_length_of_a_refusal_is_counted() -> None:
    """Long text is evidence in a match, and the text of a refusal counts as well."""
    assert (said([REFUSAL]).chars, said([PART, REFUSAL]).chars, said([]).chars) == (8, 1, 0)


@given(objects(scalars), st.booleans(), st.integers(0, 3))
@examples(60)
def test_arguments_are_equal_however_they_are_encoded(
    written: Written, ascii_only: bool, wrapped: int
) -> None:
    """A JSON round trip with sorted keys, and repeated encoding as a string, keep the digest."""
    spelled = json.dumps(written.value, ensure_ascii=ascii_only, sort_keys=True, indent=1)
    for _ in range(wrapped):
        spelled = json.dumps(spelled)

    as_sent = read_item(b'{"type":"function_call","arguments":' + spelled.encode() + b"}")
    as_emitted = item(type="function_call", arguments=written.text.decode())
    assert as_sent.content == as_emitted.content


USER = {"role": "user", "content": "hi"}
IMAGE = {"type": "input_image", "image_url": "data:"}
OUTPUT = {"type": "function_call_output", "call_id": "c", "output": "sunny"}

SAME_SAID = [
    pytest.param(USER, USER | {"type": "message", "id": "msg_1"}, id="typed"),
    pytest.param(USER, USER | {"content": [{"type": "input_text", "text": "hi"}]}, id="parts"),
    pytest.param(USER, USER | {"content": " hi\u200b\n"}, id="white-space"),
    pytest.param(
        USER | {"content": "\u201ca\u201d &amp; b"}, USER | {"content": '"a" & b'}, id="folded"
    ),
    pytest.param(OUTPUT, OUTPUT | {"call_id": "d", "id": "fco_1"}, id="calls-renumbered"),
    pytest.param(
        USER | {"content": [{"type": "refusal", "refusal": "no"}]},
        USER | {"content": [{"refusal": "no", "type": "refusal", "x": 1}]},
        id="refusal",
    ),
]
OTHER_SAID = [
    pytest.param(USER, USER | {"content": "ho"}, id="text"),
    pytest.param(USER, USER | {"content": [{"type": "input_text", "text": "hi"}, IMAGE]}, id="new"),
    pytest.param(
        USER | {"content": [IMAGE]}, USER | {"content": [IMAGE | {"detail": "low"}]}, id="image"
    ),
    pytest.param(USER | {"content": ["a"]}, USER | {"content": ["b"]}, id="odd-part"),
    pytest.param(USER | {"content": 1}, USER | {"content": 2}, id="odd-content"),
    pytest.param(OUTPUT, OUTPUT | {"output": "rain"}, id="output"),
    pytest.param(OUTPUT, OUTPUT | {"type": "custom_tool_call_output"}, id="type"),
    pytest.param({"type": "x", "a": 1}, {"type": "x", "a": 2}, id="unknown-type"),
    pytest.param({"type": "x_output", "a": 1}, {"type": "x_output", "a": 2}, id="unknown-output"),
]


@pytest.mark.parametrize(("one", "other"), SAME_SAID)
def test_client_items_have_one_digest_in_every_spelling(
    one: dict[str, object], other: dict[str, object]
) -> None:
    """The digest of a client's item is the same in another spelling."""
    assert item(**one).said == item(**other).said


@pytest.mark.parametrize(("one", "other"), OTHER_SAID)
def test_other_client_items_have_other_digests(
    one: dict[str, object], other: dict[str, object]
) -> None:
    """Any other words, parts or output make another conversation."""
    assert item(**one).said != item(**other).said


@given(st.lists(st.binary(max_size=4), max_size=4), st.lists(st.binary(max_size=4), max_size=4))
@examples(50)
def test_digests_depend_on_the_borders_of_parts(one: list[bytes], other: list[bytes]) -> None:
    """Joining the parts differently gives another digest."""
    assert (digest(*one) == digest(*other)) is (one == other)
    assert digest(b"ab", b"c") != digest(b"a", b"bc") != digest(b"abc")
