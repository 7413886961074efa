"""Drivers: a finding is kept and can be repeated; the figures of a run are printed."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz import drivers
from tests.fuzz.targets import TARGETS, Target
from tests.fuzz.work import SUPERLINEAR, Pump


def _refuse(data: bytes) -> None:
    assert b"rs_" not in data


def test_one_target_is_run_and_printed_in_a_row(tmp_path: Path) -> None:
    """The command line of `make fuzz` runs one target and prints its row and a total."""
    asked = ["--seconds", "1", "--drivers", "drawn", "--folder", str(tmp_path), "scope"]
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-m", "tests.fuzz", *asked], capture_output=True, text=True, check=True
    )
    head, row, total = done.stdout.splitlines()[-3:]

    assert head.split()[:2] == ["target", "inputs"]
    assert row.split()[0] == "scope"
    assert int(row.split()[1]) == int(total.split()[1]) > 0
    assert row.split()[-1] == total.split()[-1] == "0"


def test_worlds_are_played_from_a_given_number() -> None:
    """Worlds are played until the time is over, and their table is printed."""
    asked = ["--seconds", "0.3", "--first", "0", "worlds"]
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-m", "tests.fuzz", *asked], capture_output=True, text=True, check=True
    )
    first, head, *_, last = done.stdout.splitlines()

    assert first == "first world: 0"
    assert head.split()[:3] == ["client", "due", "injected"]
    assert re.fullmatch(r"[1-9][\d,]* conversations, 0 worlds with faults", last)


def test_a_finding_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The smallest failing input of hypothesis is written to a file."""
    monkeypatch.setitem(TARGETS, "scope", TARGETS["conversation"]._replace(check=_refuse))
    with pytest.raises(AssertionError):
        drivers.drawn("scope", 30, tmp_path)
    with pytest.raises(AssertionError):
        _refuse((tmp_path / "scope.drawn").read_bytes())


def test_a_superlinear_input_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An input that grows too fast is kept as its parts."""
    target = TARGETS["scope"]
    monkeypatch.setitem(TARGETS, "scope", Target(target.check, target.check, target.seeds))
    monkeypatch.setattr(drivers, "growth", lambda work, pump: SUPERLINEAR)
    with pytest.raises(AssertionError):
        drivers.grown("scope", 30, tmp_path)
    assert isinstance(drivers.load_pump(tmp_path / "scope.grown"), Pump)


SAID = """INFO: seed corpus
#1234\tNEW    cov: 55 ft: 77 corp: 1/1b
#4321\tpulse  cov: 66 ft: 77 corp: 1/1b
stat::number_of_executed_units: 5000
"""


def test_figures_are_read() -> None:
    """The figures of libFuzzer and of the other drivers are read."""
    assert drivers.figures_of(SAID) == {"inputs": 5000, "coverage": 66}
    assert drivers.figures_of('x\n{"inputs": 7, "worst": 1.5}\n') == {"inputs": 7, "worst": 1.5}
