"""
Diagnosis: the error in a request that a refusal reports.

Texts: the vendors and gateways of this API, as quoted in public issues of their clients.
"""

import re
from dataclasses import dataclass, replace
from enum import StrEnum

from reasoning_replay.core.dialects.chat.members import CALL_MEMBERS, MESSAGE_MEMBERS
from reasoning_replay.core.dialects.error_texts import (
    Refusal,
    first_in,
    is_refusal,
    read_error,
    table_of,
)
from reasoning_replay.core.dialects.lenient import value_of


class RefusalKind(StrEnum):
    """The reason for a refusal, as far as it may concern the proxy."""

    LACKS_REASONING = "lacks_reasoning"  # a message or call without the reasoning that led to it
    FIELD = "field"  # a member that this upstream does not accept
    BLOB = "blob"  # a signature: damaged, or of another model, account or upstream
    CACHE_KEY = "cache_key"  # the `prompt_cache_key` that the proxy added
    INPUT = "input"  # another error about messages: the proxy's edits may be the cause
    FORM = "form"  # unknown words, about input that may be at fault
    OTHER = "other"


class Demand(StrEnum):
    """The messages whose reasoning upstream demands, if it demands any."""

    ROUND = "round"  # those after the last one of the user
    CALLS = "calls"  # these, and all with calls
    MESSAGES = "messages"  # all


@dataclass(frozen=True, slots=True)
class Diagnosis(Refusal):
    """
    A classified refusal.

    Attributes:
        wanted: Member that it misses; "" if it names none.
        refused: Members that it does not accept.
        quoted: The first characters of each signature that it quotes.
        demand: If it misses reasoning: of which messages.
    """

    kind: RefusalKind
    wanted: str = ""
    refused: frozenset[str] = frozenset()
    quoted: frozenset[str] = frozenset()
    demand: Demand = Demand.ROUND


NAMES = frozenset({*MESSAGE_MEMBERS, *CALL_MEMBERS})
# A dotted or bracketed path to a member: messages.2.assistant.x, messages[2].tool_calls[0].x
_PATH = r"(?:[\w\[\]]+\.)*"

