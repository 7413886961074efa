"""How a row is measured: one contender after the other, round by round, and medians of that."""

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
from tests.bench.bench import Bench
from tests.bench.contenders import Contender

__all__ = ["Measured", "Rounds", "Spent", "alternated", "everybody", "running", "spent"]

Measured = dict[str, float]


@contextlib.asynccontextmanager
async def running(*, is_quick: bool = False, profile: Path | None = None) -> AsyncIterator[Bench]:
    """Start what all rows share; the arguments are those of `Bench`."""
    with tempfile.TemporaryDirectory(prefix="rr-bench-") as folder:
        async with contenders.upstream() as port:
            yield Bench(port, Path(folder), is_quick, count(1), profile)


async def everybody(
    bench: Bench,
    stack: AsyncExitStack,
    store_url: str = "memory://",
    settings: Mapping[str, object] | None = None,
) -> list[Contender]:
    """Start all contenders that there are, until the stack is closed."""
    nginx = await stack.enter_async_context(contenders.nginx(bench))
    return [
        contenders.direct(bench),
        *([nginx] if nginx is not None else []),
        await stack.enter_async_context(contenders.bare(bench)),
        await stack.enter_async_context(contenders.ours(bench, store_url, settings=settings)),
    ]


class Rounds:
    """What was measured, round by round."""

    def __init__(self, measured: dict[str, list[Measured]]) -> None:
        """Take contender -> its rounds."""
        self._measured = measured

    def medians(self, what: str) -> Measured:
        """Give the median of each contender."""
        return {
            name: statistics.median(round_[what] for round_ in rounds)
            for name, rounds in self._measured.items()
            if what in rounds[0]
        }

    def ratio(self, what: str, of: str = "ours", to: str = "bare") -> float:
        """Give the median of one's share of another's in the same round, as a machine drifts."""
        pairs = zip(self._measured[of], self._measured[to], strict=True)
        return statistics.median(one[what] / other[what] for one, other in pairs)

    def least(self, what: str) -> Measured:
        """Give the least of each contender: what others do on the machine only ever adds to it."""
        return {
            name: min(round_[what] for round_ in rounds) for name, rounds in self._measured.items()
        }


async def alternated(
    those: Sequence[Contender], rounds: int, once: Callable[[Contender], Awaitable[Measured]]
) -> Rounds:
    """Measure each contender once in each round; one round before that does not count."""
    measured: dict[str, list[Measured]] = {one.name: [] for one in those}
    for number in range(1 + rounds):
        for one in those:
            got = await once(one)
            if number:
                measured[one.name].append(got)
    return Rounds(measured)


@dataclass(slots=True)
class Spent:
    """What a block took: of the contender's computing, and of time."""

    cpu_s: float = 0.0
    wall_s: float = 0.0

    def per(self, units: int, unit_s: float = 1e-6) -> Measured:
        """Divide it; without `cpu` where there is no process that computed."""
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
