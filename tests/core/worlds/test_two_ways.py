"""One way to decide: in random worlds of every dialect, a known state changes nothing."""

from collections import Counter
from random import Random

import pytest
from reasoning_replay.core.dialects.known_state import KnownState
from reasoning_replay.core.dialects.states import Way
from reasoning_replay.core.history import prefix_cache

from tests.core.worlds.play import DIALECTS
from tests.core.worlds.two_ways import Recorded, differences
from tests.fast_lane import IS_EVERY

COUNT = 300 if IS_EVERY else 20


@pytest.mark.parametrize("is_older", [False, True], ids=["newest", "older"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_state_and_nothing_send_and_store_the_same(
    dialect: str, is_older: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Also with forks, edits, windows, lost turns, failed lookups and requests sent twice.

    The state is the newest, or a random older one.
    """
    monkeypatch.setattr(prefix_cache, "LEAST_BYTES", 1)
    monkeypatch.setattr(prefix_cache, "HEAD_BYTES", 16)
    faults: list[str] = []
    ways = Counter[Way]()
    for number in range(COUNT):
        world = Recorded(number, DIALECTS[dialect])
        world.play()
        draw = Random(number) if is_older else None  # noqa: S311 (no secret)
        found, taken = differences(world.told, dialect, draw)
        faults += [f"world {number}: {fault}" for fault in found]
        ways += taken

    assert faults == []
    assert ways[Way.SHORT] > COUNT


def test_a_planted_fault_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """A state that is used although what it depends on has changed is found out."""
    monkeypatch.setattr(prefix_cache, "LEAST_BYTES", 1)
    monkeypatch.setattr(prefix_cache, "HEAD_BYTES", 16)
    monkeypatch.setattr(KnownState, "changed_by", lambda *_: False)
    worlds = [Recorded(number, DIALECTS["responses"]) for number in range(40)]
    for world in worlds:
        world.play()

    assert any(differences(world.told, "responses")[0] for world in worlds)
