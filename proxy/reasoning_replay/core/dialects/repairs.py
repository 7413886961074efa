"""Repairs of a request before its first attempt, from what upstream has refused."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from reasoning_replay.core.dialects.base import Dialect
from reasoning_replay.core.dialects.lessons import AS_GIVEN, FORM, NO_REASONING
from reasoning_replay.core.dialects.refusal_memory import KnownRefusals
from reasoning_replay.core.dialects.request_body import ParsedRequest
from reasoning_replay.core.dialects.unknown_words import form_of
from reasoning_replay.core.history.decided import Reopened
from reasoning_replay.core.history.lookup_keys import LookupResult

_NO_REPAIRS: Mapping[str, int] = MappingProxyType({})


def repaired(
    dialect: Dialect[Any, Any],
    asked: ParsedRequest[Any],
    found: LookupResult,
    refused: KnownRefusals,
) -> tuple[ParsedRequest[Any], Mapping[Any, int]]:
    """
    Return a request without certain errors, in the form that its conversation needs.

    Raises:
        Reopened: That can only be told of the whole request.
    """
    if asked.is_mended or refused.has(FORM, AS_GIVEN):
        return asked, _NO_REPAIRS
    request, repairs = dialect.repaired(asked, found, refused)
    without_reasoning = refused.has(FORM, NO_REASONING)
    is_left = refused.has(FORM, "") and not dialect.repeats_cures
    if request.is_mended or not (without_reasoning or is_left):
        return request, repairs
    if asked.decided.items:
        raise Reopened
    # The cure of unknown words is repeated. It needs a diagnosis, though there was no refusal.
    refusal = dialect.readers.diagnose(400, b"")
    refusal = replace(refusal, kind=form_of(refusal))
    usable = refused.without_refused(found)
    cure = dialect.cure(
        request, request, refusal, usable, refused, without_reasoning=without_reasoning
    )
    if cure is None:
        return request, repairs
    return dialect.readers.request.again(request, cure.body), repairs
