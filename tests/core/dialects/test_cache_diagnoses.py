"""Cache diagnoses: what the vendors' objects mean, and which ids may be named."""

import json
from typing import Any

import pytest
from msgspec import Raw
from reasoning_replay.core.dialects.cache_diagnoses import (
    REASONS,
    CacheDiagnosis,
    quoted,
    read_anthropic,
    read_openai,
)
from reasoning_replay.core.dialects.captures import Origin
from reasoning_replay.core.history.model_names import tells_why
from reasoning_replay.core.history.turns import Context
from reasoning_replay.core.wire.json_spans import NONE


def raw(value: Any) -> Raw:
    """Return a value as JSON."""
    return Raw(json.dumps(value).encode())


@pytest.mark.parametrize("reason", REASONS)
def test_a_miss_has_the_word_of_its_vendor(reason: str) -> None:
    """And the tokens that it names; a word of tomorrow is another."""
    wanted = CacheDiagnosis("miss", reason, 7)
    openai = {"type": "cache_miss", "reason": reason, "cache_missed_tokens": 7}
    assert read_openai(raw(openai)) == wanted
    anthropic = {"cache_miss_reason": {"type": reason, "cache_missed_input_tokens": 7}}
    assert read_anthropic(raw(anthropic)) == wanted
    assert read_openai(raw({"type": "cache_miss"})) == CacheDiagnosis("miss", "other")


@pytest.mark.parametrize(
    ("said", "result"),
    [
        ({"type": "cache_hit"}, "hit"),
        ({"type": "comparison_response_not_found"}, "not_found"),
        ({"type": "unavailable"}, "unavailable"),
        ({"type": "of tomorrow"}, "unavailable"),
    ],
)
def test_openai_says_more_than_a_miss(said: Any, result: str) -> None:
    """An unknown word is no hit."""
    assert read_openai(raw(said)) == CacheDiagnosis(result)  # type: ignore[arg-type]


@pytest.mark.parametrize("said", [None, {}, [], "hit", 5, {"type": 5}])
def test_what_is_no_diagnosis_is_none(said: Any) -> None:
    """It is not counted as a hit."""
    assert read_openai(raw(said)) is None


@pytest.mark.parametrize(
    ("said", "result"),
    [
        ({}, "hit"),
        ({"cache_miss_reason": None}, "pending"),
        ({"cache_miss_reason": {"type": "previous_message_not_found"}}, "not_found"),
        ({"cache_miss_reason": {"type": "unavailable"}}, "unavailable"),
        (None, None),
    ],
)
def test_anthropic_says_more_than_a_miss(said: Any, result: str | None) -> None:
    """No reason means no divergence, and null that it still compares."""
    wanted = None if result is None else CacheDiagnosis(result)  # type: ignore[arg-type]
    assert read_anthropic(raw(said)) == wanted
    assert read_anthropic(NONE) is None


@pytest.mark.parametrize("name", ["", 'resp_"', "résp", "r" * 129, "a b", "a\n"])
def test_an_id_that_no_vendor_issues_is_not_named(name: str) -> None:
    """It would have to be escaped."""
    assert quoted(name) == b""
    assert quoted("resp_0-aZ") == b'"resp_0-aZ"'


def test_a_turn_keeps_the_id_of_its_response_only_for_that() -> None:
    """Without the setting, nothing more is stored."""
    origins = [Origin(Context(), "m", keeps_id=keeps) for keeps in (False, True)]
    turns = [one.turn(b"", (), (), 0, is_stored=False, response_id="resp_1") for one in origins]
    assert [turn.response_id for turn in turns] == ["", "resp_1"]


@pytest.mark.parametrize(
    ("model", "wanted"),
    [
        ("gpt-5.6", True),
        ("openai/gpt-5.6-sol", True),
        ("gpt-5.6-2026-11-01", True),
        ("gpt-6", True),
        ("gpt-5.10-mini", True),
        ("gpt-5.5", False),
        ("gpt-5", False),
        ("gpt-4o", False),
        ("o4-mini", False),
        ("gpt-56", True),
        ("my-gpt-5.6", False),
    ],
)
def test_models_that_tell_why(model: str, wanted: bool) -> None:
    """GPT-5.6 and later; a name that says nothing of the model is not asked."""
    assert tells_why(model) is wanted
