"""
Renaming: whether a random id of a call is one that the client made in place of upstream's.

Clients and gateways of some APIs replace the ids of calls, in a call and in its output. Such an id
says nothing, so content and position decide, as for counted ids. But most clients keep upstream's
ids. To them an unknown id means a response that was not captured, even if it says the same.
"""

import re

__all__ = ["have_one_origin"]

# A longer id holds other data, so its length does not tell its origin.
NAMED_CHARS = 64
_FIRST = re.compile(r"[A-Za-z]*(?![A-Za-z0-9])")


def have_one_origin(one: str, other: str, tool: str) -> bool:
    """
    Return whether two random ids of calls may come from the same upstream.

    They have the same first word and the same length; with or without the tool's name, which some
    upstreams write into them.
    """
    if max(len(one), len(other)) > NAMED_CHARS:
        return True
    return _form(one) == _form(other) or (
        bool(tool) and _form(one.replace(tool, "")) == _form(other.replace(tool, ""))
    )


def _form(name: str) -> tuple[str, int]:
    first = _FIRST.match(name)
    return first[0] if first is not None else "", len(name)
