"""Random worlds: no wrong injection, a stable prefix, and no block after another history."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from reasoning_replay.core.dialects.messages import placement
from reasoning_replay.core.dialects.messages.message_groups import MessageGroup, groups_of
from reasoning_replay.core.dialects.messages.placement import plan_injection
from reasoning_replay.core.dialects.messages.prefix_walk import BoundEdits, PrefixWalk, walk
from reasoning_replay.core.dialects.messages.profiles import Profile
from reasoning_replay.core.dialects.messages.request import MessagesRequest
from reasoning_replay.core.history.item_index import Match
from reasoning_replay.core.history.matching.matches import Matches
from reasoning_replay.core.history.plan import Plan
from reasoning_replay.core.history.turns import Turn

from tests.core import worlds as engine
from tests.core.dialects.messages import worlds
from tests.core.dialects.messages.worlds import MessagesWorld
from tests.core.worlds import CLEAN_ONES, NOTHING_NEW, Habits, New, play

# Seeds are fixed for repeatable results; `python -m tests.core.dialects.messages.worlds` plays
# more.
WORLDS = [range(first, first + 60) for first in range(0, 300, 60)]


@pytest.mark.parametrize("numbers", WORLDS, ids=str)
def test_nothing_wrong_is_injected_and_no_prefix_moves(numbers: range) -> None:
    """Ids of calls repeat or are empty, all responses share one id, and clients re-spell text."""
    counts, faults = play(numbers, MessagesWorld)

    assert faults == []
    assert counts["injected", "all"] > 700


@pytest.mark.parametrize("numbers", WORLDS[:2], ids=str)
def test_new_habits_do_no_harm(numbers: range) -> None:
    """Clients leave out, tell, rename or move parts of their history."""
    counts, faults = play(numbers, MessagesWorld, CLEAN_ONES)

    assert faults == []
    assert counts["injected", "all"] > 500


class AppendingWorld(MessagesWorld):
    """Clients that only append to their history, in one message for each response."""

    def __init__(self, number: int, new: New = NOTHING_NEW) -> None:
        super().__init__(number, new)
        self._style = "plain" if self._style == "split" else self._style

    def _habits(self) -> Habits:
        habits = replace(super()._habits(), frame="same", environment="none", interleaves=False)
        return replace(habits, window=0, clears=False, rewrites=False)


@pytest.mark.parametrize("first", [0, 1])
def test_most_of_what_is_due_is_injected(monkeypatch: pytest.MonkeyPatch, first: int) -> None:
    """Without rare habits; also where the model binds its reasoning to the history."""
    monkeypatch.setattr(engine, "RARE", {})
    counts, faults = play(range(first, 200, 2), AppendingWorld)

    assert faults == []
    assert counts["injected", "all"] / counts["due", "all"] > 0.88


def _of_the_message_before(request: MessagesRequest, matched: Matches, profile: Profile) -> Plan:
    """Give each message the reasoning of the one before it, if it has as many blocks."""
    groups = groups_of(request, matched)
    found: dict[int, Match] = {}
    for before, group in pairwise(groups):
        if len(before.matches) == len(group.places):
            found |= dict(zip(group.places, before.matches, strict=True))
    return plan_injection(request, Matches(found), profile)


def _has_as_many(_: object, group: MessageGroup, turn: Turn) -> bool:
    return len(group.places) == len(group.matches) == len(turn.items)


def _everywhere(
    request: MessagesRequest, groups: Sequence[MessageGroup], planned: Mapping[int, BoundEdits]
) -> PrefixWalk:
    """Ignore the history."""
    return PrefixWalk(set(planned), walk(request, groups, planned).prefix)


def test_planted_faults_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """The judges see what is added to a message, and the history before it."""
    with monkeypatch.context() as patched:
        patched.setattr(placement, "walk", _everywhere)
        _, faults = play(range(1, 31, 2), MessagesWorld)
    assert any("bound elsewhere" in fault for fault in faults)
    monkeypatch.setattr(worlds, "plan_injection", _of_the_message_before)
    monkeypatch.setattr(f"{placement.__name__}._Planner._is_verbatim", _has_as_many)
    _, faults = play(range(0, 12, 2), MessagesWorld)
    assert any("wrong: " in fault for fault in faults)
    assert all("tests.core.dialects.messages.worlds " in fault for fault in faults)
