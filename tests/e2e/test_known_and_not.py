"""
Known and not: what is decided about a known beginning is what would be decided from nothing.

Proxies with their normal settings, and proxies that keep nothing (`local_max_bytes: 0`), get the
same requests. The upstream must receive the same bytes from both.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.e2e.random_scripts import PROFILES, script
from tests.e2e.three_apis import (
    API,
    Entry,
    Habit,
    Part,
    responses_answer,
    responses_history,
)
from tests.e2e.two_sides import Difference, Exchange, Sides, Step, both_sides
from tests.fast_lane import slow

APIS: tuple[API, ...] = tuple(PROFILES)
RUNS = [(api, profile) for api in APIS for profile in PROFILES[api]]
SEEDS = 12
STEPS = 15


def told(api: str, seed: int, found: Sequence[Difference]) -> str:
    """Return what to read about the first difference."""
    one = found[0]
    sides = [
        (side.mark, *(body.decode() for body in side.bodies)) for side in (one.kept, one.other)
    ]
    return f"{api}, seed {seed}, step {one.step}: {one.what}\nkept: {sides[0]}\nnot: {sides[1]}"


async def assert_same(sides: Sides, api: API, seeds: range) -> None:
    """Play random scripts, and assert that both sides sent the same, and that neither failed."""
    for seed in seeds:
        found = await sides.play(script(seed, api, STEPS))
        assert not found, told(api, seed, found)
    assert [one.complaints for one in sides.sides] == [[], []]
    assert sides.errors == 0


async def test_what_is_known_changes_no_byte(tmp_path: Path) -> None:
    """Random clients of all APIs: growing, forked, edited and cut histories, and refusals."""
    async with both_sides(tmp_path) as sides:
        for api in APIS:
            await assert_same(sides, api, range(2))
        kept = {way.partition(" | ")[0] for way in sides.ways}
        other = {way.partition(" | ")[2] for way in sides.ways}
        assert "short" in kept
        assert "short" not in other


@slow
@pytest.mark.parametrize(("api", "profile"), RUNS)
async def test_what_is_known_changes_no_byte_of_any_vendor(
    api: API, profile: str, tmp_path: Path
) -> None:
    """The same with more scripts, and for the profiles of vendors."""
    async with both_sides(tmp_path, profile) as sides:
        await assert_same(sides, api, range(10, 10 + SEEDS))


CALLED = Part("c", "51e021fe223afc5667fb4649fb749ac7", "Bergen", "call_c840c5934368a33ef6b47765")
FIRST = (Part("r", "b2980af1cf80f677bd9c04a9567617db", "Look there first."), CALLED)
SAID = Part("m", "24d1e4769c820a9c69eb41aeaf010fd2", "It rains in Bergen, and in Oslo.")
CACHED = (Part("r", "afe930aedfb48acfe474f58d4951001b", "It is simple."), SAID)
NO_IDS = Habit(0, ids=False, spaced=False, ascii=True, before={}, after={})


def asks(entries: Sequence[Entry], emitted: Sequence[Part]) -> Step:
    """Return a request of a client without ids and reasoning, and its answer by those parts."""
    history = responses_history(entries, NO_IDS)
    body = json.dumps({"model": "gpt-5.4", "store": False, "input": history}).encode()
    answer = responses_answer(emitted, f"{len(emitted)}{emitted[0].id}", "gpt-5.4", stream=False)
    return [Exchange("/responses", body, 0, (), tuple(answer))]


async def test_a_response_that_a_cache_repeats(tmp_path: Path) -> None:
    """
    A gateway repeats a response with its ids, and the client sends its message twice.

    From nothing, its reasoning is injected once, before the first copy. So it must be for a
    proxy that knows the beginning up to the second copy.
    """
    entries = [Entry("user", "Where does it rain? " * 150)]
    played = [asks(entries, FIRST)]
    entries += [Entry("turn", parts=FIRST), Entry("out", "Rain.", CALLED.call_id)]
    for question in ("Look again.", "And now?"):
        played.append(asks(entries, CACHED))
        entries += [Entry("turn", parts=CACHED), Entry("user", question)]
    played.append(asks(entries, (replace(SAID, id="7" * 32, text="No more rain."),)))
    async with both_sides(tmp_path) as sides:
        found = await sides.play(played)
    assert not found, told("responses", 0, found)
