"""Streams: the deltas of each vendor, joined, are the message that it sends without streaming."""

from typing import Any, get_args

import msgspec
import pytest

from tests.standin.chat.answers import End, Head, message
from tests.standin.chat.deltas import Cutting, stream
from tests.standin.chat.families import FAMILIES, CallIndex, FamilyName
from tests.standin.chat.joining import chunks_of, join
from tests.standin.chat.messages import reasoning_of, visible
from tests.standin.chat.model import LOOPS, Loop, cue, perform
from tests.standin.common.script import Source

HEAD = Head(id="chatcmpl-1", created=1, model="m", usage={"total_tokens": 7})
TOOL = {"type": "function", "function": {"name": "look"}}
BODY = {"messages": [{"role": "user", "content": "Rain?"}], "tools": [TOOL]}
MODELS = ("google/gemini-3.1-pro-preview", "anthropic/claude-haiku-4.5", "openai/gpt-5")


def made(name: FamilyName, loop: Loop = "parallel", model: str = MODELS[0]) -> dict[str, Any]:
    """Return the first message of a loop."""
    family = FAMILIES[name]
    turn = perform(loop, cue(BODY), family, Source(b"s", "p", 0), ids=family.ids, repeats=False)
    return message(family, model, turn)


def told(
    name: FamilyName,
    whole: dict[str, Any],
    index: CallIndex | None = None,
    end: End = "complete",
    *,
    halves: bool = False,
    usage: bool = True,
) -> bytes:
    """Return the stream of a message."""
    family = FAMILIES[name]
    if halves:
        family = msgspec.structs.replace(family, spelling="ascii")
    cutting = Cutting(call_index=index or family.call_index, halves=halves, usage=usage)
    return b"".join(stream(family, HEAD, [whole], end, cutting))


def is_same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Return whether two messages have the same visible content, ids and reasoning."""
    ids = [[call["id"] for call in each.get("tool_calls") or ()] for each in (one, other)]
    return (
        visible(one) == visible(other)
        and reasoning_of(one) == reasoning_of(other)
        and ids[0] == ids[1]
    )


@pytest.mark.parametrize("index", [None, *get_args(CallIndex)])
@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("name", FAMILIES)
def test_pieces_are_the_whole(name: FamilyName, loop: Loop, index: CallIndex | None) -> None:
    """For each vendor, loop and index of calls."""
    whole = made(name, loop)
    assert is_same(join(chunks_of(told(name, whole, index))), whole)


@pytest.mark.parametrize("model", MODELS)
def test_fragments_of_details_are_the_whole(model: str) -> None:
    """For each vendor of a model on OpenRouter: text, summary, encrypted data, signature."""
    whole = made("openrouter", "one_call", model)
    chunks = chunks_of(told("openrouter", whole))
    assert is_same(join(chunks), whole)
    fragments = [
        one
        for chunk in chunks
        for one in chunk["choices"][:1]
        if "reasoning_details" in one["delta"]
    ]
    assert len(fragments) > len(whole["reasoning_details"])


def test_claude_sends_its_signature_alone() -> None:
    """The last fragment has a signature and no text."""
    chunks = chunks_of(told("openrouter", made("openrouter", "text", MODELS[1])))
    *_, last = (
        one["delta"]["reasoning_details"][0]
        for chunk in chunks
        for one in chunk["choices"]
        if "reasoning_details" in one["delta"]
    )
    assert "signature" in last
    assert "text" not in last


@pytest.mark.parametrize("name", FAMILIES)
def test_halves_of_a_character_are_escaped(name: FamilyName) -> None:
    """A delta may end inside a character; joined as JSON, both halves are one again."""
    whole = made(name, "preamble")
    raw = told(name, whole, halves=True)
    assert raw.isascii()
    assert is_same(join(chunks_of(raw)), whole)


def test_a_piece_does_end_inside_a_character() -> None:
    """Otherwise the test before this one shows nothing."""
    raw = told("kimi", made("kimi"), halves=True)
    texts = [
        one["delta"].get("reasoning_content", "")
        for chunk in chunks_of(raw)
        for one in chunk["choices"]
    ]
    assert any(text and 0xD800 <= ord(text[-1]) < 0xDC00 for text in texts)


# (family, the first deltas of a turn with reasoning and a call)
FIRST: list[tuple[FamilyName, list[dict[str, Any]]]] = [
    (
        "deepseek",
        [
            {"role": "assistant", "content": None, "reasoning_content": ""},
            {"content": None, "reasoning_content": "Thought 3"},
        ],
    ),
    ("kimi", [{"role": "assistant", "content": ""}, {"reasoning_content": "Thought 3"}]),
    ("groq", [{"role": "assistant", "content": ""}, {"reasoning": "Thought 3"}]),
    (
        "openrouter",
        [
            {
                "content": "",
                "role": "assistant",
                "reasoning": "Thought 3",
                "reasoning_details": [
                    {
                        "type": "reasoning.text",
                        "format": "google-gemini-v1",
                        "index": 0,
                        "text": "Thought 3",
                    }
                ],
            }
        ],
    ),
]


@pytest.mark.parametrize(("name", "want"), FIRST)
def test_deltas_begin_as_recorded(name: FamilyName, want: list[dict[str, Any]]) -> None:
    """Reasoning is first, with the members that this vendor sends next to it."""
    chunks = chunks_of(told(name, made(name)))
    assert [chunk["choices"][0]["delta"] for chunk in chunks[: len(want)]] == want


def test_a_stream_ends_as_recorded() -> None:
    """The reason, the usage where it was asked for, and `[DONE]`; comments are at the start."""
    for name in FAMILIES:
        raw = told(name, made(name))
        *_, last = [one for one in chunks_of(raw) if one["choices"]]
        want = "stop" if name == "gemini" else "tool_calls"
        assert last["choices"][0]["finish_reason"] == want
        assert raw.endswith(b"data: [DONE]\n\n")
        assert raw.count(b"\n: ") + raw.startswith(b": ") == len(FAMILIES[name].comments)
        assert b'"usage"' in raw
    assert b'"usage"' not in told("kimi", made("kimi"), usage=False)
    assert chunks_of(told("deepseek", made("deepseek")))[-1]["usage"] == HEAD.usage
    assert chunks_of(told("kimi", made("kimi")))[-1]["choices"] == []


def test_an_error_ends_a_stream_without_a_reason_of_the_model() -> None:
    """The last chunk has the error and the reason "error"."""
    *_, last = (
        one
        for one in chunks_of(told("openrouter", made("openrouter"), end="error"))
        if "error" in one
    )
    assert last["choices"][0]["finish_reason"] == "error"


def test_choices_are_interleaved() -> None:
    """With several choices, each is whole in itself."""
    both = [made("kimi"), made("kimi", "text")]
    cutting = Cutting(call_index="own")
    raw = b"".join(stream(FAMILIES["kimi"], HEAD, both, "complete", cutting))
    assert [one["choices"][0]["index"] for one in chunks_of(raw)[:4]] == [0, 1, 0, 1]
    assert [is_same(join(chunks_of(raw), at), both[at]) for at in (0, 1)] == [True, True]
