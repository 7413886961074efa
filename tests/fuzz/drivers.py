"""
Drivers: two ways to search for a failing input; each runs in its own process.

    guided    atheris: changes that reach code that no input has reached before
    drawn     hypothesis, where atheris is not installed: a seed with some changes
"""

import json
import random
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import seed as beginning_with
from hypothesis import strategies as st

from tests.fuzz.mutation import mutated
from tests.fuzz.targets import TARGETS

MAX_BYTES = 64 * 1024
# Folder of the seeds while they are in use; recorded ones are not kept.
SEEDS = "seeds"
# Time limit for one input, in seconds: far more than any needs.
INPUT_MAX_S = 30
_BATCH = 200


@st.composite
def inputs(draw: st.DrawFn, seeds: Sequence[bytes]) -> bytes:
    """Draw a seed with some changes."""
    data = seeds[draw(st.integers(0, len(seeds) - 1))]
    for change in draw(st.lists(st.integers(0, 1 << 32), max_size=4)):
        data = mutated(data, change, MAX_BYTES)
    return data


def drawn(name: str, seconds: float, folder: Path) -> None:
    """Check inputs drawn by hypothesis until the time is over or one fails."""
    target = TARGETS[name]
    seeds = list(target.seeds())
    failing: list[bytes] = []
    count = 0

    @settings(
        max_examples=_BATCH,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(inputs(seeds))
    def check(data: bytes) -> None:
        nonlocal count
        count += 1
        failing[:] = [data]
        target.check(data)

    until = time.monotonic() + seconds
    try:
        while time.monotonic() < until:
            beginning_with(random.randrange(1 << 32))(check)()  # noqa: S311 (no secret)
    except BaseException:
        (folder / f"{name}.drawn").write_bytes(failing[0])
        raise
    finally:
        sys.stderr.write(json.dumps({"inputs": count}) + "\n")  # for the parent process


def guided(name: str, seconds: float, folder: Path) -> None:
    """Run atheris, which searches for code that no input has reached; it ends the process."""
    import atheris  # noqa: PLC0415 (must be imported before the code that it watches)

    corpus, seeds = folder / "corpus" / name, folder / SEEDS / name
    for place in (corpus, seeds):
        place.mkdir(parents=True, exist_ok=True)
    for n, data in enumerate(TARGETS[name].seeds()):
        if len(data) <= MAX_BYTES:
            (seeds / str(n)).write_bytes(data)
    for module in [
        module for module in sys.modules if module.startswith(("reasoning_replay", "tests"))
    ]:
        del sys.modules[module]
    with atheris.instrument_imports(include=["reasoning_replay.core"]):
        from tests.fuzz import targets  # noqa: PLC0415
    check = targets.TARGETS[name].check

    def change(data: bytes, max_bytes: int, seed: int) -> bytes:
        if seed % 4 == 0:
            return bytes(atheris.Mutate(data, max_bytes))
        return mutated(data, seed, max_bytes)

    options = [
        f"-max_total_time={max(1, round(seconds))}",
        f"-max_len={MAX_BYTES}",
        f"-timeout={INPUT_MAX_S}",
        f"-artifact_prefix={folder / name}.guided-",
        "-rss_limit_mb=2048",
        "-print_final_stats=1",
        "-len_control=0",
    ]
    atheris.Setup([sys.argv[0], *options, str(corpus), str(seeds)], check, custom_mutator=change)
    atheris.Fuzz()


def figures_of(said: str) -> dict[str, float]:
    """Read the figures that a driver, or libFuzzer, has written."""
    found: dict[str, float] = {}
    for line in said.splitlines():
        if line.startswith('{"inputs"'):
            found |= json.loads(line)
        elif match := re.match(r"stat::number_of_executed_units:\s*(\d+)", line):
            found["inputs"] = int(match[1])
        elif match := re.match(r"#(\d+)\s.*\bcov: (\d+)", line):
            found |= {"inputs": int(match[1]), "coverage": int(match[2])}
    return found
