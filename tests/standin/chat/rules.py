"""
Rules: which of the findings about a request its vendor refuses, and in which words.

`refusal` is the only entry point. Pure: its inputs are a family, a request and its findings.
"""

import base64
import binascii
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from tests.standin.chat import refusals
from tests.standin.chat.families import Family, FamilyName
from tests.standin.chat.messages import FRAME, SENTINELS, last_user, reasoning_of
from tests.standin.chat.model import thinks
from tests.standin.common.judging import Finding, Message
from tests.standin.common.server import ApiRefusal

__all__ = ["refusal"]


class _Case(Struct, frozen=True, kw_only=True):
    """A request, its findings, and the index at which its judged part starts."""

    body: Message
    messages: Sequence[Message]
    findings: Sequence[Finding]
    start: int

    def judged(self) -> Iterator[tuple[int, Message]]:
        """Yield the assistant messages of the judged part, with their index."""
        for index, message in enumerate(self.messages):
            if index >= self.start and message.get("role") == "assistant":
                yield index, message

    def is_wrong(self, index: int) -> bool:
        """Return whether a message has reasoning of another one, or of another model."""
        return any(one.index == index and one.state in _NOT_ITS_OWN for one in self.findings)


_NOT_ITS_OWN = frozenset({"wrong", "other_model", "foreign"})


def refusal(family: Family, body: Message, findings: Sequence[Finding]) -> ApiRefusal | None:
    """Return the refusal of a request, given what was found in it; None if it is accepted."""
    messages = body["messages"]
    for index, message in enumerate(messages):
        if message.get("role") == "assistant":
            for path, value in reasoning_of(message).items():
                name = path.rpartition(".")[2]
                if name in family.refuses:
                    return _UNKNOWN_MEMBER[family.name](index, path, value)
    rule = _RULES.get(family.name)
    if rule is None:
        return None
    start = last_user(messages) + 1
    case = _Case(body=body, messages=messages, findings=findings, start=start)
    return next(rule(case), None)


def _deepseek(case: _Case) -> Iterator[ApiRefusal]:
    """With tools and thinking, each message of the round has the key; null is absent."""
    if thinks(case.body) and case.body.get("tools"):
        for _, message in case.judged():
            if message.get("reasoning_content") is None:
                yield refusals.deepseek_missing()
    yield from _wrong(case)


def _kimi(case: _Case) -> Iterator[ApiRefusal]:
    """While thinking is on, each message with calls has the key, in all rounds."""
    if thinks(case.body):
        for index, message in enumerate(case.messages):
            lacks = message.get("role") == "assistant" and message.get("reasoning_content") is None
            if lacks and message.get("tool_calls"):
                yield refusals.kimi_missing(index)
    yield from _wrong(case)


def _wrong(case: _Case) -> Iterator[ApiRefusal]:
    """Refuse a text that was emitted for another message; vendors do not notice that."""
    for one in case.findings:
        if one.state == "wrong":
            yield refusals.never_emitted(one.index, one.path)


def _gemini(case: _Case) -> Iterator[ApiRefusal]:
    """The first call of each step of the current round has its signature, byte for byte."""
    for index, message in case.judged():
        calls = message.get("tool_calls") or ()
        if not calls:
            continue
        position = _position(case.messages, index)
        extra = calls[0].get("extra_content") or {}
        signature = (extra.get("google") or {}).get("thought_signature")
        if not signature:
            yield refusals.gemini_missing(_name(calls[0]), position)
        elif signature in SENTINELS:
            continue
        elif not _is_base64(signature):
            yield refusals.gemini_not_base64(position, signature)
        elif case.is_wrong(index):
            yield refusals.gemini_corrupted()


def _openrouter(case: _Case) -> Iterator[ApiRefusal]:
    """Gemini demands its details, Claude refuses damaged ones, and other models accept all."""
    vendor = str(case.body.get("model")).partition("/")[0]
    if vendor == "google":
        yield from _openrouter_gemini(case)
    elif vendor == "anthropic":
        for index, _ in case.judged():
            if case.is_wrong(index):
                yield refusals.openrouter_bad_signature(index)
    yield from _wrong(case)


def _openrouter_gemini(case: _Case) -> Iterator[ApiRefusal]:
    for index, message in case.judged():
        calls = message.get("tool_calls") or ()
        entries = message.get("reasoning_details") or ()
        ids = {call.get("id") for call in calls}
        blobs = [one for one in entries if one.get("type") == "reasoning.encrypted"]
        if any(one.get("id") not in ids for one in blobs):
            yield refusals.openrouter_foreign_id()
        if calls and not blobs:
            yield refusals.openrouter_missing(_name(calls[0]), _position(case.messages, index))
        elif case.is_wrong(index):
            yield refusals.openrouter_corrupted()


_RULES: Mapping[FamilyName, Callable[[_Case], Iterator[ApiRefusal]]] = {
    "deepseek": _deepseek,
    "kimi": _kimi,
    "gemini": _gemini,
    "openrouter": _openrouter,
}

_UNKNOWN_MEMBER: Mapping[FamilyName, Callable[[int, str, Any], ApiRefusal]] = {
    "groq": lambda index, path, _: refusals.groq_unsupported(index, path),
    "cerebras": lambda index, path, _: refusals.cerebras_unsupported(index, path),
}


def _position(messages: Sequence[Message], index: int) -> int:
    """Return the position of a message in Gemini's own form, which has no system messages."""
    return 1 + sum(one.get("role") not in FRAME for one in messages[:index])


def _name(call: Mapping[str, Any]) -> str:
    return str((call.get("function") or {}).get("name"))


def _is_base64(value: object) -> bool:
    try:
        base64.b64decode(str(value).encode(), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        return False
    return True
