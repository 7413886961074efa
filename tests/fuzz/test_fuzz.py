"""Short run of `make fuzz`: all targets pass and find planted faults, and findings are kept."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from reasoning_replay.core.dialects import error_texts
from reasoning_replay.core.wire import sse

from tests.fuzz import drivers
from tests.fuzz.mutation import mutated
from tests.fuzz.targets import TARGETS

EXAMPLES = 40
SEEDS = 8
INPUTS = 1000

# (the target that must find it, the object, the replaced attribute, the replacement)
FAULTS: list[Any] = [
    pytest.param("sse", sse, "_END", re.compile(rb"\n\n|\r\n\r\n|\r\r"), id="no-mixed-line-ends"),
    pytest.param("sse", sse, "_NOTHING", re.compile(rb"[\r\n]*"), id="comments-count"),
    pytest.param("refusal", error_texts, "value_of", msgspec.json.decode, id="refusal-raises"),
]


@pytest.mark.parametrize("name", TARGETS)
def test_every_target_passes(name: str) -> None:
    """Every target passes for its seeds, unchanged and mutated."""
    target = TARGETS[name]
    every = list(target.seeds())
    seeds = every[:: max(1, len(every) // SEEDS)]
    for data in seeds:
        target.check(data)

    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
    @given(drivers.inputs(seeds))
    def check(data: bytes) -> None:
        target.check(data)

    check()


@pytest.mark.parametrize("name", TARGETS)
@settings(max_examples=10, deadline=None)
@given(data=st.binary(max_size=60))
def test_any_bytes_are_an_input(name: str, data: bytes) -> None:
    """Any bytes are a valid input: the check raises no error."""
    TARGETS[name].check(data)


@pytest.mark.parametrize(("name", "where", "what", "fault"), FAULTS)
def test_a_planted_fault_is_found(
    monkeypatch: pytest.MonkeyPatch, name: str, where: object, what: str, fault: object
) -> None:
    """The target finds the fault within a thousand inputs; without the fault the input passes."""
    target = TARGETS[name]
    seeds = list(target.seeds())
    found: bytes | None = None
    with monkeypatch.context() as planted:
        planted.setattr(where, what, fault)
        for n in range(INPUTS):
            data = mutated(seeds[n % len(seeds)], n, 1 << 16)
            try:
                target.check(data)
            except Exception:  # noqa: BLE001 (a fault may raise any error)
                found = data
                break
    assert found is not None
    target.check(found)


def _refuse(data: bytes) -> None:
    assert b"rs_" not in data


def run(*asked: str) -> list[str]:
    """Run the command line of `make fuzz`; return its lines."""
    call = [sys.executable, "-m", "tests.fuzz", *asked]
    return subprocess.run(call, capture_output=True, text=True, check=True).stdout.splitlines()  # noqa: S603


def test_one_target_is_run_and_printed_in_a_row(tmp_path: Path) -> None:
    """The command line runs one target and prints its row and a total."""
    said = run("--seconds", "1", "--folder", str(tmp_path), "document")
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
