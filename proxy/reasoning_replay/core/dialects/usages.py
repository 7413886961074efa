"""Usages: the counts of tokens in a response, as vendors bill them."""

from collections.abc import Mapping

import msgspec
from msgspec import Raw, defstruct
from msgspec.structs import astuple

from reasoning_replay.core.dialects.lenient import decoded, members_of, value_of
from reasoning_replay.core.wire.json_spans import NONE

# Kinds of tokens. `cached` (read from the cache), `cache_write` and `uncached` (at full price) are
# `input` together; `cache_write_long` is part of `cache_write`, and `reasoning` of `output`.
TOKENS = (
    "input",
    "cached",
    "cache_write",
    "cache_write_long",
    "uncached",
    "output",
    "reasoning",
)
_WRITTEN = "cache_write_tokens"
_LIFETIMES = ("ttl_30m_tokens", "ttl_12h_tokens")  # of OpenAI, the longer one last


class Usage(msgspec.Struct, frozen=True, gc=False):
    """
    Token counts of a response; None for a count that upstream omits or that is impossible.

    Attributes:
        cached_tokens: Part of `input_tokens` that was read from the cache.
        output_tokens: Those that it wrote, reasoning included.
        reasoning_tokens: Part of `output_tokens`.
        cache_write_tokens: Part of `input_tokens` that was written to the cache.
        cache_write_long_tokens: Part of these, with the longer lifetime: 12 hours at OpenAI, one
            hour at Anthropic.
    """

    input_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    cache_write_tokens: int | None = None
    cache_write_long_tokens: int | None = None

    @property
    def billed(self) -> dict[str, int]:
        """The counts as vendors bill them, by kind, without zeros; see TOKENS."""
        read, written = self.cached_tokens or 0, self.cache_write_tokens or 0
        counts = (
            self.input_tokens,
            read,
            written,
            self.cache_write_long_tokens,
            max(0, (self.input_tokens or 0) - read - written),
            self.output_tokens,
            self.reasoning_tokens,
        )
        return {kind: count for kind, count in zip(TOKENS, counts, strict=True) if count}


# No response uses more tokens; a larger number is not a token count.
TOKENS_MAX = 1_000_000_000
_NO_USAGE = Usage()


class UsageReader:
    """
    Reader of a response's `usage`, given the names of the counts of tokens.

    The details of a count are a member with its name and `_details`. Usual counts are read in one
    pass; in others, each value that is no count is left out.
    """

    def __init__(self, taken: str, given: str) -> None:
        """Take the names of the counts of input tokens and of output tokens."""
        self._names = taken, given
        cached = defstruct(
            "_Cached",
            [("cached_tokens", int | None, None), ("cache_write_tokens", Raw, NONE)],
            frozen=True,
        )
        reasoning = defstruct("_Reasoning", [("reasoning_tokens", int | None, None)], frozen=True)
        usual = defstruct(
            "_Usual",
            [
                (taken, int),
                (given, int),
                (f"{taken}_details", cached, cached()),
                (f"{given}_details", reasoning, reasoning()),
            ],
            gc=False,
        )
        self._usual = msgspec.json.Decoder(usual)

    def read(self, raw: bytes | Raw) -> Usage | None:
        """Return the counts; None if it has none, as in a response in progress."""
        usual = decoded(self._usual, raw)
        if usual is not None and astuple(usual)[2].cache_write_tokens is NONE:
            whole_input, whole_output, cached, reasoning = astuple(usual)
            usage = Usage(
                whole_input, cached.cached_tokens, whole_output, reasoning.reasoning_tokens
            )
            if (
                0 <= (usage.cached_tokens or 0) <= whole_input <= TOKENS_MAX
                and 0 <= (usage.reasoning_tokens or 0) <= whole_output <= TOKENS_MAX
            ):
                return usage
        said = members_of(raw)
        taken, given = self._names
        whole_input, whole_output = count_in(said, taken), count_in(said, given)
        written, long = _written(members_of(said.get(f"{taken}_details", NONE)), whole_input)
        usage = Usage(
            input_tokens=whole_input,
            cached_tokens=part_in(said, f"{taken}_details", "cached_tokens", whole_input),
            output_tokens=whole_output,
            reasoning_tokens=part_in(said, f"{given}_details", "reasoning_tokens", whole_output),
            cache_write_tokens=written,
            cache_write_long_tokens=long,
        )
        return None if usage == _NO_USAGE else usage


def _written(details: Mapping[str, Raw], whole: int | None) -> tuple[int | None, int | None]:
    """Return the tokens written to the cache, and those with the long lifetime, from details."""
    said = members_of(details.get(_WRITTEN, NONE))
    # By lifetime, or as one number with the lifetimes next to it.
    lifetimes = [count_in(said or details, name) for name in _LIFETIMES]
    known = [count for count in lifetimes if count is not None]
    written = sum(known) if said and known else count_in(details, _WRITTEN)
    if written is None or whole is None or written > whole:
        return None, None
    long = lifetimes[-1]
    return written, None if long is None or long > written else long


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
