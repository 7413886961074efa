"""Gauges: the resources of a process, sampled from outside while it runs."""

import os
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Gauges", "Sample"]

WARM_SHARE = 0.15


@dataclass(frozen=True, slots=True)
class Sample:
    """Memory in bytes, open files, and CPU seconds so far."""

    rss_bytes: int
    files: int
    cpu_s: float


@dataclass
class Gauges:
    """All samples of one process, in equal intervals."""

    pid: int
    samples: list[Sample] = field(default_factory=list)

    def sample(self) -> None:
        """Take one sample."""
        proc = Path(f"/proc/{self.pid}")
        pages = int((proc / "statm").read_text().split()[1])
        fields = (proc / "stat").read_text().rpartition(")")[2].split()
        cpu_s = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        files = sum(1 for _ in (proc / "fd").iterdir())
        self.samples.append(Sample(pages * os.sysconf("SC_PAGE_SIZE"), files, cpu_s))

    def halves(self, name: str) -> tuple[float, float]:
        """Return the medians of both halves of the run, without the warm-up."""
        values = [getattr(one, name) for one in self.samples]
        warm = values[int(len(values) * WARM_SHARE) :] or values
        middle = len(warm) // 2
        return _median(warm[:middle] or warm), _median(warm[middle:])


def _median(values: Sequence[float]) -> float:
    return statistics.median(values)
