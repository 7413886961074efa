"""How many tokens an answer took, as upstream reports it. Nothing is counted here."""

import msgspec
from msgspec import Raw

__all__ = ["TOKENS_MAX", "Usage", "read_usage"]

# No answer takes more; what is larger is no number of tokens.
TOKENS_MAX = 1_000_000_000


class Usage(msgspec.Struct, frozen=True, gc=False):
    """
    How many tokens an answer took; None where upstream does not say, or nothing that can be.

    Attributes:
        cached_tokens: Part of `input_tokens`.
        reasoning_tokens: Part of `output_tokens`.
    """

    input_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None


class _Usage(msgspec.Struct, gc=False):
    """What matters of a response's `usage` (OpenAI Python SDK 3.52, `response_usage.py`)."""

    input_tokens: object = None
    input_tokens_details: object = None
    output_tokens: object = None
    output_tokens_details: object = None


_NOTHING = Usage()
_USAGE = msgspec.json.Decoder(_Usage)


def read_usage(raw: bytes | Raw) -> Usage | None:
    """Read a response's `usage`; None when it says nothing, as while the response is made."""
    try:
        said = _USAGE.decode(raw)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return None
    taken, given = _tokens(said.input_tokens), _tokens(said.output_tokens)
    usage = Usage(
        input_tokens=taken,
        cached_tokens=_part(said.input_tokens_details, "cached_tokens", taken),
        output_tokens=given,
        reasoning_tokens=_part(said.output_tokens_details, "reasoning_tokens", given),
    )
    return None if usage == _NOTHING else usage


def _part(details: object, name: str, whole: int | None) -> int | None:
    """Return a number of tokens that are part of others, if it can be."""
    if whole is None or not isinstance(details, dict):
        return None
    part = _tokens(details.get(name))
    return part if part is not None and part <= whole else None


def _tokens(value: object) -> int | None:
    if not isinstance(value, int) or isinstance(value, bool):  # JSON's `true` is an int to Python
        return None
    return value if 0 <= value <= TOKENS_MAX else None
