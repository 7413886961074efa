"""Events: the deltas of a stream form the message that a JSON response would hold."""

import json
from typing import Any

import pytest
from msgspec import Raw
from reasoning_replay.core.dialects.chat.events import MessageJoiner, read_chunk

from tests.core.dialects.chat.streams import call, details


def joined(*deltas: Any) -> bytes:
    """Return the JSON of the message that these deltas form."""
    joiner = MessageJoiner()
    for delta in deltas:
        raw = delta if isinstance(delta, bytes) else json.dumps(delta).encode()
        chunk = read_chunk(b'{"choices":[{"delta":%b}]}' % raw)
        assert chunk is not None
        assert chunk.first is not None
        joiner.add(chunk.first.delta or {})
    return joiner.joined()


def message(*deltas: Any) -> Any:
    """Return the message that these deltas form."""
    return json.loads(joined(*deltas))


@pytest.mark.parametrize("name", ["content", "reasoning_content", "reasoning", "reasoning_text"])
def test_texts_are_joined_as_raw_json(name: str) -> None:
    """Escapes keep their spelling, also if a stream cuts a character into its two halves."""
    pieces = [rb'"a\/ \u00e9"', b"null", b'""', rb'"\ud83d"', rb'"\ude00 \\ud83d \""']
    deltas = [b'{"%b":%b}' % (name.encode(), piece) for piece in pieces]

    assert joined(*deltas) == b'{"role":"assistant","%b":"%b"}' % (
        name.encode(),
        rb"a\/ \u00e9\ud83d\ude00 \\ud83d \"",
    )


def test_text_in_parts_is_text() -> None:
    """Mistral sends parts while it thinks, and strings after that; thoughts are no text."""
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}]}
    deltas = [
        {"content": [thinking]},
        {"content": [thinking, {"type": "text", "text": "3"}, {"text": 5}, 7]},
        {"content": "91"},
        {"content": 5, "reasoning": {"effort": 1}},
    ]
    assert message(*deltas) == {"role": "assistant", "content": "391", "reasoning": ""}


def test_details_are_joined_by_index_and_type() -> None:
    """A signature may come alone; encrypted entries and other ids are entries of their own."""
    deltas = [
        {"reasoning_details": [details("text", text="The", signature="", id=None)]},
        {"reasoning_details": [details("text", text=" user"), details("summary", summary="S")]},
        {"reasoning_details": [details("text", 1, text="Next")]},
        {"reasoning_details": [details("text", signature="Eg==")]},
        {"reasoning_details": [details("encrypted", data="a", id="call_1")]},
        {"reasoning_details": [details("encrypted", data="b", id="call_2")]},
        {"reasoning_details": [details("text", 1, text=" one", id="r2", signature="")]},
        {"reasoning_details": [details("text", 1, text="Else", id="r3")]},
        {"reasoning_details": [details("text", None, text="x"), details("text", None, text="y")]},
        {"reasoning_details": [details("text", text=None), {"type": "other", "text": "z"}]},
    ]
    want = [
        details("text", text="The user", signature="Eg==", id=None),
        details("summary", summary="S"),
        details("text", 1, text="Next one", id="r2", signature=""),
        details("encrypted", data="a", id="call_1"),
        details("encrypted", data="b", id="call_2"),
        details("text", 1, text="Else", id="r3"),
        details("text", None, text="xy"),
        {"type": "other", "text": "z"},
    ]
    assert message(*deltas)["reasoning_details"] == want


def test_details_without_an_index_keep_their_order() -> None:
    """Text after another entry is an entry of its own: nothing else tells where it belongs."""
    deltas = [
        {"reasoning_details": [details("text", None, text="a"), details("text", None, text="b")]},
        {"reasoning_details": [details("encrypted", None, data="x")]},
        {"reasoning_details": [details("text", None, text="c")]},
    ]
    want = [
        details("text", None, text="ab"),
        details("encrypted", None, data="x"),
        details("text", None, text="c"),
    ]
    assert message(*deltas)["reasoning_details"] == want


