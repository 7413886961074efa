"""Request: a body and its messages, and whether it switches reasoning off."""

import json
from typing import Any

import pytest
from reasoning_replay.core.dialects.chat.request import ChatRequest, read_request
from reasoning_replay.core.dialects.request_body import ITEMS_MAX
from reasoning_replay.core.history.lookup_keys import keys_of_name, keys_of_request
from reasoning_replay.core.wire.json_spans import TooMany

CALLS = [{"id": "a", "function": {"name": "add"}}, {"id": "b", "function": {"name": "mul"}}]
HISTORY: list[dict[str, Any]] = [
    {"role": "system", "content": "Be good. " * 300},
    {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": "Both.", "tool_calls": CALLS},
    {"role": "tool", "tool_call_id": "a", "content": "1" * 9000},
    {"role": "tool", "tool_call_id": "b", "content": "2" * 9000},
    {"role": "assistant", "content": ""},
]


def read(messages: Any = (), **more: Any) -> ChatRequest:
    """Read a request with these messages."""
    top = {"model": "glm-5", "messages": messages, **more}
    return read_request(json.dumps(top).encode(), {})


def test_a_message_with_calls_is_several_places() -> None:
    """The text and each call are anchors; an empty message is no place."""
    request = read(HISTORY)

    kinds = ["message", "message", "message", "function_call", "function_call"]
    assert [p.item.type for p in request.places] == [*kinds, *["function_call_output"] * 2]
    assert request.anchors == [2, 3, 4]
    assert request.model == "glm-5"
    assert len(request.said) == 3
    assert len(request.run) == 3
    assert request.frame


def test_a_text_is_looked_up_by_the_call_in_its_message() -> None:
    """Its content, which may be in many conversations, is needed only if no conversation has it."""
    ids = ["call_a1b2c3d4e5f6a7b8", "call_0"]
    calls = [[{"id": this, "function": {"name": "add"}}] for this in ids]
    messages = [
        {"role": "assistant", "content": "I add.", "tool_calls": calls[0]},
        {"role": "assistant", "content": "I add.", "tool_calls": calls[1]},
        {"role": "assistant", "content": "I add."},
        {"role": "assistant", "content": None, "tool_calls": calls[0]},
    ]

    asked = {lookup.place: lookup for lookup in keys_of_request(read(messages))}

    named = keys_of_name(ids[0])
    assert [asked[n].id_keys for n in range(6)] == [named, named, [], [], [], named]
    assert asked[0].content_keys
    assert named
    assert asked[0].content_keys[-1] == asked[4].content_keys[-1]


def test_too_many_items_are_refused() -> None:
    """The calls of a message count, too."""
    calls = {"role": "assistant", "tool_calls": [{}] * ITEMS_MAX}
    with pytest.raises(TooMany):
        read([calls, calls])


@pytest.mark.parametrize(
    ("more", "is_off"),
    [
        ({}, False),
        ({"thinking": {"type": "disabled"}}, True),
        ({"thinking": False}, True),
        ({"thinking": "disabled"}, True),
        ({"thinking": {"type": "enabled"}}, False),
        ({"thinking": None}, False),
        ({"enable_thinking": False}, True),
        ({"enable_thinking": True}, False),
        ({"enable_thinking": 0}, False),
        ({"chat_template_kwargs": {"enable_thinking": False}}, True),
        ({"chat_template_kwargs": {"thinking": False}}, True),
        ({"chat_template_kwargs": {"x": 1}}, False),
        ({"reasoning_effort": "none"}, True),
        ({"reasoning_effort": "low"}, False),
        ({"reasoning": {"enabled": False}}, True),
        ({"reasoning": {"effort": "none"}}, True),
        ({"reasoning": False}, True),
        ({"reasoning": "none"}, True),
        ({"reasoning": {"effort": "low", "enabled": True}}, False),
        ({"think": False}, True),
        ({"think": "high"}, False),
    ],
)
def test_the_vendors_switches_are_known(more: dict[str, Any], is_off: bool) -> None:
    """Each vendor has its own way to switch reasoning off."""
    assert read([], **more).is_switched_off is is_off


def test_a_switch_that_cannot_be_read_is_none() -> None:
    """Upstream reports the error itself."""
    deep = b'{"thinking":' + b"[" * 900 + b"]" * 900 + b"}"
    request = read_request(deep, {})
    request.values = {"thinking": b"["}  # type: ignore[dict-item]
    assert not request.is_switched_off
