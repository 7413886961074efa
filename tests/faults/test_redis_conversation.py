"""
Every point of the conversation with Redis, and every fault of the network or of the server at it.

Two replicas on uvloop, six clients each. No request fails and no reasoning is invented during the
fault; after it the store is used again, the log says so, and the other replica sees the new turns.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence

import pytest
import uvloop

from tests.fast_lane import slow
from tests.faults.faulty_line import EFFECTS, ERRORS, STORE_TIMEOUT_S, FaultyLine, Point
from tests.faults.standalone import standalone
from tests.faults.suffering import Suffering, anew, question, suffering
from tests.patience import SOON_S

CACHE_BYTES = 1 << 25
CROWD = 3  # pairs of clients, of each replica
# Most operations that fail after the end of a fault: those in flight, and one probe of each kind.
LATE_MOST = 24
NETWORK = tuple(effect for effect in EFFECTS if effect not in ERRORS)
IN_PIPELINE = ("LOADING", "READONLY", "OOM", "NOAUTH")
# What is the same at two points is tried at one of them. Inside a value, a reply is a part of it.
TABLE: dict[Point, Sequence[str]] = {
    "connect": ["reset", "silence", "garbage", "LOADING", "maxclients"],
    "login": ["FIN", "delay", "a reply too many", "LOADING", "NOAUTH", "WRONGPASS"],
    "between": [*NETWORK, *IN_PIPELINE],
    "inside": [effect for effect in NETWORK if effect != "a reply too many"],
    "idle": [*NETWORK, *IN_PIPELINE],
}
# One replica alone: (point, effects).
ALONE: dict[Point, Sequence[str]] = {"inside": ["reset", "silence"], "idle": ["reset", "FIN"]}


@contextlib.asynccontextmanager
async def replicas(url: str, count: int) -> AsyncIterator[Sequence[Suffering]]:
    """Run proxies on a store, with local copies."""
    async with contextlib.AsyncExitStack() as stack:
        ones: list[Suffering] = []
        for _ in range(count):
            beside = ones[0] if ones else None
            one = suffering(
                url, STORE_TIMEOUT_S, beside=beside, crowd=CROWD, recent_max_bytes=CACHE_BYTES
            )
            ones.append(await stack.enter_async_context(one))
        yield ones


def failed(ones: Sequence[Suffering]) -> int:
    """Count the store operations that failed, of all replicas."""
    counts = [one.operations(name) for one in ones for name in ("recall", "save", "check")]
    return sum(count["error"] + count["timeout"] for count in counts)


async def is_shared(one: Suffering, other: Suffering) -> bool:
    """Return whether another replica injects all of the old agent's reasoning."""
    one.old.say("And what was all that?")
    await one.old.step(f"{other.app.url}/v1")
    last = one.old.steps[-1]
    dropped = sum(item.get("type") == "reasoning" for item in last.whole)
    return last.mark == f"injected={dropped}"


async def passes(ones: Sequence[Suffering], line: FaultyLine, point: Point, effect: str) -> None:
    """Check one row of the table."""
    for one in ones:
        await anew(one.old).converse([question()])
    line.begins(point, effect)
    async with asyncio.timeout(SOON_S):
        while not line.hits:
            for lines in await asyncio.gather(*(one.converse(fresh=5) for one in ones)):
                ones[0].assert_quick(lines)
    line.ends()
    before = failed(ones)
    await asyncio.gather(*(one.recovers() for one in ones))
    for one, other in zip(ones, [*ones[1:], ones[0]], strict=True):
        async with asyncio.timeout(SOON_S):
            while not await is_shared(one, other):
                pass
        one.assert_told(has_failed=None)
    assert failed(ones) - before <= LATE_MOST


@slow
@pytest.mark.parametrize(
    ("count", "point"), [*((2, point) for point in TABLE), *((1, point) for point in ALONE)]
)
def test_a_fault_is_not_noticed_and_passes(count: int, point: Point) -> None:
    """Each effect at this point, one after another, on the same replicas."""

    async def run() -> None:
        async with (
            standalone(line_kind=FaultyLine) as store,
            replicas(store.url, count) as ones,
        ):
            assert isinstance(store.line, FaultyLine)
            for effect in (TABLE if count > 1 else ALONE)[point]:
                try:
                    await passes(ones, store.line, point, effect)
                except BaseException as error:
                    error.add_note(f"{effect} at {point}")
                    raise

    uvloop.run(run())
