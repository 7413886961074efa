"""
`make fuzz`: every target with every driver, one process each, and random worlds.

    python -m tests.fuzz                          all of them, about ten minutes
    python -m tests.fuzz --seconds 600 sse document   two of them, ten minutes each
    python -m tests.fuzz --seconds 600 worlds     worlds only, forty minutes
    python -m tests.fuzz --first 0 worlds         start at world 0, not at a random one
    python -m tests.fuzz --repeat sse FILE        repeat one input

Prints a table of both. Exits 1 if anything was found; the input is kept, and the command that
repeats it is printed.
"""

import argparse
import importlib.util
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

from tests.fuzz import worlds
from tests.fuzz.drivers import DRIVERS, SEEDS, figures_of
from tests.fuzz.targets import TARGETS
from tests.recordings import wire

FOLDER = Path(".fuzz")
SECONDS = 45.0
# Share of a target's time.
SHARES = {"drawn": 0.4, "guided": 0.6}
WORLDS = "worlds"
# Worlds get this multiple of a target's time, and all cores.
WORLDS_SHARE = 4
_ROW = "{:<15} {:>9} {:>9} {:>9} {:>9} {:>8} {:>9}"


def main() -> int:
    """Run the targets of the command line; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz", description=__doc__.split("\n")[1]
    )
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join([*TARGETS, WORLDS]))
    parser.add_argument("--seconds", type=float, default=SECONDS, help="time for each target")
    parser.add_argument("--drivers", default=",".join(DRIVERS), help="drivers, comma-separated")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="folder of findings")
    parser.add_argument("--repeat", nargs=2, metavar=("TARGET", "FILE"), help="repeat one input")
    parser.add_argument("--first", type=int, help="number of the first world; random by default")
    parser.add_argument("--one", choices=DRIVERS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    unknown = {*given.targets} - {*TARGETS, WORLDS}
    if unknown:
        parser.error(f"unknown target: {', '.join(sorted(unknown))}")
    if given.repeat:
        TARGETS[given.repeat[0]].check(Path(given.repeat[1]).read_bytes())
        return 0
    if given.one:
        DRIVERS[given.one](given.targets[0], given.seconds, given.folder)
        return 0
    names = given.targets or [*TARGETS, WORLDS]
    targets = [name for name in names if name != WORLDS]
    findings = _run(targets, given.drivers.split(","), given) if targets else 0
    if WORLDS in names:
        findings += _worlds(given)
    return findings > 0


def _run(names: list[str], drivers: list[str], given: argparse.Namespace) -> int:
    if wire.root() is None:
        print("no recordings found: using only the built-in seeds")
    if "guided" in drivers and importlib.util.find_spec("atheris") is None:
        print("atheris is not installed: the driver 'guided' is skipped")
        drivers = [driver for driver in drivers if driver != "guided"]
    given.folder.mkdir(parents=True, exist_ok=True)
    print(_ROW.format("target", "inputs", *SHARES, "coverage", "seconds", "findings"))
    total, findings, began = 0, 0, time.monotonic()
    for name in names:
        count, found = _target(name, drivers, given)
        total += count
        findings += found
    seconds = round(time.monotonic() - began)
    print(_ROW.format("all", total, "", "", "", seconds, findings))
    return findings


def _worlds(given: argparse.Namespace) -> int:
    first = random.randrange(1 << 32) if given.first is None else given.first  # noqa: S311
    print(f"first world: {first}", flush=True)
    table, findings = worlds.play(first, given.seconds * WORLDS_SHARE)
    print(table)
    return findings


def _target(name: str, drivers: list[str], given: argparse.Namespace) -> tuple[int, int]:
    began, findings = time.monotonic(), 0
    counts: dict[str, int] = {}
    coverage: float | str = "-"
    for driver in drivers:
        seconds = given.seconds * SHARES[driver]
        child = [sys.executable, "-m", "tests.fuzz", name, "--one", driver]
        child += ["--seconds", str(seconds), "--folder", str(given.folder)]
        before = {path: path.stat().st_mtime_ns for path in given.folder.glob(f"{name}.*")}
        done = subprocess.run(child, capture_output=True, text=True, errors="replace", check=False)  # noqa: S603
        shutil.rmtree(given.folder / SEEDS, ignore_errors=True)
        figures = figures_of(done.stderr)
        counts[driver] = int(figures.get("inputs", 0))
        coverage = figures.get("coverage", coverage)
        if done.returncode:
            findings += 1
            _tell(name, driver, done, before, given.folder)
    cells = [counts.get(driver, "-") for driver in SHARES]
    seconds = round(time.monotonic() - began)
    row = _ROW.format(name, sum(counts.values()), *cells, coverage, seconds, findings)
    print(row, flush=True)
    return sum(counts.values()), findings


def _tell(
    name: str,
    driver: str,
    done: subprocess.CompletedProcess[str],
    before: dict[Path, int],
    folder: Path,
) -> None:
    """Print the findings, and the commands that repeat them."""
    said = done.stdout + done.stderr
    (folder / f"{name}.{driver}.log").write_text(said)
    new = [
        path
        for path in sorted(folder.glob(f"{name}.*"))
        if path.suffix != ".log" and before.get(path) != path.stat().st_mtime_ns
    ]
    for path in new:
        print(f"finding: python -m tests.fuzz --repeat {name} {path}")
    if not new:
        print(f"{name} {driver} exited with {done.returncode}: {folder / f'{name}.{driver}.log'}")


if __name__ == "__main__":
    sys.exit(main())
