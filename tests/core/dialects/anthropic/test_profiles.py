"""Profiles: each upstream's properties, and the models that bind reasoning to a prefix."""

import pytest
from reasoning_replay.core.dialects.anthropic.profiles import GENERIC, PROFILES, profile_of


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://api.anthropic.com", "anthropic"),
        ("https://bedrock-runtime.us-east-1.amazonaws.com", "bedrock"),
        ("https://bedrock-mantle.us-east-1.api.aws/anthropic", "bedrock"),
        ("https://us-east5-aiplatform.googleapis.com", "vertex"),
        ("https://x.services.ai.azure.com/anthropic", "azure"),
        ("https://api.deepseek.com/anthropic", "deepseek"),
        ("https://api.kimi.com/coding", "moonshot"),
        ("https://api.minimax.io/anthropic", "minimax"),
        ("https://ai-gateway.vercel.sh", "vercel"),
        ("http://127.0.0.1:4000", "generic"),
    ],
)
def test_the_host_chooses_the_profile(url: str, name: str) -> None:
    """An unknown host has the generic one."""
    assert profile_of("auto", url).name == name
    assert profile_of(name, "http://127.0.0.1") is PROFILES[name]


def test_a_profile_of_another_dialect_is_generic_here() -> None:
    """One setting names the upstream for all dialects."""
    assert profile_of("llamacpp", "https://api.anthropic.com") is GENERIC


@pytest.mark.parametrize("profile", PROFILES.values(), ids=lambda profile: profile.name)
def test_only_those_who_sign_refuse_unsigned_blocks(profile: object) -> None:
    """Anthropic and the clouds sign every block; others may not."""
    signing = {"anthropic", "bedrock", "vertex", "azure"}
    assert profile.is_signed is (profile.name in signing)  # type: ignore[attr-defined]
    assert profile.source  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("model", "is_bound"),
    [
        ("claude-instant-1.2", False),
        ("claude-v2", False),
        ("claude-3-7-sonnet-20250219", False),
        ("claude-3-5-haiku-latest", False),
        ("claude-sonnet-4-20250514", False),
        ("claude-opus-4-8", False),
        ("claude-sonnet-4-5@20250929", False),
        ("us.anthropic.claude-haiku-4-5-20251001-v1:0", False),
        ("anthropic/claude-sonnet-4.5", False),
        ("claude-sonnet-5", False),
        ("claude-opus-5-20260901", False),
        ("claude-opus-5@20260901", False),
        ("claude-opus-5-0", False),
        ("claude-fable-5-1", True),
        ("claude-fable-5-2-20261001", True),
        ("claude-mythos-5-1", True),
        ("claude-mythos-5-2", True),
        ("anthropic.claude-opus-5-5", True),
        ("anthropic/claude-haiku-5.5", True),
        ("Claude-Sonnet-5-5", True),
        ("claude-opus-6", True),
        ("claude-new-series-7", True),
        ("claude-next", True),
    ],
)
def test_models_that_bind(model: str, is_bound: bool) -> None:
    """The check began with 5.1; a name that is not known yet counts as bound, on every host."""
    for profile in PROFILES.values():
        assert profile.is_bound(model) is profile.may_bind(model) is is_bound


@pytest.mark.parametrize("model", ["", "deepseek-v4", "arn:aws:bedrock:inference-profile/abc"])
def test_names_outside_of_the_series(model: str) -> None:
    """They are bound only where every model is of the series; elsewhere, the response tells."""
    assert GENERIC.may_bind(model)
    assert PROFILES["bedrock"].is_bound(model)
    assert not GENERIC.is_bound(model)
