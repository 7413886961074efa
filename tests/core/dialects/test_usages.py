"""Usages: tokens as vendors bill them, with writes to the cache in every form."""

import json
from typing import Any

import pytest
from msgspec import Raw
from reasoning_replay.core.dialects.anthropic.events import read_usage
from reasoning_replay.core.dialects.usages import Usage, UsageReader

READER = UsageReader("input_tokens", "output_tokens")
SAID = {"input_tokens": 100, "output_tokens": 9}


@pytest.mark.parametrize(
    ("details", "written", "long"),
    [
        ({}, None, None),
        ({"cache_write_tokens": 40}, 40, None),
        ({"cache_write_tokens": 40, "ttl_30m_tokens": 30, "ttl_12h_tokens": 10}, 40, 10),
        ({"cache_write_tokens": {"ttl_30m_tokens": 30, "ttl_12h_tokens": 10}}, 40, 10),
        ({"cache_write_tokens": {"ttl_30m_tokens": 30}}, 30, None),
        ({"cache_write_tokens": {}}, None, None),
        ({"cache_write_tokens": {"moon": 3}}, None, None),
        ({"cache_write_tokens": 101}, None, None),
        ({"cache_write_tokens": "many"}, None, None),
        ({"cache_write_tokens": 5, "ttl_12h_tokens": 6}, 5, None),
    ],
)
def test_openai_counts_what_is_written(
    details: dict[str, Any], written: int | None, long: int | None
) -> None:
    """As one number or by lifetime; an impossible count is unknown."""
    said = SAID | {"input_tokens_details": {"cached_tokens": 50} | details}
    usage = READER.read(json.dumps(said).encode())
    assert usage == Usage(100, 50, 9, None, written, long)


def test_without_input_nothing_was_written() -> None:
    """A part needs a whole."""
    said = {"output_tokens": 9, "input_tokens_details": {"cache_write_tokens": 1}}
    assert READER.read(json.dumps(said).encode()) == Usage(output_tokens=9)


def test_anthropic_counts_what_is_written() -> None:
    """Apart from the rest, and by lifetime."""
    said = {
        "input_tokens": 10,
        "cache_read_input_tokens": 50,
        "cache_creation_input_tokens": 40,
        "cache_creation": {"ephemeral_5m_input_tokens": 30, "ephemeral_1h_input_tokens": 10},
        "output_tokens": 9,
    }
    usage = read_usage(Raw(json.dumps(said).encode()))
    assert usage == Usage(100, 50, 9, None, 40, 10)
    assert usage is not None
    assert usage.billed == {
        "input": 100,
        "cached": 50,
        "cache_write": 40,
        "cache_write_long": 10,
        "uncached": 10,
        "output": 9,
    }


def test_impossible_counts_are_never_negative() -> None:
    """A vendor may count parts that are more than the whole."""
    assert Usage(5, 9, 1, None, 9).billed == {
        "input": 5,
        "cached": 9,
        "cache_write": 9,
        "output": 1,
    }
