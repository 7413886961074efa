"""Captured data: what the turns that were looked up tell about the items of a refused request."""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from functools import cached_property
from itertools import takewhile
from typing import NamedTuple

from typing_extensions import override

from reasoning_replay.core.dialects.cures import RefusedRequest, SentReasoning
from reasoning_replay.core.dialects.responses.emitted import blob_digest, is_open
from reasoning_replay.core.dialects.responses.heal.diagnosis import Diagnosis
from reasoning_replay.core.dialects.responses.id_policy import in_form
from reasoning_replay.core.dialects.responses.items import ResponsesItem
from reasoning_replay.core.dialects.responses.placement import plan_injection
from reasoning_replay.core.dialects.responses.profiles import Profile
from reasoning_replay.core.dialects.responses.reasoning_runs import (
    groups_of,
    head_of_group,
    replayed_reasoning,
)
from reasoning_replay.core.dialects.responses.request import Request, read_request
from reasoning_replay.core.history.fingerprints import is_distinctive
from reasoning_replay.core.history.item_index import Match
from reasoning_replay.core.history.items import Role
from reasoning_replay.core.history.lookup_keys import LookupResult
from reasoning_replay.core.history.matching.matches import match_items, match_refused
from reasoning_replay.core.history.model_names import family
from reasoning_replay.core.history.plan import Plan
from reasoning_replay.core.history.turns import Emitted, Reasoning, Turn

# Position of a captured item: its turn, and its sort key in it; reasoning sorts before its item.
Position = tuple[bytes, tuple[int, int]]


class KnownReasoning(NamedTuple):
    """Captured reasoning: the n-th item of the run before the k-th item that a turn emitted."""

    turn: Turn
    k: int
    n: int

    @property
    def part(self) -> Reasoning:
        """The reasoning item as it was captured."""
        return self.follower.run[self.n]

    @property
    def follower(self) -> Emitted:
        """The item that it led to."""
        return self.turn.items[self.k]

    @property
    def group(self) -> list[Emitted]:
        """The item that it led to and the items after that, up to the next reasoning."""
        first, *others = self.turn.items[self.k :]
        return [first, *takewhile(lambda item: not (item.run or item.withheld), others)]

    @property
    def ids(self) -> set[str]:
        """The ids of its group."""
        return {emitted.id for emitted in self.group} - {""}

    @property
    def whole_run(self) -> "list[KnownReasoning]":
        """All reasoning that led to the same item, in order."""
        return [KnownReasoning(self.turn, self.k, n) for n in range(len(self.follower.run))]

    def acceptable(self, model: str, profile: Profile) -> bytes:
        """Return the item in the form that upstream accepts; b"" if the model cannot read it."""
        is_own = self.part.has_blob and family(model) in self.turn.models
        return in_form(self.part, profile) if is_own or is_open(self.part) else b""

    def is_altered(self, item: ResponsesItem) -> bool:
        """Return whether the id or the blob of its copy in a request is another one."""
        has_own_id = not item.id or item.id == self.part.id or not self.part.id
        return not (has_own_id and blob_digest(item) in self.part.blobs)

    def led_to(self, item: ResponsesItem) -> bool:
        """Return whether an item was emitted in its group."""
        return any(
            item.id == one.id if item.id else bool(item.call_id) and is_follower(item, one)
            for one in self.group
        )


class ReasoningIndex:
    """An index of the reasoning in the turns that were looked up."""

    def __init__(self, turns: Iterable[Turn]) -> None:
        """Index each item by its id, and by every blob that was seen for it."""
        self._by_id: dict[str, list[KnownReasoning]] = defaultdict(list)
        self._by_blob: dict[bytes, list[KnownReasoning]] = defaultdict(list)
        for turn in turns:
            for k, item in enumerate(turn.items):
                for n, part in enumerate(item.run):
                    known = KnownReasoning(turn, k, n)
                    self._by_id[part.id].append(known)
                    for blob in part.blobs:
                        self._by_blob[blob].append(known)

    def find(self, item: ResponsesItem) -> KnownReasoning | None:
        """
        Return the captured reasoning that an item is, or refers to.

        None if it is unknown or ambiguous. An id counts only if it looks random.
        """
        if not (self._by_id and item.is_reasoning):
            return None
        found = self._by_blob.get(blob_digest(item), [])
        if not found and is_distinctive(item.id, ""):  # two items may have the same id (xAI)
            found = self._by_id.get(item.id, [])
        return found[0] if len(found) == 1 else None


def is_follower(item: ResponsesItem, emitted: Emitted) -> bool:
    """Return whether an item may be this emitted one, with its id or without, or refers to it."""
    if item.role is Role.REFERENCE:
        return item.id == emitted.id
    is_like = (item.type, item.call_id) == (emitted.type, emitted.call_id)
    return is_like and item.id in ("", emitted.id)


