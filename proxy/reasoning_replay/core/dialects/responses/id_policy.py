"""
Id policy: whether reasoning is injected with ids or without, and the edits that this takes.

The profile states which forms an upstream accepts (`Ids`); this module turns each into edits.
"""

from collections.abc import Iterable, Sequence

import msgspec
from msgspec import structs

from reasoning_replay.core.dialects.responses.emitted import is_open
from reasoning_replay.core.dialects.responses.items import ResponsesItem
from reasoning_replay.core.dialects.responses.profiles import Ids, Profile
from reasoning_replay.core.dialects.responses.request import Request
from reasoning_replay.core.history.turns import Emitted, Reasoning
from reasoning_replay.core.wire import json_spans
from reasoning_replay.core.wire.json_spans import Edit, Member, Unspliceable

_NOTHING = b'[]" \t\r\n'  # characters of an empty value; `null` is compared separately


class InjectionForm(msgspec.Struct, frozen=True, gc=False):
    """Injected content: reasoning items as they are sent, and edits of the items after them."""

    parts: tuple[bytes, ...]
    edits: tuple[Edit, ...] = ()


class FollowingItems(msgspec.Struct, frozen=True, gc=False):
    """
    The items that a run of reasoning led to and that the request holds; never empty.

    Attributes:
        pairs: Each item in the request, in its order, and as upstream emitted it.
        has_head: Whether the first one is the item that stood directly after the run.
        is_stored: Whether upstream reported that it stores them.
    """

    pairs: Sequence[tuple[ResponsesItem, Emitted]]
    has_head: bool
    is_stored: bool


def choose_form(
    request: Request, profile: Profile, following: FollowingItems, missing: Sequence[Reasoning]
) -> InjectionForm | None:
    """
    Choose the form in which missing reasoning is injected; None if no form is allowed.

    `following` are the items that the run led to, `missing` its items that the request lacks.
    """
    run = [_without_members(part, profile.omits) for part in missing] if profile.omits else missing
    if profile.needs and not all(_holds(part, profile.needs) for part in run):
        return None
    if False not in [is_open(part) for part in run]:
        # Plain text is injected exactly as it was captured.
        return InjectionForm(tuple([part.raw for part in run]))
    is_stored = request.stores and following.is_stored and profile.keeps_items
    return _Case(request.body, following, run, is_stored).form(profile.ids)


def in_form(part: Reasoning, profile: Profile) -> bytes:
    """Return one reasoning item as an upstream accepts it, if there is no form to choose."""
    part = _without_members(part, profile.omits)
    return without_id(part) if profile.ids is Ids.DROPPED and part.has_blob else part.raw


def without_id(part: Reasoning) -> bytes:
    """Return reasoning for a request whose items carry no ids."""
    return json_spans.without(part.raw, ("id",))


def id_removals(
    body: bytes, items: Iterable[tuple[ResponsesItem, Emitted]]
) -> tuple[Edit, ...] | None:
    """
    Return the edits that remove the ids that upstream gave to these items.

    None if the API requires one of the ids. An id that the client made up requires no reasoning.
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
    The inputs of one choice.

    Attributes:
        body: Request body.
        run: Missing reasoning, without the members that upstream refuses.
        is_stored: Whether upstream can resolve a bare id in this request.
    """

    body: bytes
    following: FollowingItems
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
        """Whether the item directly after the run is present under its original id."""
        item, emitted = self.following.pairs[0]
        return self.following.has_head and item.id == emitted.id != ""

    def form(self, ids: Ids) -> InjectionForm | None:
        """Return the form for an upstream that takes ids in this way; None if there is none."""
        match ids:
            case Ids.KEPT:
                return self._named() if self.has_blobs or self.can_name else None
            case Ids.DROPPED:
                # If the API requires one id, that id stays, and so do the others of its group.
                return self._nameless() or self._together()
            case Ids.REQUIRED:
                return self._required()
            case _:
                return self._together()

    def _together(self) -> InjectionForm | None:
        if self.can_name:
            if self.keeps_id:
                return self._named()
            keeps_ids = any(item.id == emitted.id != "" for item, emitted in self.following.pairs)
            added = self._add_id() if keeps_ids or self.is_stored else None
            if added is not None:
                return self._named(added)
        return self._nameless()

    def _required(self) -> InjectionForm | None:
        if not self.can_name:
            return None
        if self.keeps_id:
            return self._named()
        if self.is_stored:  # upstream looks up the item after the run by its id
            added = self._add_id()
            return self._named(added) if added is not None else None
        # Upstream recorded no follower for items that it does not store. The original follower is
        # accepted without its id, but no other item is.
        return self._named() if self.following.has_head else None

    def _named(self, *edits: Edit) -> InjectionForm:
        return InjectionForm(tuple([part.raw for part in self.run]), edits)

    def _nameless(self) -> InjectionForm | None:
        """Return the form without ids: nothing may be paired, so the whole group loses its ids."""
        removals = id_removals(self.body, self.following.pairs)
        if not self.has_blobs or removals is None:
            return None
        return InjectionForm(tuple(without_id(part) for part in self.run), removals)

    def _add_id(self) -> Edit | None:
        """Return the edit that adds its original id to the item after the run; None if none can."""
        item, emitted = self.following.pairs[0]
        if not self.following.has_head or not emitted.id or item.id or not item.takes_id:
            return None
        value = msgspec.json.encode(emitted.id)
        found = _members(self.body, item)
        if found is None:
            return None
        if "id" in found:  # null, empty, or not a string
            return Edit(found["id"].start, found["id"].end, value)
        at = item.start + 1
        return Edit(at, at, b'"id":' + value + b",")


def _members(body: bytes, item: ResponsesItem) -> dict[str, Member] | None:
    """Return the members of an item; None if parsers could disagree on them: then it stays."""
    try:
        return json_spans.members(body, item.start, item.end)
    except Unspliceable:
        return None


def _without_members(part: Reasoning, omits: tuple[str, ...]) -> Reasoning:
    """Return reasoning without some members; the same object if it has none of them."""
    # This substring search saves parsing most items.
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
