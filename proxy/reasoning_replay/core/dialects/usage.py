"""Usage: the token counts that an upstream reports at the end of a response."""

import msgspec
from msgspec import Raw

from reasoning_replay.core.dialects.captures import Usage

__all__ = ["TOKENS_MAX", "read_usage", "token_count"]

# No response uses more tokens; a larger number is not a token count.
TOKENS_MAX = 1_000_000_000
_NO_USAGE = Usage()
_MEMBERS = msgspec.json.Decoder(dict[str, Raw])
_ERRORS = (msgspec.MsgspecError, RecursionError, UnicodeDecodeError)


def read_usage(
    raw: bytes | Raw, taken: str = "input_tokens", given: str = "output_tokens"
) -> Usage | None:
    """
    Decode a response's `usage`; None if it has no counts, as in a response in progress.

    Args:
        raw: The JSON value.
        taken: Name of the count of input tokens; that of its details is the name and `_details`.
        given: Name of the count of output tokens; as above.
    """
    try:
        said = _MEMBERS.decode(raw)
    except _ERRORS:
        return None
    whole_input, whole_output = token_count(_value(said, taken)), token_count(_value(said, given))
    usage = Usage(
        input_tokens=whole_input,
        cached_tokens=_part(_value(said, f"{taken}_details"), "cached_tokens", whole_input),
        output_tokens=whole_output,
        reasoning_tokens=_part(_value(said, f"{given}_details"), "reasoning_tokens", whole_output),
    )
    return None if usage == _NO_USAGE else usage


def _value(said: dict[str, Raw], name: str) -> object:
    if name not in said:
        return None
    try:
        return msgspec.json.decode(said[name])
    except _ERRORS:
        return None


def _part(details: object, name: str, whole: int | None) -> int | None:
    """Return a token count that is part of another; None if it is missing or impossible."""
    if whole is None or not isinstance(details, dict):
        return None
    part = token_count(details.get(name))
    return part if part is not None and part <= whole else None


def token_count(value: object) -> int | None:
    """Return a count of tokens; None if the value is missing or impossible."""
    if not isinstance(value, int) or isinstance(value, bool):  # JSON's `true` is an int in Python
        return None
    return value if 0 <= value <= TOKENS_MAX else None
