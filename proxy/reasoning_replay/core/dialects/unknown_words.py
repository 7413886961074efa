"""
Unknown words: whether a refusal that no table of a dialect knows may be about the history.

Then it is of the kind FORM, and the request is sent once more in normal form. What is certainly
about something else is known here for all APIs, and never sent again.
"""

import re
from dataclasses import replace
from typing import Any, TypeVar

from reasoning_replay.core.dialects.error_texts import (
    ErrorNames,
    Refusal,
    error_names,
    first_in,
    is_refusal,
    read_error,
    table_of,
)
from reasoning_replay.core.dialects.lenient import value_of
from reasoning_replay.core.dialects.lessons import FORM
from reasoning_replay.core.dialects.path_faults import fault_in_refusal

RefusalT = TypeVar("RefusalT", bound=Refusal)

# Members of a request that the proxy never edits, as an error names them in `param`.
_OTHER_MEMBERS = frozenset(
    (
        *("model", "tools", "tool_choice", "parallel_tool_calls", "max_tool_calls", "functions"),
        *("temperature", "top_p", "top_k", "stop", "n", "seed", "logprobs", "top_logprobs"),
        *("max_tokens", "max_completion_tokens", "max_output_tokens", "reasoning", "thinking"),
        *("reasoning_effort", "text", "response_format", "generationConfig", "generation_config"),
        *("stream", "stream_options", "background", "truncation", "service_tier", "store"),
        *("metadata", "user", "safety_identifier", "instructions", "system", "prompt"),
        *("previous_response_id", "conversation", "modalities", "verbosity"),
    )
)
# The longest error that says anything to the proxy.
_ERROR_MAX_BYTES = 16 * 1024
_FIRST_NAME = re.compile(r"\w+")
# What an error says about anything but the history.
_ELSEWHERE = table_of(
    (said, True)
    for said in (
        # The length of the context, or of the output
        r"context[ _-]?(?:length|window)|maximum (?:context|prompt|input) (?:length|token)",
        r"(?:prompt|input|request|conversation)(?: is|_is)? too (?:long|large)",
        r"too many (?:input )?tokens|token limit|max_(?:output_|completion_)?tokens",
        r"max(?:imum)? message tokens",
        # Policies
        r"content[ _-]?(?:policy|filter|management)|\bsafety\b|moderation|usage polic",
        r"cyber_policy|content exists risk",
        # Quota and access
        r"quota|billing|credit (?:balance|limit)|insufficient (?:balance|funds|credit)",
        r"rate[ _-]?limit",
        r"\bapi[ _-]?key|unauthori[sz]ed",
        # The name of a model
        r"\bmodel\b[^.]{0,80}\b(?:not found|not exist|(?:un|not )available|deprecated|have access)",
        r"model_not_found|(?:unknown|invalid|unsupported|no such) model\b",
        # Parameters, and the schemas of tools
        r"unknown parameter:? ['\"`](?!input|messages|contents)\w",
        r"unsupported[ _](?:parameter|value)|unrecognized request argument|unknown_parameter",
        r"\btool_choice\b|invalid schema|json[ _]schema|invalid_function_parameters",
        r"\btools[.\[]\d|\bresponse_format\b|\btemperature\b|\btop_[pk]\b|budget_tokens",
        r"reasoning[._]effort|previous[ _]response|invalid[ _]image|image[ _]url",
    )
)
_ABOUT_REQUEST = re.compile(
    r"invalid|bad_?request|unprocessable|validation|malformed|4\d\d", re.IGNORECASE
)


def or_form(refusal: RefusalT, status: int, body: bytes) -> RefusalT:
    """Return a refusal that is not understood as one of unknown words, if it may be."""
    if refusal.is_understood or not is_refusal(status):
        return refusal
    if not _is_whole(body) or _is_elsewhere(body):
        return refusal
    changed: RefusalT = replace(refusal, kind=form_of(refusal))
    return changed


def form_of(refusal: Refusal) -> Any:  # noqa: ANN401 (each dialect has a type of its own)
    """Return the kind FORM of the dialect of a refusal."""
    return type(refusal.kind)(FORM)


def is_about_request(names: ErrorNames) -> bool:
    """Return whether an error without a status says that the request is at fault."""
    return _ABOUT_REQUEST.search(f"{names.type} {names.code}") is not None


def _is_whole(body: bytes) -> bool:
    """Return whether this is all of an error of an API, and no page of a server before it."""
    start = body.lstrip()[:1]
    if len(body) > _ERROR_MAX_BYTES or start == b"<":
        return False
    return start not in (b"{", b"[") or value_of(body) is not None


def _is_elsewhere(body: bytes) -> bool:
    """Return whether an error is certainly about something other than the history."""
    message, params, codes = read_error(body)
    named = {found[0] for param in params if (found := _FIRST_NAME.match(param)) is not None}
    if named & _OTHER_MEMBERS or fault_in_refusal(body):
        return True
    return first_in(_ELSEWHERE, " ".join((message, *codes, *error_names(body)))) is not None