class Case(RefusedRequest[Request, Diagnosis]):
    """
    A request, refused or not, and what is known of its items.

    None of it changes: a cure, or a repair before the first attempt, edits a draft.

    Attributes:
        items: Items of `sent`.
        index: Captured reasoning.
    """

    read = read_request

    def __init__(
        self,
        sent: Request,
        given: Request,
        diagnosis: Diagnosis,
        looked_up: LookupResult,
        profile: Profile,
    ) -> None:
        """Read the items; they are matched with captured turns on first use."""
        super().__init__(sent, given, diagnosis, plan=Plan(), turns=looked_up.turns)
        self.looked_up = looked_up
        self.profile = profile
        self.items = [place.item for place in sent.places]
        self.index = ReasoningIndex(looked_up.turns)

    @cached_property
    def by_id(self) -> dict[str, ResponsesItem]:
        """The first item with each id."""
        return {item.id: item for item in reversed(self.items) if item.id}

    @cached_property
    def _matched(self) -> Mapping[int, Match]:
        return match_items(self.sent, self.looked_up).matches

    @cached_property
    def matches(self) -> dict[ResponsesItem, Match]:
        """Item -> the captured item, other than reasoning, that it is, or refers to."""
        return {self.items[n]: match for n, match in self._matched.items()}

    @override
    def reasoning_in(self, request: Request) -> Mapping[Hashable, SentReasoning]:
        return {
            name: SentReasoning((blob_digest(item),), item.end - item.start)
            for name, item in _reasoning_of(request).items()
        }

    @override
    def due_in(self, request: Request) -> AbstractSet[Hashable]:
        # What is of no turn that is known counts nowhere.
        sent = _reasoning_of(self.sent)
        return {
            name
            for name, item in _reasoning_of(request).items()
            if self.stands_for(sent.get(name, item)) is not None
        }

    @cached_property
    def injected(self) -> set[ResponsesItem]:
        """The reasoning that the client did not send."""
        theirs = _reasoning_of(self.given)
        return {item for name, item in _reasoning_of(self.sent).items() if name not in theirs}

    def of(self, body: bytes) -> "Case":
        """Return the case of the same refusal for another sent body."""
        sent = read_request(body, {})
        return Case(sent, self.given, self.diagnosis, self.looked_up, self.profile)

    def about(self, diagnosis: Diagnosis) -> "Case":
        """Return the case of another refusal of the same body."""
        return Case(self.sent, self.given, diagnosis, self.looked_up, self.profile)

    @property
    def looks_up_ids(self) -> bool:
        """Whether upstream looks up items by their ids."""
        return self.sent.stores and self.profile.keeps_items

    def known(self, item: ResponsesItem) -> KnownReasoning | None:
        """Return the captured reasoning that an item is, or refers to."""
        return self.index.find(item)

    def stands_for(self, item: ResponsesItem) -> KnownReasoning | None:
        """Return the captured reasoning that an item is, or whose place it takes in a turn."""
        return self.known(item) or self._by_place.get(item)

    @cached_property
    def _by_place(self) -> dict[ResponsesItem, KnownReasoning]:
        """Reasoning before a captured item, as what that item was emitted with."""
        groups = groups_of(self._matched)
        turns = {group.turn.id: group.turn for group in groups}
        return {
            self.items[index]: KnownReasoning(turns[turn], k, n)
            for (turn, k, n), index in replayed_reasoning(self.sent, groups).items()
        }

    def had_none(self, item: ResponsesItem) -> bool:
        """Return whether an item is known to have been emitted without reasoning before it."""
        match = self.matches.get(item)
        return match is not None and head_of_group(match) is None

    def positions(self) -> dict[ResponsesItem, Position]:
        """Return the position of each captured item in its turn."""
        found: dict[ResponsesItem, Position] = {}
        for item in self.items:
            if item.role in (Role.CLIENT, Role.FRAME):
                continue
            if (known := self.known(item)) is not None:
                found[item] = known.turn.id, (known.k, known.n - len(known.follower.run))
            elif (match := self.matches.get(item)) is not None:
                found[item] = match.turn.id, (match.k, 0)
        return found

    def captured(self, item: ResponsesItem) -> bytes:
        """
        Return the whole item that an item stands for.

        b"" if it is unknown, or if the model could not read it.
        """
        if (known := self.known(item)) is not None:
            return known.acceptable(self.sent.model, self.profile)
        match = self.matches.get(item)
        return match.emitted.raw if match is not None else b""

    def original(self, item: ResponsesItem) -> bytes:
        """Return what was captured, if the client altered it; b"" if the model cannot read it."""
        known = self.known(item)
        return self.captured(item) if known is not None and known.is_altered(item) else b""

    def emitted_id(self, item: ResponsesItem) -> str:
        """Return the id that upstream gave an item; "" if unknown."""
        known, match = self.stands_for(item), self.matches.get(item)
        if known is not None:
            return known.part.id
        return match.emitted.id if match is not None else ""

    def turn_of(self, item: ResponsesItem | None) -> Turn | None:
        """Return the turn that an item is from; None if unknown."""
        if item is None:
            return None
        known = self.known(item) or self.matches.get(item)
        return known.turn if known is not None else None

    def is_own(self, turn: Turn) -> bool:
        """Return whether the requested model can read the reasoning of a turn."""
        return family(self.sent.model) in turn.models

    def is_named(self, item: ResponsesItem) -> bool:
        """Return whether upstream names this reasoning, which it may know by its blob alone."""
        item_id = item.id or self.emitted_id(item)
        return bool(item_id) and item_id == self.diagnosis.subject

    def inject_again(self, body: bytes) -> bytes:
        """Inject what is now known to be missing, into the sent body or an edited one."""
        request = read_request(body, {})
        if request.is_stateful:
            return body
        matched = match_refused(request, self.looked_up)
        return plan_injection(request, matched, self.profile).apply(body)


def _reasoning_of(request: Request) -> dict[tuple[str, int], ResponsesItem]:
    """Return the reasoning of a request, by its blob or id, and how often that came before."""
    found: dict[tuple[str, int], ResponsesItem] = {}
    count: Counter[str] = Counter()
    for item in (place.item for place in request.places):
        if item.role is Role.REASONING:
            name = item.blob or item.id
            found[name, count[name]] = item
            count[name] += 1
    return found
