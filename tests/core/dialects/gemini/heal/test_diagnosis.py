"""Diagnosis: the texts of Google's refusals, as issues quote them."""

import json
from typing import Any

import pytest
from reasoning_replay.core.dialects.gemini.heal.diagnosis import (
    RefusalKind,
    diagnose,
    is_failing,
    is_refusing,
    maybe_failing,
)

LACKS = (
    "Function call is missing a thought_signature in functionCall parts. This is required for "
    "tools to work correctly, and missing thought_signature may lead to degraded model "
    "performance. Additional data, function call `default_api:get_weather` , position 2."
)
LACKS_CLOUD = (
    "Unable to submit request because function call `get_weather` in the 2. content block is "
    "missing a `thought_signature`."
)
CASES = [
    (LACKS, RefusalKind.LACKS_REASONING),
    (LACKS_CLOUD, RefusalKind.LACKS_REASONING),
    ("Corrupted thought signature.", RefusalKind.BLOB),
    ("Invalid thought signature.", RefusalKind.BLOB),
    ("Thought signature is not valid", RefusalKind.BLOB),
    ("Unknown name \"thoughtSignature\" at 'contents[1].parts[0]'", RefusalKind.FIELD),
    ("Thought signatures are not accepted here.", RefusalKind.INPUT),
    ("API key not valid. Please pass a valid API key.", RefusalKind.OTHER),
    ("", RefusalKind.OTHER),
]


def error(message: str, code: int = 400) -> dict[str, Any]:
    """Return an error as Google writes it."""
    return {"error": {"code": code, "message": message, "status": "INVALID_ARGUMENT"}}


@pytest.mark.parametrize(("message", "kind"), CASES)
def test_the_kind_of_a_refusal(message: str, kind: RefusalKind) -> None:
    """The same in a list, as the stream without server-sent events has it, and in a gateway's."""
    wrapped = {"error": {"message": "failed", "metadata": {"raw": json.dumps(error(message))}}}
    for body in (error(message), [error(message)], wrapped):
        assert diagnose(400, json.dumps(body).encode()).kind is kind
    assert diagnose(429, json.dumps(error(message)).encode()).kind is RefusalKind.OTHER


def test_a_signature_that_is_not_valid_base64_is_named() -> None:
    """By its place, and by its beginning."""
    said = diagnose(
        400,
        json.dumps(
            error(
                "Invalid value at 'contents[2].parts[1].thought_signature' (TYPE_BYTES), Base64 "
                'decoding failed for "EpwC_x"'
            )
        ).encode(),
    )
    assert (said.kind, said.content, said.part) == (RefusalKind.BLOB, 2, 1)
    assert said.quoted == {"EpwC_x"}


MISSING = {"candidates": [{"content": {}, "finishReason": "MISSING_THOUGHT_SIGNATURE"}]}
WHOLE = {"candidates": [{"content": {"parts": [{"text": "MISSING_THOUGHT_SIGNATURE"}]}}]}
FAILURES: list[tuple[Any, bool, bool]] = [
    (MISSING, True, True),
    (error("x"), True, True),
    (error("x", 503), True, False),
    ({"error": {"message": "x"}}, True, False),
    (WHOLE, False, False),
    (
        {"candidates": [{**WHOLE["candidates"][0], "finishReason": "MISSING_THOUGHT_SIGNATURE"}]},
        False,
        False,
    ),
    ({"usageMetadata": {}}, False, False),
    (5, False, False),
    ([], False, False),
]


@pytest.mark.parametrize(("data", "fails", "refuses"), FAILURES)
def test_a_response_with_success_may_be_a_failure(data: Any, *, fails: bool, refuses: bool) -> None:
    """It says so in an error, or in the reason of a candidate that has nothing else."""
    for body in (data, [data]):
        raw = json.dumps(body, indent=2).encode()
        assert is_failing(raw) is fails
        assert (fails and is_refusing(raw)) is refuses


def test_a_missing_signature_is_what_such_a_response_reports() -> None:
    """Its beginning tells that it must be read."""
    raw = json.dumps(MISSING, indent=2).encode()
    assert diagnose(400, raw).kind is RefusalKind.LACKS_REASONING
    assert diagnose(400, b"[" + raw + b"]").kind is RefusalKind.LACKS_REASONING
    assert maybe_failing(raw) is True
    assert maybe_failing(raw[:40]) is None
    assert maybe_failing(b'{"candidates":[{"content":{"parts":[{"text":"' + b"x" * 128) is False
    assert is_refusing(b"5") is False
