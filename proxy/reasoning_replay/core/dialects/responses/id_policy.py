"""
Id policy: whether reasoning is injected with ids or without, and which edits that takes.

Which forms an upstream takes is its profile's to say (`Ids`); here is what each means in edits.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

import msgspec
from msgspec import structs

from reasoning_replay.core.dialects.responses.emitted import is_open
from reasoning_replay.core.dialects.responses.items import ResponsesItem
from reasoning_replay.core.dialects.responses.profiles import Ids, Profile
from reasoning_replay.core.dialects.responses.request import Request
from reasoning_replay.core.history.turns import Emitted, Reasoning
from reasoning_replay.core.wire import json_spans
from reasoning_replay.core.wire.json_spans import Edit, Member, Unspliceable

__all__ = [
    "FollowingItems",
    "InjectionForm",
    "choose_form",
    "id_removals",
    "in_form",
    "takes_plainly",
]

_NOTHING = b'[]" \t\r\n'  # what is left of a value that holds nothing, less `null`


class InjectionForm(msgspec.Struct, frozen=True, gc=False):
    """What is injected: reasoning items as they are sent, and edits of the items behind them."""

    parts: tuple[bytes, ...]
    edits: tuple[Edit, ...] = ()


class FollowingItems(msgspec.Struct, frozen=True, gc=False):
    """
    What a run of reasoning led to, as far as the request holds it; never empty.

    Attributes:
        items: As the client sends them, in its order.
        emitted: The same items, as upstream emitted them.
        has_head: Whether the first one is the very item that the run stood ahead of.
        is_stored: Whether upstream said that it keeps them.
    """

    items: tuple[ResponsesItem, ...]
    emitted: tuple[Emitted, ...]
    has_head: bool
    is_stored: bool


def choose_form(
    request: Request, profile: Profile, led: FollowingItems, missing: Sequence[Reasoning]
) -> InjectionForm | None:
    """
    Choose the form of what is missing of a run; None when no form of it may be injected.

    Args:
        request: Where it goes.
        profile: Of the upstream.
        led: What it led to.
        missing: In its order; not empty.
    """
    run = [_less(part, profile.omits) for part in missing] if profile.omits else missing
    if profile.needs and not all(_holds(part, profile.needs) for part in run):
        return None
    if False not in [is_open(part) for part in run]:
        # It is injected just as it came.
        return InjectionForm(tuple([part.raw for part in run]))
    is_stored = request.stores and led.is_stored and profile.keeps_items
    return _FORMS[profile.ids](_Case(request.body, led, run, is_stored))


def takes_plainly(profile: Profile) -> bool:
    """
    Tell whether an upstream takes any run as it came, whole, ahead of the item that it led to.

    Whole, all of it has ids and blobs; and the item has the id that upstream gave it.
    """
    return not (profile.omits or profile.needs or profile.ids is Ids.DROPPED)


def in_form(part: Reasoning, profile: Profile) -> bytes:
    """Return one reasoning item as an upstream takes it, where there is nothing to choose."""
    going = _less(part, profile.omits)
    return without_id(going) if profile.ids is Ids.DROPPED and going.has_blob else going.raw


def without_id(part: Reasoning) -> bytes:
    """Return reasoning for a request whose items carry no ids."""
    return json_spans.without(part.raw, ("id",))


def id_removals(
    body: bytes, items: Iterable[tuple[ResponsesItem, Emitted]]
) -> tuple[Edit, ...] | None:
    """
    Return the edits that leave out the ids that upstream would know items by.

    None when the API demands one of them. An id that the client made up demands nothing.
    """
    edits: list[Edit] = []
    for item, emitted in items:
        if not item.id or item.id != emitted.id:
            continue
        found = _members(body, item) if item.id_is_optional else None
        if found is None:
            return None
        edits.append(json_spans.remove(body, found, "id"))
    return tuple(edits)


class _Case(msgspec.Struct, frozen=True, gc=False):
    """
    One choice to make.

    Attributes:
        body: The request's.
        run: The missing reasoning, less what the upstream refuses of it.
        is_stored: Whether an id alone means something to the upstream, here.
    """

    body: bytes
    led: FollowingItems
    run: Sequence[Reasoning]
    is_stored: bool

    @property
    def has_blobs(self) -> bool:
        return False not in [part.has_blob for part in self.run]

    @property
    def can_name(self) -> bool:
        return "" not in [part.id for part in self.run] and (self.has_blobs or self.is_stored)

    @property
    def keeps_id(self) -> bool:
        """Whether the item that the run stood ahead of is there, under its own id."""
        led = self.led
        return led.has_head and led.items[0].id == led.emitted[0].id != ""

    @property
    def keeps_ids(self) -> bool:
        pairs = zip(self.led.items, self.led.emitted, strict=True)
        return any(item.id == emitted.id != "" for item, emitted in pairs)

    def as_named(self, *edits: Edit) -> InjectionForm:
        return InjectionForm(tuple([part.raw for part in self.run]), edits)

    def add_id(self) -> Edit | None:
        """Return the edit that gives the run's own item its id back; None if it takes none."""
        item, item_id = self.led.items[0], self.led.emitted[0].id
        if not self.led.has_head or not item_id or item.id or not item.takes_id:
            return None
        value = msgspec.json.encode(item_id)
        found = _members(self.body, item)
        if found is None:
            return None
        if "id" in found:  # null, or of a type that no id has
            return Edit(found["id"].start, found["id"].end, value)
        at = item.start + 1
        return Edit(at, at, b'"id":' + value + b",")

    def removals(self) -> tuple[Edit, ...] | None:
        return id_removals(self.body, zip(self.led.items, self.led.emitted, strict=True))


