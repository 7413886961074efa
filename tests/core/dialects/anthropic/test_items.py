"""Items: the content blocks of a message, as matching compares them."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reasoning_replay.core.dialects.anthropic.items import (
    BlockPlace,
    MessagesItem,
    blob_digest,
    read_block,
    read_message,
)
from reasoning_replay.core.history.items import Role

TOOL_ID = "toolu_01QiEjkBaC9vDtcLcogRZGdj"
CALL = {"type": "tool_use", "id": TOOL_ID, "name": "add", "input": {"a": 1, "b": "x"}}
THOUGHT = {"type": "thinking", "thinking": "", "signature": "Eg=="}
UPLOAD = {"type": "container_upload", "file_id": "f"}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1"}
MARK = {"cache_control": {"type": "ephemeral"}}


def read(role: Any, content: Any, **more: Any) -> list[MessagesItem]:
    """Return the items of a message."""
    return read_message(json.dumps({"role": role, "content": content, **more}).encode())


def one(role: str, *blocks: Any) -> MessagesItem:
    """Return the only item of a message."""
    (item,) = read(role, list(blocks))
    return item


def test_each_block_is_an_item() -> None:
    """The type, side, id and place of each block are known."""
    result: dict[str, Any] = FOUND | {"content": []}
    blocks = [THOUGHT, {"type": "text", "text": "Hm"}, CALL, result, {"type": "redacted_thinking"}]
    raw = b' {"content" : %b , "role":"assistant"}' % json.dumps(blocks).encode()
    items = read_message(raw[1:], 1, len(raw))

    assert [(i.type, i.role, i.call_id, i.name, i.number) for i in items] == [
        ("thinking", Role.REASONING, "", "", 0),
        ("message", Role.MODEL, "", "", 1),
        ("tool_use", Role.MODEL, TOOL_ID, "add", 2),
        ("web_search_tool_result", Role.MODEL, "srvtoolu_1", "", 3),
        ("redacted_thinking", Role.REASONING, "", "", 4),
    ]
    assert [json.loads(raw[i.start : i.end]) for i in items] == blocks
    assert [i.is_anchor for i in items] == [False, True, True, True, False]
    assert not any(i.id for i in items)
    message = items[0].message
    assert message is not None
    assert raw[message.content_start : message.content_end] == json.dumps(blocks).encode()
    assert [json.loads(raw[a:b]) for a, b in message.blocks] == blocks
    assert (message.start, message.end) == (1, len(raw))


@pytest.mark.parametrize(
    ("role", "block", "want"),
    [
        ("user", {"type": "text", "text": "Hi"}, ("message", Role.CLIENT)),
        ("user", {"type": "tool_result", "tool_use_id": "t"}, ("tool_result", Role.CLIENT)),
        ("user", {"type": "image", "source": {}}, ("image", Role.CLIENT)),
        ("user", THOUGHT, ("thinking", Role.CLIENT)),
        ("system", {"type": "text", "text": "Hi"}, ("message", Role.FRAME)),
        ("tool", {"type": "text", "text": "Hi"}, ("message", Role.CLIENT)),
        ("assistant", {"type": "fallback"}, ("fallback", Role.MODEL)),
        ("assistant", 5, ("", Role.MODEL)),
        ("assistant", {"type": 5, "id": 6}, ("", Role.MODEL)),
    ],
)
def test_blocks_of_each_side(role: str, block: Any, want: tuple[str, Role]) -> None:
    """A block of any shape is an item of the side of its message."""
    item = one(role, block)
    assert (item.type, item.role) == want
    assert (item.message is not None) == (role == "assistant")
    assert item.content
    assert item.said


@pytest.mark.parametrize(
    ("raw", "kinds"),
    [
        (b'{"role":"user"}', []),
        (b'{"content":[]}', []),
        (b'{"role":"assistant","content":null}', []),
        (b'{"role":"assistant","content":[{"type":"text","text":" \\n"}]}', []),
        (b'{"role":"assistant","content":[{"type":"text"}]}', []),
        (b'{"role":"assistant","content":""}', []),
        (b'{"role":"user","content":""}', ["message"]),
        (b'{"role":"user","role":"user","content":"x"}', [""]),
        (b"[]", [""]),
        (b"{", [""]),
    ],
)
def test_empty_and_damaged_messages(raw: bytes, kinds: list[str]) -> None:
    """Blank text of a model is no item; a message that cannot be read is one of the client."""
    items = read_message(raw)
    assert [item.type for item in items] == kinds
    assert all(item.role is Role.CLIENT and item.said for item in items)


@pytest.mark.parametrize(
    ("one_form", "other"),
    [
        ("It’s  fine", [{"type": "text", "text": "It's fine ", "citations": None}]),  # noqa: RUF001
        ([CALL], [{"name": "add", **CALL, "input": {"b": "x", "a": 1.0}, **MARK}]),
        ([CALL | {"input": {"n": [0.5, 2.0]}}], [CALL | {"input": {"n": [0.5, 2]}}]),
        ([UPLOAD], [UPLOAD | MARK]),
        (
            [FOUND | {"content": "5"}],
            [FOUND | {"content": [{"type": "text", "text": "5", "citations": None}]}],
        ),
        (
            [FOUND | {"content": [{"url": "u", "page_age": None}]}],
            [FOUND | {"content": [{"url": "u"}], "is_error": None}],
        ),
        (
            [FOUND | {"content": {"a": {"n": 1.0, "x": None}}}],
            [FOUND | {"content": {"a": {"n": 1}}}],
        ),
    ],
)
def test_the_same_content_in_any_form(one_form: Any, other: Any) -> None:
    """Spelling, cache marks, the form of `content` and null members of a result do not matter."""
    (first,), (second,) = read("assistant", one_form), read("assistant", other)
    assert first.content == second.content
    assert first.trace == second.trace


@pytest.mark.parametrize(
    ("one_form", "other"),
    [
        ([CALL], [CALL | {"input": {}}]),
        ([CALL], [CALL | {"name": "sub"}]),
        ([CALL], [CALL | {"type": "server_tool_use"}]),
        ([CALL | {"input": {"a": None}}], [CALL | {"input": {}}]),
        ([FOUND | {"content": "5"}], [FOUND | {"content": "6"}]),
        ([FOUND | {"content": []}], [FOUND | {"content": None}]),
        ("Yes", "No"),
    ],
)
def test_different_content(one_form: Any, other: Any) -> None:
    """Type, name and input of a call count, and what a tool returned."""
    (first,), (second,) = read("assistant", one_form), read("assistant", other)
    assert first.content != second.content


def test_a_random_id_is_the_trace_of_a_call() -> None:
    """A call and its result share the id, but not the trace; a counted id distinguishes nothing."""
    call, other = one("assistant", CALL), one("assistant", CALL | {"input": {}})
    result = {"type": "mcp_tool_result", "tool_use_id": TOOL_ID}
    assert call.trace == other.trace != one("assistant", result).trace
    counted = one("assistant", CALL | {"id": "call_0"})
    assert counted.trace == counted.content[:8]


@pytest.mark.parametrize(
    ("one_form", "other"),
    [
        ("Hi there", [{"type": "text", "text": "Hi  there", **MARK}]),
        (
            [{"type": "tool_result", "tool_use_id": "a", "content": "5"}],
            [
                {
                    "type": "tool_result",
                    "tool_use_id": "b",
                    "content": [{"type": "text", "text": "5"}],
                }
            ],
        ),
        (
            [{"type": "tool_result", "content": [{"type": "image", "source": 1}]}],
            [{"type": "tool_result", "content": [{"type": "image", **MARK, "source": 1}]}],
        ),
        ([{"type": "image", "source": 1}], [{"type": "image", "source": 1, **MARK}]),
    ],
)
def test_the_client_says_the_same(one_form: Any, other: Any) -> None:
    """Ids of calls, cache marks and the form of `content` are not part of what is said."""
    said = []
    for content in (one_form, other):
        compact = json.dumps(content, separators=(",", ":")).encode()
        (item,) = read_message(b'{"role":"user","content":%b}' % compact)
        said.append(item.said)
    assert said[0] == said[1]


def test_a_mark_that_cannot_be_removed_stays() -> None:
    """A repeated key makes a block unclear."""
    raw = b'{"type":"image","cache_control":1,"cache_control":2}'
    assert read_block(raw, BlockPlace(role=Role.CLIENT)).said


def test_length_of_content() -> None:
    """The length of text, or of the input of a call without its syntax."""
    assert one("assistant", {"type": "text", "text": " four "}).chars == 4
    assert one("user", {"type": "text", "text": "four"}).chars == 4
    assert one("user", {"type": "text"}).chars == 0
    assert one("assistant", CALL | {"input": {"a": "bc"}}).chars == 3


def test_signatures_and_redacted_data_identify_reasoning() -> None:
    """A block without one is known by its bytes; a block that is not reasoning has no blob."""
    redacted = {"type": "redacted_thinking", "data": "Eg=="}
    assert one("assistant", THOUGHT).blob == one("assistant", redacted).blob
    assert one("assistant", THOUGHT).blob == blob_digest(b'"Eg=="') != b""
    made = ({"type": "thinking", "thinking": words} for words in ("x", "x", "y"))
    unsigned = [one("assistant", block).blob for block in made]
    assert unsigned[0] == unsigned[1] != unsigned[2]
    assert one("assistant", CALL).blob == b""


def test_values_that_cannot_be_read_again_are_kept() -> None:
    """Damaged input never raises."""
    deep = b"[" * 900 + b"null" + b"]" * 900
    assert read_block(b'{"type":"mcp_tool_result","content":%b}' % deep).content
    assert read_block(b'{"type":"tool_use","input":1.0').content
    assert read_block(b'{"type":"tool_use","input":"1.5.0"}').content


@given(st.binary(max_size=60) | st.text(max_size=40).map(str.encode))
def test_no_bytes_make_parsing_fail(raw: bytes) -> None:
    """Every property of every item can be read."""
    for item in [*read_message(raw), read_block(raw)]:
        assert (item.content, item.said, item.trace) == (item.content, item.said, item.trace)
        assert item.chars == item.chars >= 0
        assert item.blob == b""