_LACKS_TEXT = Diagnosis(RefusalKind.LACKS_REASONING, "reasoning_content")
_LACKS_DETAILS = Diagnosis(RefusalKind.LACKS_REASONING, "reasoning_details")
_LACKS_SIGNATURE = Diagnosis(RefusalKind.LACKS_REASONING, "extra_content")
_BLOB = Diagnosis(RefusalKind.BLOB)
# What refusals say; the first match decides.
TEXTS = table_of(
    (
        # OpenRouter. It quotes Google's own text after that.
        (r"require OpenRouter reasoning details to be preserved", _LACKS_DETAILS),
        # DeepSeek, since 2026 and before; the second form through a translator to Messages.
        (r"reasoning_content`? in the thinking mode must be passed back", _LACKS_TEXT),
        (r"content\[\]\.thinking`? in the thinking mode must be passed back", _LACKS_TEXT),
        (r"Missing `reasoning_content` field in the assistant message", _LACKS_TEXT),
        # Moonshot, and those who serve its models.
        (
            r"reasoning_content is missing in assistant",
            replace(_LACKS_TEXT, demand=Demand.CALLS),
        ),
        (
            r"requires reasoning_content on every assistant message",
            replace(_LACKS_TEXT, demand=Demand.MESSAGES),
        ),
        # Google AI Studio and Vertex AI.
        (r"is missing a `?thought_signature`?", _LACKS_SIGNATURE),
        # Anthropic, through a gateway.
        (r"Expected `?thinking`? or `?redacted_thinking`?, but found", _LACKS_DETAILS),
        # Google AI Studio and Vertex AI.
        (r"(?:Corrupted|Invalid) thought signature|Thought signature is not valid", _BLOB),
        (r"thought_signature'? \(TYPE_BYTES\)", _BLOB),
        # Anthropic and Amazon Bedrock, through a gateway.
        (r"Invalid `?signature`? in `?thinking`? block", _BLOB),
    )
)
_QUOTED = re.compile(r'Base64 decoding failed for \\*"([A-Za-z0-9+/=_-]+)')
# Members that upstream does not accept; the group is the name.
FIELDS = (
    # Groq and Cerebras.
    re.compile(rf"property '{_PATH}(\w+)' is unsupported"),
    # Mistral, and others that check with Pydantic.
    re.compile(r"\b(\w+): (?:extra_forbidden|Extra inputs are not permitted)"),
    # Google and OpenAI.
    re.compile(rf"Unknown (?:name|field|parameter):? \\*[\"']{_PATH}(\w+)\\*[\"']"),
    # JSON Schema.
    re.compile(r"Additional properties are not allowed \((?:'\w+', )*'(\w+)'"),
)
# What else may be about a member that the proxy injected. Gateways leave out the vendor's text.
_OURS = re.compile(
    "|".join(
        (
            *sorted(NAMES),
            r"thought[ _]?signature",
            # Anthropic, through a gateway: a block at the wrong place, changed, or empty.
            r"thinking`? blocks in the latest assistant message cannot be modified",
            r"in the final position cannot contain `?thinking",
            r"each thinking block must contain",
            r"^Provider returned error\W*$",
        )
    ),
    re.IGNORECASE,
)
# The start of an error in place of a response. Servers write white space while they work.
_ERROR = re.compile(
    rb'(?:\xef\xbb\xbf)?\s*(?:\[\s*)?\{\s*"'
    rb'(?:error|code|message|detail|type"\s*:\s*"error|object"\s*:\s*"error)"'
)
_ERROR_MIN_BYTES = 32
_CODE = re.compile(r"\d{3}")
_STATUSES = range(400, 600)


def maybe_failing(start: bytes) -> bool | None:
    """Return whether a JSON response begins as an error; None: its beginning is too short."""
    if _ERROR.match(start) is not None:
        return True
    return False if len(start.lstrip()) >= _ERROR_MIN_BYTES else None


def is_failing(data: bytes) -> bool:
    """Return whether an event, or a whole JSON response, is an error and nothing else."""
    return _error_in(data) is not None


def is_refusing(data: bytes) -> bool:
    """Return whether such an error was caused by the request itself."""
    error = _error_in(data)
    if error is None:
        return False
    code = error.get("code")
    if isinstance(code, str) and _CODE.fullmatch(code):
        code = int(code)
    return is_refusal(code) if isinstance(code, int) and code in _STATUSES else True


def _error_in(data: bytes) -> dict[str, object] | None:
    """Return the members of an error; None if it is not one, or part of a response has come."""
    said = value_of(data)
    if isinstance(said, list) and said:
        said = said[0]
    if not isinstance(said, dict) or said.get("choices"):
        return None
    error = said.get("error")
    if isinstance(error, dict):
        return error
    if error or said.get("object") == "error" or said.keys() & {"code", "detail"}:
        return said
    return None


def diagnose(status: int, body: bytes) -> Diagnosis:
    """Classify a refusal; an event that is one counts as status 400."""
    if not is_refusal(status):
        return Diagnosis(RefusalKind.OTHER)
    message, params, _ = read_error(body)
    if (found := first_in(TEXTS, message)) is not None:
        return (
            replace(found, quoted=frozenset(_QUOTED.findall(message))) if found is _BLOB else found
        )
    if "prompt_cache_key" in params or "prompt_cache_key" in message:
        return Diagnosis(RefusalKind.CACHE_KEY)
    named = {name for field in FIELDS for name in field.findall(message)}
    if refused := frozenset(named & NAMES):
        return Diagnosis(RefusalKind.FIELD, refused=refused)
    is_ours = not named and _OURS.search(message) is not None
    return Diagnosis(RefusalKind.INPUT if is_ours else RefusalKind.OTHER)
