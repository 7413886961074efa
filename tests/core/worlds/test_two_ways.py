"""Two ways to decide: in random worlds of every dialect, both send and store the same."""

from collections import Counter

import pytest
from reasoning_replay.core.dialects.states import Way
from reasoning_replay.core.history import prefix_cache

from tests.core.worlds.play import DIALECTS
from tests.core.worlds.two_ways import Recorded, differences
from tests.fast_lane import IS_EVERY

COUNT = 300 if IS_EVERY else 30


@pytest.mark.parametrize("dialect", DIALECTS)
def test_both_ways_send_and_store_the_same(dialect: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also with forks, edits, windows, lost turns, failed lookups and requests sent twice."""
    monkeypatch.setattr(prefix_cache, "LEAST_BYTES", 1)
    monkeypatch.setattr(prefix_cache, "HEAD_BYTES", 16)
    faults: list[str] = []
    ways = Counter[Way]()
    for number in range(COUNT):
        world = Recorded(number, DIALECTS[dialect])
        world.play()
        found, taken = differences(world.told, dialect)
        faults += [f"world {number}: {fault}" for fault in found]
        ways += taken

    assert faults == []
    assert ways[Way.SHORT] > COUNT


def test_a_planted_fault_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """A short way that takes any items for those of the turn is found out."""
    monkeypatch.setattr(prefix_cache, "LEAST_BYTES", 1)
    monkeypatch.setattr(prefix_cache, "HEAD_BYTES", 16)
    where = "reasoning_replay.core.dialects.known_prefix._is_unchanged"
    monkeypatch.setattr(where, lambda *_: True)
    worlds = [Recorded(number, DIALECTS["responses"]) for number in range(40)]
    for world in worlds:
        world.play()

    assert any(differences(world.told, "responses")[0] for world in worlds)