def block(text: str = "", **more: Any) -> dict[str, Any]:
    """Return the delta of a fragment of Claude's thinking through LiteLLM, which sends it twice."""
    blocks = [{"type": "thinking", "thinking": text, **more}]
    return {"thinking_blocks": blocks, "provider_specific_fields": {"thinking_blocks": blocks}}


@pytest.mark.parametrize("unsigned", [{}, {"signature": ""}], ids=["1.110.2", "1.83.0"])
def test_thinking_blocks_are_joined(unsigned: dict[str, str]) -> None:
    """By their index, which older versions of LiteLLM lack: there, a signature ends a block."""
    numbers: list[Any] = [{}] * 3 if unsigned else [{"index": n} for n in range(3)]
    hidden = {"type": "redacted_thinking", "data": "Eh==", **numbers[1]}
    made = message(
        block("I ", **unsigned, **numbers[0]),
        block("see.", **unsigned, **numbers[0]),
        block(signature="Eg==", **numbers[0]),
        {"thinking_blocks": [hidden]},
        block("And ", **unsigned, **numbers[2]),
        block("so.", signature="Ei==", **numbers[2]),
        block("More.", **unsigned, **({"index": 3} if numbers[0] else {})),
    )
    assert made["thinking_blocks"] == [
        {"type": "thinking", "thinking": "I see.", "signature": "Eg==", **numbers[0]},
        hidden,
        {"type": "thinking", "thinking": "And so.", "signature": "Ei==", **numbers[2]},
        {
            "type": "thinking",
            "thinking": "More.",
            **unsigned,
            **({"index": 3} if numbers[0] else {}),
        },
    ]


def test_the_newest_of_each_field_stays() -> None:
    """A vendor's other fields come in several deltas."""
    made = message(
        {"provider_specific_fields": {"thought_signatures": ["Eg=="], "citations": None}},
        {"provider_specific_fields": {"citations": [1]}},
        {"provider_specific_fields": {"citations": [1, 2], "thought_signatures": []}},
        {"provider_specific_fields": 7},
    )
    fields = {"thought_signatures": ["Eg=="], "citations": [1, 2]}
    assert made == {"role": "assistant", "provider_specific_fields": fields}


def test_many_entries_are_joined_in_linear_time() -> None:
    """In quadratic time, this test takes many minutes."""
    count = 60_000
    entries = [{"type": "reasoning.text", "index": n, "text": "a"} for n in range(count)]
    calls = [{"index": n, "function": {"name": "a"}} for n in range(count)]

    made = message({"reasoning_details": entries, "tool_calls": calls})

    assert len(made["reasoning_details"]) == len(made["tool_calls"]) == count


def test_the_newest_signature_stays() -> None:
    """A value without a signature does not replace one that has it."""
    deltas = [
        {"extra_content": {"google": {"thought": True}}},
        {"extra_content": {"google": {"thought_signature": "Eg=="}}, "reasoning_opaque": "o1"},
        {"extra_content": {"google": {"thought": True}}, "reasoning_opaque": "o2", "channel": "x"},
    ]
    assert message(*deltas) == {
        "role": "assistant",
        "extra_content": {"google": {"thought_signature": "Eg=="}},
        "reasoning_opaque": "o2",
    }


def calls_of(*fragments: Any) -> list[tuple[str, str, Any]]:
    """Return the id, name and arguments of each call, from one fragment in each delta."""
    made = message(*({"tool_calls": [each]} for each in fragments))
    return [
        (each["id"], each["function"]["name"], each["function"]["arguments"])
        for each in made.get("tool_calls", ())
    ]


def piece(arguments: Any, index: int | None = 0) -> dict[str, Any]:
    """Return a fragment with arguments only."""
    return call("", arguments, index, None)


