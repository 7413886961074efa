"""
Rules: what the vendors of Chat Completions refuse beyond the strict API, in their words.

Those of DeepSeek and Moonshot are the strict API's own.
"""

import base64
import binascii
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from reasoning_replay.strict_api import Item
from reasoning_replay.strict_api.chat import question
from reasoning_replay.strict_api.dialect import Refused, Rule
from reasoning_replay.strict_api.gemini import CORRUPTED, MISSING
from reasoning_replay.strict_api.ledger import Judgement

from tests.standin.chat.families import Family, FamilyName
from tests.standin.chat.messages import FRAME, SENTINELS, reasoning_of
from tests.standin.judging import WRONG, ApiRefusal, index_of

__all__ = ["error_of", "refusals"]

# The vendors do not notice it, so the words are the stand-in's own.
NEVER_EMITTED = Rule(
    "messages[{}] has reasoning that is not what was emitted for it (stand-in)", "tests", "2026-11"
)
NOT_BASE64 = Rule(
    "Invalid value at 'contents[{}].parts[0].thought_signature' (TYPE_BYTES), Base64 decoding"
    ' failed for "{}"',
    "github.com/QuantumNous/new-api/issues/2257",
    "2026-11",
)
OPENROUTER_MISSING = Rule(
    "Gemini models require OpenRouter reasoning details to be preserved in each request. Please"
    " refer to our docs: https://openrouter.ai/docs/guides/best-practices/reasoning-tokens"
    "#preserving-reasoning-blocks. Upstream error: {}\n",
    "github.com/open-webui/open-webui/issues/19328",
    "2026-11",
    param="Google AI Studio",
)
OPENROUTER_CORRUPTED = Rule(
    "{}\n", "github.com/open-webui/open-webui/issues/27467", "2026-11", param="Google AI Studio"
)
OPENROUTER_SIGNATURE = Rule(
    "{}", "github.com/synthetic-sciences/openscience/issues/167", "2026-11", param="Anthropic"
)
# An error inside a 200: UKGovernmentBEIS/inspect_ai#3986.
FOREIGN_ID = ApiRefusal(200, {"error": {"code": 400, "message": "Provider returned error"}})
GROQ_UNSUPPORTED = Rule(
    "'messages.{0}' : for 'role:assistant' the following must be satisfied"
    "[('messages.{0}' : property '{1}' is unsupported)]",
    "github.com/vellum-ai/vellum/issues/42635",
    "2026-11",
)
CEREBRAS_UNSUPPORTED = Rule(
    "messages.{0}.assistant.{1}: property 'messages.{0}.assistant.{1}' is unsupported",
    "github.com/QwenLM/qwen-code/issues/11045",
    "2026-11",
    code="wrong_api_format",
    param="validation_error",
)


class _Case(Struct, frozen=True, kw_only=True):
    """A request, and what was found in it."""

    body: Item
    messages: Sequence[Item]
    judgement: Judgement

    def judged(self) -> Iterator[tuple[int, Item]]:
        """Yield the assistant messages of the current round, with their index."""
        start = question(self.messages) + 1
        for index, message in enumerate(self.messages):
            if index >= start and message.get("role") == "assistant":
                yield index, message

    def wrong(self) -> set[int]:
        """Return the messages with reasoning of another one, of another model, or damaged."""
        lost = self.judgement.lost
        return {index_of(one) for one in lost if one.state in WRONG}


def refusals(
    family: Family, body: Item, messages: Sequence[Item], judgement: Judgement
) -> Iterator[Refused]:
    """Yield what a vendor refuses in a request, given what was found in it."""
    for index, message in enumerate(messages):
        if message.get("role") == "assistant":
            for path in reasoning_of(message):
                if path.rpartition(".")[2] in family.refuses:
                    yield _UNKNOWN_MEMBER[family.name](index, path)
    case = _Case(body=body, messages=messages, judgement=judgement)
    if family.name in _RULES:
        yield from _RULES[family.name](case)


