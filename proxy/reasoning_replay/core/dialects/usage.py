"""Usage: the token counts that an upstream reports at the end of a response."""

from collections.abc import Mapping

from msgspec import Raw

from reasoning_replay.core.dialects.captures import Usage
from reasoning_replay.core.dialects.lenient import members_of, value_of
from reasoning_replay.core.wire.json_spans import NONE

__all__ = ["TOKENS_MAX", "count_in", "part_in", "read_usage"]

# No response uses more tokens; a larger number is not a token count.
TOKENS_MAX = 1_000_000_000
_NO_USAGE = Usage()


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
    said = members_of(raw)
    whole_input, whole_output = count_in(said, taken), count_in(said, given)
    usage = Usage(
        input_tokens=whole_input,
        cached_tokens=part_in(said, f"{taken}_details", "cached_tokens", whole_input),
        output_tokens=whole_output,
        reasoning_tokens=part_in(said, f"{given}_details", "reasoning_tokens", whole_output),
    )
    return None if usage == _NO_USAGE else usage


def count_in(said: Mapping[str, Raw], name: str) -> int | None:
    """Return a count of tokens; None if it is missing or impossible."""
    return _count(value_of(said.get(name, NONE)))


def part_in(said: Mapping[str, Raw], name: str, part: str, whole: int | None) -> int | None:
    """Return the part of a count, from its details; None if it is missing or impossible."""
    details = value_of(said.get(name, NONE))
    count = _count(details.get(part)) if isinstance(details, dict) else None
    return None if count is None or whole is None or count > whole else count


def _count(value: object) -> int | None:
    if not isinstance(value, int) or isinstance(value, bool):  # JSON's `true` is an int in Python
        return None
    return value if 0 <= value <= TOKENS_MAX else None
