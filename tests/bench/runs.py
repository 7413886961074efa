"""How a row is measured: one contender after the other, round by round, and medians of that."""

import contextlib
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from tests.bench import contenders
from tests.bench.contenders import Contender

__all__ = ["Bench", "Rounds", "Spent", "alternated", "bench", "everybody", "spent"]

Measured = dict[str, float]


@dataclass(frozen=True, slots=True)
class Bench:
    """
    What all rows share.

    Attributes:
        upstream_port: Of the one upstream.
        folder: For files; removed in the end.
        is_quick: Whether figures may be rougher, so that all are had in two minutes.
        numbers: So that no two exchanges of a run are alike.
    """

    upstream_port: int
    folder: Path
    is_quick: bool
    numbers: Iterator[int]

    def either(self, quick: int, else_: int) -> int:
        """Choose a size."""
        return quick if self.is_quick else else_


@contextlib.asynccontextmanager
async def bench(*, is_quick: bool) -> AsyncIterator[Bench]:
    """Start what all rows share."""
    with tempfile.TemporaryDirectory(prefix="rr-bench-") as folder:
        async with contenders.upstream() as port:
            yield Bench(port, Path(folder), is_quick, count(1))


async def everybody(
    bench: Bench, stack: AsyncExitStack, store_url: str = "memory://"
) -> list[Contender]:
    """Start all contenders that there are, until the stack is closed."""
    port, folder = bench.upstream_port, bench.folder
    nginx = await stack.enter_async_context(contenders.nginx(port, folder))
    return [
        contenders.direct(port),
        *([nginx] if nginx is not None else []),
        await stack.enter_async_context(contenders.bare(port)),
        await stack.enter_async_context(contenders.ours(port, folder, store_url)),
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

    def beyond(self, what: str, of: str = "ours", to: str = "direct") -> float:
        """Give the median of what one has more than another in the same round."""
        pairs = zip(self._measured[of], self._measured[to], strict=True)
        return statistics.median(one[what] - other[what] for one, other in pairs)


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
