"""
Model names: which of them mean the same model, and which models do not reason.

Encrypted reasoning can be read only by the model family that wrote it. What exactly a family is,
no vendor documents; so names are compared as strictly as they can be without breaking aliases:
a dated snapshot is its base name, a vendor's prefix and a router's suffix are not part of the name,
and a turn carries both the name that was asked for and the one that answered (`gpt-5.6` is answered
by `gpt-5.6-sol`).
"""

import re
from collections.abc import Iterable
from functools import lru_cache

__all__ = ["are_known_to_differ", "family", "is_known_not_to_reason"]

# Of a name that is remembered: what a client sends may be of any length.
NAME_CHARS = 128

_VENDOR = re.compile(r"^(?:[a-z0-9_-]+\.)*(?=[a-z][a-z0-9]*-)")
# OpenRouter's variants: who serves a model, at which price, with which extras. Two at most, which
# bounds the search. Other suffixes are part of the name: `gpt-oss:20b` is no `gpt-oss:120b`.
_ROUTING = re.compile(r"(?::(?:nitro|floor|online|free|exacto|thinking|extended|beta)){1,2}$")
_SNAPSHOT = re.compile(r"-(?:20\d\d-\d\d-\d\d|20\d{6}|latest)$")
# The maker's word and its generation, with which names of models begin, and many of deployments.
_GENERATION = re.compile(r"(gpt|grok|claude|gemini|deepseek|qwen|glm|kimi)-?v?(\d+)|(o)(\d)")
# Source: clients' own gates and the API's refusals, "Encrypted content is not supported with
# this model." (OpenAI, 2026). A name missing here costs one refused try, which is then healed.
_WITHOUT_REASONING = re.compile(r"gpt-3|gpt-4(?!\d)|chatgpt-|.*-chat(?:-|$)|text-|davinci|babbage")


def family(model: str) -> str:
    """
    Return the name under which two spellings of one model are equal.

    >>> family("openai/gpt-5-nano-2025-08-07") == family("us.openai.gpt-5-nano:nitro")
    True
    """
    return _family(model) if len(model) <= NAME_CHARS else _spelled_out(model)


def _spelled_out(model: str) -> str:
    name = _ROUTING.sub("", model.lower().rpartition("/")[2])
    return _SNAPSHOT.sub("", _VENDOR.sub("", name))


_family = lru_cache(maxsize=1024)(_spelled_out)


def is_known_not_to_reason(model: str) -> bool:
    """Tell whether a model is one of those that refuse `reasoning.encrypted_content`."""
    return _is_without(model) if len(model) <= NAME_CHARS else _refuses(model)


def _refuses(model: str) -> bool:
    return _WITHOUT_REASONING.match(family(model)) is not None


_is_without = lru_cache(maxsize=1024)(_refuses)


def are_known_to_differ(model: str, families: Iterable[str]) -> bool:
    """
    Tell whether a model is certainly none of these: another maker's, or of another generation.

    Aliases, sizes and deployments of one generation may share what they thought: upstream knows.

    >>> are_known_to_differ("gpt-5.6-sol", ["gpt-5.6"]), are_known_to_differ("o4-mini", ["gpt-5"])
    (False, True)
    """
    generations = [_GENERATION.match(name) for name in (family(model), *families)]
    ours, *theirs = [found and found.group(1, 2, 3, 4) for found in generations]
    return ours is not None and bool(theirs) and None not in theirs and ours not in theirs
