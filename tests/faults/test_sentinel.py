"""Redis master that Sentinels replace: the proxy follows, and no request fails meanwhile."""

import time
from collections.abc import Callable

import pytest

from tests.faults.suffering import suffering
from tests.patience import SOON_S
from tests.redis_groups import SERVICE, Sentinels, redis_sentinels


def kill_two(group: Sentinels) -> None:
    """Kill the master, and the Sentinel that is asked first."""
    group.watching[0].kill()
    group.nodes[0].kill()


FAULTS: dict[str, tuple[Callable[[Sentinels], None], Callable[[Sentinels], None]]] = {
    "killed": (lambda group: group.nodes[0].kill(), lambda group: group.nodes[0].start()),
    "hangs": (lambda group: group.nodes[0].pause(), lambda group: group.nodes[0].resume()),
    "handed over": (
        lambda group: group.watching[0].do("SENTINEL", "FAILOVER", SERVICE),
        lambda _: None,
    ),
    "a sentinel is killed, too": (
        kill_two,
        lambda group: group.nodes[0].start(),
    ),
}


@pytest.mark.parametrize(("hurts", "returns"), FAULTS.values(), ids=FAULTS)
async def test_the_promoted_replica_is_used(
    hurts: Callable[[Sentinels], None], returns: Callable[[Sentinels], None]
) -> None:
    """The promoted replica is used, also when the old master returns as a replica."""
    with redis_sentinels() as group:
        async with suffering(group.url) as one:
            heir = group.nodes[1]
            one.assert_quick(await one.converse(during=lambda: hurts(group)))
            deadline = time.monotonic() + SOON_S
            while heir.told("replication")["role"] != "master":
                assert time.monotonic() < deadline
                one.assert_quick(await one.converse())
            await one.resumes()

            returns(group)
            one.assert_quick(await one.converse())
            await one.resumes()
            await one.recovers()
            one.assert_told(has_failed=None)  # a planned failover may cause no failure
            await one.remembers()
