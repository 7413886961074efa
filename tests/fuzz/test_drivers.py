"""Drivers: the command line runs and prints them, and a finding is kept and can be repeated."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz import drivers
from tests.fuzz.growth import SUPERLINEAR, Pump
from tests.fuzz.targets import TARGETS


def _refuse(data: bytes) -> None:
    assert b"rs_" not in data


def run(*asked: str) -> list[str]:
    """Run the command line of `make fuzz`; return its lines."""
    call = [sys.executable, "-m", "tests.fuzz", *asked]
    return subprocess.run(call, capture_output=True, text=True, check=True).stdout.splitlines()  # noqa: S603


def test_one_target_is_run_and_printed_in_a_row(tmp_path: Path) -> None:
    """The command line runs one target and prints its row and a total."""
    said = run("--seconds", "1", "--drivers", "drawn", "--folder", str(tmp_path), "document")
    head, row, total = said[-3:]

    assert head.split()[:2] == ["target", "inputs"]
    assert row.split()[0] == "document"
    assert int(row.split()[1]) == int(total.split()[1]) > 0
    assert row.split()[-1] == total.split()[-1] == "0"


def test_worlds_are_played_from_a_given_number() -> None:
    """Worlds are played until the time is over, and their table is printed."""
    first, head, *_, last = run("--seconds", "0.3", "--first", "0", "worlds")

    assert first == "first world: 0"
    assert head.split()[:3] == ["client", "due", "injected"]
    assert re.fullmatch(r"[1-9][\d,]* conversations, 0 worlds with faults", last)


def test_a_finding_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The smallest failing input of hypothesis is written to a file."""
    monkeypatch.setitem(TARGETS, "document", TARGETS["document"]._replace(check=_refuse))
    with pytest.raises(AssertionError):
        drivers.drawn("document", 30, tmp_path)
    with pytest.raises(AssertionError):
        _refuse((tmp_path / "document.drawn").read_bytes())


def test_a_superlinear_input_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An input that grows too fast is kept as its parts."""
    monkeypatch.setattr(drivers, "growth", lambda work, pump: SUPERLINEAR)
    with pytest.raises(AssertionError):
        drivers.grown("document", 30, tmp_path)
    assert isinstance(drivers.load_pump(tmp_path / "document.grown"), Pump)
