"""The strict API says why a cache missed, as both vendors do: each reason by a client's change."""

from typing import Any

import pytest

from tests.strict_api.scripted import ASK, listening, post

OPENAI: dict[str, dict[str, Any]] = {
    "model_changed": {"model": "gpt-5.7"},
    "prompt_cache_key_changed": {"prompt_cache_key": "k"},
    "tools_changed": {"tools": []},
    "text_format_changed": {"text": {"format": {"type": "json_object"}}},
    "reasoning_effort_changed": {"reasoning": {"effort": "high"}},
    "verbosity_changed": {"text": {"verbosity": "low"}},
    "context_compacted": {"input": [ASK, {"type": "compaction", "id": "cmp_1"}]},
    "input_changed": {"instructions": "Be brief."},
    "service_tier_changed": {"service_tier": "flex"},
}
ANTHROPIC: dict[str, dict[str, Any]] = {
    "model_changed": {"speed": "fast"},
    "system_changed": {"system": "Be brief."},
    "tools_changed": {"tools": []},
    "messages_changed": {"messages": [{"role": "user", "content": "And where is it dry?"}]},
}


@pytest.mark.parametrize("reason", OPENAI)
async def test_openai_names_each_change(reason: str) -> None:
    """The first difference is told; without any, it is a hit."""
    async with listening("responses") as api:
        _, first = await post(api, "responses", ASK, model="gpt-5.6")
        named = {"comparison_response_id": first["id"]}
        more: dict[str, Any] = {"model": "gpt-5.6", "prompt_cache_options": named}
        _, same = await post(api, "responses", ASK, **more)
        assert same["prompt_cache_diagnostics"] == {"type": "cache_hit"}
        _, other = await post(api, "responses", ASK, **(more | OPENAI[reason]))
        told = other["prompt_cache_diagnostics"]
        assert (told["type"], told["reason"]) == ("cache_miss", reason)


async def test_openai_knows_only_its_own_responses_and_newer_models() -> None:
    """An older model refuses the member."""
    named = {"prompt_cache_options": {"comparison_response_id": "resp_none"}}
    async with listening("responses") as api:
        _, told = await post(api, "responses", ASK, model="gpt-5.6", **named)
        assert told["prompt_cache_diagnostics"] == {"type": "comparison_response_not_found"}
        status, refused = await post(api, "responses", ASK, model="gpt-5.4", **named)
        assert (status, refused["error"]["code"]) == (400, "unknown_parameter")


@pytest.mark.parametrize("reason", ANTHROPIC)
async def test_anthropic_names_each_change(reason: str) -> None:
    """Only of messages that opted in; without a difference, there is no reason."""
    async with listening("messages") as api:
        _, first = await post(api, "messages", ASK, diagnostics={"previous_message_id": None})
        assert "diagnostics" not in first
        more: dict[str, Any] = {"diagnostics": {"previous_message_id": first["id"]}}
        _, same = await post(api, "messages", ASK, **more)
        assert same["diagnostics"] == {}
        _, other = await post(api, "messages", ASK, **(more | ANTHROPIC[reason]))
        assert other["diagnostics"]["cache_miss_reason"]["type"] == reason
        _, alone = await post(api, "messages", ASK)
        more = {"diagnostics": {"previous_message_id": alone["id"]}}
        _, unknown = await post(api, "messages", ASK, **more)
        told = unknown["diagnostics"]["cache_miss_reason"]
        assert told == {"type": "previous_message_not_found"}
