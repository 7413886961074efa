"""
What a client of the soak says of each request, for upstream to judge by what arrives.

It goes along in the body, as a member that neither the proxy nor the API knows.
"""

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

__all__ = [
    "MEMBER",
    "REASONING",
    "Claim",
    "Item",
    "Told",
    "claim_in",
    "is_fragile",
    "is_reasoning",
    "rest",
    "said",
]

Item = dict[str, Any]
MEMBER = "soak"
REASONING = "rs_"
# The proxy may add to `include`, and to `input` what is compared item by item.
_NOT_COMPARED = (MEMBER, "include", "input")


class Claim(Struct, frozen=True):
    """
    One request as its client means it.

    Attributes:
        number: Which one it is, among all.
        whole: The history that a client would send that drops nothing: the id of each reasoning
            item, "" for any other.
        kept: How many of those reasoning items the client sends itself.
        is_fragile: Whether it cannot go by value: it has hosted calls, or half of its reasoning.
        said: Digest of each item that it sends, in order, less reasoning and ids.
        rest: Digest of all else that it sends.
    """

    number: str
    whole: Sequence[str]
    kept: int
    is_fragile: bool
    said: Sequence[str]
    rest: str


class Told(Struct, frozen=True):
    """
    One answer as its client got it.

    Attributes:
        number: Of its request.
        status: HTTP's; 0 when none came. On a WebSocket 200, or the one that an error names.
        mark: The proxy's header on it.
        request_id: Upstream's; "" on a WebSocket.
        size: Bytes of the body that came.
        digest: Their SHA-256.
        is_whole: Whether it came to its end.
        has_left: Whether the client left before that, of its own will.
        has_failed: Whether the store has, since the conversation began: what upstream emitted in
            it may be lost.
        is_plain: Whether nothing excuses a miss: it has not, no request failed, and no other
            answer or conversation says the same.
    """

    number: str
    status: int
    mark: str
    request_id: str
    size: int
    digest: str
    is_whole: bool
    has_left: bool = False
    has_failed: bool = False
    is_plain: bool = False


def claim_in(body: Item) -> Claim:
    """
    Read the claim in a body.

    Raises:
        msgspec.ValidationError: There is none.
    """
    return msgspec.convert(body.get(MEMBER), Claim)


def is_reasoning(item: Item) -> bool:
    """Tell whether an item is reasoning, or refers to some."""
    kind = item.get("type")
    return kind == "reasoning" or (
        kind == "item_reference" and str(item.get("id")).startswith(REASONING)
    )


def is_fragile(items: Sequence[Item]) -> bool:
    """
    Tell whether items may be refused as they are, and no leaving out of ids helps.

    Hosted calls need their id, and that needs their reasoning; reasoning needs what it led to.
    """
    return any(is_reasoning(item) or item.get("type") == "web_search_call" for item in items)


def said(body: Item) -> list[str]:
    """Digest each item that has to reach upstream as the client said it, whatever is put back."""
    items = body["input"] if isinstance(body["input"], list) else [{"words": body["input"]}]
    bare = (
        {name: item[name] for name in item if name != "id"}
        for item in items
        if not is_reasoning(item)
    )
    return [_digest(item) for item in bare]


def rest(body: Item) -> str:
    """Digest what there is besides the items."""
    return _digest({name: body[name] for name in body if name not in _NOT_COMPARED})


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
