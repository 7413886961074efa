"""
`make fuzz`: every target in a process of its own, and random worlds.

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
from tests.fuzz.drivers import SEEDS, drawn, figures_of, guided
from tests.fuzz.targets import TARGETS
from tests.recordings import wire

FOLDER = Path(".fuzz")
SECONDS = 45.0
WORLDS = "worlds"
# Worlds get this multiple of a target's time, and all cores.
WORLDS_SHARE = 4
_ROW = "{:<15} {:>9} {:>9} {:>8} {:>9}"


def main() -> int:
    """Run the targets of the command line; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz", description=__doc__.split("\n")[1]
    )
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join([*TARGETS, WORLDS]))
    parser.add_argument("--seconds", type=float, default=SECONDS, help="time for each target")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="folder of findings")
    parser.add_argument("--repeat", nargs=2, metavar=("TARGET", "FILE"), help="repeat one input")
    parser.add_argument("--first", type=int, help="number of the first world; random by default")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    unknown = {*given.targets} - {*TARGETS, WORLDS}
    if unknown:
        parser.error(f"unknown target: {', '.join(sorted(unknown))}")
    if given.repeat:
        TARGETS[given.repeat[0]].check(Path(given.repeat[1]).read_bytes())
        return 0
    has_atheris = importlib.util.find_spec("atheris") is not None
    if given.here:
        (guided if has_atheris else drawn)(given.targets[0], given.seconds, given.folder)
        return 0
    names = given.targets or [*TARGETS, WORLDS]
    targets = [name for name in names if name != WORLDS]
    findings = 0
    if targets:
        if wire.root() is None:
            print("no recordings found: using only the built-in seeds")
        if not has_atheris:
            print("atheris is not installed: inputs are drawn at random, without coverage")
        findings += _run(targets, given.seconds, given.folder)
    if WORLDS in names:
        first = random.randrange(1 << 32) if given.first is None else given.first  # noqa: S311
        print(f"first world: {first}", flush=True)
        table, found = worlds.play(first, given.seconds * WORLDS_SHARE)
        print(table)
        findings += found
    return findings > 0


def _run(names: list[str], seconds: float, folder: Path) -> int:
    """Run each target, and print its row; return the number of findings."""
    folder.mkdir(parents=True, exist_ok=True)
    print(_ROW.format("target", "inputs", "coverage", "seconds", "findings"))
    total, findings, began = 0, 0, time.monotonic()
    for name in names:
        child = [sys.executable, "-m", "tests.fuzz", name, "--here"]
        child += ["--seconds", str(seconds), "--folder", str(folder)]
        before = {path: path.stat().st_mtime_ns for path in folder.glob(f"{name}.*")}
        began_at = time.monotonic()
        done = subprocess.run(child, capture_output=True, text=True, errors="replace", check=False)  # noqa: S603
        shutil.rmtree(folder / SEEDS, ignore_errors=True)
        figures = figures_of(done.stderr)
        count, found = int(figures.get("inputs", 0)), int(done.returncode != 0)
        took_s = round(time.monotonic() - began_at)
        print(_ROW.format(name, count, figures.get("coverage", "-"), took_s, found), flush=True)
        total += count
        findings += found
        if found:
            _tell(name, done, before, folder)
    print(_ROW.format("all", total, "", round(time.monotonic() - began), findings))
    return findings


def _tell(
    name: str, done: subprocess.CompletedProcess[str], before: dict[Path, int], folder: Path
) -> None:
    """Print the findings, and the commands that repeat them."""
    log = folder / f"{name}.log"
    log.write_text(done.stdout + done.stderr)
    new = [
        path
        for path in sorted(folder.glob(f"{name}.*"))
        if path.suffix != ".log" and before.get(path) != path.stat().st_mtime_ns
    ]
    for path in new:
        print(f"finding: python -m tests.fuzz --repeat {name} {path}")
    if not new:
        print(f"{name} exited with {done.returncode}: {log}")


if __name__ == "__main__":
    sys.exit(main())
