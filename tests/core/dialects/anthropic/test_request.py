"""Request: a body and its blocks, its model and its switch for reasoning."""

import json
from typing import Any

import pytest
from reasoning_replay.core.dialects.anthropic.request import (
    MessagesRequest,
    read_request,
)

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


def read(messages: Any = (), **more: Any) -> MessagesRequest:
    """Read a request with these messages."""
    top = {"model": "claude-opus-4-6", **more, "messages": messages}
    return read_request(json.dumps(top).encode(), {})


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
