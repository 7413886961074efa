"""
Claims: the facts that a client of the soak states about a request, for upstream to check.

The number of a claim is a member of the body that neither the proxy nor the API knows.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

Item = dict[str, Any]
MEMBER = "soak"
REASONING = "rs_"
# The proxy may extend `include`; `input` is compared item by item.
_NOT_COMPARED = (MEMBER, "include", "input")


@dataclass(frozen=True, slots=True)
class Claim:
    """
    One request, as its client means it.

    Attributes:
        number: Unique number of the request.
        whole: The complete history, with nothing dropped: the id of each reasoning item, "" for any
            other.
        kept: Number of those reasoning items that the client sends itself.
        is_fragile: Whether it may be refused without its ids, because of hosted calls or partial
            reasoning.
        said: Digest of each item that it sends, in order, without reasoning and ids.
        rest: Digest of all other members.
        client: How its client writes and sends, and the request ids of the responses that its
            history has.
    """

    number: str
    whole: Sequence[str]
    kept: int
    is_fragile: bool
    said: Sequence[str]
    rest: str
    client: str = ""


@dataclass(slots=True)
class Told:
    """
    One response, as its client received it.

    Attributes:
        number: Number of its request.
        status: The HTTP status; 0 without a response. On a WebSocket 200, or the status in an
            error.
        mark: The proxy's header on it.
        request_id: Upstream's request id; "" on a WebSocket.
        body: The bytes that arrived.
        is_whole: Whether the response is complete.
        has_left: Whether the client disconnected before that, by choice.
        has_failed: Whether the store has failed since the conversation began, so that captured
            turns may be lost.
        is_plain: Whether a miss has no excuse: the store did not fail, no request failed, and no
            other response or conversation has the same text.
    """

    number: str
    status: int = 0
    mark: str = ""
    request_id: str = ""
    body: bytearray = field(default_factory=bytearray)
    is_whole: bool = False
    has_left: bool = False
    has_failed: bool = False
    is_plain: bool = False


def is_reasoning(item: Item) -> bool:
    """Return whether an item is reasoning, or refers to reasoning."""
    kind = item.get("type")
    return kind == "reasoning" or (
        kind == "item_reference" and str(item.get("id")).startswith(REASONING)
    )


def is_fragile(items: Sequence[Item]) -> bool:
    """
    Return whether items may be refused as they are, even without their ids.

    Hosted calls require their id, and that requires their reasoning; reasoning requires its
    follower.
    """
    return any(is_reasoning(item) or item.get("type") == "web_search_call" for item in items)


def said(body: Item) -> list[str]:
    """Digest each item that must reach upstream unchanged, with or without injection."""
    items = body["input"] if isinstance(body["input"], list) else [{"words": body["input"]}]
    bare = (
        {name: item[name] for name in item if name != "id"}
        for item in items
        if not is_reasoning(item)
    )
    return [_digest(item) for item in bare]


def rest(body: Item) -> str:
    """Digest all members except the items."""
    return _digest({name: body[name] for name in body if name not in _NOT_COMPARED})


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
