"""Binding: the digest of what a model binds its reasoning to."""

import json
from typing import Any

import pytest
from reasoning_replay.core.dialects.anthropic.binding import (
    NO_BLOCK,
    Binding,
    after,
    binding_of,
    blocks_of,
    last_of,
    normal,
    own_of,
    prefix_of,
    read_binding,
    start_of,
)
from reasoning_replay.core.dialects.anthropic.items import blob_digest
from reasoning_replay.core.dialects.anthropic.request import read_request

from tests.core.dialects.anthropic.streams import THOUGHT, call, text, thought

MARK = {"cache_control": {"type": "ephemeral"}}
RESULT = {"type": "tool_result", "tool_use_id": "toolu_a", "content": "5"}
TOOL = {"name": "a", "input_schema": {"type": "object", "content": "x", "cache_control": None}}
CLEARED = {"role": "system", "content": "Hurry.", "clear_at": "next_user_message"}
BODY: dict[str, Any] = {
    "model": "claude-fable-5-1",
    "system": "Be good.",
    "tools": [TOOL],
    "messages": [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": [THOUGHT, text("Hm"), call("a", x=1, y=None)]},
        {"role": "user", "content": [RESULT]},
    ],
}


def prefix(body: dict[str, Any] = BODY, **more: Any) -> bytes:
    """Return the digest of a request."""
    return prefix_of(read_request(json.dumps(body | more).encode(), {}))


def edited(index: int, content: Any) -> dict[str, Any]:
    """Return the request with other content in one message."""
    messages = list(BODY["messages"])
    messages[index] = messages[index] | {"content": content}
    return {"messages": messages}


@pytest.mark.parametrize(
    "change",
    [
        {"model": "claude-opus-5-5", "max_tokens": 5, "thinking": {"type": "adaptive"}},
        {"system": [text("Be good.", **MARK)]},
        {"tools": [TOOL | MARK]},
        edited(0, [text("Hi", citations=None, **MARK)]),
        edited(2, [RESULT | {"content": [text("5", **MARK)]} | MARK]),
        {"messages": [{"role": "system", "output_config": {"effort": "low"}}, *BODY["messages"]]},
        {"messages": [*BODY["messages"], {"role": "system", "content": [], "output_config": {}}]},
        edited(1, [dict(reversed(THOUGHT.items())), text("Hm"), call("a", x=1, y=None) | MARK]),
    ],
)
def test_what_is_no_part_of_the_prefix(change: dict[str, Any]) -> None:
    """
    Cache marks, null members, the order of members, and the form of text do not count.

    Neither does a message that only sets the effort.
    """
    assert prefix(**change) == prefix()


@pytest.mark.parametrize(
    "change",
    [
        {"system": "Be good!"},
        {"system": None},
        {"tools": []},
        {"tools": [TOOL | {"input_schema": {"type": "object"}}]},
        {"messages": BODY["messages"][:2]},
        edited(0, "Hi "),
        edited(1, [text("Hm"), call("a", x=1, y=None)]),
        edited(1, [THOUGHT, text("Hm"), call("a", y=None, x=1)]),
        edited(1, [THOUGHT, text("Hm"), call("a", x=1)]),
        edited(2, [RESULT | {"content": "6"}]),
        {"messages": [*BODY["messages"], {"role": "system", "content": "Hurry."}]},
        {"messages": [*BODY["messages"], CLEARED]},
        edited(2, [RESULT | {"content": 6}]),
    ],
)
def test_what_is_a_part_of_the_prefix(change: dict[str, Any]) -> None:
    """Every other byte counts: text, reasoning, the input of a call, and a tool's schema."""
    assert prefix(**change) != prefix()


def test_a_null_inside_what_a_tool_of_the_server_returned() -> None:
    """Libraries of clients leave out such members, or write them."""
    fetched = {"type": "web_fetch_tool_result", "tool_use_id": "srvtoolu_a"}
    page = {"type": "web_fetch_result", "content": {"type": "document", "source": {"data": None}}}
    first, second = (
        prefix(**edited(1, [fetched | {"content": page | null}]))
        for null in ({}, {"retrieved_at": None})
    )
    assert first == second
    other = page | {"content": {"type": "document", "source": {}}}
    assert prefix(**edited(1, [fetched | {"content": other}])) != first


def test_the_digest_grows_message_by_message() -> None:
    """It begins with what precedes the first message."""
    request = read_request(json.dumps(BODY).encode(), {})
    digest = start_of(request)
    assert digest + NO_BLOCK == prefix(messages=[]) == prefix(messages=None)
    for message in BODY["messages"]:
        digest = after(digest, blocks_of(json.dumps(message).encode()))
    assert prefix() == digest + last_of([blob_digest(json.dumps(THOUGHT["signature"]).encode())])


def test_reasoning_counts_by_its_last_block() -> None:
    """That one records those before it, so some may be missing from the start of a history."""
    first, last = thought("a", "S0"), thought("b", "S1")
    said = [[first, text("Hm"), last, text("So")], [text("Hm"), last, text("So")], []]
    said[2] = [last, text("Hm"), text("So")]
    assert len({prefix(**edited(1, blocks)) for blocks in said}) == 1
    assert prefix(**edited(1, [last, text("Hm"), first, text("So")])) != prefix(
        **edited(1, said[0])
    )


def test_adjacent_messages_are_one() -> None:
    """The API joins those of one role; the order of their blocks, and their roles, still count."""
    asked, said, told = BODY["messages"]
    first, *others = ({"role": "assistant", "content": [block]} for block in said["content"])
    assert prefix(messages=[asked, first, *others, told]) == prefix()
    assert prefix(messages=[asked, first, *reversed(others), told]) != prefix()
    more = {"role": "user", "content": "And?"}
    both = {"role": "user", "content": [text("Hi"), text("And?")]}
    assert prefix(messages=[asked, more]) == prefix(messages=[both])
    assert prefix(messages=[asked, more]) != prefix(messages=[asked, more | {"role": "assistant"}])


def test_a_message_without_blocks() -> None:
    """Its content is missing, or of another type."""
    assert blocks_of(b'{"role":"system","content":null}') == []
    assert blocks_of(b'{"role":"user","content":5}') == [b'{"content":5,"role":"user"}']
    assert blocks_of(b"[]") == [b"[]"]


@pytest.mark.parametrize("kind", [b"{}", b"5"])
def test_a_block_whose_type_is_no_text(kind: bytes) -> None:
    """It is a part of the prefix, as every block that is not known to be reasoning."""
    message = b'{"content":[{"type":%s}],"role":"assistant"}' % kind
    assert blocks_of(message) == [message.translate(None, b"[]")]


def test_damaged_parts_count_as_they_are() -> None:
    """A lone surrogate, or a value of another type, is a part of the prefix."""
    assert normal(b'{"content":"\\ud83d"}') != normal(b'{"content":"\\ude00"}')
    assert blocks_of(b'{"content":"\\ud83d"}') == [b'{"content":"\\ud83d"}']
    assert normal(b"5") != normal(b"6")


def test_a_binding_has_its_prefix_first() -> None:
    """The blocks of the message follow, if there are any before its last run."""
    assert own_of([]) == b""
    assert own_of([b'{"type":"text"}']) == own_of([b'{ "type" : "text" }']) != b""
    assert binding_of(b"p" * 16, b"o") == b"p" * 16 + b"o"
    assert binding_of(b"", b"o") == b""
    parts = b"h" * 16, b"l" * 16, b"o" * 16
    assert read_binding(b"".join(parts)) == Binding(*parts)
    assert read_binding(b"") is None