def error_of(family: Family, refused: Refused) -> Any:
    """Return the body of a refusal, as the vendor has it."""
    words, kind = refused.message, "invalid_request_error"
    match family.name:
        case "gemini":
            return [_google(words)]
        case "openrouter" if refused.param:
            more = {"raw": words, "provider_name": refused.param}
            error = {"message": "Provider returned error", "code": 400, "metadata": more}
            return {"error": error, "user_id": "user_standin"}
        case "cerebras" if refused.code:
            return {"message": words, "type": kind, "param": refused.param, "code": refused.code}
    return {"error": {"message": words, "type": kind, "param": None, "code": kind}}


def _never_emitted(case: _Case) -> Iterator[Refused]:
    """Refuse reasoning of another message; an empty text is none."""
    for one in case.judgement.lost:
        message = case.messages[index_of(one)]
        is_said = reasoning_of(message).get(one.path.partition("].")[2]) != ""
        if one.state in {"damaged", "misplaced", "repeated"} and is_said:
            yield NEVER_EMITTED(index_of(one))


def _gemini(case: _Case) -> Iterator[Refused]:
    """The first call of each step of the current round has its signature, byte for byte."""
    for index, message in case.judged():
        calls = message.get("tool_calls") or ()
        if not calls:
            continue
        extra = calls[0].get("extra_content") or {}
        signature = (extra.get("google") or {}).get("thought_signature")
        if not signature:
            yield _missing(case.messages, index)
        elif signature in SENTINELS:
            continue
        elif not _is_base64(signature):
            yield NOT_BASE64(_position(case.messages, index) - 1, signature)
        elif index in case.wrong():
            yield CORRUPTED()


def _openrouter(case: _Case) -> Iterator[Refused]:
    """Gemini demands its details, Claude refuses damaged ones, and other models accept all."""
    vendor = str(case.body.get("model")).partition("/")[0]
    if vendor == "google":
        yield from _openrouter_gemini(case)
    elif vendor == "anthropic":
        for index, _ in case.judged():
            if index in case.wrong():
                said = f"messages.{index}.content.0: Invalid `signature` in `thinking` block"
                error = {"type": "invalid_request_error", "message": said}
                yield OPENROUTER_SIGNATURE(json.dumps({"type": "error", "error": error}))
    yield from _never_emitted(case)


def _openrouter_gemini(case: _Case) -> Iterator[Refused]:
    for index, message in case.judged():
        calls = message.get("tool_calls") or ()
        entries = message.get("reasoning_details") or ()
        ids = {call.get("id") for call in calls}
        blobs = [one for one in entries if one.get("type") == "reasoning.encrypted"]
        if any(one.get("id") not in ids for one in blobs):
            yield FOREIGN_ID
        if calls and not blobs:
            missing = _missing(case.messages, index).message
            yield OPENROUTER_MISSING(json.dumps(_google(missing), indent=2))
        elif index in case.wrong():
            yield OPENROUTER_CORRUPTED(json.dumps(_google(CORRUPTED.words), indent=2))


_RULES: Mapping[FamilyName, Callable[[_Case], Iterator[Refused]]] = {
    "deepseek": _never_emitted,
    "kimi": _never_emitted,
    "gemini": _gemini,
    "openrouter": _openrouter,
}
_UNKNOWN_MEMBER: Mapping[FamilyName, Rule] = {
    "groq": GROQ_UNSUPPORTED,
    "cerebras": CEREBRAS_UNSUPPORTED,
}


def _missing(messages: Sequence[Item], index: int) -> Refused:
    function = messages[index]["tool_calls"][0].get("function") or {}
    return MISSING(function.get("name"), _position(messages, index))


def _position(messages: Sequence[Item], index: int) -> int:
    """Return the position of a message in Gemini's own form, which has no system messages."""
    return 1 + sum(one.get("role") not in FRAME for one in messages[:index])


def _google(message: str) -> Mapping[str, Any]:
    return {"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}}


def _is_base64(value: object) -> bool:
    try:
        base64.b64decode(str(value).encode(), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        return False
    return True
