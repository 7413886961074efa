"""Request: a body and its blocks, its model and its switch for reasoning."""

import json
from typing import Any

import pytest
from reasoning_replay.core.dialects.anthropic.request import (
    MessagesRequest,
    read_request,
)
from reasoning_replay.core.dialects.known_prefix import KnownPrefix
from reasoning_replay.core.dialects.request_body import ITEMS_MAX
from reasoning_replay.core.history.prefix_cache import ParsedPrefix
from reasoning_replay.core.wire.json_spans import TooMany, Unspliceable

CALL = {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {}}
HISTORY: list[dict[str, Any]] = [
    {"role": "user", "content": "Hi"},
    {
        "role": "assistant",
        "content": [{"type": "thinking"}, {"type": "text", "text": "Hm"}, CALL],
    },
    {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "1" * 20_000}],
    },
    {"role": "assistant", "content": []},
]


def read(
    messages: Any = (), prefix: ParsedPrefix[Any, KnownPrefix] | None = None, **more: Any
) -> Any:
    """Read a request with these messages."""
    top = {"model": "claude-opus-4-6", **more, "messages": messages}
    return read_request(json.dumps(top).encode(), {}, prefix)


def facts(request: MessagesRequest) -> tuple[object, ...]:
    """Return what lookup and matching use."""
    return (
        [(p.item.type, p.item.start, p.item.end, p.depth, p.heard) for p in request.places],
        request.anchors,
        request.said,
        request.has_reasoning,
        request.context(),
    )


def test_each_block_is_a_place() -> None:
    """Text and calls of the model are anchors, its reasoning is not."""
    request = read(HISTORY, system="Be good.")

    assert [p.item.type for p in request.places] == [
        *("message", "thinking", "message", "tool_use", "tool_result")
    ]
    assert request.anchors == [2, 3]
    assert request.has_reasoning
    assert request.model == "claude-opus-4-6"
    assert len(request.said) == 2
    assert request.frame
    bounds = [request.body[start:end] for start, end in request.messages]
    assert [json.loads(raw) for raw in bounds] == HISTORY


def test_a_longer_history_is_read_from_where_it_grew() -> None:
    """The result equals that of a whole parse, also after a message without any item."""
    prefix: ParsedPrefix[Any, KnownPrefix] | None = None
    history = list(HISTORY)
    for n in range(4):
        grown = read(history, prefix)
        assert facts(grown) == facts(read(history))
        if prefix is not None:
            assert grown.places[0] is prefix.parsed.places[0]
        prefix = grown.prefix()
        history += [{"role": "user", "content": f"{n}"}, {"role": "assistant", "content": "Yes"}]


def test_the_frame_is_the_text_of_system() -> None:
    """A string and text blocks with cache marks are the same; blocks of other types count."""
    text = {"type": "text", "text": "Be good."}
    marked = text | {"cache_control": {"type": "ephemeral"}}
    frames = [read(system=said).frame for said in ("Be good.", [text], [marked])]
    assert len(set(frames)) == 1
    assert frames[0] != read(system=[text, {"type": "image"}]).frame
    assert (
        read(system="").frame
        == read(system=None).frame
        == read(system=[]).frame
        == read().frame
        == b""
    )


@pytest.mark.parametrize("messages", [None, "Hi", {}, []])
def test_a_body_without_messages(messages: Any) -> None:
    """Upstream reports what is wrong with it."""
    request = read(messages)
    assert request.places == []
    assert request.messages == []


def test_the_clouds_name_the_model_in_the_path() -> None:
    """The model in the body has priority."""
    body = b'{"anthropic_version":"vertex-2023-10-16"}'
    path = "/publishers/anthropic/models/claude-opus-5:rawPredict"
    assert read_request(body, {}, path=path).model == "claude-opus-5"
    assert read_request(b'{"model":"a"}', {}, path=path).model == "a"
    assert read_request(body, {}).model == ""


@pytest.mark.parametrize(
    ("thinking", "is_off"),
    [
        ({"type": "disabled"}, True),
        ({"type": "adaptive"}, False),
        ({"type": "enabled", "budget_tokens": 1024}, False),
        ({}, False),
        (None, False),
        ("disabled", False),
    ],
)
def test_the_switch_for_reasoning(thinking: Any, is_off: bool) -> None:
    """Only `disabled` switches it off; newer models reason without the switch."""
    assert read(thinking=thinking).is_switched_off is is_off
    assert not read().is_switched_off


def test_the_header_of_a_session_is_the_hint() -> None:
    """Without a header, there is none."""
    assert read_request(b"{}", {"x-session-id": "1"}).hint
    assert not read_request(b"{}", {}).hint


def test_limits_and_damage() -> None:
    """A request that cannot be parsed safely is not parsed."""
    block = {"type": "text", "text": "x"}
    with pytest.raises(TooMany):
        read([{"role": "user", "content": [block] * (ITEMS_MAX + 1)}])
    with pytest.raises(Unspliceable):
        read_request(b'{"messages":[],"messages":[]}', {})
