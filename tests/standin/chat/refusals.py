"""
Refusals of Chat Completions, word for word: status and body, as each vendor sends them.

Texts and shapes are those of public issue reports; the few that are not confirmed are marked.
The functions insert names and positions.
"""

import json
from collections.abc import Mapping
from typing import Any

from tests.standin.common.server import ApiRefusal

GOOGLE_DOCS = "https://ai.google.dev/gemini-api/docs/thought-signatures"
OPENROUTER_DOCS = (
    "https://openrouter.ai/docs/guides/best-practices/reasoning-tokens#preserving-reasoning-blocks"
)


def deepseek_missing() -> ApiRefusal:
    """Refuse a message without `reasoning_content` in the current round."""
    return _openai("The `reasoning_content` in the thinking mode must be passed back to the API.")


def kimi_missing(index: int) -> ApiRefusal:
    """Refuse a message with calls and without `reasoning_content`; the code is not confirmed."""
    said = (
        "thinking is enabled but reasoning_content is missing in assistant tool call message at"
        f" index {index}"
    )
    return ApiRefusal(400, {"error": {"message": said, "type": "invalid_request_error"}})


def never_emitted(index: int, path: str) -> ApiRefusal:
    """Refuse reasoning that was not emitted for this message: in the words of this stand-in."""
    said = f"messages[{index}].{path} is not what was emitted for this message (stand-in)"
    return _openai(said, code="wrong_reasoning")


def gemini_missing(name: str, position: int) -> ApiRefusal:
    """Refuse the first call of a step without its signature."""
    return ApiRefusal(400, [_google(_missing_signature(name, position))])


def gemini_corrupted() -> ApiRefusal:
    """Refuse a signature that was not issued for this call."""
    return ApiRefusal(400, [_google("Corrupted thought signature.")])


def gemini_not_base64(position: int, value: str) -> ApiRefusal:
    """Refuse a signature that is not standard base64."""
    said = (
        f"Invalid value at 'contents[{position - 1}].parts[0].thought_signature' (TYPE_BYTES),"
        f' Base64 decoding failed for "{value}"'
    )
    return ApiRefusal(400, [_google(said)])


def openrouter_missing(name: str, position: int) -> ApiRefusal:
    """Refuse a message of a Gemini model without its details."""
    upstream = json.dumps(_google(_missing_signature(name, position)), indent=2)
    raw = (
        "Gemini models require OpenRouter reasoning details to be preserved in each request."
        f" Please refer to our docs: {OPENROUTER_DOCS}. Upstream error: {upstream}\n"
    )
    return _openrouter(raw, "Google AI Studio")


def openrouter_corrupted() -> ApiRefusal:
    """Refuse details of a Gemini model that were not issued for this message."""
    raw = json.dumps(_google("Corrupted thought signature."), indent=2)
    return _openrouter(raw + "\n", "Google AI Studio")


def openrouter_bad_signature(index: int) -> ApiRefusal:
    """Refuse details of a Claude model whose text and signature do not belong together."""
    said = f"messages.{index}.content.0: Invalid `signature` in `thinking` block"
    error = {"type": "error", "error": {"type": "invalid_request_error", "message": said}}
    return _openrouter(json.dumps(error), "Anthropic")


def openrouter_foreign_id() -> ApiRefusal:
    """Refuse an encrypted entry that names no call of its message: an error inside a 200."""
    return ApiRefusal(200, {"error": {"code": 400, "message": "Provider returned error"}})


def groq_unsupported(index: int, name: str) -> ApiRefusal:
    """Refuse a member that Groq does not know."""
    said = (
        f"'messages.{index}' : for 'role:assistant' the following must be satisfied"
        f"[('messages.{index}' : property '{name}' is unsupported)]"
    )
    return ApiRefusal(400, {"error": {"message": said, "type": "invalid_request_error"}})


def cerebras_unsupported(index: int, name: str) -> ApiRefusal:
    """Refuse a member that Cerebras does not know; its error has no envelope."""
    where = f"messages.{index}.assistant.{name}"
    return ApiRefusal(
        400,
        {
            "message": f"{where}: property '{where}' is unsupported",
            "type": "invalid_request_error",
            "param": "validation_error",
            "code": "wrong_api_format",
        },
    )


def unreadable(detail: str) -> ApiRefusal:
    """Refuse a body that is not a request; in the words of this stand-in."""
    return _openai(f"We could not read your request: {detail}", code=None)


def _openai(message: str, code: str | None = "invalid_request_error") -> ApiRefusal:
    error = {
        "message": message,
        "type": "invalid_request_error",
        "param": None,
        "code": code,
    }
    return ApiRefusal(400, {"error": error})


def _google(message: str) -> Mapping[str, Any]:
    return {"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}}


def _missing_signature(name: str, position: int) -> str:
    return (
        "Function call is missing a thought_signature in functionCall parts. This is required for"
        " tools to work correctly, and missing thought_signature may lead to degraded model"
        f" performance. Additional data, function call `default_api:{name}` , position {position}."
        f" Please refer to {GOOGLE_DOCS} for more details."
    )


def _openrouter(raw: str, provider: str) -> ApiRefusal:
    error = {
        "message": "Provider returned error",
        "code": 400,
        "metadata": {"raw": raw, "provider_name": provider},
    }
    return ApiRefusal(400, {"error": error, "user_id": "user_standin"})
