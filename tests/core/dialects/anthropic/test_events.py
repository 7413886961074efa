"""Events: the blocks that a stream forms, with the bytes that upstream wrote."""

import json
from typing import Any

import pytest
from msgspec import Raw
from reasoning_replay.core.dialects.anthropic.events import (
    BlockJoiner,
    MessageFields,
    read_event,
    read_message,
    read_usage,
)
from reasoning_replay.core.dialects.usages import Usage

from tests.core.dialects.anthropic.streams import call


def joined(started: Any, *deltas: Any) -> bytes:
    """Return the block that these deltas form, each given as JSON or as a value."""
    joiner = BlockJoiner()
    joiner.start(0, _raw(started))
    for each in deltas:
        event = read_event(b'{"index":0,"delta":%b}' % bytes(_raw(each)))
        assert event is not None
        joiner.add(event.index, event.delta)
    (block,) = joiner.joined()
    return block


def _raw(value: Any) -> Raw:
    return Raw(value if isinstance(value, bytes) else json.dumps(value).encode())


@pytest.mark.parametrize(
    ("started", "deltas", "want"),
    [
        (
            b'{"signature":"","thinking":"","type":"thinking"}',
            [
                b'{"thinking":"\\u00e9 \\ud83d"}',
                b'{"thinking":"\\ude00\\/"}',
                b'{"signature":"Eg"}',
            ],
            b'{"signature":"Eg","thinking":"\\u00e9 \\ud83d\\ude00\\/","type":"thinking"}',
        ),
        (
            {"type": "thinking", "thinking": "a"},
            [{"thinking": "b"}, {"signature": "Eg"}, {"signature": ""}],
            b'{"type":"thinking","thinking":"ab","signature":"Eg"}',
        ),
        ({"type": "thinking"}, [{"thinking": 5}], b'{"type":"thinking"}'),
        ({"type": "text", "text": None}, [{"text": "x"}], b'{"type":"text","text":"x"}'),
        (
            {"type": "text", "text": ""},
            [{"citation": {"url": "x"}}, {"text": "x"}, {"new": "y"}],
            b'{"type":"text","text":"x"}',
        ),
        (
            call("add"),
            [{"partial_json": '{"a":'}, {"partial_json": ' "\\"1"}'}],
            b'{"type":"tool_use","id":"toolu_add","name":"add","input":{"a": "\\"1"}}',
        ),
        (
            b'{"type":"tool_use","input":{"a":1}}',
            [{"partial_json": ""}],
            b'{"type":"tool_use","input":{"a":1}}',
        ),
        ({"type": "tool_use"}, [{"partial_json": ""}], b'{"type":"tool_use","input":{}}'),
        (
            {"type": "tool_use"},
            [{"partial_json": '{"a":'}],
            b'{"type":"tool_use","input":"{\\"a\\":"}',
        ),
        (
            {"type": "compaction", "content": None},
            [{"type": "compaction_delta", "content": "Short."}],
            b'{"type":"compaction","content":"Short."}',
        ),
        (5, [{"text": "x"}], b'{"text":"x"}'),
    ],
)
def test_deltas_form_a_block(started: Any, deltas: list[Any], want: bytes) -> None:
    """The bodies of strings are joined as they are; other values are kept."""
    assert joined(started, *deltas).replace(b'": ', b'":') == want.replace(b'": ', b'":')


def test_half_a_character_in_the_input_of_a_call() -> None:
    """The text is kept as it is, because it cannot be decoded."""
    made = joined({"type": "tool_use"}, b'{"partial_json":"{\\"a\\":\\"\\\\ufdd0d83d\\"}"}')
    assert b"ud83d" in made
    assert joined({"type": "tool_use"}, b'{"partial_json":"\\ufdd0d83d"}') == (
        b'{"type":"tool_use","input":"\\ud83d"}'
    )


def test_an_index_that_is_used_again() -> None:
    """It is that of the new block; a delta of no block is ignored."""
    joiner = BlockJoiner()
    joiner.add(0, Raw(b'{"text":"lost"}'))
    for words in (b'"a"', b'"b"'):
        joiner.start(0, Raw(b'{"text":""}'))
        joiner.add(0, Raw(b'{"text":%b}' % words))
    assert joiner.joined() == [b'{"text":"a"}', b'{"text":"b"}']
    assert joiner.size_bytes == 2 * (512 + 128 + len(b'{"text":""}') + len(b'{"text":"a"}'))


@pytest.mark.parametrize("data", [b"[DONE]", b"[]", b"", b"5", b'{"type":', b"\xff"])
def test_data_that_is_no_event(data: bytes) -> None:
    """Some upstreams send other text."""
    assert read_event(data) is None


def test_an_event_of_an_unexpected_shape() -> None:
    """A value of another type counts as absent."""
    event = read_event(b'{"type":5,"index":"0","delta":{"text":"\\ud83d"}}')
    assert event is not None
    assert (event.type, event.index) == (None, None)
    assert bytes(event.delta) == b'{"text":"\\ufdd0d83d"}'
    assert read_event(b'{"index":1,"type":[]}').index == 1  # type: ignore[union-attr]


def test_a_message_of_an_unexpected_shape() -> None:
    """A value of another type counts as absent."""
    assert read_message(b"[]") is None
    assert read_message(b'{"id":5,"model":"m","content":{}}') == MessageFields(model="m")
    odd = read_message(b'{"id":null,"content":["a",5],"stop_reason":7}')
    assert odd is not None
    assert list(map(bytes, odd.content or ())) == [b'"a"', b"5"]


OUTPUT = {"output_tokens": 9}


@pytest.mark.parametrize(
    ("reports", "want"),
    [
        ([], None),
        ([{}], None),
        ([{"cache_read_input_tokens": 5}], None),
        ([{"input_tokens": 5, "output_tokens": 1}], Usage(5, None, 1, None)),
        (
            [
                {"input_tokens": 5, "cache_read_input_tokens": 2, "output_tokens": 1},
                {"input_tokens": None, "cache_creation_input_tokens": 3, "output_tokens": 9},
            ],
            Usage(10, 2, 9, None, 3),
        ),
        ([OUTPUT | {"output_tokens_details": {"thinking_tokens": 4}}], Usage(None, None, 9, 4)),
        ([OUTPUT | {"output_tokens_details": {"thinking_tokens": 10}}], Usage(None, None, 9)),
        ([OUTPUT | {"output_tokens_details": 5}], Usage(None, None, 9)),
        ([{"input_tokens": -1, "output_tokens": True}], None),
        ([[], "x"], None),
        ([b"{"], None),
    ],
)
def test_token_counts(reports: list[Any], want: Usage | None) -> None:
    """Tokens from the cache are part of the input; the end of a stream wins."""
    assert read_usage(*map(_raw, reports)) == want
