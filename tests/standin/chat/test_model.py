"""The scripted model repeats itself for the same seed, and keeps to its loop."""

import base64
from typing import Any, get_args

import pytest

from tests.standin.chat.families import FAMILIES, IdForm
from tests.standin.chat.model import LOOPS, Turn, cue, perform, thinks
from tests.standin.common.script import Source

ASK = {"role": "user", "content": "Rain?"}
ANSWERED = {"role": "tool", "content": "7 degrees"}
SCHEMA = {"city": {"type": "string"}, "days": {"type": "integer"}, "dry": {"type": "boolean"}}
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"properties": SCHEMA}}}


def play(loop: Any = "one_call", answered: int = 0, ids: IdForm = "random", **more: Any) -> Turn:
    """Return the turn after some tool messages."""
    body = {"messages": [ASK, *[ANSWERED] * answered], "tools": [TOOL], **more}
    family = FAMILIES["deepseek"]
    source = Source(b"seed", "place", answered)
    return perform(loop, cue(body), family, source, ids=ids, repeats=False)


def shape(turn: Turn) -> str:
    """Return a turn in the notation of LOOPS."""
    return " ".join(["R"] * bool(turn.thought) + ["A"] * bool(turn.text) + ["fc"] * len(turn.calls))


@pytest.mark.parametrize("loop", LOOPS)
def test_a_loop_is_played_to_its_end(loop: Any) -> None:
    """Each response has the parts that its loop names, and the last one is a text."""
    played: list[str] = []
    answered = 0
    while not played or "fc" in played[-1]:
        played.append(shape(play(loop, answered)))
        answered += played[-1].count("fc")
    assert tuple(played) == LOOPS[loop]


def test_the_same_seed_and_place_give_the_same_turn() -> None:
    """Everything is repeatable, and differs at another place, attempt or seed."""
    turns = {
        perform(
            "parallel",
            cue({"messages": [ASK], "tools": [TOOL]}),
            FAMILIES["gemini"],
            Source(seed, place, number),
            ids="google",
            repeats=False,
        )
        for seed in (b"s", b"t")
        for place in "pq"
        for number in (0, 1)
        for _ in range(2)
    }
    assert len(turns) == 8
    assert len({turn.thought for turn in turns}) == 8
    assert len({turn.calls[0].signature for turn in turns}) == 8


@pytest.mark.parametrize("form", get_args(IdForm))
def test_ids_repeat_only_in_the_forms_that_do(form: IdForm) -> None:
    """Two turns of a counting form have the same ids, and of any other form never."""
    one, other = play("chain", 0, form), play("chain", 1, form)
    is_repeated = one.calls[0].id == other.calls[0].id
    assert is_repeated == (form in {"kimi", "counter", "empty"})


def test_a_repeating_model_says_the_same_in_each_turn() -> None:
    """Only its thoughts differ."""
    body = {"messages": [ASK], "tools": [TOOL]}
    later = {"messages": [ASK, ASK | {"content": "Snow?"}], "tools": [TOOL]}
    one, other = (
        perform(
            "preamble",
            cue(each),
            FAMILIES["kimi"],
            Source(b"s", place, 0),
            ids="kimi",
            repeats=True,
        )
        for each, place in ((body, "p"), (later, "q"))
    )
    said = [(turn.text, turn.calls[0].id, turn.calls[0].arguments) for turn in (one, other)]
    assert said[0] == said[1]
    assert one.thought != other.thought


def test_only_the_first_of_parallel_calls_is_signed() -> None:
    """A signature is standard base64, and belongs to the first call."""
    calls = play("parallel").calls
    assert [bool(call.signature) for call in calls] == [True, False, False]
    assert base64.b64encode(base64.b64decode(calls[0].signature)).decode() == calls[0].signature


def test_arguments_fit_the_schema() -> None:
    """Each argument has a value of its type."""
    assert '"days": 0' in play().calls[0].arguments
    assert '"dry": true' in play().calls[0].arguments


@pytest.mark.parametrize(
    "more", [{"tools": []}, {"tools": [{"type": "web_search"}]}, {"tool_choice": "none"}]
)
def test_without_tools_it_answers_at_once(more: dict[str, Any]) -> None:
    """No function, or none allowed: no call."""
    assert shape(play("chain", **more)) == "R A"


@pytest.mark.parametrize(
    "more",
    [
        {"thinking": {"type": "disabled"}},
        {"enable_thinking": False},
        {"chat_template_kwargs": {"enable_thinking": False}},
        {"reasoning_effort": "none"},
        {"reasoning": {"enabled": False}},
        {"reasoning": {"effort": "none"}},
        {"think": False},
    ],
)
def test_thinking_can_be_switched_off(more: dict[str, Any]) -> None:
    """Each vendor's switch is understood."""
    assert not thinks(more)
    assert shape(play("one_call", **more)) == "fc"


def test_thinking_is_on_unless_it_is_switched_off() -> None:
    """Parameters that ask for thinking, and null, do not switch it off."""
    assert thinks({"thinking": {"type": "enabled"}, "reasoning_effort": "low", "reasoning": None})
