"""Random worlds of tests/core: as many as fit into a given time, on all cores."""

import os
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from itertools import count, takewhile

from tests.core.worlds import play as worlds


def play(first: int, seconds: float) -> tuple[str, int]:
    """Play the worlds from a number on; return their table and the number of faults."""
    cores = os.cpu_count() or 1
    counts: Counter[tuple[str, str]] = Counter()
    faults: list[str] = []
    until = time.time() + seconds
    with ProcessPoolExecutor(cores) as pool:
        played = [pool.submit(_play_each, first + core, cores, until) for core in range(cores)]
        for some in played:
            its_counts, its_faults = some.result()
            counts.update(its_counts)
            faults += its_faults
    return worlds.told(counts, faults), len(faults)


def _play_each(
    first: int, step: int, until: float
) -> tuple[Counter[tuple[str, str]], list[str]]:  # fmt: skip
    return worlds.play(takewhile(lambda _: time.time() < until, count(first, step)))
