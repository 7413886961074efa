"""Profiles: what is known of each upstream, and how it is recognised."""

import pytest
from reasoning_replay.core.dialects.chat.members import MESSAGE_MEMBERS
from reasoning_replay.core.dialects.chat.profiles import (
    GENERIC,
    PROFILES,
    Policy,
    Rounds,
    profile_of,
)


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://api.deepseek.com/v1", "deepseek"),
        ("https://api.moonshot.cn/v1", "moonshot"),
        ("https://open.bigmodel.cn/api/paas/v4", "zai"),
        ("https://api.minimax.io/v1", "minimax"),
        ("https://openrouter.ai/api/v1", "openrouter"),
        ("https://ai-gateway.vercel.sh/v1", "vercel"),
        ("https://generativelanguage.googleapis.com/v1beta/openai/", "gemini"),
        ("https://europe-west1-aiplatform.googleapis.com/v1/x", "gemini"),
        ("https://api.x.ai/v1", "xai"),
        ("https://api.mistral.ai/v1", "mistral"),
        ("https://api.groq.com/openai/v1", "groq"),
        ("https://api.cerebras.ai/v1", "cerebras"),
        ("http://localhost:30000/v1", "sglang"),
        ("http://127.0.0.1:11434/v1", "ollama"),
        ("http://localhost:1234/v1", "lmstudio"),
        ("https://acme.openai.azure.com/openai/v1", "azure"),
        ("https://api.githubcopilot.com", "copilot"),
        ("http://localhost:8000/v1", "generic"),
        ("https://api.openai.com/v1", "generic"),
    ],
)
def test_a_host_leads_to_its_profile(url: str, name: str) -> None:
    """An unknown host is generic."""
    assert profile_of("auto", url).name == name


@pytest.mark.parametrize(
    ("setting", "name"),
    [("vllm", "vllm"), ("llamacpp", "llamacpp"), ("codex", "generic"), ("generic", "generic")],
)
def test_a_name_counts_more_than_a_host(setting: str, name: str) -> None:
    """A name that only the other dialect knows is generic here."""
    assert profile_of(setting, "https://api.deepseek.com").name == name


@pytest.mark.parametrize("name", [*PROFILES])
def test_a_profile_is_sound(name: str) -> None:
    """It has evidence, and names members of a message."""
    profile = PROFILES[name]

    assert len(profile.source) >= 40
    assert {*profile.alone, *(profile.takes or ())} <= {*MESSAGE_MEMBERS}


def test_the_operator_decides_about_rounds() -> None:
    """Without a word of the operator, all rounds get reasoning."""
    assert not Policy().is_current_only
    assert Policy(profile=GENERIC, rounds=Rounds.CURRENT).is_current_only
