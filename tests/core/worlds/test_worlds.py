"""Random worlds: no wrong injection and a stable prefix, for clients with realistic habits."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from reasoning_replay.core.dialects.anthropic import placement
from reasoning_replay.core.dialects.anthropic.binding import Binding
from reasoning_replay.core.dialects.anthropic.message_groups import MessageGroup, groups_of
from reasoning_replay.core.dialects.anthropic.prefix_walk import BoundEdits, PrefixWalk, walk
from reasoning_replay.core.dialects.anthropic.profiles import Profile
from reasoning_replay.core.dialects.anthropic.request import MessagesRequest
from reasoning_replay.core.history.item_index import Match
from reasoning_replay.core.history.matching.matches import Matches
from reasoning_replay.core.history.plan import Plan
from reasoning_replay.core.history.turns import Turn
from typing_extensions import override

from tests.core.worlds import __main__, chat, crowd, gemini, messages, responses
from tests.core.worlds.crowd import CLEAN_ONES
from tests.core.worlds.habits import Habits
from tests.core.worlds.play import DIALECTS, play
from tests.fast_lane import IS_EVERY

# Seeds are fixed for repeatable results; `make test-all` plays more.
COUNT = 300 if IS_EVERY else 60
WORLDS = [range(first, first + 60) for first in range(0, COUNT, 60)]
OTHERS = range(60, 120)
MORE = range(max(COUNT, 120))  # a share of some clients needs as many


@pytest.mark.parametrize("numbers", WORLDS, ids=str)
@pytest.mark.parametrize(
    ("dialect", "least"),
    [("responses", 1500), ("chat", 1400), ("messages", 700), ("gemini", 1700)],
)
def test_nothing_wrong_is_injected_and_no_prefix_moves(
    dialect: str, least: int, numbers: range
) -> None:
    """Worlds have repeated ids and words, lost turns, forks, retries and failed lookups."""
    counts, faults = play(numbers, DIALECTS[dialect])

    assert faults == []
    assert counts["injected", "all"] > least


@pytest.mark.parametrize(
    ("dialect", "least"),
    [("responses", 1200), ("chat", 1200), ("messages", 500), ("gemini", 1200)],
)
def test_new_habits_do_no_harm(dialect: str, least: int) -> None:
    """Clients leave out, tell, rename or move parts of their history."""
    counts, faults = play(OTHERS, DIALECTS[dialect], CLEAN_ONES)

    assert faults == []
    assert counts["injected", "all"] > least


class _Unsplit(chat.ChatWorld):
    """Clients that keep ids of calls, and send each response in one message."""

    styles = tuple(style for style in chat.ChatWorld.styles if style != "split")
    renames = ("",)


class _Appending(messages.MessagesWorld):
    """Clients that only append to their history, in one message for each response."""

    styles = tuple("plain" if s == "split" else s for s in messages.MessagesWorld.styles)

    @override
    def habits(self, habits: Habits) -> Habits:
        whole = replace(super().habits(habits), window=0, clears=False, rewrites=False)
        return replace(whole, frame="same", environment="none", interleaves=False)


@pytest.mark.parametrize(
    ("kind", "numbers", "least"),
    [
        pytest.param(
            responses.ResponsesWorld,
            MORE,
            {
                "all": 0.85,
                "tool loop, ids kept": 0.93,
                "tool loop, ids dropped": 0.84,
                "plain chat, ids kept": 0.93,
            },
            id="responses",
        ),
        pytest.param(_Unsplit, MORE, {"all": 0.74, "whole history": 0.74}, id="chat"),
        pytest.param(gemini.GeminiWorld, MORE, {"all": 0.75, "whole history": 0.75}, id="gemini"),
        pytest.param(_Appending, MORE[::2], {"all": 0.88}, id="messages"),
        pytest.param(_Appending, MORE[1::2], {"all": 0.88}, id="messages that are bound"),
    ],
)
def test_most_of_what_is_due_is_injected(
    monkeypatch: pytest.MonkeyPatch, kind: Any, numbers: range, least: Mapping[str, float]
) -> None:
    """Each type of client without rare habits has a minimum share; short texts lower it."""
    monkeypatch.setattr(crowd, "RARE", {})
    counts, faults = play(numbers, kind)

    assert faults == []
    for of, share in least.items():
        assert counts["injected", of] / counts["due", of] > share


def _late(plan: Callable[..., Plan]) -> Callable[..., Plan]:
    """Match each item to the turn of the item before it."""

    def planned(request: Any, matched: Matches, *rest: Any) -> Plan:
        keys = sorted(matched.matches)
        found = zip(keys[1:], [matched.matches[n] for n in keys], strict=False)
        return plan(request, Matches(dict(found)), *rest)

    return planned


def _now_and_then(plan: Callable[..., Plan]) -> Callable[..., Plan]:
    return lambda request, *rest: Plan() if len(request.places) % 4 == 3 else plan(request, *rest)


@pytest.mark.parametrize(
    ("module", "fault", "told"),
    [
        (responses, _late, "wrong: "),
        (responses, _now_and_then, "moved: "),
        (chat, _late, "wrong: "),
        (gemini, _late, "wrong: "),
    ],
)
def test_a_planted_fault_is_reported(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    module: Any,
    fault: Callable[..., Any],
    told: str,
) -> None:
    """The report has the command that repeats it, and the process exits with status 1."""
    dialect = module.__name__.rpartition(".")[2]
    monkeypatch.setattr("sys.argv", ["worlds", "0", "4", "--dialect", dialect])
    assert __main__.main() == 0
    assert "\n16 conversations, 0 worlds with faults" in capsys.readouterr().out
    monkeypatch.setattr(module, "plan_injection", fault(module.plan_injection))
    assert __main__.main() == 1
    out = capsys.readouterr().out
    assert "python -m tests.core.worlds " in out
    assert f" --dialect {dialect}: {told}" in out


def _of_the_message_before(request: MessagesRequest, matched: Matches, profile: Profile) -> Plan:
    """Give each message the reasoning of the one before it, if it has as many blocks."""
    groups = groups_of(request, matched)
    found: dict[int, Match] = {}
    for before, group in pairwise(groups):
        if len(before.matches) == len(group.places):
            found |= dict(zip(group.places, before.matches, strict=True))
    return placement.plan_injection(request, Matches(found), profile)


def _has_as_many(_: object, places: Sequence[int], turn: Turn) -> bool:
    return len(places) == len(turn.items)


def _everywhere(
    request: MessagesRequest,
    groups: Sequence[MessageGroup],
    planned: Mapping[int, BoundEdits],
    began: Binding | None,
) -> PrefixWalk:
    """Ignore the history."""
    return PrefixWalk(set(planned), walk(request, groups, planned, began).prefix)


def test_planted_faults_of_messages_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """The judges see what is added to a message, and the history before it."""
    kind = messages.MessagesWorld
    with monkeypatch.context() as patched:
        patched.setattr(placement, "walk", _everywhere)
        _, faults = play(range(1, 31, 2), kind)
    assert any("bound elsewhere" in fault for fault in faults)
    monkeypatch.setattr(messages, "plan_injection", _of_the_message_before)
    monkeypatch.setattr(f"{placement.__name__}._Planner._is_verbatim", _has_as_many)
    _, faults = play(range(0, 12, 2), kind)
    assert any("wrong: " in fault for fault in faults)
