"""A request to `/responses`, read: what it asks for, what it says, and where each item stands."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import NamedTuple

import msgspec
from msgspec import Raw

from reasoning_replay.core.dialects.responses.items import (
    DIGEST_BYTES,
    Item,
    Role,
    digest,
    read_item,
)
from reasoning_replay.core.history.prefix_cache import PrefixCache
from reasoning_replay.core.history.turns import LINK_BYTES, TAIL_LINKS, Context
from reasoning_replay.core.tenancy.scope import hint_of
from reasoning_replay.core.wire import json_spans
from reasoning_replay.core.wire.json_spans import Member, TooMany, Unspliceable

__all__ = ["History", "Place", "Request", "read_request"]

_START = digest(b"chain")
# Of a request's input, and of values in all of it. Real ones have some thousands of items; what
# has more than these is sent on unread.
ITEMS_MAX = 20_000
VALUES_MAX = 200_000
# So many items of a model's last run are remembered: enough to tell one run from another.
ANSWERED_ITEMS = 8

_MODEL, _CLIENT, _FRAME = Role.MODEL, Role.CLIENT, Role.FRAME
_REASONING, _REFERENCE = Role.REASONING, Role.REFERENCE


class Place(msgspec.Struct, gc=False, eq=False):
    """
    One item of the `input`, with what had been said before it.

    Attributes:
        depth: How many links of the conversation's chain precede it.
        frame: Digest of what the application had set by then.
        before: The model's last run of items that was over by then.
    """

    item: Item
    depth: int
    frame: bytes
    before: list[Item]

    @property
    def answered(self) -> bytes:
        """What the model had said or done last before, as `Context.answered`."""
        return _traces(self.before)


@dataclass(slots=True)
class Request:
    """
    One readable request.

    Attributes:
        body: The bytes that came; lone surrogates in them may read U+FFFD.
        values: The JSON of each top-level value.
        places: Every item of `input`, in order; [] where `input` is a string or missing.
        said: 16 bytes for everything that users and tools said, in order.
        run: The model's last run of items.
        is_stateful: Whether upstream itself holds the history: nothing is ever added to such a
            request.
    """

    body: bytes
    values: Mapping[str, Raw]
    model: str
    hint: bytes
    places: list[Place] = field(default_factory=list)
    said: list[bytes] = field(default_factory=list)
    frame: bytes = b""
    run: list[Item] = field(default_factory=list)
    is_stateful: bool = False
    _chains: list[bytes] | None = None

    def raw(self, key: str) -> bytes:
        """Return the JSON of a top-level value; b"" when it is absent."""
        return bytes(self.values.get(key, b""))

    def text(self, key: str) -> str:
        """Return a top-level string; "" when it is absent or of another type."""
        raw = self.values.get(key)
        return (json_spans.text(raw) or "") if raw is not None else ""

    @property
    def stores(self) -> bool:
        """Whether upstream keeps the items of this exchange: the API's default."""
        return self.raw("store") != b"false"

    @property
    def is_background(self) -> bool:
        """Whether the answer is fetched later."""
        return self.raw("background") == b"true"

    @property
    def has_thoughts(self) -> bool:
        """Whether it holds reasoning, or what may stand for it."""
        for place in self.places:  # a loop, as a history has thousands, and an enum compares slowly
            role = place.item.role
            if role is _REASONING or role is _REFERENCE:
                return True
        return False

    @property
    def links(self) -> list[bytes]:
        """8 bytes for everything that users and tools said, in order."""
        return [said[:LINK_BYTES] for said in self.said]

    @property
    def chains(self) -> list[bytes]:
        """The chain's digest before each link, and behind the last: one more than links."""
        if self._chains is None:
            state = sha256(_START)
            self._chains = [state.digest()[:DIGEST_BYTES]]
            for said in self.said:
                state.update(said)
                self._chains.append(state.copy().digest()[:DIGEST_BYTES])
        return self._chains

    def context(self, place: Place | None = None) -> Context:
        """Return what had been said before an item; None is the end of the input."""
        end = len(self.said) if place is None else place.depth
        newest = self.said[max(0, end - TAIL_LINKS) : end]
        return Context(
            chain=self._chain() if place is None else self.chains[end],
            tail=b"".join([said[:LINK_BYTES] for said in newest]),
            depth=end,
            frame=self.frame if place is None else place.frame,
            answered=_traces(self.run) if place is None else place.answered,
            hint=self.hint,
            is_known=not self.is_stateful,
        )

    def _chain(self) -> bytes:
        """Return the last of the chains, which most requests need no other of."""
        if self._chains is not None:
            return self._chains[-1]
        return sha256(b"".join([_START, *self.said])).digest()[:DIGEST_BYTES]


