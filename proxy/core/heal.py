"""
Read a refusal: does it name something that we did, or could have done without?

Only what upstream says decides; nothing is guessed from a status alone.
Texts: OpenAI and vendors behind the same API, as quoted in public issues.
"""

import re
from enum import StrEnum

import msgspec
from msgspec import Raw

from proxy.core import spans

__all__ = ["Refusal", "diagnose", "is_refusal"]

# The statuses that the API answers bad input with; 429 and 5xx are never healed.
_STATUSES = frozenset({400, 404, 422})

_INCLUDE = re.compile(r"Encrypted content is not supported with this model", re.IGNORECASE)
_OURS = re.compile(
    r"'reasoning'|reasoning_(?:text|content)|reasoning (?:input )?item|encrypted[ _]content"
    r"|required following item|Duplicate item|Item with id|input\[\d+\]|Invalid 'input"
    r"|message id must be|different Azure OpenAI resource",
    re.IGNORECASE,
)


class _Error(msgspec.Struct):
    message: Raw = Raw(b"")
    param: Raw = Raw(b"")
    code: Raw = Raw(b"")


class _Body(msgspec.Struct):
    error: Raw = Raw(b"")
    detail: Raw = Raw(b"")


class Refusal(StrEnum):
    """What a refusal is about, as far as it concerns us."""

    INCLUDE = "include"  # the model knows no encrypted reasoning
    INPUT = "input"  # items, ids or reasoning: our edits may be the cause
    OTHER = "other"


def is_refusal(status: int) -> bool:
    """Tell whether an answer of this status is worth reading."""
    return status in _STATUSES


def diagnose(status: int, body: bytes) -> Refusal:
    """
    Tell what a refusal is about.

    Args:
        status: HTTP status of the answer.
        body: The answer's, whole and decoded; JSON in any of the known forms, or plain text.
    """
    if not is_refusal(status):
        return Refusal.OTHER
    message, param = _read(body)
    if param == "include" or param.startswith("include[") or _INCLUDE.search(message):
        return Refusal.INCLUDE
    if param == "input" or param.startswith("input[") or _OURS.search(message):
        return Refusal.INPUT
    return Refusal.OTHER


def _read(body: bytes) -> tuple[str, str]:
    """Return (message, param) of an error body; the whole text and "" when it is not JSON."""
    try:
        outer = msgspec.json.decode(body, type=_Body)
        message = spans.text(outer.error) or spans.text(outer.detail)
        if message is not None:
            return message, ""
        error = msgspec.json.decode(outer.error, type=_Error)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return body.decode("utf-8", "replace"), ""
    return spans.text(error.message) or "", spans.text(error.param) or ""