@pytest.mark.parametrize(
    ("fragments", "calls"),
    [
        (
            [call("a", ""), piece('{"x"'), piece(":1}"), call("b", "", 1), piece("{}", 1)],
            [("call_a", "a", '{"x":1}'), ("call_b", "b", "{}")],
        ),
        # Interleaved
        (
            [call("a", ""), call("b", "", 1), piece("1"), piece("2", 1)],
            [("call_a", "a", "1"), ("call_b", "b", "2")],
        ),
        # The index is used again
        (
            [call("a", "1"), call("b", "2"), piece("3")],
            [("call_a", "a", "1"), ("call_b", "b", "23")],
        ),
        # The same id again is no other call
        ([call("a", "1"), call("a", "2")], [("call_a", "a", "12")]),
        # No index: whole calls, or the rest of the last one
        (
            [call("a", "1", None), call("b", "2", None), piece("3", None)],
            [("call_a", "a", "1"), ("call_b", "b", "23")],
        ),
        (
            [call("a", "1", None, None), call("a", "2", None, None)],
            [("", "a", "1"), ("", "a", "2")],
        ),
        ([piece("1", None)], [("", "", "1")]),
        # Arguments that are no string, or empty
        ([call("a", {"x": 1}), piece(None)], [("call_a", "a", {"x": 1})]),  # type: ignore[arg-type]
        ([call("a", "")], [("call_a", "a", "")]),
        ([{"index": 0, "id": 5, "function": 7}, 3], [(5, "", "")]),
    ],
)
def test_fragments_belong_to_calls_by_their_index(fragments: Any, calls: Any) -> None:
    """A new id begins a new call, as does a name where upstream sends no index."""
    assert calls_of(*fragments) == calls


def test_members_of_a_call_are_kept() -> None:
    """A signature may come with the call or alone."""
    made = message(
        {"tool_calls": [call("a", extra_content={"google": {"thought_signature": "Eg=="}})]},
        {"tool_calls": [{"index": 0, "thought_signature": "Eg==", "extra_content": None}]},
    )
    (only,) = made["tool_calls"]
    assert only["extra_content"] == {"google": {"thought_signature": "Eg=="}}
    assert only["thought_signature"] == "Eg=="


def test_the_old_form_of_a_call_is_joined() -> None:
    """Its name comes once, its arguments in pieces."""
    deltas = [
        {"function_call": {"name": "a", "arguments": "{"}},
        {"function_call": {"arguments": "}"}},
    ]
    assert message(*deltas) == {
        "role": "assistant",
        "function_call": {"name": "a", "arguments": "{}"},
    }


@pytest.mark.parametrize(
    ("data", "is_read"),
    [
        (b"[]", False),
        (b"", False),
        (b'{"choices":5,"id":7}', True),
        (b'{"choices":[5,{"index":0,"delta":7,"finish_reason":{}}],"model":[]}', True),
        (b'{"choices":[{"index":"0","delta":{"content":"a"}}]}', True),
    ],
)
def test_a_chunk_of_any_shape_is_read(data: bytes, is_read: bool) -> None:
    """A value of an unexpected type counts as absent."""
    chunk = read_chunk(data)

    assert (chunk is not None) is is_read
    assert chunk is None or (chunk.id, chunk.model, chunk.has_failed) == (None, None, False)


def test_the_first_choice_is_followed() -> None:
    """Other choices are ignored, in any order."""
    chunk = read_chunk(b'{"choices":[{"index":1},{"index":0,"finish_reason":"stop"}]}')
    assert chunk is not None
    assert chunk.first is not None
    assert chunk.first.finish_reason == "stop"
    none = read_chunk(b'{"choices":[{"index":2}]}')
    assert none is not None
    assert none.first is None


def test_kept_bytes_are_counted() -> None:
    """Empty and unknown members are not kept."""
    joiner = MessageJoiner()
    joiner.add({"content": Raw(b'""'), "channel": Raw(b'"analysis"'), "reasoning": Raw(b'"abc"')})
    assert joiner.size_bytes == 5
