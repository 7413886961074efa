"""Random worlds: no wrong injection and a stable prefix, in the form of Chat Completions."""

import pytest
from reasoning_replay.core.dialects.chat.placement import plan_injection
from reasoning_replay.core.dialects.chat.profiles import Policy
from reasoning_replay.core.dialects.chat.request import ChatRequest
from reasoning_replay.core.history.matching.matches import Matches
from reasoning_replay.core.history.plan import Plan

from tests.core import worlds as engine
from tests.core.dialects.chat import worlds
from tests.core.dialects.chat.worlds import ChatWorld
from tests.core.worlds import CLEAN_ONES, COUNT, play

# Seeds are fixed for repeatable results.
WORLDS = [range(first, first + 60) for first in range(0, COUNT, 60)]


@pytest.mark.parametrize("numbers", WORLDS, ids=str)
def test_nothing_wrong_is_injected_and_no_prefix_moves(numbers: range) -> None:
    """Ids of calls repeat or are empty, all responses share one id, and clients re-spell text."""
    counts, faults = play(numbers, ChatWorld)

    assert faults == []
    assert counts["injected", "all"] > 1400


@pytest.mark.parametrize("numbers", WORLDS[:2], ids=str)
def test_new_habits_do_no_harm(numbers: range) -> None:
    """Clients leave out, tell, rename or move parts of their history."""
    counts, faults = play(numbers, ChatWorld, CLEAN_ONES)

    assert faults == []
    assert counts["injected", "all"] > 1200


def test_most_of_what_is_due_is_injected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without ids of messages and rare habits; split messages and short texts lower the share."""
    monkeypatch.setattr(engine, "RARE", {})
    monkeypatch.setattr(worlds, "RENAMES", [""])
    monkeypatch.setattr(worlds, "STYLES", [style for style in worlds.STYLES if style != "split"])
    counts, _ = play(range(COUNT), ChatWorld)

    share = {kind: counts["injected", kind] / counts["due", kind] for _, kind in counts}
    assert share["all"] > 0.74
    assert share["whole history"] > 0.74


def test_a_planted_fault_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """The judge of the engine sees what is added to a message."""

    def late(request: ChatRequest, matched: Matches, policy: Policy) -> Plan:
        """Match each item to the turn of the item before it."""
        keys = sorted(matched.matches)
        found = zip(keys[1:], [matched.matches[n] for n in keys], strict=False)
        return plan_injection(request, Matches(dict(found)), policy)

    monkeypatch.setattr(worlds, "plan_injection", late)
    _, faults = play(range(6), ChatWorld)

    assert any("wrong: " in fault for fault in faults)
    assert all("tests.core.dialects.chat.worlds " in fault for fault in faults)
