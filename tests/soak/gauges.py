"""Gauges: the resources of a process and the lag of its event loop, sampled from outside."""

import http.client
import os
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

WARM_SHARE = 0.15
PROBE_EVERY_S = 0.05
PROBE_TAKES_S = 60.0


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

    @property
    def peak_bytes(self) -> int:
        """The most memory at any sample."""
        return max(one.rss_bytes for one in self.samples)

    def halves(
        self, name: str, of: Callable[[Sequence[float]], float] = statistics.median
    ) -> tuple[float, float]:
        """Return the medians, or another value, of both halves of the run after its warm-up."""
        values = [getattr(one, name) for one in self.samples]
        warm = values[int(len(values) * WARM_SHARE) :] or values
        middle = len(warm) // 2
        return of(warm[:middle] or warm), of(warm[middle:])


class Lag(threading.Thread):
    """
    Lag of an event loop: how long `/livez` takes, which does nothing, asked by a thread.

    Args:
        admin_url: URL of the process's admin port.

    Attributes:
        took_s: Time of each probe.
    """

    def __init__(self, admin_url: str) -> None:
        super().__init__(daemon=True)
        self.took_s: list[float] = []
        self._address = urlsplit(admin_url).netloc
        self._ended = threading.Event()

    def run(self) -> None:
        """Probe until the end; a probe that fails counts with the time it took."""
        line = http.client.HTTPConnection(self._address, timeout=PROBE_TAKES_S)
        while not self._ended.wait(PROBE_EVERY_S):
            began_s = time.monotonic()
            try:
                line.request("GET", "/livez")
                line.getresponse().read()
            except (OSError, http.client.HTTPException):
                line.close()  # the next probe opens another connection
            self.took_s.append(time.monotonic() - began_s)
        line.close()

    def end(self) -> None:
        """End, and wait for the last probe."""
        self._ended.set()
        self.join()

    def percentile(self, share: float) -> float:
        """Return the time that this share of the probes did not exceed, in seconds."""
        took_s = sorted(self.took_s) or [0.0]
        return took_s[min(len(took_s) - 1, int(len(took_s) * share))]
