"""
Known and not: what is decided about a known beginning is what would be decided from nothing.

Proxies with their normal settings, and proxies that keep nothing (`local_max_bytes: 0`), get the
same requests. The upstream must receive the same bytes from both.
"""

import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from reasoning_replay.wires import WIRES

from tests.e2e.random_client import PROFILES, RandomClient
from tests.e2e.two_sides import Deed, Difference, Plan, Sides, both_sides
from tests.fast_lane import slow
from tests.patience import SOON_S

RUNS = [(dialect, profile) for dialect in PROFILES for profile in PROFILES[dialect]]
SEEDS = 12
STEPS = 15
TIMEOUT = aiohttp.ClientTimeout(total=SOON_S)


def told(what: str, one: Difference) -> str:
    """Return what to read about a difference."""
    sides = [
        (side.mark, *(body.decode() for body in side.bodies)) for side in (one.kept, one.other)
    ]
    return f"{what}: {one.what}\nkept: {sides[0]}\nnot: {sides[1]}"


async def assert_same(sides: Sides, dialect: str, seeds: range) -> None:
    """Play random clients, and assert that both sides sent the same, and that neither failed."""
    async with aiohttp.ClientSession(timeout=TIMEOUT) as session:
        for seed in seeds:
            client, key = RandomClient(seed, dialect), f"sk-{dialect}-{seed}"
            last, _ = await sides.play(session, key, Deed("on"), "")
            for number in range(STEPS):
                step = client.step()
                last, found = await sides.play(session, key, step, last)
                if found is not None and (dialect, found.what) == ("gemini", "reason"):
                    found = None  # why nothing is injected stays as it was when it was decided
                assert found is None, told(f"{dialect}, seed {seed}, step {number}", found)
                if isinstance(step, list):
                    client.answered(step)
    assert [one.complaints for one in sides.sides] == [[], []]
    assert sides.errors == 0


async def test_what_is_known_changes_no_byte(tmp_path: Path) -> None:
    """Random clients of all APIs: growing, forked, edited and cut histories, and refusals."""
    async with both_sides(tmp_path) as sides:
        for dialect in PROFILES:
            await assert_same(sides, dialect, range(2))
        kept = {way.partition(" | ")[0] for way in sides.ways}
        other = {way.partition(" | ")[2] for way in sides.ways}
        assert "short" in kept
        assert "short" not in other


@slow
@pytest.mark.parametrize(("dialect", "profile"), RUNS)
async def test_what_is_known_changes_no_byte_of_any_vendor(
    dialect: str, profile: str, tmp_path: Path
) -> None:
    """The same with more clients, and for the profiles of vendors."""
    async with both_sides(tmp_path, profile) as sides:
        await assert_same(sides, dialect, range(10, 10 + SEEDS))


async def test_a_response_that_a_cache_repeats(tmp_path: Path) -> None:
    """
    A gateway repeats a response with its ids, and the client sends its message twice.

    From nothing, its reasoning is injected once, before the first copy. So it must be for a
    proxy that knows the beginning up to the second copy.
    """
    wire, history, last = WIRES["responses"], list[Any](), ""
    plans: list[Plan] = []
    async with (
        both_sides(tmp_path) as sides,
        aiohttp.ClientSession(timeout=TIMEOUT) as session,
    ):
        for question in ("Where does it rain? " * 150, "Look again.", "And now?", "Sure?"):
            history.append(wire.says(question))
            body = {"model": "gpt-5.4", "store": False, "input": history}
            again = plans[1] if len(plans) == 2 else None
            plan = Plan("responses", wire.path, json.dumps(body).encode(), again=again)
            plans.append(plan)
            last, found = await sides.play(session, "sk-cached", [plan], last)
            assert found is None, told(question, found)
            kept = wire.read(plan.answer).kept
            history += [{name: one[name] for name in one if name != "id"} for one in kept]
