"""
Model names: which of them mean the same model, and which models do not reason.

Encrypted reasoning can be read only by the model family that wrote it. No vendor documents the
limits of a family. So names are compared as strictly as possible without breaking aliases:
a dated snapshot equals its base name, a vendor's prefix and a router's suffix are not part of the
name, and a turn carries both the requested name and the name in the response (a request for
`gpt-5.6` gets a response from `gpt-5.6-sol`).
"""

import re
from collections.abc import Iterable
from functools import lru_cache

# A longer name, in characters, is no name of a model: a client may send one of any length.
NAME_CHARS = 128

_VENDOR = re.compile(r"^(?:[a-z0-9_-]+\.)*(?=[a-z][a-z0-9]*-)")
# OpenRouter's variants: provider, price and extras of a model. At most two are removed, which
# bounds the search. Other suffixes are part of the name: `gpt-oss:20b` is not `gpt-oss:120b`.
_ROUTING = re.compile(r"(?::(?:nitro|floor|online|free|exacto|thinking|extended|beta)){1,2}$")
_SNAPSHOT = re.compile(r"-(?:20\d\d-\d\d-\d\d|20\d{6}|latest)$")
# Vendor's series and its generation. Model names begin with them, and so do many deployment names.
_GENERATION = re.compile(r"(gpt|grok|claude|gemini|deepseek|qwen|glm|kimi)-?v?(\d+)|(o)(\d)")
# Source: OpenAI's page on prompt caching, 2026-11.
_GPT = re.compile(r"gpt-(\d{1,3})(?:\.(\d{1,3}))?(?![\d.])")
_TELLS_WHY = (5, 6)
# Source: checks in clients, and refusals of the API, "Encrypted content is not supported with
# this model." (OpenAI, 2026). A name missing here costs one refused attempt, which is then healed.
_WITHOUT_REASONING = re.compile(r"gpt-3|gpt-4(?!\d)|chatgpt-|.*-chat(?:-|$)|text-|davinci|babbage")


def family(model: str) -> str:
    """
    Return a name that is equal for all spellings of one model.

    >>> family("openai/gpt-5-nano-2025-08-07") == family("us.openai.gpt-5-nano:nitro")
    True
    """
    return _family(model) if len(model) <= NAME_CHARS else model


@lru_cache(maxsize=1024)
def _family(model: str) -> str:
    name = _ROUTING.sub("", model.lower().rpartition("/")[2])
    return _SNAPSHOT.sub("", _VENDOR.sub("", name))


def families(asked: str, answered: str) -> tuple[str, ...]:
    """Return the families of the requested and the responding model, sorted, without repeats."""
    if not answered:
        return (family(asked),) if asked else ()
    theirs = family(answered)
    ours = family(asked) if asked else theirs
    if ours == theirs:
        return (theirs,)
    return (ours, theirs) if ours < theirs else (theirs, ours)


def is_known_not_to_reason(model: str) -> bool:
    """Return whether a model is known to refuse `reasoning.encrypted_content`."""
    return len(model) <= NAME_CHARS and _is_without(model)


@lru_cache(maxsize=1024)
def _is_without(model: str) -> bool:
    return _WITHOUT_REASONING.match(family(model)) is not None


def are_known_to_differ(model: str, families: Iterable[str]) -> bool:
    """
    Return whether a model certainly belongs to none of these families.

    True if its series or its generation differs from all of them, and False if one of the names is
    not recognised. Aliases, sizes and deployments of one generation may share reasoning; only
    upstream can decide that.

    >>> are_known_to_differ("gpt-5.6-sol", ["gpt-5.6"]), are_known_to_differ("o4-mini", ["gpt-5"])
    (False, True)
    """
    generations = [_GENERATION.match(name) for name in (family(model), *families)]
    ours, *theirs = [found and found.group(1, 2, 3, 4) for found in generations]
    return ours is not None and bool(theirs) and None not in theirs and ours not in theirs


def tells_why(model: str) -> bool:
    """Return whether a model of OpenAI tells why its prompt cache missed: GPT-5.6 and later."""
    found = _GPT.match(family(model))
    return found is not None and (int(found[1]), int(found[2] or 0)) >= _TELLS_WHY