def _together(case: _Case) -> InjectionForm | None:
    if case.can_name:
        if case.keeps_id:
            return case.as_named()
        added = case.add_id() if case.keeps_ids or case.is_stored else None
        if added is not None:
            return case.as_named(added)
    return _nameless(case)


def _dropped(case: _Case) -> InjectionForm | None:
    # An id that the API demands stays, and then the others of its group stay with it.
    return _nameless(case) or _together(case)


def _nameless(case: _Case) -> InjectionForm | None:
    """Without ids nothing is paired, so all those of the group have to go."""
    removals = case.removals()
    if not case.has_blobs or removals is None:
        return None
    return InjectionForm(tuple(without_id(part) for part in case.run), removals)


def _kept(case: _Case) -> InjectionForm | None:
    return case.as_named() if case.has_blobs or case.can_name else None


def _required(case: _Case) -> InjectionForm | None:
    if not case.can_name:
        return None
    if case.keeps_id:
        return case.as_named()
    if case.is_stored:  # upstream looks for what followed, and knows it by its id
        added = case.add_id()
        return case.as_named(added) if added is not None else None
    # What was not stored has no recorded follower: the item will do without its id, but no other.
    return case.as_named() if case.led.has_head else None


_FORMS: Mapping[Ids, Callable[[_Case], InjectionForm | None]] = MappingProxyType(
    {Ids.TOGETHER: _together, Ids.KEPT: _kept, Ids.DROPPED: _dropped, Ids.REQUIRED: _required}
)


def _members(body: bytes, item: ResponsesItem) -> dict[str, Member] | None:
    """Return the members of an item; None where readers could disagree on them: it stays."""
    try:
        return json_spans.members(body, item.start, item.end)
    except Unspliceable:
        return None


def _less(part: Reasoning, omits: tuple[str, ...]) -> Reasoning:
    """Return reasoning less some members; the same object when it has none of them."""
    # Looking for the letters first spares most items the parse.
    present = tuple(key for key in omits if key.encode() in part.raw)
    if not present:
        return part
    has_blob = part.has_blob and "encrypted_content" not in present
    return structs.replace(part, raw=json_spans.without(part.raw, present), has_blob=has_blob)


def _holds(part: Reasoning, member: str) -> bool:
    found = json_spans.members(part.raw).get(member)
    if found is None:
        return False
    return part.raw[found.start : found.end].strip(_NOTHING) not in (b"", b"null")
