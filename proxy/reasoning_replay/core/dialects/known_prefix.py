"""
Known prefix: what was decided about a request, for the requests that begin with it.

A client that goes on sends its last request again, the response, and what it has to add. The older
part was decided, and upstream saw it: that is repeated, not decided again. Only what is new is read
and matched (*the short way*). Every doubt takes *the long way*, which decides about the whole
request; it is also how a known prefix begins. Both send the same bytes.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import structs

from reasoning_replay.core.dialects.captures import Origin
from reasoning_replay.core.dialects.request_body import ParsedRequest
from reasoning_replay.core.dialects.states import Way
from reasoning_replay.core.history.item_index import IndexedTurns, Match, by_conversation
from reasoning_replay.core.history.item_summary import ShownItems, shown_items
from reasoning_replay.core.history.items import HistoryItem, Role
from reasoning_replay.core.history.lookup_keys import (
    RESPONSE,
    Lookup,
    LookupResult,
    key_of_turn,
    keys_of_answer,
)
from reasoning_replay.core.history.matching.candidates import Candidates, ids_allow
from reasoning_replay.core.history.matching.matches import Matches
from reasoning_replay.core.history.plan import Plan
from reasoning_replay.core.history.request_history import HistoryEnd, end_of
from reasoning_replay.core.history.seen import seen_of
from reasoning_replay.core.history.turns import Context, Turn
from reasoning_replay.core.wire.digest import DIGEST_BYTES
from reasoning_replay.core.wire.json_spans import COMMA, Edit
from reasoning_replay.core.wire.packed_edits import PackedEdits

# Memory of a decision without its parts, and of an edit with its note, without what is injected;
# measured.
_DECISION_BYTES = 3000
_NOTE_BYTES = 90


class LongWay(Exception):
    """The whole request must be decided on; `way` says why."""

    def __init__(self, way: Way) -> None:
        """Keep the reason."""
        super().__init__(way)
        self.way = way


class Used(NamedTuple):
    """
    A conversation that a decision depends on.

    Attributes:
        turn: Id of one of its turns that were matched; it leads to the conversation.
        line: `IndexedTurns.line`: another one means that it was deleted, or changed otherwise than
            by further turns.
    """

    turn: bytes
    line: object


class KnownPrefix(msgspec.Struct, frozen=True, gc=False):
    """
    The decision about a request.

    Attributes:
        outline: The request without its items (`ParsedRequest.outline`).
        end: The end of its history.
        shown: Its items, as a summary shows them.
        planned: The outcomes of what was injected.
        edits: What was injected; all of it is inside the history.
        more: Other edits, such as `include`.
        origin: As in `Decision`.
        newest: The newest turn that was matched; None without any.
        used: Every conversation of a turn that was matched. All of them are looked up again, so
            that they are confirmed and kept from expiring.
        size_bytes: Estimated memory, in bytes.
    """

    outline: ParsedRequest[Any]
    end: HistoryEnd
    shown: ShownItems
    planned: Plan
    edits: PackedEdits
    more: tuple[Edit, ...]
    origin: Origin
    newest: Turn | None
    used: Mapping[bytes, Used]
    size_bytes: int

    @property
    def conversation(self) -> bytes:
        """Id of the conversation that was continued; b"" without one."""
        return self.newest.conversation if self.newest is not None else b""

    def more_at(self, start: int, end: int) -> tuple[Edit, ...]:
        """Return `more` for a body whose history ends at `end` instead of `start`."""
        if start == end or not self.more:
            return self.more
        by = end - start
        return tuple(
            [Edit(e.start + by, e.end + by, e.new) if e.start >= start else e for e in self.more]
        )

    def grown(  # noqa: PLR0913 (all that changes)
        self,
        new: ParsedRequest[HistoryItem],
        shown: ShownItems,
        plan: tuple[Plan, PackedEdits, tuple[Edit, ...]],
        *,
        origin: Origin,
        newest: Turn,
        line: object,
    ) -> "KnownPrefix":
        """
        Return the decision about a longer request.

        `plan` has what `planned`, `edits` and `more` are for it, `line` is that of the conversation
        of its newest turn.
        """
        planned, edits, more = plan
        end = end_of(new.history, self.end) if new.history is not None else self.end
        added = _size_of(edits[len(self.edits) :])
        size_bytes = self.size_bytes + added + shown.size_bytes - self.shown.size_bytes
        used = {**self.used, newest.conversation: Used(newest.id, line)}
        return KnownPrefix(
            self.outline, end, shown, planned, edits, more, origin, newest, used, size_bytes
        )  # fmt: skip


class Continued(NamedTuple):
    """
    A request that begins with a known prefix.

    Attributes:
        known: What was decided about it.
        new: The request, with only the items after the prefix.
    """

    known: KnownPrefix
    new: ParsedRequest[HistoryItem]

    @property
    def answer(self) -> list[HistoryItem]:
        """The new items of the model, which come first."""
        items = [place.item for place in self.new.places]
        roles = [item.role for item in items]
        size = next((n for n, role in enumerate(roles) if role is not Role.MODEL), len(roles))
        return items[:size]

    def planned_with(self, plan: Plan) -> Plan:
        """Return the outcomes of all that is injected, given the plan for what is new."""
        planned, at = self.known.planned, self.known.end.items
        outcomes = {**planned.outcomes}
        for what, count in plan.outcomes.items():
            outcomes[what] = outcomes.get(what, 0) + count
        notes = [note._replace(place=note.place + at) for note in plan.notes]
        return Plan(outcomes=outcomes, notes=(*planned.notes, *notes))

    def origin_after(self, matched: Matches, binding: bytes, newest_ms: int) -> Origin:
        """Return the origin of the request; the last argument is the time of the newest turn."""
        origin, turn = self.known.origin, matched.newest()
        if turn is None:  # it was sent before
            return structs.replace(origin, after_ms=newest_ms)
        return structs.replace(
            origin,
            context=self.new.context(),
            conversation=turn.conversation,
            parent=turn.id,
            after_ms=newest_ms,
            seen=matched.seen,
            binding=binding,
        )


def known_prefix(
    request: ParsedRequest[Any],
    key: str,
    plans: tuple[Plan, Plan],
    continued: tuple[Matches, Origin],
    found: LookupResult,
) -> KnownPrefix | None:
    """
    Return what is known once a whole request was decided on; None if it must be decided again.

    `key` is that of its history; `plans` are what is injected, and the finished one; `continued`
    has the origin of each matched item, and of the response.
    """
    (planned, finished), (matched, origin) = plans, continued
    history = request.history
    if history is None or request.is_stateful or request.has_reasoning:
        return None
    newest, parts = matched.newest(), by_conversation(found.turns)
    turns = {match.turn.conversation: match.turn for match in matched.matches.values()}
    if found.is_stale or (not turns and (found.turns or found.crowded)):
        return None
    if not turns.keys() <= parts.keys():
        return None
    if matched.seen is None and not matched.is_certain:
        return None  # the client does not only append
    outline, more = request.outline(key), finished.edits[len(planned.edits) :]
    values = sum([len(memoryview(raw)) for raw in outline.values.values()])
    shown = shown_items(request.places, finished.notes)
    return KnownPrefix(
        outline=outline,
        end=end_of(history),
        shown=shown,
        planned=Plan(outcomes=finished.outcomes, notes=finished.notes),
        edits=PackedEdits(planned.edits),
        more=more,
        origin=origin,
        newest=newest,
        used={one: Used(turn.id, parts[one].line) for one, turn in turns.items()},
        size_bytes=_DECISION_BYTES
        + values
        + shown.size_bytes
        + _size_of(finished.edits)
        + _NOTE_BYTES * len(turns),
    )


def lookups_after(continued: Continued) -> Sequence[Lookup]:
    """
    Return the lookups for what is new.

    Raises:
        LongWay: It is not one response, and then what the client adds.
    """
    known, new = continued
    history = known.end
    # These also lead to the local copies of the conversations.
    older = [Lookup(RESPONSE, [key_of_turn(one.turn)]) for one in known.used.values()]
    if not new.places:
        return older
    answer = continued.answer
    others = [place.item for place in new.places[len(answer) :]]
    is_next = history.is_over or not history.heard
    if not (answer and is_next and all(item.role is Role.CLIENT for item in others)):
        raise LongWay(Way.OTHER_FORM)
    before = Context(
        chain=history.chain.digest()[:DIGEST_BYTES],
        frame=history.frame,
        hint=new.hint,
        is_known=True,
    )
    return [*keys_of_answer(answer, before), *older]


def match_after(continued: Continued, found: LookupResult) -> tuple[Matches, int]:
    """
    Match what is new with the one turn that follows what is known.

    Returns:
        The matches in the view, and the time of the newest turn of the conversation.

    Raises:
        LongWay: Something else may be meant, or what is known may not hold any more.
    """
    known, new = continued
    history = known.end
    seen, turns = known.origin.seen, found.turns
    if not new.places and not known.used:
        return Matches(seen=seen), known.origin.after_ms
    if found.is_stale or not turns:
        raise LongWay(Way.NOT_FOUND)
    parts = by_conversation(turns)
    if found.crowded or not _is_unchanged(known, parts):
        raise LongWay(Way.OTHER_TURNS)
    newest = known.newest
    continued_by = parts[newest.conversation] if newest is not None else next(iter(parts.values()))
    newest_ms = continued_by[-1].created_ms
    if not new.places:
        return Matches(seen=seen), newest_ms
    this, again = history.whole.digest()[:DIGEST_BYTES], new.whole()
    following = [turn for part in parts.values() for turn in part.names.by_whole.get(this, ())]
    if not following:
        raise LongWay(Way.NOT_FOUND)
    turn = following[0]
    answers_this = turn.context.hint == new.hint and turn.context.frame == history.frame
    # Without an older match, the decisions alone do not say whose response it is.
    is_sure = seen is None or newest is not None
    # It may have been sent before, with other responses.
    is_repeated = any(again in part.names.by_whole for part in parts.values())
    if len(following) > 1 or is_repeated or turn.conversation != continued_by[-1].conversation:
        raise LongWay(Way.OTHER_TURNS)
    if not (answers_this and is_sure and turn.seen == seen):
        raise LongWay(Way.OTHER_TURNS)
    if not _are_items_of(turn, continued, parts, by_name=seen is None):
        raise LongWay(Way.OTHER_ITEMS)
    size, since = len(turn.items), history.heard
    if seen is not None:
        seen = seen_of(turn.id, since, [(since + k, turn.id, k) for k in range(size)])
    return Matches({k: Match(turn, k) for k in range(size)}, seen=seen), newest_ms


def _is_unchanged(known: KnownPrefix, parts: Mapping[bytes, IndexedTurns]) -> bool:
    """Return whether the used conversations are those that were found, and have only grown."""
    if not known.used:  # one may begin with the newest turn
        return [len(turns) for turns in parts.values()] == [1]
    lines = {one: id(turns.line) for one, turns in parts.items()}
    return lines == {one: id(used.line) for one, used in known.used.items()}


def _are_items_of(
    turn: Turn, continued: Continued, parts: Mapping[bytes, IndexedTurns], *, by_name: bool
) -> bool:
    """
    Return whether the response is a turn: the same items, one by one, in order.

    If `by_name`, ids must prove it, and no other conversation may have them.
    """
    answer, candidates = continued.answer, Candidates(parts[turn.conversation])
    others = [turns.names for one, turns in parts.items() if one != turn.conversation]
    if len(answer) != len(turn.items):
        return False
    for k, (item, emitted) in enumerate(zip(answer, turn.items, strict=True)):
        is_same = (item.type, item.name, item.content) == (
            emitted.type, emitted.name, emitted.content
        )  # fmt: skip
        if not (is_same and ids_allow(item, emitted, bool, lambda: True)):
            return False
        if by_name and candidates.certain_match(item) != Match(turn, k):
            return False
        if by_name and any(one.knows(item.id, item.call_id) for one in others):
            return False
    # Upstream emits some outputs itself: an item of such a type may be of the turn.
    added = {place.item.type for place in continued.new.places[len(answer) :]} - {"message"}
    return all(added.isdisjoint(turns.names.types) for turns in parts.values())


def _size_of(edits: Sequence[Edit]) -> int:
    """Return the memory of edits and their notes; a value before a comma is that of a turn."""
    size, following = _NOTE_BYTES * len(edits), b""
    for edit in reversed(edits):
        size += 0 if following is COMMA else len(edit.new)
        following = edit.new
    return size
