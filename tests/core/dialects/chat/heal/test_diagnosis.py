"""Diagnosis of refusals: read from the words of the error, never from its status alone."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reasoning_replay.core.dialects.chat.heal.diagnosis import (
    Demand,
    Diagnosis,
    RefusalKind,
    diagnose,
    is_failing,
    is_refusing,
    maybe_failing,
)

from tests.core.documents import values

OTHER = Diagnosis(RefusalKind.OTHER)
INPUT = Diagnosis(RefusalKind.INPUT)
BLOB = Diagnosis(RefusalKind.BLOB)
CACHE_KEY = Diagnosis(RefusalKind.CACHE_KEY)
LACKS_TEXT = Diagnosis(RefusalKind.LACKS_REASONING, "reasoning_content")
LACKS_CALLS = replace(LACKS_TEXT, demand=Demand.CALLS)
LACKS_SIGNATURE = Diagnosis(RefusalKind.LACKS_REASONING, "extra_content")
LACKS_DETAILS = Diagnosis(RefusalKind.LACKS_REASONING, "reasoning_details")
REFUSES_TEXT = Diagnosis(RefusalKind.FIELD, refused=frozenset({"reasoning_content"}))


def error(message: str, **more: object) -> dict[str, object]:
    """Return an error in OpenAI's structure."""
    return {"error": {"message": message, "type": "invalid_request_error", **more}}


