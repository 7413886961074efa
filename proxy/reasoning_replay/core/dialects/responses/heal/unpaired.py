"""
Unpaired reasoning: replayed with its id while its follower has none, or the reverse.

An upstream that checks pairs links the two by their ids, and refuses one id without the other. If
a captured turn proves which items belong together, both ids are sent or neither is. Such an
upstream accepts both forms, and neither form loses anything.
"""

from collections.abc import Collection, Sequence

from reasoning_replay.core.dialects.responses.emitted import is_open
from reasoning_replay.core.dialects.responses.heal.input_editor import InputPiece, Run, runs_of
from reasoning_replay.core.dialects.responses.heal.reasoning_index import (
    KnownReasoning,
    ReasoningIndex,
)
from reasoning_replay.core.dialects.responses.items import ResponsesItem
from reasoning_replay.core.dialects.responses.profiles import Ids, Profile
from reasoning_replay.core.history.items import Role
from reasoning_replay.core.history.turns import Emitted

__all__ = ["begins_with_follower", "is_of_group", "let_go_by_value", "pair"]


def pair(
    pieces: Sequence[InputPiece], thoughts: ReasoningIndex, profile: Profile, *, is_kept: bool
) -> int:
    """
    Send reasoning and the item that it led to with both ids, or with neither.

    Args:
        pieces: The input of a request; those of broken pairs are changed in place.
        thoughts: Captured reasoning.
        profile: Profile of an upstream that checks pairs.
        is_kept: Whether upstream looks up the item that reasoning led to. If not, that item may
            stay without its id after reasoning that has one.

    Returns:
        The number of pieces changed.
    """
    there = {piece.item.call_id if piece.is_output else piece.item.id for piece in pieces} - {""}
    count = 0
    for run in runs_of(pieces):
        both = (*run.reasoning, *run.group, *run.later)
        thought = thoughts.certain(run.reasoning[-1].item) if run.group else None
        if thought is None or is_open(thought.part):
            continue
        # Another repair has decided about these already.
        if any(piece.raw is not piece.item.raw for piece in (*run.reasoning, run.group[0])):
            continue
        before = [piece.raw for piece in both]
        own = Run(run.reasoning[-len(thought.follower.run) :], run.group, run.later)
        known = [thoughts.certain(piece.item) for piece in own.reasoning]
        if known == thought.whole_run:
            _pair(own, thought, profile, there, is_kept=is_kept)
            count += sum(piece.raw != raw for piece, raw in zip(both, before, strict=True))
    return count


def _pair(
    run: Run, thought: KnownReasoning, profile: Profile, there: Collection[str], *, is_kept: bool
) -> None:
    """
    Send one whole run and the item that it led to with both ids, or with neither.

    An item that stands elsewhere, or that can be added because its output is present, is left for
    upstream to name (`there`: all ids, and the `call_id` of each output).
    """
    follower, behind = thought.follower, run.group[0]
    nameless = [piece for piece in run.reasoning if not piece.item.id]
    if not follower.id:
        return  # there is no id to pair by
    if behind.item.id == follower.id:
        if nameless and not (profile.ids is Ids.DROPPED and let_go_by_value(run, thought, profile)):
            for piece, captured in zip(run.reasoning, thought.whole_run, strict=True):
                if captured.part.id and not piece.item.id:
                    piece.name(captured.part.id)
        return
    if not behind.item.id and _is_like(behind.item, follower):
        # Messages in the easy form (they have no id) and reworded ones stay: both were accepted.
        is_same = behind.item.content == follower.content and behind.item.takes_id
        if is_kept and is_same and not nameless:
            behind.name(follower.id)
        return
    others = [piece for piece in (*run.group, *run.later) if not piece.item.id]
    is_there = follower.id in there or follower.call_id in there
    is_gone = not (is_there or any(_is_like(piece.item, follower) for piece in others))
    if is_gone and is_of_group(behind.item, thought):
        let_go_by_value(run, thought, profile)


def let_go_by_value(run: Run, thought: KnownReasoning, profile: Profile) -> bool:
    """
    Remove the ids of reasoning and of its group.

    Args:
        run: Reasoning that led to one item, and the items after it.
        thought: Any item of that reasoning.
        profile: Profile of the upstream.

    Returns:
        False if one of them cannot be sent without its id; then nothing is changed.
    """
    own = {emitted.id for emitted in thought.group} - {""}
    named = [piece for piece in (*run.group, *run.later) if piece.item.id in own]
    if profile.ids is Ids.REQUIRED or not all(piece.item.blob for piece in run.reasoning):
        return False
    if not all(piece.item.role is Role.MODEL and piece.item.id_is_optional for piece in named):
        return False
    for piece in (*run.reasoning, *named):
        if piece.item.id:
            piece.leave_out("id")
    return True


def is_of_group(item: ResponsesItem, thought: KnownReasoning) -> bool:
    """Return whether an item is the follower of reasoning, or was emitted in its group."""
    if item.id:
        return any(item.id == emitted.id for emitted in thought.group)
    return bool(item.call_id) and any(_is_like(item, emitted) for emitted in thought.group)


def begins_with_follower(group: Sequence[InputPiece], thought: KnownReasoning) -> bool:
    """Return whether items begin with the one that reasoning led to, with its id or without."""
    follower = thought.follower
    return any(
        one.item.id in ("", follower.id) and _is_like(one.item, follower) for one in group[:1]
    )


def _is_like(item: ResponsesItem, emitted: Emitted) -> bool:
    return (item.type, item.call_id) == (emitted.type, emitted.call_id)
