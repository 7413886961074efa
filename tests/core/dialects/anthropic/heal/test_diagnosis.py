"""Diagnosis: the texts of refusals, as the vendors of this API send them."""

import json

import pytest
from reasoning_replay.core.dialects.anthropic.heal.diagnosis import (
    Diagnosis,
    RefusalKind,
    diagnose,
    is_failing_event,
    is_refusing_event,
)

K = RefusalKind
INVALID = "Invalid `signature` in `thinking` block"
# Text of a refusal, and its diagnosis.
TEXTS = [
    (
        (
            "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found "
            "`tool_use`. When `thinking` is enabled, a final `assistant` message must start with "
            "a thinking block."
        ),
        Diagnosis(K.LACKS_REASONING, 1, 0),
    ),
    (
        "The `content[].thinking` in the thinking mode must be passed back to the API.",
        Diagnosis(K.LACKS_REASONING),
    ),
    (
        (
            "thinking is enabled but reasoning_content is missing in assistant tool call "
            "message at index 3"
        ),
        Diagnosis(K.LACKS_REASONING),
    ),
    (f"messages.5.content.2: {INVALID}", Diagnosis(K.BLOB, 5, 2)),
    (f"messages[5].content[2]: {INVALID}", Diagnosis(K.BLOB, 5, 2)),
    ("messages.1.content.0: Invalid `data` in `redacted_thinking` block", Diagnosis(K.BLOB, 1, 0)),
    ("messages.1.content.0.thinking.signature: Field required", Diagnosis(K.BLOB, 1, 0)),
    (
        "messages.3.content.1.thinking: each thinking block must contain non-whitespace thinking",
        Diagnosis(K.BLOB, 3, 1),
    ),
    (
        (
            f"messages.3.content.0: {INVALID}. The block is bound to a different conversation. "
            "Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to "
            "`drop_block`. The `system` prompt differs from the one this block was created with."
        ),
        Diagnosis(K.BINDING, 3, 0),
    ),
    (
        "messages.5.content.1: remove the block, or set `prefix_mismatch_behavior` to `drop_block`",
        Diagnosis(K.BINDING, 5, 1),
    ),
    (
        "thinking.block_binding.prefix_mismatch_behavior: Extra inputs are not permitted",
        Diagnosis(K.OTHER),
    ),
    (
        (
            "messages.135.content.13: `thinking` or `redacted_thinking` blocks in the latest "
            "assistant message cannot be modified. These blocks must remain as they were in the "
            "original response."
        ),
        Diagnosis(K.MODIFIED, 135, 13),
    ),
    (
        (
            "messages.1: When thinking is disabled, an `assistant` message in the final position "
            "cannot contain `thinking`."
        ),
        Diagnosis(K.SWITCHED_OFF, 1),
    ),
    (
        (
            "messages.1.content.0: Input tag 'thinking' found using 'type' does not match any of "
            "the expected tags: 'text', 'image'"
        ),
        Diagnosis(K.FIELD, 1, 0),
    ),
    ("unknown variant `redacted_thinking`, expected `text`", Diagnosis(K.FIELD)),
    ("Unsupported content type: thinking", Diagnosis(K.FIELD)),
    ("messages.1.content.0.thinking: Input should be a valid string", Diagnosis(K.INPUT, 1, 0)),
    ("Too many thinking blocks", Diagnosis(K.INPUT)),
    ("max_tokens: must be greater than `thinking.budget_tokens`", Diagnosis(K.OTHER)),
    ("messages.1.content.0: text content blocks must be non-empty", Diagnosis(K.OTHER)),
    ("prompt is too long", Diagnosis(K.OTHER)),
]


@pytest.mark.parametrize(("text", "want"), TEXTS)
def test_texts(text: str, want: Diagnosis) -> None:
    """The text decides, in an error of Anthropic, of a cloud and of a gateway."""
    error = {"type": "invalid_request_error", "message": text}
    bodies = [
        json.dumps({"type": "error", "error": error}),
        json.dumps({"message": text}),
        json.dumps({"error": {"message": "Provider returned error", "metadata": {"raw": text}}}),
        text,
    ]
    for body in bodies:
        assert diagnose(400, body.encode()) == want
    assert diagnose(500, bodies[0].encode()).kind is K.OTHER
    assert want.is_understood is (want.kind is not K.OTHER)


@pytest.mark.parametrize(
    ("data", "is_failing", "is_refusing"),
    [
        (b'{"type":"error","error":{"type":"invalid_request_error"}}', True, True),
        (b'{"type":"error","error":{"type":"overloaded_error"}}', True, False),
        (b'{"type":"error","error":"x"}', True, False),
        (b'{"type":"message_start","message":{}}', False, False),
        (b'{"error":{"type":"invalid_request_error"}}', False, False),
        (b"[]", False, False),
        (b"x", False, False),
    ],
)
def test_events(data: bytes, is_failing: bool, is_refusing: bool) -> None:
    """Only an error event fails a stream, and only one of the request refuses it."""
    assert is_failing_event(data) is is_failing
    assert is_refusing_event(data) is is_refusing
