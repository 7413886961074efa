"""
Tables of the exchanges with ambiguous reasoning, by name, with the reason.

The tests fail if an entry is missing or superfluous. Every entry is proven: `twins` finds the other
conversation with the same visible content.
"""

from collections.abc import Iterable, Mapping

from tests.recordings.responses.client import Variant

_HELLO = (
    "the client sends no ids, and two other conversations of the same tenant begin with the same "
    'request and response, "Hello!" included'
)
_PRIMES = (
    "without ids: nine other conversations of the same tenant begin with the same question and "
    'the same response, "3"'
)
_SAY_HELLO = (
    "without ids: seven other conversations of the same tenant begin with the same request and "
    'the same response, "Hello"'
)


def _each(names: Iterable[str], why: str) -> dict[str, str]:
    return {f"{name}/2": why for name in names}


_WITHOUT_IDS_OF_THEIR_OWN = _each(
    [
        "014-opencode-openai-responses-gpt-5-5-reasoning-continuation",
        "043-opencode-openai-responses-gpt-5-5-reasoning-continuation-old-cb02879",
        "044-opencode-openai-responses-gpt-5-5-reasoning-continuation-old-f2f2ace",
    ],
    _HELLO,
)
_WITHOUT_IDS = {
    **_WITHOUT_IDS_OF_THEIR_OWN,
    **_each(
        [
            "035-mirascope-test_call_with_thinking_true-openai_gpt_5_responses-stream-old-1dcef68",
            "037-mirascope-test_call_with_thinking_true-openai_responses_gpt_5-stream-old-fee3a62",
            "039-mirascope-test_call_with_thinking_true-openai_responses_gpt_5-stream-old-6961820",
            "040-mirascope-call_with_thinking_true-openai_responses-async_stream-old-9b5fecf",
            "157-mirascope-test_call_with_thinking_true-openai_gpt_5_responses-async-old-6af9db6",
            "159-mirascope-test_call_with_thinking_true-openai_responses_gpt_5-async-old-1db8de6",
            "161-mirascope-test_call_with_thinking_true-openai_responses_gpt_5-async-old-e1a23e2",
        ],
        _PRIMES,
    ),
    **_each(
        [
            "011-mirascope-resume-openai_responses-context-resumestream-returns-streaming-response",
            "013-mirascope-resume-openai_responses-resumes-conversation-after-streaming",
            "123-mirascope-resume-openai_responses-resumes-conversation-with-new-content",
            "166-mirascope-resume-openai_responses-resumes-conversation-with-new-content-old-990db67",
        ],
        _SAY_HELLO,
    ),
}

# A conversation alone in its tenant is never ambiguous.
ALONE: Mapping[Variant, Mapping[str, str]] = {
    Variant.IDS_KEPT: {},
    Variant.IDS_DROPPED: {},
    Variant.HEAD_CUT: {},
    Variant.HEAD_CUT_IDS_DROPPED: {},
}
ONE_TENANT: Mapping[Variant, Mapping[str, str]] = {
    Variant.IDS_KEPT: _WITHOUT_IDS_OF_THEIR_OWN,
    Variant.IDS_DROPPED: _WITHOUT_IDS,
    Variant.HEAD_CUT: _WITHOUT_IDS_OF_THEIR_OWN,
    Variant.HEAD_CUT_IDS_DROPPED: _WITHOUT_IDS,
}