def google(message: str) -> dict[str, object]:
    """Return an error of Google."""
    return {"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}}


def openrouter(raw: object) -> dict[str, object]:
    """Return an error of OpenRouter, with the text of the vendor in it."""
    text = raw if isinstance(raw, str) else json.dumps(raw, indent=2) + "\n"
    metadata = {"raw": text, "provider_name": "Google AI Studio", "is_byok": False}
    return {
        "error": {"message": "Provider returned error", "code": 400, "metadata": metadata},
        "user_id": "user_1",
    }


STUDIO = (
    "Function call is missing a thought_signature in functionCall parts. This is required for"
    " tools to work correctly, and missing thought_signature may lead to degraded model"
    " performance. Additional data, function call `default_api:shell` , position 2. Please refer to"
    " https://ai.google.dev/gemini-api/docs/thought-signatures for more details."
)
VERTEX = (
    "Unable to submit request because function call `default_api:run_programming_task` in the 2."
    " content block is missing a `thought_signature`. Learn more:"
    " https://docs.cloud.google.com/vertex-ai/generative-ai/docs/thought-signatures"
)
NOT_VALID = (
    "Unable to submit request because Thought signature is not valid.. Learn more:"
    " https://cloud.google.com/vertex-ai/generative-ai/docs/model-reference/gemini"
)
DETAILS = (
    "Gemini models require OpenRouter reasoning details to be preserved in each request. Please"
    " refer to our docs: https://openrouter.ai/docs/guides/best-practices/reasoning-tokens"
    "#preserving-reasoning-blocks. Upstream error: "
)
BASE64 = (
    "Invalid value at 'contents[2].parts[0].thought_signature' (TYPE_BYTES), Base64 decoding"
    ' failed for "Es4DCssDAb4+9vufInTO/GG8DZ4dS7"'
)
PASSED_BACK = "The `reasoning_content` in the thinking mode must be passed back to the API."
KIMI = (
    "thinking is enabled but reasoning_content is missing in assistant tool call message at index"
)
NOT_KEPT = (
    "preserved thinking (thinking.keep=all) requires reasoning_content on every assistant message,"
    " but assistant message at index 3 is missing reasoning_content"
)
STARTS_WITH = (
    "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`."
    " When `thinking` is enabled, a final `assistant` message must start with a thinking block."
)
MODIFIED = (
    "messages.3.content.1: `thinking` or `redacted_thinking` blocks in the latest assistant message"
    " cannot be modified. These blocks must remain as they were in the original response."
)
DISABLED = (
    "When thinking is disabled, an `assistant` message in the final position cannot contain"
    " `thinking`. To use thinking blocks, enable `thinking` in your request."
)
GROQ = (
    "'messages.1' : for 'role:assistant' the following must be satisfied[('messages.1' : property"
    " 'reasoning_content' is unsupported)]"
)
CEREBRAS = (
    "messages.2.assistant.reasoning_content: property 'messages.2.assistant.reasoning_content' is"
    " unsupported\nmessages.4.assistant.reasoning_content: property"
    " 'messages.4.assistant.reasoning_content' is unsupported"
)
ANTHROPIC = "messages.7.content.2: Invalid `signature` in `thinking` block"
SOURCE = "For more information, please refer to https://api-docs.deepseek.com/guides/thinking_mode"


def forbidden(*names: str) -> list[dict[str, object]]:
    """Return Mistral's details about members that it does not accept."""
    return [
        {
            "type": "extra_forbidden",
            "loc": ["body", "messages", 31, "assistant", *name.split(".")],
            "msg": "Extra inputs are not permitted",
            "input": f"Corrupted thought signature. {PASSED_BACK}",  # quotes the client's text
        }
        for name in names
    ]


# (status, body as seen from an upstream, its diagnosis)
SAID = [
    # K1-K3: DeepSeek, Moonshot, SiliconFlow, and gateways in front of them
    (400, error(PASSED_BACK, param=None, code="invalid_request_error"), LACKS_TEXT),
    (400, error(PASSED_BACK.replace("`", "")), LACKS_TEXT),
    (
        400,
        error(f"Error from provider (Console): Upstream request failed: [x] {PASSED_BACK}"),
        LACKS_TEXT,
    ),
    (
        400,
        error(
            "Missing `reasoning_content` field in the assistant message at message index 46. "
            + SOURCE
        ),
        LACKS_TEXT,
    ),
    (400, error("The `content[].thinking` in the thinking mode must be passed back."), LACKS_TEXT),
    (400, error(NOT_KEPT), replace(LACKS_TEXT, demand=Demand.MESSAGES)),
    (400, {**error(f"{KIMI} 12"), "type": "error"}, LACKS_CALLS),
    (400, {"code": 20015, "message": f"{KIMI} 32", "data": None}, LACKS_CALLS),
    (
        400,
        {"error": {"type": "<nil>", "message": f"{KIMI} 13 (request id: 2026)"}, "type": "error"},
        LACKS_CALLS,
    ),
    (400, openrouter(error(PASSED_BACK)), LACKS_TEXT),
    # G1-G4: Google, a list on its compatible endpoint
    (400, [google(STUDIO)], LACKS_SIGNATURE),
    (400, google(STUDIO), LACKS_SIGNATURE),
    (400, google(STUDIO.replace("`", "")), LACKS_SIGNATURE),
    (400, [google(VERTEX)], LACKS_SIGNATURE),
    (400, error(json.dumps(google(STUDIO)), code=400), LACKS_SIGNATURE),
    (400, [google("Corrupted thought signature.")], BLOB),
    (400, [google("Invalid thought signature.")], BLOB),
    (400, [google(NOT_VALID)], BLOB),
    (
        400,
        {"error": {"message": f"[gemini-cli/gemini-3-flash-preview] [400]: {NOT_VALID}"}},
        BLOB,
    ),
    (
        400,
        [google(f"{BASE64}\n{BASE64.replace('Es4D', 'EvcD')}")],
        Diagnosis(
            RefusalKind.BLOB,
            quoted=frozenset({"Es4DCssDAb4+9vufInTO/GG8DZ4dS7", "EvcDCssDAb4+9vufInTO/GG8DZ4dS7"}),
        ),
    ),
    # O1-O3: OpenRouter
    (400, openrouter(DETAILS + json.dumps(google(STUDIO), indent=2)), LACKS_DETAILS),
    (400, openrouter(DETAILS + json.dumps(google(VERTEX), indent=2)), LACKS_DETAILS),
    (400, openrouter(error(STARTS_WITH)), LACKS_DETAILS),
    (400, openrouter(error(STARTS_WITH.replace("`", ""))), LACKS_DETAILS),
    (400, openrouter({"message": ANTHROPIC}), BLOB),
    (400, openrouter(error(f"{ANTHROPIC} The block is bound to a different conversation.")), BLOB),
    (400, openrouter({"message": ANTHROPIC.replace("`", "")}), BLOB),
    (400, openrouter(error(ANTHROPIC)), BLOB),
    (400, openrouter(google("Corrupted thought signature.")), BLOB),
    (400, openrouter(google("Invalid thought signature.")), BLOB),
    (
        400,
        openrouter(google(BASE64)),
        Diagnosis(RefusalKind.BLOB, quoted=frozenset({"Es4DCssDAb4+9vufInTO/GG8DZ4dS7"})),
    ),
    (400, {"code": 400, "message": "Provider returned error"}, INPUT),
    (400, error("Provider returned error", code=400), INPUT),
    (
        400,
        {"error": {"type": "request_fail", "upstream_error": {"error": {"message": ANTHROPIC}}}},
        BLOB,
    ),
    # Members that are not accepted: Mistral, Groq, Cerebras, Google, OpenAI
    (422, {"object": "error", "message": {"detail": forbidden("reasoning_content")}}, REFUSES_TEXT),
    (422, {"detail": forbidden("reasoning_content", "reasoning_content")}, REFUSES_TEXT),
    (
        422,
        {"detail": forbidden("tool_calls.0.extra_content", "reasoning")},
        Diagnosis(RefusalKind.FIELD, refused=frozenset({"extra_content", "reasoning"})),
    ),
    (422, openrouter({"detail": forbidden("reasoning_content")}), REFUSES_TEXT),
    (400, error(GROQ), REFUSES_TEXT),
    (400, error("property 'reasoning_content' is unsupported"), REFUSES_TEXT),
    (400, error("Unrecognized request argument supplied: prompt_cache_key"), CACHE_KEY),
    (422, {"detail": forbidden("prompt_cache_key")}, CACHE_KEY),
    (400, error("Unknown argument.", param="prompt_cache_key"), CACHE_KEY),
    (
        400,
        {
            "message": CEREBRAS,
            "type": "invalid_request_error",
            "param": "validation_error",
            "code": "wrong_api_format",
        },
        REFUSES_TEXT,
    ),
    (
        400,
        [
            google(
                'Invalid JSON payload received. Unknown name "reasoning_content" at'
                " 'messages[1]': Cannot find field."
            )
        ],
        REFUSES_TEXT,
    ),
    (400, error("Unknown parameter: 'messages[1].reasoning_content'."), REFUSES_TEXT),
    (
        400,
        error("Additional properties are not allowed ('id', 'reasoning_content' was unexpected)"),
        REFUSES_TEXT,
    ),
    (400, error("messages.1.reasoning_content: Extra inputs are not permitted"), REFUSES_TEXT),
    # Perhaps about an injected member
    (400, error("Invalid type for messages[1].reasoning_details"), INPUT),
    (400, error("The thought signature has expired"), INPUT),
    (400, openrouter(error(MODIFIED)), INPUT),
    (400, openrouter(error(DISABLED)), INPUT),
    (400, openrouter(error("each thinking block must contain non-whitespace thinking")), INPUT),
    # Not about reasoning
    (400, error("property 'store' is unsupported, did you mean 'stop'?"), OTHER),
    (
        422,
        {"detail": [{"type": "extra_forbidden", "loc": ["body", "tools"], "msg": "Extra inputs"}]},
        OTHER,
    ),
    (422, {"detail": forbidden("tool_calls.0.name")}, OTHER),
    (400, error("Provider returned error: maximum of 4 blocks with cache_control"), OTHER),
    (400, error("Thinking mode does not support this tool_choice"), OTHER),
    (400, error("maximum context length is 65536 tokens"), OTHER),
    (
        400,
        error("This model always engages in thinking and cannot be disabled; use low", code="1210"),
        OTHER,
    ),
    (401, error(PASSED_BACK), OTHER),
    (429, [google(STUDIO)], OTHER),
    (500, error(GROQ), OTHER),
]


@pytest.mark.parametrize(("status", "body", "diagnosis"), SAID)
def test_a_refusal_is_read_from_its_words(status: int, body: object, diagnosis: Diagnosis) -> None:
    """Each known text has its class, in every structure around it; all others have none."""
    found = diagnose(status, json.dumps(body).encode())
    assert found == diagnosis
    assert found.is_understood == (diagnosis.kind is not RefusalKind.OTHER)


def test_plain_text_counts_too() -> None:
    """Some gateways send the text alone."""
    assert diagnose(400, f"HTTP 400: {PASSED_BACK}".encode()) == LACKS_TEXT
    assert diagnose(400, b"") == OTHER


# (data, whether it is an error and nothing else, whether the request caused it)
EVENTS = [
    (error("no", code=400), True, True),
    (error("no", code="400"), True, True),
    (error("no", code=422), True, True),
    (error("no", code="invalid_request_error"), True, True),
    (error("no"), True, True),
    (error("no", code=502), True, False),
    (error("no", code=429), True, False),
    (error("no", code="4" * 10_000), True, True),
    ([google("no")], True, True),
    ({"code": 400, "message": "Provider returned error"}, True, True),
    ({"code": 20015, "message": KIMI}, True, True),
    ({"detail": "no"}, True, True),
    ({"object": "error", "message": "no"}, True, True),
    ({"error": "no"}, True, True),
    ({"choices": [{"delta": {}}], "error": None}, False, False),
    # The model has begun: what it said is the client's.
    ({"choices": [{"finish_reason": "error"}], "error": {"code": 400}}, False, False),
    ({"id": "gen-1", "choices": [], "error": {"code": 400}}, True, True),
    ({"id": "gen-1", "choices": []}, False, False),
    ({"error": None}, False, False),
    ([], False, False),
    ("error", False, False),
]


@pytest.mark.parametrize(("data", "failing", "refusing"), EVENTS)
def test_an_error_inside_a_success(data: object, *, failing: bool, refusing: bool) -> None:
    """An error in place of a response is found; its code tells whether the request caused it."""
    written = json.dumps(data).encode()
    assert (is_failing(written), is_refusing(written)) == (failing, refusing)


# (start of a response, whether it begins as an error)
STARTS = [
    (b"", None),
    (b"\n\n   \n", None),
    (b'\n {"err', None),
    (b'{"id":"gen-1","object":', None),
    (b'\n\n{"error":', True),
    (b'\xef\xbb\xbf{"error":', True),
    (b'[{\n  "error": {', True),
    (b'{"code":400,', True),
    (b'{"message":"Provider', True),
    (b'{"detail":[', True),
    (b'{"object":"error","message":', True),
    (b'{"type":"error","error":{', True),
    (b'{"id":"gen-1","object":"chat.completion","choices":[]}', False),
    (b'{"object":"chat.completion","choices":[]}', False),
    (b'{"choices":[{"message":{"role":"assistant","content":"error"}}]}', False),
    (b"<html><body>Bad gateway</body></html>", False),
]


@pytest.mark.parametrize(("start", "failing"), STARTS)
def test_the_start_of_an_error(start: bytes, *, failing: bool | None) -> None:
    """The first bytes of a response show whether it must be held: a success never is."""
    assert maybe_failing(start) is failing


@given(st.binary(max_size=40) | values.map(lambda written: b'{"error":' + written.text + b"}"))
def test_any_body_is_diagnosed(body: bytes) -> None:
    """Whatever an upstream sends, the diagnosis raises nothing."""
    assert isinstance(diagnose(400, body), Diagnosis)
    assert is_refusing(body) <= is_failing(body)
    maybe_failing(body)
