"""Model names: compared as strictly as possible without breaking aliases."""

import pytest
from reasoning_replay.core.history.model_names import (
    NAME_CHARS,
    are_known_to_differ,
    family,
    is_known_not_to_reason,
)

SAME = [
    pytest.param("gpt-5-nano-2025-08-07", "gpt-5-nano", id="dated-snapshot"),
    pytest.param("claude-opus-5-20260101", "claude-opus-5", id="dated-without-hyphens"),
    pytest.param("gpt-5.6-latest", "gpt-5.6", id="latest"),
    pytest.param("openai/gpt-5.6-sol", "gpt-5.6-sol", id="vendor"),
    pytest.param("openrouter/openai/gpt-5.6-sol", "gpt-5.6-sol", id="two-vendors"),
    pytest.param("us.openai.gpt-5-nano", "gpt-5-nano", id="region-and-vendor"),
    pytest.param("openai/gpt-5-nano-2025-08-07", "us.openai.gpt-5-nano", id="all-at-once"),
    pytest.param("GPT-5-Nano", "gpt-5-nano", id="case"),
    pytest.param("openai/gpt-5:nitro", "gpt-5", id="routed"),
    pytest.param("gpt-5-2025-08-07:online", "gpt-5", id="routed-snapshot"),
    pytest.param("us.openai.gpt-5-nano:free:floor", "gpt-5-nano", id="routed-twice"),
    pytest.param("x-1:exacto", "x-1:thinking", id="routed-otherwise"),
    pytest.param("x-1:extended", "x-1:beta", id="extended"),
    pytest.param("o3", "openai/o3-2025-04-16", id="no-hyphen"),
]
OTHER = [
    pytest.param("gpt-5.6-sol", "gpt-5.6", id="alias-is-not-guessed"),
    pytest.param("gpt-5-nano", "gpt-5-mini", id="size"),
    pytest.param("gpt-5.1", "gpt-5.2", id="version-after-a-dot"),
    pytest.param("gpt-5", "gpt-5-codex", id="variant"),
    pytest.param("gpt-5-1999-01-01", "gpt-5", id="not-a-release-date"),
    pytest.param("qwen3.5-plus", "qwen3-plus", id="dot-within-a-name"),
    pytest.param("gpt-oss:20b", "gpt-oss:120b", id="size-after-a-colon"),
    pytest.param("gpt-oss:20b", "gpt-oss", id="tag"),
    pytest.param("qwen3:4b-thinking", "qwen3:4b", id="variant-in-a-tag"),
    pytest.param("us.anthropic.claude-5-v1:0", "us.anthropic.claude-5-v2:0", id="revision"),
    pytest.param("gpt-5:nitrogen", "gpt-5", id="begins-like-a-suffix"),
    pytest.param("", "gpt-5", id="unknown"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_spellings_of_one_model_are_one_family(one: str, other: str) -> None:
    """A snapshot belongs to its base name; vendor and route are not part of the name."""
    assert family(one) == family(other) == family(family(one))


@pytest.mark.parametrize(("one", "other"), OTHER)
def test_other_names_are_other_families(one: str, other: str) -> None:
    """Families are never guessed: injecting reasoning of another family is worse than a miss."""
    assert family(one) != family(other)


@pytest.mark.parametrize(
    "model",
    [
        "gpt-4o",
        "gpt-4o-mini-2024-07-18",
        "openai/gpt-4o:nitro",
        "gpt-4.1-nano",
        "gpt-4",
        "gpt-3.5-turbo",
        "chatgpt-4o-latest",
        "gpt-5-chat",
        "gpt-5-chat-latest",
        "gpt-5.1-chat-2025-11-13",
        "openai/gpt-4.1",
        "us.openai.gpt-4o-mini",
        "text-davinci-003",
        "davinci-002",
        "babbage-002",
    ],
)
def test_models_that_refuse_encrypted_reasoning_are_known(model: str) -> None:
    """Requesting encrypted reasoning from them would cost a refused attempt."""
    assert is_known_not_to_reason(model)


@pytest.mark.parametrize(
    "model", ["gpt-5", "gpt-6-luna", "gpt-40", "o1", "o3-mini", "gpt-oss-20b", "grok-4.7", "", "x"]
)
def test_any_other_model_may_reason(model: str) -> None:
    """An unknown model is requested to return it, and a refusal is healed."""
    assert not is_known_not_to_reason(model)


# (requested model, families of the models that made a turn, whether they certainly differ)
DIFFERENT = [
    ("o4-mini", ["gpt-5"], True),
    ("gpt-4o", ["gpt-5.4"], True),
    ("grok-4", ["gpt-4"], True),
    ("gpt-5.6-sol", ["gpt-5.6"], False),
    ("gpt-5-mini", ["gpt-5-nano"], False),
    ("gpt5-ptu", ["gpt-5-paygo"], False),
    ("qwen-3-max", ["qwen3-max"], False),
    ("deepseek-v3", ["deepseek-3"], False),
    ("gpt-5", ["o4-mini", "gpt-5"], False),
    ("prod-chat", ["gpt-5"], False),
    ("gpt-5", ["prod-chat", "gpt-4"], False),
    ("gpt-5", [], False),
    ("", ["gpt-5"], False),
]


@pytest.mark.parametrize(("model", "families", "want"), DIFFERENT)
def test_models_certainly_differ_by_vendor_or_generation(
    model: str, families: list[str], *, want: bool
) -> None:
    """Aliases, sizes and deployments are left to upstream."""
    assert are_known_to_differ(model, families) is want


def test_a_very_long_name_is_no_name_of_a_model() -> None:
    """A client may send one of megabytes; it is compared as it is, and never searched."""
    name = "openai/GPT-3." + "5." * NAME_CHARS
    assert family(name) is name
    assert not is_known_not_to_reason(name)
