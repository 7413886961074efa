"""Recorded conversations: the dialect injects what their clients once sent themselves."""

from itertools import zip_longest

import pytest
from reasoning_replay.core.dialects.anthropic.profiles import profile_of

from tests.core.dialects.anthropic.recorded import Replay, folders, replay
from tests.core.dialects.anthropic.tenant import Tenant, dialect_of

# Two conversations with the same words throughout: neither gets the reasoning of the other.
TWINS = ("049-crewai", "050-crewai")


def test_oracles_get_their_reasoning_back() -> None:
    """Each message gets all of it, at its place, and nothing else."""
    found = folders("oracle")
    if not found:
        pytest.skip("no recordings in ../shared/recorded, and REPLAY_TEST_RECORDED names none")
    total = 0
    for folder in found:
        due, lacks = replay(folder)
        total += due
        assert lacks == [], folder.name
    assert total > len(found)


def test_oracles_of_one_tenant_at_the_same_time() -> None:
    """All conversations of one upstream, an exchange of each in turn."""
    alone = [Replay(folder) for folder in folders("oracle")]
    if not alone:
        pytest.skip("no recordings in ../shared/recorded, and REPLAY_TEST_RECORDED names none")
    for host in {each.host for each in alone}:
        tenant = Tenant(dialect_of(profile_of("auto", f"https://{host}")))
        all_ = [Replay(folder, tenant) for folder in folders("oracle")]
        together = [each for each in all_ if each.host == host]
        for _ in zip_longest(*(each.steps() for each in together)):
            pass
        assert sum(each.due for each in together) >= len(together)
        for each in together:
            is_twin = each.name.startswith(TWINS)
            assert bool(each.lacks) is is_twin, (each.name, each.lacks)
            assert not any(lack.added for lack in each.lacks)


def test_other_recordings_break_nothing() -> None:
    """A client that dropped its reasoning gets that of its own conversation."""
    found = [*folders("dropped"), *folders("foreign")]
    if not found:
        pytest.skip("no recordings in ../shared/recorded, and REPLAY_TEST_RECORDED names none")
    added = 0
    for folder in found:
        _, lacks = replay(folder)
        assert not any(lack.lacking for lack in lacks)
        added += sum(bool(lack.added) for lack in lacks)
    assert added
