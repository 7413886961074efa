"""
Cache diagnoses: what a vendor tells about its prompt cache to a caller that names a response.

A stateless client does not know which response a request continues; the proxy does. What is asked
is a member of the request, and what is told a member of the response, which passes unchanged.
"""

import re
from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

from msgspec import Raw

from reasoning_replay.core.dialects.lenient import members_of
from reasoning_replay.core.dialects.usages import count_in
from reasoning_replay.core.wire import json_spans
from reasoning_replay.core.wire.json_spans import NONE

# The kind of a refusal that names the member.
CACHE_DIAGNOSIS: Final = "cache_diagnosis"
Result = Literal["hit", "miss", "not_found", "unavailable", "pending", "none"]
# hit: the prompt begins as the one before. not_found: the vendor no longer knows that one. pending:
# it still compares. none: it was asked, and did not tell.
RESULTS: Final = ("hit", "miss", "not_found", "unavailable", "pending", "none")
# Why it missed: words of OpenAI's and of Anthropic's API. Any other counts as "other".
REASONS: Final = (
    "model_changed",
    "prompt_cache_key_changed",
    "tools_changed",
    "text_format_changed",
    "reasoning_effort_changed",
    "verbosity_changed",
    "context_compacted",
    "input_changed",
    "service_tier_changed",
    "system_changed",
    "messages_changed",
    "other",
)
_RESULTS: Final[Mapping[str, Result]] = {
    "cache_hit": "hit",
    "comparison_response_not_found": "not_found",
    "previous_message_not_found": "not_found",
    "unavailable": "unavailable",
}
_ID: Final = re.compile(r"[\w.:-]{1,128}", re.ASCII)


class CacheDiagnosis(NamedTuple):
    """
    What a vendor told about one prompt.

    Attributes:
        result: One of RESULTS.
        reason: Of a miss, one of REASONS; else "".
        missed_tokens: Input tokens that were missed, as the vendor counts them; 0 if unknown.
    """

    result: Result
    reason: str = ""
    missed_tokens: int = 0


def quoted(response_id: str) -> bytes:
    """Return the id of a response as JSON; b"" if it is none that a vendor issues."""
    return b'"%b"' % response_id.encode() if _ID.fullmatch(response_id) else b""


def read_openai(raw: Raw) -> CacheDiagnosis | None:
    """Return what `prompt_cache_diagnostics` tells; None if it is missing."""
    said = members_of(raw)
    kind = json_spans.text(said.get("type", NONE))
    if kind is None:
        return None
    if kind != "cache_miss":
        return CacheDiagnosis(_RESULTS.get(kind, "unavailable"))
    reason = json_spans.text(said.get("reason", NONE)) or ""
    return _miss(reason, count_in(said, "cache_missed_tokens"))


def read_anthropic(raw: Raw) -> CacheDiagnosis | None:
    """Return what `diagnostics` tells; None if it is missing. Without a reason, it is a hit."""
    if raw is NONE or bytes(raw) == b"null":
        return None
    reason = members_of(raw).get("cache_miss_reason", NONE)
    if reason is NONE:
        return CacheDiagnosis("hit")
    said = members_of(reason)
    kind = json_spans.text(said.get("type", NONE))
    if kind is None:
        return CacheDiagnosis("pending")
    if kind in _RESULTS:
        return CacheDiagnosis(_RESULTS[kind])
    return _miss(kind, count_in(said, "cache_missed_input_tokens"))


def _miss(reason: str, tokens: int | None) -> CacheDiagnosis:
    return CacheDiagnosis("miss", reason if reason in REASONS else "other", tokens or 0)
