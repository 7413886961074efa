"""A request to `/responses`, read: what it asks for, what it says, and where each item stands."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from proxy.core import spans
from proxy.core.items import Item, Role, digest, read_item
from proxy.core.scope import hint_of
from proxy.core.spans import Member, TooMany, Unspliceable
from proxy.core.turns import LINK_BYTES, TAIL_LINKS, Context

__all__ = ["Place", "Request", "read_request"]

_START = digest(b"chain")
# Of a request's input, and of values in all of it. Real ones have some thousands of items; what
# has more than these is sent on unread.
ITEMS_MAX = 20_000
VALUES_MAX = 200_000
# So many items of a model's last run are remembered: enough to tell one run from another.
ANSWERED_ITEMS = 8


@dataclass(slots=True)
class Place:
    """
    One item of the `input`, with what had been said before it.

    Attributes:
        depth: How many links of the conversation's chain precede it.
        frame: Digest of what the application had set by then.
        answered: What the model had said or done last before, as `Context.answered`.
    """

    item: Item
    depth: int
    frame: bytes
    answered: bytes


@dataclass(slots=True)
class Request:
    """
    One readable request.

    Attributes:
        body: The bytes that came; lone surrogates in them may read U+FFFD.
        members: Where each top-level value stands.
        places: Every item of `input`, in order; [] where `input` is a string or missing.
        links: 8 bytes for everything that users and tools said, in order.
        chains: The chain's digest before each link, and behind the last: one more than links.
    """

    body: bytes
    members: Mapping[str, Member]
    model: str
    hint: bytes
    places: list[Place] = field(default_factory=list)
    links: list[bytes] = field(default_factory=list)
    chains: list[bytes] = field(default_factory=lambda: [_START])
    frame: bytes = b""
    answered: bytes = b""

    def raw(self, key: str) -> bytes:
        """Return the JSON of a top-level value; b"" when it is absent."""
        member = self.members.get(key)
        return self.body[member.start : member.end] if member is not None else b""

    def text(self, key: str) -> str:
        """Return a top-level string; "" when it is absent or of another type."""
        return spans.text(self.raw(key)) or ""

    @property
    def is_stateful(self) -> bool:
        """Whether upstream itself holds the history: nothing is ever added to such a request."""
        return any(self.raw(key) not in (b"", b"null") for key in _STATEFUL)

    @property
    def stores(self) -> bool:
        """Whether upstream keeps the items of this exchange: the API's default."""
        return self.raw("store") != b"false"

    @property
    def is_background(self) -> bool:
        """Whether the answer is fetched later."""
        return self.raw("background") == b"true"

    def context(self, place: Place | None = None) -> Context:
        """Return what had been said before an item; None is the end of the input."""
        end = len(self.links) if place is None else place.depth
        tail = b"".join(self.links[max(0, end - TAIL_LINKS) : end])
        return Context(
            chain=self.chains[end],
            tail=tail,
            depth=end,
            frame=self.frame if place is None else place.frame,
            answered=self.answered if place is None else place.answered,
            hint=self.hint,
            is_known=not self.is_stateful,
        )


_STATEFUL = ("previous_response_id", "conversation")


def read_request(body: bytes, headers: Mapping[str, str]) -> Request:
    """
    Read the body of a request to `/responses`.

    Args:
        body: UTF-8 JSON, decoded from any content coding; bounded by the caller, in bytes.
        headers: The request's, for the conversation's name.

    Raises:
        TooMany: It has more values, or more items, than is worth looking at.
        Unspliceable: Not a JSON object in UTF-8, nested too deep, or a key occurs twice. The
            caller forwards such a body as it is: upstream has its own words for it.

    Cost: linear; about three C passes over the body, and some Python for each item.
    """
    spans.bound(body, VALUES_MAX)
    if not body.isascii():
        try:
            body.decode()
        except UnicodeDecodeError as error:
            raise Unspliceable(str(error)) from error
    try:
        members = spans.members(body)
    except Unspliceable:
        # All that is read and cut below is the same at the same place in what came.
        body = spans.readable(body)
        members = spans.members(body)
    request = Request(body, members, "", b"")
    request.model = request.text("model")
    request.hint = hint_of(headers, request.text)
    if request.text("instructions"):
        request.frame = digest(request.raw("instructions"))
    given = members.get("input")
    if given is not None and body[given.start : given.start + 1] == b"[":
        _read_items(request, given)
    elif words := request.text("input"):
        as_message = msgspec.json.encode({"role": "user", "content": words})
        _link(request, read_item(as_message).said)
    return request


def _read_items(request: Request, given: Member) -> None:
    elements = spans.elements(request.body, given.start, given.end)
    if len(elements) > ITEMS_MAX:
        raise TooMany(f"more than {ITEMS_MAX} items")
    answers = _Answers()
    for start, end in elements:
        item = read_item(request.body[start:end], start, end)
        answers.hear(item)
        request.places.append(Place(item, len(request.links), request.frame, answers.before))
        if item.role is Role.CLIENT:
            _link(request, item.said)
        elif item.role is Role.FRAME:
            request.frame = digest(request.frame, item.said)
    request.answered = answers.newest()


class _Answers:
    """The model's runs of items, while a history is read from its head."""

    def __init__(self) -> None:
        self.before = b""  # the run before the present one
        self._run: list[bytes] = []
        self._is_over = False

    def hear(self, item: Item) -> None:
        """Take the next item of the history."""
        if item.role is Role.CLIENT:
            self._is_over = True
        elif item.role is Role.MODEL:
            if self._is_over and self._run:
                self.before = self.newest()
                self._run = []
            self._is_over = False
            self._run.append(item.trace)

    def newest(self) -> bytes:
        """Return the last run, as far as it is kept."""
        return b"".join(self._run[-ANSWERED_ITEMS:])


def _link(request: Request, said: bytes) -> None:
    request.links.append(said[:LINK_BYTES])
    request.chains.append(digest(request.chains[-1], said))
