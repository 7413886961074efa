"""
Known results: what cannot be injected, by name, with the reason; and how much is injected.

The tests fail if an entry is missing or superfluous: `reasons` finds the same ones in the
recordings themselves.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tests.recordings.atoms.reasons import Reason


@dataclass(frozen=True, slots=True)
class Known:
    """
    The known results of one dialect.

    Attributes:
        alone: Exchanges that are not restored, each recording alone.
        one_tenant: Further ones, all recordings as one tenant.
        head_cut: Further ones, if the client forgets its first messages.
        injected: Run -> number of exchanges in which all that lacked is injected; None while the
            proxy does not speak the dialect. Then a run must only not be wrong.
    """

    alone: Mapping[str, Reason]
    one_tenant: Mapping[str, Reason]
    head_cut: Mapping[str, Reason]
    injected: Mapping[str, int | None]


def _each(names: Iterable[str], reason: Reason) -> dict[str, Reason]:
    return dict.fromkeys(names, reason)


CHAT = Known(
    alone={
        **_each(
            [
                "002-pydantic-ai-test_cerebras-test_cerebras_zai_reasoning_replayed_as_think_tags/2",
                "004-oc-mistral-chat-replays-native-reasoning/2",
                "007-pydantic-ai-test_groq-test_tool_use_failed_error/3",
                "008-pydantic-ai-test_groq-test_tool_use_failed_error_streaming/3",
                "009-pydantic-ai-test_groq-test_tool_use_failed_error_streaming_with_text/2",
                "010-pydantic-ai-test_huggingface-test_hf_model_thinking_part/2",
                "039-ruby_llm-vcr_cassettes-chat_mistral_hybrid_reasoning_replays_thinking_chunks_across_turns/2",
                "047-ruby_llm-vcr_cassettes-chat_with_extended_thinking_mistral_mistral-small-latest_preserves_thinking_signatures_between_turns_when_provided/2",
            ],
            Reason.VISIBLE,
        ),
        **_each(
            ["076-fantasy-grok-multi_tool/2", "078-fantasy-grok-tool/2"],
            Reason.EMPTY,
        ),
    },
    one_tenant={
        **_each(
            [
                "115-rig-streaming_tools-streaming_tools_smoke/2",
                "119-rig-bare_openai_client-tool_call_stream_without_the_single_chunk_const/2",
                "121-rig-streaming_tools-streaming_tools_smoke/2",
                "122-rig-tools-tools_roundtrip/2",
                "135-req_llm-deepseek_r1-context_append/2",
                "136-req_llm-deepseek_r1_0528-context_append/2",
            ],
            Reason.TWIN,
        ),
        **_each(
            [
                "049-fantasy-avian-kimi-multi_tool_streaming/2",
                "053-fantasy-xai-grok-code-fast-multi_tool/2",
                "054-fantasy-xai-grok-code-fast-multi_tool_streaming/2",
                "055-fantasy-xai-grok-code-fast-tool/2",
                "061-fantasy-avian-kimi-thinking-streaming/2",
                "064-fantasy-xai-grok-3-mini-thinking-streaming/2",
                "065-fantasy-xai-grok-3-mini-thinking/2",
                "077-fantasy-grok-multi_tool_streaming/2",
                "083-fantasy-kimi-tool_streaming/2",
                "152-req_llm-openai_gpt_oss_120b-tool_round_trip/2",
                "153-req_llm-openai_gpt_oss_20b-tool_round_trip/2",
                "160-req_llm-grok_3_mini_fast-tool_round_trip/2",
                "162-req_llm-grok_3_mini_latest-tool_round_trip/2",
            ],
            Reason.LOOKALIKE,
        ),
    },
    # The client joined the stream's text wrongly: of a sentence it kept the last space.
    head_cut={"049-fantasy-avian-kimi-multi_tool_streaming/2": Reason.LITTLE},
    injected={
        "alone": 78,
        "responses in pieces": 78,
        "redis": 78,
        "dropped": 20,
        "one tenant": 79,
    },
)

MESSAGES = Known(
    alone={},
    one_tenant=_each(
        [
            "049-crewai-anthropic-test_anthropic_thinking_blocks_preserved_across_turns/2",
            "050-crewai-cassettes-test_anthropic_thinking_blocks_preserved_across_turns/2",
        ],
        Reason.TWIN,
    ),
    head_cut={},
    injected={
        "alone": 35,
        "responses in pieces": 35,
        "redis": 35,
        "dropped": 6,
        "one tenant": 39,
    },
)

# Suites that ask several models, or in several ways, the same question; Gemini 2.5 has no ids.
GEMINI = Known(
    alone={},
    one_tenant={
        **_each(
            [
                "047-ruby_llm-vcr_cassettes-chat_function_calling_gemini_gemini-2_5-flash_can_use_parallel_tool_calls/2",
                "048-ruby_llm-vcr_cassettes-chat_function_calling_gemini_gemini-2_5-flash_can_use_tools/2",
                "049-ruby_llm-vcr_cassettes-chat_function_calling_gemini_gemini-2_5-flash_can_use_tools_in_multi-turn_conversations/2",
                "049-ruby_llm-vcr_cassettes-chat_function_calling_gemini_gemini-2_5-flash_can_use_tools_in_multi-turn_conversations/3",
                "049-ruby_llm-vcr_cassettes-chat_function_calling_gemini_gemini-2_5-flash_can_use_tools_in_multi-turn_conversations/4",
                "050-ruby_llm-vcr_cassettes-chat_function_calling_gemini_gemini-2_5-flash_can_use_tools_with_multi-turn_streaming_conversations/2",
                "050-ruby_llm-vcr_cassettes-chat_function_calling_gemini_gemini-2_5-flash_can_use_tools_with_multi-turn_streaming_conversations/3",
                "050-ruby_llm-vcr_cassettes-chat_function_calling_gemini_gemini-2_5-flash_can_use_tools_with_multi-turn_streaming_conversations/4",
                "052-ruby_llm-vcr_cassettes-chat_function_calling_gemini_gemini-2_5-flash_can_use_tools_without_parameters_in_multi-turn_streaming_conversations/2",
                "052-ruby_llm-vcr_cassettes-chat_function_calling_gemini_gemini-2_5-flash_can_use_tools_without_parameters_in_multi-turn_streaming_conversations/3",
                "052-ruby_llm-vcr_cassettes-chat_function_calling_gemini_gemini-2_5-flash_can_use_tools_without_parameters_in_multi-turn_streaming_conversations/4",
                "056-ruby_llm-vcr_cassettes-chat_function_calling_vertexai_gemini-2_5-flash_can_use_parallel_tool_calls/2",
                "057-ruby_llm-vcr_cassettes-chat_function_calling_vertexai_gemini-2_5-flash_can_use_tools/2",
                "061-ruby_llm-vcr_cassettes-chat_function_calling_vertexai_gemini-2_5-flash_can_use_tools_without_parameters_in_multi-turn_streaming_conversations/2",
                "061-ruby_llm-vcr_cassettes-chat_function_calling_vertexai_gemini-2_5-flash_can_use_tools_without_parameters_in_multi-turn_streaming_conversations/3",
                "061-ruby_llm-vcr_cassettes-chat_function_calling_vertexai_gemini-2_5-flash_can_use_tools_without_parameters_in_multi-turn_streaming_conversations/4",
                "072-fantasy-gemini-2.5-flash-multi_tool/2",
                "073-fantasy-gemini-2.5-flash-multi_tool_streaming/2",
                "076-fantasy-gemini-2.5-pro-multi_tool/2",
                "085-fantasy-vertex-gemini-2-5-flash-multi_tool_streaming/2",
                "086-fantasy-vertex-gemini-2-5-flash-tool/2",
                "087-fantasy-vertex-gemini-2-5-flash-tool_streaming/2",
                "089-fantasy-vertex-gemini-2-5-pro-multi_tool_streaming/2",
                "090-fantasy-vertex-gemini-2-5-pro-tool/2",
                "091-fantasy-vertex-gemini-2-5-pro-tool_streaming/2",
                "092-fantasy-gemini-2.5-flash-thinking-streaming/2",
                "094-fantasy-gemini-2.5-pro-thinking-streaming/2",
                "101-mirascope-google_gemini_2_5_flash-async/2",
                "102-mirascope-google_gemini_2_5_flash-async_stream/2",
                "103-mirascope-google_gemini_2_5_flash-stream/2",
                "104-mirascope-google_gemini_2_5_flash-sync/2",
                "105-mirascope-google_gemini_2_5_flash-async/2",
                "106-mirascope-google_gemini_2_5_flash-async_stream/2",
                "107-mirascope-google_gemini_2_5_flash-stream/2",
                "108-mirascope-google_gemini_2_5_flash-sync/2",
                "109-mirascope-google_gemini_2_5_flash-async/2",
                "110-mirascope-google_gemini_2_5_flash-async_stream/2",
                "111-mirascope-google_gemini_2_5_flash-stream/2",
                "112-mirascope-google_gemini_2_5_flash-sync/2",
            ],
            Reason.TWIN,
        ),
        **_each(
            [
                "053-ruby_llm-vcr_cassettes-chat_function_calling_thought_signatures_gemini_gemini-3_1-pro-preview_includes_thought_signatures_for_tool_calls/2",
                "054-ruby_llm-vcr_cassettes-chat_function_calling_thought_signatures_vertexai_gemini-3_1-pro-preview_includes_thought_signatures_for_tool_calls/2",
                "062-ruby_llm-vcr_cassettes-chat_multimodal_tool_attachments_gemini_gemini-2_5-flash_describes_images_returned_from_tools/2",
                "066-ruby_llm-vcr_cassettes-chat_multimodal_tool_attachments_vertexai_gemini-3-flash-preview_describes_images_returned_from_tools/2",
            ],
            Reason.LOOKALIKE,
        ),
    },
    head_cut={},
    injected={
        "alone": 134,
        "responses in pieces": 134,
        "redis": 134,
        "dropped": 10,
        "one tenant": 101,
    },
)
