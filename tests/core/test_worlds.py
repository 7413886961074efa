"""Random worlds: no wrong injection and a stable prefix, for clients with realistic habits."""

from collections.abc import Callable

import pytest
from reasoning_replay.core.dialects.responses.placement import plan_injection
from reasoning_replay.core.dialects.responses.profiles import Profile
from reasoning_replay.core.dialects.responses.request import Request
from reasoning_replay.core.history.matching.matches import Matches
from reasoning_replay.core.history.plan import Plan

from tests.core import worlds
from tests.core.habits import NEW_HABITS
from tests.core.worlds import CLEAN_ONES, COUNT, New, RandomWorld, play

# Seeds are fixed for repeatable results.
WORLDS = [range(first, first + 60) for first in range(0, COUNT, 60)]


@pytest.mark.parametrize("numbers", WORLDS, ids=str)
def test_nothing_wrong_is_injected_and_no_prefix_moves(numbers: range) -> None:
    """Worlds have counted ids, repeated words, lost turns, forks, retries and failed lookups."""
    counts, faults = play(numbers)

    assert faults == []
    assert counts["injected", "all"] > 1500


@pytest.mark.parametrize("numbers", WORLDS[:2], ids=str)
def test_new_habits_do_no_harm(numbers: range) -> None:
    """Clients leave out, tell, rename or move parts of their history."""
    counts, faults = play(numbers, RandomWorld, CLEAN_ONES)

    assert faults == []
    assert counts["injected", "all"] > 1200


def test_most_of_what_is_due_is_injected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each type of client without rare habits has a minimum share; short texts lower it."""
    monkeypatch.setattr(worlds, "RARE", {})
    counts, _ = play(range(COUNT))

    shares = {
        kind: counts["injected", kind] / counts["due", kind]
        for kind in ("all", "tool loop, ids kept", "tool loop, ids dropped", "plain chat, ids kept")
    }
    assert shares["all"] > 0.85
    assert shares["tool loop, ids kept"] > 0.93
    assert shares["tool loop, ids dropped"] > 0.84
    assert shares["plain chat, ids kept"] > 0.93


def _late(request: Request, matched: Matches, profile: Profile) -> Plan:
    """Match each item to the turn of the item before it."""
    keys = sorted(matched.matches)
    found = zip(keys[1:], [matched.matches[n] for n in keys], strict=False)
    return plan_injection(request, Matches(dict(found)), profile)


def _now_and_then(request: Request, matched: Matches, profile: Profile) -> Plan:
    return Plan() if len(request.places) % 4 == 3 else plan_injection(request, matched, profile)


@pytest.mark.parametrize(("plan", "fault"), [(_late, "wrong: "), (_now_and_then, "moved: ")])
def test_a_planted_fault_is_reported(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    plan: Callable[..., Plan],
    fault: str,
) -> None:
    """The report has the command that repeats it, and the process exits with status 1."""
    monkeypatch.setattr("sys.argv", ["worlds", "0", "4"])
    assert worlds.main() == 0
    assert "\n16 conversations, 0 worlds with faults" in capsys.readouterr().out
    monkeypatch.setattr(worlds, "plan_injection", plan)
    assert worlds.main() == 1
    out = capsys.readouterr().out
    assert "python -m tests.core.worlds " in out
    assert fault in out


def test_the_options_choose_the_habits(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each new habit alone is a row; a fault is told with the options that repeat it."""
    monkeypatch.setattr("sys.argv", ["worlds", "0", "8", "--each"])
    assert worlds.main() == 0
    rows = {line.split()[0] for line in capsys.readouterr().out.splitlines()[1:-1]}
    assert rows == set(NEW_HABITS)
    monkeypatch.setattr(worlds, "plan_injection", _late)
    _, faults = play(range(8), RandomWorld, New({"stock": 1}))
    assert any(" --new stock: wrong: " in fault for fault in faults)
    assert "--shapes: " in play(range(8), RandomWorld, New(has_shapes=True))[1][0]
