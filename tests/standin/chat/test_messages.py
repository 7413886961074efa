"""Visible content, places and reasoning of a message: clients spell one message in many ways."""

from typing import Any

import pytest

from tests.standin.chat.messages import joined, last_user, places, reasoning_of, visible

CALL = {"id": "a", "function": {"name": "look", "arguments": '{"a": 1, "b": "ü"}'}}
SAID = {"role": "assistant", "content": "Two  words"}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param({"content": None}, {"content": ""}, id="null"),
        pytest.param({"content": []}, {}, id="absent"),
        pytest.param(SAID, {"content": [{"type": "text", "text": "Two words "}]}, id="parts"),
        pytest.param(
            {"content": "Two words"},
            {
                "content": [
                    {"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}]},
                    {"type": "text", "text": "Two words"},
                ]
            },
            id="thinking-chunk",
        ),
        pytest.param(
            {"tool_calls": [CALL]},
            {"tool_calls": [{"function": {"name": "look", "arguments": '{"b":"\\u00fc","a":1}'}}]},
            id="respelled-arguments",
        ),
        pytest.param(
            {"tool_calls": [CALL]},
            {"function_call": {"name": "look", "arguments": '{"a": 1, "b": "ü"}'}},
            id="legacy",
        ),
        pytest.param(
            {"tool_calls": [{"function": {"name": "now", "arguments": ""}}]},
            {"tool_calls": [{"function": {"name": "now", "arguments": "{}"}}]},
            id="no-arguments",
        ),
    ],
)
def test_spellings_of_one_message_are_equal(one: dict[str, Any], other: dict[str, Any]) -> None:
    """Null, parts, white space and re-serialised arguments change nothing that is visible."""
    assert visible({"role": "assistant"} | one) == visible(other | {"role": "assistant"})


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"content": "Two words!"}, id="text"),
        pytest.param({"role": "user"}, id="role"),
        pytest.param({"tool_calls": [CALL]}, id="call"),
    ],
)
def test_another_message_is_another(other: dict[str, Any]) -> None:
    """Role, text and calls are visible."""
    assert visible(SAID) != visible(SAID | other)


def test_a_place_is_the_caller_and_all_before() -> None:
    """The frame, ids and reasoning do not move a place; another word or caller does."""
    ask = {"role": "user", "content": "Rain?"}
    history = [ask, SAID | {"reasoning": "Hm"}, ask]
    framed = [{"role": "system", "content": "It is noon."}, ask, SAID, ask]

    *_, place = places("a", history)
    assert [place, *places("a", framed)][-1] == place
    assert len(set(places("a", history))) == 4
    assert place not in {*places("b", history), *places("a", [SAID, ask])}


def test_reasoning_has_a_path() -> None:
    """Members of the message, of its calls and thinking chunks are found; null is absent."""
    message = {
        "role": "assistant",
        "content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}]}],
        "reasoning_content": "",
        "reasoning": None,
        "reasoning_details": [],
        "extra_content": {"google": {"thought_signature": "S"}},
        "tool_calls": [CALL, CALL | {"thought_signature": "T", "extra_content": None}],
    }

    assert reasoning_of(message) == {
        "reasoning_content": "",
        "extra_content": {"google": {"thought_signature": "S"}},
        "tool_calls.1.thought_signature": "T",
        "content.thinking": "Hm",
    }


def test_fragments_are_joined_by_index_and_type() -> None:
    """One index with two types is two entries; the signature comes alone."""
    text = {"type": "reasoning.text", "index": 0}
    blob = {"type": "reasoning.encrypted", "index": 0, "data": "X", "id": "call"}
    fragments = [
        text | {"text": "He", "signature": None},
        text | {"text": "llo"},
        blob,
        text | {"signature": "S"},
    ]

    whole = text | {"text": "Hello", "signature": "S"}
    assert joined(fragments) == [whole, blob]
    assert joined([whole, blob]) == [whole, blob]


def test_a_round_starts_at_the_last_user_message() -> None:
    """Its index, or -1 if there is none."""
    assert last_user([{"role": "user"}, {"role": "user"}, {"role": "tool"}]) == 1
    assert last_user([{"role": "assistant"}]) == -1
