"""
Known state: what was decided about a request, for the requests that begin with it.

A client that goes on sends its last request again, the response, and what it has to add. Upstream
saw what was decided about the older part, so that is kept, not decided again. `Way` has
every reason for which it does not hold any more.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Optional

import msgspec

from reasoning_replay.core.dialects.refusal_memory import NOT_REFUSED, RefusalMark
from reasoning_replay.core.dialects.request_body import ParsedRequest
from reasoning_replay.core.history.decided import NOTHING, Decided
from reasoning_replay.core.history.item_index import by_conversation
from reasoning_replay.core.history.item_summary import NOTHING_SHOWN, ShownItems, shown_items
from reasoning_replay.core.history.lookup_keys import RESPONSE, Lookup, LookupResult, key_of_turn
from reasoning_replay.core.history.matching.matches import Matches
from reasoning_replay.core.history.plan import Plan
from reasoning_replay.core.history.prefix_cache import PrefixCache
from reasoning_replay.core.history.request_history import HistoryPrefix, end_of
from reasoning_replay.core.wire.json_spans import COMMA, Edit
from reasoning_replay.core.wire.packed_edits import NO_EDITS, PackedEdits

# Memory of a decision without its parts, of an edit with its note, without what is injected, and of
# a lesson; measured.
_DECISION_BYTES = 3000
_NOTE_BYTES = 90
_LESSON_BYTES = 180


class Used(NamedTuple):
    """
    A conversation that decisions depend on.

    Attributes:
        turn: Id of one of its turns that were matched; it leads to the conversation.
        line: `IndexedTurns.line`: another one means that it was deleted, or changed otherwise than
            by further turns.
    """

    turn: bytes
    line: object


class KnownState(msgspec.Struct, frozen=True, gc=False):
    """
    What was decided about a request, and what that depends on.

    Attributes:
        outline: The request without its items (`ParsedRequest.outline`); None: nothing is known.
        end: Offset of the end of the last item that is decided.
        decided: What matching found for the items.
        planned: The outcomes of what was injected, and the notes.
        edits: What was injected; all of it is inside the history.
        more: Other edits, such as `include`.
        shown: The items, as a summary shows them.
        binding: As in `Origin`.
        used: Every conversation of a turn that was matched. All of them are looked up again, so
            that they are confirmed and kept from expiring.
        refusals: What upstream has refused.
        is_open: Whether later items may still change what is injected for some of the items.
        settled: If so, the state before the first of these; None: nothing is settled.
        size_bytes: Estimated memory, in bytes.
    """

    outline: ParsedRequest[Any] | None = None
    end: int = 0
    decided: Decided = NOTHING
    planned: Plan = Plan()
    edits: PackedEdits = NO_EDITS
    more: tuple[Edit, ...] = ()
    shown: ShownItems = NOTHING_SHOWN
    binding: bytes = b""
    used: Mapping[bytes, Used] = {}
    refusals: RefusalMark = NOT_REFUSED
    is_open: bool = False
    settled: Optional["KnownState"] = None
    size_bytes: int = 0

    @property
    def conversation(self) -> bytes:
        """Id of the conversation that was continued; b"" without one."""
        newest = self.decided.newest
        return newest.conversation if newest is not None else b""

    @property
    def lookups(self) -> list[Lookup]:
        """The lookups that find the conversations again on which the decisions depend."""
        return [Lookup(RESPONSE, [key_of_turn(one.turn)]) for one in self.used.values()]

    def changed_by(self, line_of: Callable[[bytes], object]) -> bool:
        """
        Return whether a conversation that was used is not there any more, or did not only grow.

        `line_of` returns the `IndexedTurns.line` of a conversation; None if it is not there.
        """
        return any(line_of(name) is not one.line for name, one in self.used.items())

    def allows(self, new: ParsedRequest[Any]) -> bool:
        """
        Return whether a request may begin with these decisions; `new` is what it has after them.

        If nothing was found, more may be found for a longer request, but the same one is repeated.
        """
        if new.has_reasoning:
            return False
        is_known = self.decided.newest is not None or self.decided.seen is None
        return is_known or not new.places

    def more_at(self, end: int) -> tuple[Edit, ...]:
        """Return `more` for a body whose history ends here."""
        by = end - self.end
        if not (by and self.more):
            return self.more
        return tuple(
            [
                Edit(edit.start + by, edit.end + by, edit.new) if edit.start >= self.end else edit
                for edit in self.more
            ]
        )


NOTHING_KNOWN = KnownState()
Prefixes = PrefixCache[HistoryPrefix[Any], KnownState]


class Injected(NamedTuple):
    """
    What is injected in a request, with what is decided.

    Attributes:
        open_from: As in the plan of what is new.
        planned, edits, more, shown: As in `KnownState`.
        binding: As in `Plan`.
    """

    open_from: int | None
    planned: Plan
    edits: PackedEdits
    more: tuple[Edit, ...]
    shown: ShownItems
    binding: bytes | None


def injected_after(
    known: KnownState, request: ParsedRequest[Any], plan: Plan, *, is_shadow: bool
) -> Injected:
    """Return all that is injected: what is decided, and the finished plan of what is new."""
    start, end, at = request.history_start, request.history_end, known.decided.items
    inside = [edit for edit in plan.edits if start < edit.start < end]
    more = known.more_at(end)
    if not more and len(inside) < len(plan.edits):
        more = tuple([edit for edit in plan.edits if not start < edit.start < end])
    notes = plan.notes
    if at:
        notes = tuple([note._replace(place=note.place + at) for note in notes])
    return Injected(
        open_from=plan.open_from,
        planned=Plan(
            outcomes=plan.outcomes,
            forms=plan.forms,
            notes=(*known.planned.notes, *notes),
            completed={**known.planned.completed, **plan.completed},
        ),
        edits=known.edits.plus(inside),
        more=more,
        shown=shown_items(request.places, notes, known.shown),
        binding=None if is_shadow else plan.binding,
    )


def known_state(
    earlier: KnownState,
    request: ParsedRequest[Any],
    injected: Injected,
    matched: tuple[Matches, LookupResult],
    refusals: RefusalMark,
) -> KnownState | None:
    """
    Return the state after a request was decided on; None if it must be decided as a whole again.

    Args:
        earlier: The state that it began with.
        request: The request.
        injected: What is injected.
        matched: The result of matching, and of the lookup.
        refusals: What upstream has refused.
    """
    history, (matches, found) = request.history, matched
    if history is None or request.is_stateful or request.has_reasoning:
        return None
    decided = matches.decided_to(end_of(request, history))
    if decided is None or found.is_stale or found.crowded:
        return None
    if decided.heard and not decided.is_over:
        return None  # it ends within a response
    if request.run and found.turns and decided.newest is None:
        return None  # what was found may be matched the next time
    parts, turns = by_conversation(found.turns), matches.turns()
    if any(turn.conversation not in parts for turn in turns.values()):
        return None
    new = {turn.conversation: turn.id for turn in turns.values()}
    used = {**earlier.used, **{one: Used(turn, parts[one].line) for one, turn in new.items()}}
    is_open = injected.open_from is not None
    settled = earlier.settled if earlier.is_open else earlier
    if not is_open or settled is None or settled.outline is None:
        settled = None
    outline = earlier.outline or request.outline()
    state = KnownState(
        outline=outline,
        end=request.history_end,
        decided=decided,
        planned=injected.planned,
        edits=injected.edits,
        more=injected.more,
        shown=injected.shown,
        binding=injected.binding or b"",
        used=used,
        refusals=refusals,
        is_open=is_open,
        settled=settled,
    )
    return msgspec.structs.replace(state, size_bytes=_size_of(earlier, state))


def lines_of(found: LookupResult) -> Callable[[bytes], object]:
    """Return what returns the `IndexedTurns.line` of a conversation that was found."""
    parts = {} if found.is_stale else by_conversation(found.turns)
    return lambda name: parts[name].line if name in parts else None


def _size_of(earlier: KnownState, state: KnownState) -> int:
    """Return the memory of a state that has grown from another one."""
    of_settled = state.settled.size_bytes if state.settled is not None else 0
    if earlier.outline is None:
        values = state.outline.values.values() if state.outline is not None else ()
        before = _DECISION_BYTES + sum([len(memoryview(raw)) for raw in values])
    else:
        before = earlier.size_bytes - earlier.shown.size_bytes - len(earlier.decided.turns)
        before -= earlier.settled.size_bytes if earlier.settled is not None else 0
        before -= _NOTE_BYTES * len(earlier.used) + _LESSON_BYTES * len(earlier.refusals.lessons)
    return (
        before
        + of_settled
        + state.shown.size_bytes
        + len(state.decided.turns)
        + _NOTE_BYTES * len(state.used)
        + _LESSON_BYTES * len(state.refusals.lessons)
        + _size_of_edits(state.edits[len(earlier.edits) :])
    )


def _size_of_edits(edits: Sequence[Edit]) -> int:
    """Return the memory of edits and their notes; a value before a comma is that of a turn."""
    size, following = _NOTE_BYTES * len(edits), b""
    for edit in reversed(edits):
        size += 0 if following is COMMA else len(edit.new)
        following = edit.new
    return size
