"""Runs of a row: the contenders in turn, round by round, and the medians of the rounds."""

import contextlib
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from tests.bench import contenders
from tests.bench.contenders import Bench, Contender

Measured = dict[str, float]


@contextlib.asynccontextmanager
async def running(*, is_quick: bool = False, profile: Path | None = None) -> AsyncIterator[Bench]:
    """Start the parts that all rows share; the arguments are those of `Bench`."""
    with tempfile.TemporaryDirectory(prefix="rr-bench-") as folder:
        async with contenders.upstream() as port:
            yield Bench(port, Path(folder), is_quick, count(1), profile)


async def everybody(
    bench: Bench,
    stack: AsyncExitStack,
    store_url: str = "memory://",
    settings: Mapping[str, object] | None = None,
) -> list[Contender]:
    """Start all available contenders, until the stack is closed."""
    nginx = await stack.enter_async_context(contenders.nginx(bench))
    return [
        contenders.direct(bench),
        *([nginx] if nginx is not None else []),
        await stack.enter_async_context(contenders.bare(bench)),
        await stack.enter_async_context(contenders.ours(bench, store_url, settings=settings)),
    ]


class Rounds:
    """Measurements of all rounds."""

    def __init__(self, measured: dict[str, list[Measured]]) -> None:
        """Keep the rounds of each contender."""
        self._measured = measured

    def medians(self, what: str) -> Measured:
        """Return the median of each contender."""
        return {
            name: statistics.median(round_[what] for round_ in rounds)
            for name, rounds in self._measured.items()
            if what in rounds[0]
        }

    def ratio(self, what: str, of: str = "proxy", to: str = "bare") -> float:
        """Return the median of the ratios of each round, because the speed of a machine drifts."""
        pairs = zip(self._measured[of], self._measured[to], strict=True)
        return statistics.median(one[what] / other[what] for one, other in pairs)

    def least(self, what: str) -> Measured:
        """Return the least value of each contender: other load on the machine only adds to it."""
        return {
            name: min(round_[what] for round_ in rounds) for name, rounds in self._measured.items()
        }


async def alternated(
    those: Sequence[Contender], rounds: int, once: Callable[[Contender], Awaitable[Measured]]
) -> Rounds:
    """Measure each contender once in each round; a first extra round does not count."""
    measured: dict[str, list[Measured]] = {one.name: [] for one in those}
    for number in range(1 + rounds):
        for one in those:
            got = await once(one)
            if number:
                measured[one.name].append(got)
    return Rounds(measured)


@dataclass(slots=True)
class Spent:
    """Costs of a block: CPU time of the contender, and wall time."""

    cpu_s: float = 0.0
    wall_s: float = 0.0

    def per(self, units: int, unit_s: float = 1e-6) -> Measured:
        """Return the costs per unit; without `cpu` if the contender has no process."""
        each = {"wall": self.wall_s / units / unit_s}
        return each | ({"cpu": self.cpu_s / units / unit_s} if self.cpu_s else {})


@contextlib.contextmanager
def spent(contender: Contender) -> Iterator[Spent]:
    """Measure a block."""
    told = Spent()
    cpu_s, began = contender.cpu_s(), time.perf_counter()
    yield told
    told.wall_s = time.perf_counter() - began
    told.cpu_s = contender.cpu_s() - cpu_s
