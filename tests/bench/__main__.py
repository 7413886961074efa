"""Benchmark that prints a table: `python -m tests.bench [--quick] [--json FILE] [ROW ...]`."""

import argparse
import asyncio
import gc
import json
import os
import resource
import shutil
import signal
import sys
import time
from pathlib import Path

import uvloop
from reasoning_replay.adapters.runtime.allocator import MMAP_BYTES, TRIM_BYTES

from tests.bench.histories import LeftOut
from tests.bench.load import LoadError
from tests.bench.machine import cores
from tests.bench.rows import ROWS
from tests.bench.runs import running
from tests.bench.table import Figure, as_json, table

ROW_S = 900.0
# The proxy's own settings of glibc's malloc, for all contenders.
ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": str(MMAP_BYTES), "MALLOC_TRIM_THRESHOLD_": str(TRIM_BYTES)}
STOPPED = 130  # exit status of a shell for an interrupted program


def main() -> int:
    """Return 0 if all figures are within their bounds, 1 if one is beyond, 130 if interrupted."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"one of {', '.join(ROWS)}")
    parser.add_argument("--quick", action="store_true", help="rougher figures, in ten minutes")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to FILE")
    parser.add_argument(
        "--profile", type=Path, metavar="FILE", help="stacks by py-spy, in FILE-<pid>.txt; slower"
    )
    options = parser.parse_args()
    if unknown := set(options.rows) - ROWS.keys():
        parser.error(f"unknown row: {', '.join(sorted(unknown))}")
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    os.environ.update(ALLOCATOR)
    os.sched_setaffinity(0, cores()[1:])
    gc.freeze()
    rows = options.rows or list(ROWS)
    try:
        figures = uvloop.run(measured(rows, is_quick=options.quick, profile=options.profile))
    except (asyncio.CancelledError, KeyboardInterrupt):
        return STOPPED
    print(table(figures))  # noqa: T201
    if options.json:
        options.json.write_text(json.dumps(as_json(figures), indent=1) + "\n")
    return 0 if all(figure.is_met for figure in figures) else 1


async def measured(rows: list[str], *, is_quick: bool, profile: Path | None = None) -> list[Figure]:
    """Measure some rows, one after the other; when cancelled, stop everything that was started."""
    this_task = asyncio.current_task()
    assert this_task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, this_task.cancel)
    figures: list[Figure] = []
    if shutil.which("nginx") is None:
        print("nginx is not installed: left out", file=sys.stderr)  # noqa: T201
    async with running(is_quick=is_quick, profile=profile) as this:
        for row in rows:
            began = time.monotonic()
            print(f"{row} ...", end="", file=sys.stderr, flush=True)  # noqa: T201
            try:
                async with asyncio.timeout(ROW_S):
                    figures += await ROWS[row](this)
            except* LeftOut as left:
                figures.append(Figure(row, f"left out: {left.exceptions[0]}"))
            except* (LoadError, OSError, TimeoutError) as failed:
                reason = repr(failed.exceptions[0])[:120]
                figures.append(Figure(row, f"failed: {reason}", got=1, limit=0))
            print(f" {time.monotonic() - began:.0f} s", file=sys.stderr)  # noqa: T201
    return figures


if __name__ == "__main__":
    sys.exit(main())
