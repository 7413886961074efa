"""
Diagnosis: the error in a request that a refusal reports.

Texts: Google AI Studio and Google Cloud, as quoted in issues of their clients.
"""

import re
from dataclasses import dataclass, replace
from enum import StrEnum

from reasoning_replay.core.dialects.error_texts import (
    Refusal,
    first_in,
    is_refusal,
    read_error,
    table_of,
)
from reasoning_replay.core.dialects.gemini.events import Chunk, first_chunk
from reasoning_replay.core.dialects.lenient import members_of, number_of
from reasoning_replay.core.wire.json_spans import NONE


class RefusalKind(StrEnum):
    """The reason for a refusal, as far as it may concern the proxy."""

    LACKS_REASONING = "lacks_reasoning"  # a call without the signature that it was emitted with
    BLOB = "blob"  # a signature that cannot be read: damaged, or of another model or upstream
    FIELD = "field"  # signatures are not known here at all
    INPUT = "input"  # another error about signatures: the proxy's edits may be the cause
    FORM = "form"  # unknown words, about input that may be at fault
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Diagnosis(Refusal):
    """
    A refusal, and the reason for it.

    Attributes:
        kind: The reason.
        content, part: Indices of the part that it names; negative if it names none.
        quoted: Signatures, or their beginnings, that it quotes.
    """

    kind: RefusalKind
    content: int = -1
    part: int = -1
    quoted: frozenset[str] = frozenset()


_NAME = r"thought_?signature"
# What refusals say; the first match decides.
TEXTS = table_of(
    (
        # The texts of AI Studio, and of Vertex AI.
        (rf"is missing a `?{_NAME}`?", RefusalKind.LACKS_REASONING),
        (r"(?:Corrupted|Invalid) thought signature", RefusalKind.BLOB),
        (r"Thought signature is not valid", RefusalKind.BLOB),
        (rf"{_NAME}'? \(TYPE_BYTES\)", RefusalKind.BLOB),
        (rf"Unknown name \\*\"{_NAME}", RefusalKind.FIELD),
        (r"thought[ _]?signature", RefusalKind.INPUT),
    )
)
_PLACE = re.compile(r"contents\[(\d{1,5})\]\.parts\[(\d{1,5})\]\.thought", re.IGNORECASE)
_QUOTED = re.compile(r'Base64 decoding failed for \\*"([A-Za-z0-9+/=_-]+)')
# A response that says in its first candidate that a signature is missing, and nothing else.
_MISSING = "MISSING_THOUGHT_SIGNATURE"
_MISSING_MIN_BYTES = 128  # it says so before


def diagnose(status: int, body: bytes) -> Diagnosis:
    """Classify a refusal; an event that is one counts as status 400."""
    if not is_refusal(status):
        return Diagnosis(RefusalKind.OTHER)
    if _is_missing(first_chunk(body)):
        return Diagnosis(RefusalKind.LACKS_REASONING)
    message = read_error(body).message
    kind = first_in(TEXTS, message)
    if kind is not RefusalKind.BLOB:
        return Diagnosis(kind or RefusalKind.OTHER)
    found = Diagnosis(kind, quoted=frozenset(_QUOTED.findall(message)))
    place = _PLACE.search(message)
    if place is None:
        return found
    return replace(found, content=int(place[1]), part=int(place[2]))


def maybe_failing(start: bytes) -> bool | None:
    """Return whether a JSON response begins as a failure; None: its beginning is too short."""
    if _MISSING.encode() in start[:_MISSING_MIN_BYTES]:
        return True
    return False if len(start) >= _MISSING_MIN_BYTES else None


def is_failing(data: bytes) -> bool:
    """Return whether an event, or a whole JSON response, is a failure and nothing else."""
    chunk = first_chunk(data)
    if chunk is None:
        return False
    return _is_missing(chunk) or (chunk.error is not NONE and chunk.first is None)


def is_refusing(data: bytes) -> bool:
    """Return whether such a failure was caused by the request itself."""
    chunk = first_chunk(data)
    if chunk is None or _is_missing(chunk):
        return chunk is not None
    return is_refusal(number_of(members_of(chunk.error).get("code", NONE)) or 0)


def _is_missing(chunk: Chunk | None) -> bool:
    candidate = chunk.first if chunk is not None else None
    return candidate is not None and candidate.ended == _MISSING and not candidate.parts