class History(NamedTuple):
    """
    What was read of an input, up to one of its items. Never changed: it is gone on from.

    Attributes:
        began: What the application had set ahead of it.
        frame: What it had set by its end.
        before: The model's run before the present one.
        is_over: Whether somebody else has spoken since the present one.
    """

    began: bytes
    places: list[Place]
    said: list[bytes]
    frame: bytes
    before: list[Item]
    run: list[Item]
    is_over: bool


_STATEFUL = frozenset({"previous_response_id", "conversation"})


def read_request(
    body: bytes,
    headers: Mapping[str, str],
    lately: PrefixCache[History] | None = None,
    whose: bytes = b"",
) -> Request:
    """
    Read the body of a request to `/responses`.

    Args:
        body: UTF-8 JSON, decoded from any content coding; bounded by the caller, in bytes.
        headers: The request's, for the conversation's name.
        lately: What it may go on from, and is kept in for the next one.
        whose: The tenant's; another's is never gone on from.

    Raises:
        TooMany: It has more values, or more items, than is worth looking at.
        Unspliceable: Not a JSON object in UTF-8, nested too deep, or a key occurs twice. The
            caller forwards such a body as it is: upstream has its own words for it.

    Cost: linear; about three C passes over the body, and some Python for each item that is new.
    """
    json_spans.bound(body, VALUES_MAX)
    if not body.isascii():
        try:
            body.decode()
        except UnicodeDecodeError as error:
            raise Unspliceable(str(error)) from error
    try:
        values = json_spans.unambiguous(body)
    except Unspliceable:
        # All that is read and cut below is the same at the same place in what came.
        body = json_spans.readable(body)
        values = json_spans.unambiguous(body)
    request = Request(body, values, "", b"")
    request.model = request.text("model")
    if not _STATEFUL.isdisjoint(values):
        given = (request.raw(key) for key in _STATEFUL if key in values)
        request.is_stateful = any(value != b"null" for value in given)
    request.hint = hint_of(headers, request.text)
    if request.text("instructions"):
        request.frame = digest(request.raw("instructions"))
    if request.raw("input").startswith(b"["):
        _read_items(request, json_spans.place_of(values, body, "input"), lately, whose)
    elif words := request.text("input"):
        as_message = msgspec.json.encode({"role": "user", "content": words})
        request.said.append(read_item(as_message).said)
    return request


def _read_items(
    request: Request, given: Member, lately: PrefixCache[History] | None, whose: bytes
) -> None:
    body, began = request.body, request.frame
    read, at = History(began, [], [], began, [], [], is_over=False), 0
    kept = lately.find(whose, body, given.start) if lately is not None else None
    # Behind the last item it goes on with another, or it ends: "12" does not go on from "1".
    if kept is not None and kept.read.began == began and body[len(kept.prefix)] in b",]":
        read, at = kept.read, len(kept.prefix)
    history = _read_on(read, body, _elements(body, given, at))
    places = history.places
    request.places, request.said = places, history.said
    request.frame, request.run = history.frame, history.run
    if lately is not None and places and len(places) > len(read.places):
        prefix = body[: places[-1].item.end]
        lately.keep(whose, prefix, given.start, history, len(places))


def _elements(body: bytes, given: Member, at: int) -> list[tuple[int, int]]:
    """Return where the items of an input stand: all of them (0), or those behind an offset."""
    if not at:
        return json_spans.elements(body, given.start, given.end)
    if body[at : at + 1] == b"]":
        return []
    rest = b"[" + body[at + 1 : given.end]
    return [(at + start, at + end) for start, end in json_spans.elements(rest, 0, len(rest))]


def _read_on(read: History, body: bytes, elements: list[tuple[int, int]]) -> History:
    """
    Read further items behind what was read of an input.

    Raises:
        TooMany: They are too many, all in all.
    """
    if len(read.places) + len(elements) > ITEMS_MAX:
        raise TooMany(f"more than {ITEMS_MAX} items")
    began, places, said, frame, before, run, is_over = read
    places, said, run = [*places], [*said], [*run]
    for start, end in elements:
        item = read_item(body[start:end], start, end)
        role = item.role
        if role is _MODEL:
            if is_over and run:
                before, run = run, []
            is_over = False
            run.append(item)
        elif role is _CLIENT:
            is_over = True
        places.append(Place(item, len(said), frame, before))
        if role is _CLIENT:
            said.append(item.said)
        elif role is _FRAME:
            frame = digest(frame, item.said)
    return History(began, places, said, frame, before, run, is_over)


def _traces(run: list[Item]) -> bytes:
    """Return a run of the model's items, as far as it is kept."""
    return b"".join([item.trace for item in run[-ANSWERED_ITEMS:]]) if run else b""
