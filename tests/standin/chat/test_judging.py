"""Each state that a piece of reasoning can be in, and that no other is reported."""

from typing import Any

import pytest

from tests.standin.chat.answers import due
from tests.standin.chat.families import FAMILIES
from tests.standin.chat.messages import CHAT, places
from tests.standin.common.judging import judge
from tests.standin.common.ledger import Ledger

Message = dict[str, Any]

MODEL = "deepseek-v4-flash"
ASK: Message = {"role": "user", "content": "Rain?"}
AGAIN: Message = {"role": "user", "content": "Snow?"}
RESULT: Message = {"role": "tool", "tool_call_id": "x", "content": "7 degrees"}


def call(city: str, **more: Any) -> Message:
    """Return an assistant message with a call."""
    function = {"name": "look", "arguments": f'{{"city": "{city}"}}'}
    return {"role": "assistant", "content": None, "tool_calls": [{"function": function}], **more}


FIRST = call("Oslo", reasoning_content="Think one.")
SECOND = call("Oslo", reasoning_content="Think two.")
EMPTY: Message = {"role": "assistant", "content": "Nothing.", "reasoning_content": ""}


def emit(ledger: Ledger, history: list[Message], made: Message, **more: str) -> None:
    """Record that a message was emitted after a history."""
    caller, model = more.get("caller", "a"), more.get("model", MODEL)
    *_, place = places(caller, history)
    ledger.record(due(FAMILIES["deepseek"], model, caller, place, made))


@pytest.fixture
def ledger() -> Ledger:
    """Two steps that look alike, an answer that the model gave without thinking, another caller."""
    ledger = Ledger()
    emit(ledger, [ASK], FIRST)
    emit(ledger, [ASK, FIRST, RESULT], SECOND)
    emit(ledger, [ASK, FIRST, RESULT, SECOND, RESULT], EMPTY)
    emit(ledger, [AGAIN], call("Bergen", reasoning_content="Of another."), caller="b")
    return ledger


def states(ledger: Ledger, *messages: Message, model: str = MODEL) -> list[str]:
    """Return the states of all findings, in order."""
    return [one.state for one in judge(CHAT, "a", model, messages, ledger)]


BARE = call("Oslo")


@pytest.mark.parametrize(
    ("messages", "want"),
    [
        pytest.param([ASK, FIRST, RESULT, SECOND], ["equal", "equal"], id="replayed"),
        pytest.param([ASK, BARE, RESULT, BARE], ["missing", "missing"], id="dropped"),
        pytest.param([ASK, SECOND, RESULT, FIRST], ["wrong", "wrong"], id="exchanged"),
        pytest.param([ASK, FIRST, RESULT, FIRST], ["equal", "wrong"], id="twice"),
        pytest.param(
            [ASK, call("Oslo", reasoning_content="think one.")], ["wrong"], id="one-letter"
        ),
        pytest.param([ASK, call("Oslo", reasoning_content="")], ["filler"], id="filler"),
        pytest.param([ASK, call("Rome")], [], id="never-emitted"),
        pytest.param([ASK, call("Rome", reasoning_content="Mine.")], ["foreign"], id="foreign"),
        pytest.param([ASK, call("Rome", reasoning_content="")], ["filler"], id="foreign-filler"),
        pytest.param(
            [ASK, call("Rome", reasoning_content="Think one.")], ["wrong"], id="put-elsewhere"
        ),
        pytest.param(
            [AGAIN, call("Bergen", reasoning_content="Of another.")], ["wrong"], id="leaked"
        ),
        pytest.param([ASK | {"content": "Hi"}, FIRST], ["equal"], id="history-was-rewritten"),
        pytest.param([AGAIN, BARE], ["missing"], id="dropped-elsewhere"),
    ],
)
def test_each_state(ledger: Ledger, messages: list[Message], want: list[str]) -> None:
    """A value counts as equal only in the message that it was emitted for."""
    assert states(ledger, *messages) == want


def test_an_emitted_empty_text_is_due(ledger: Ledger) -> None:
    """A turn that the vendor marked as thought through without words must keep its mark."""
    before = [ASK, FIRST, RESULT, SECOND, RESULT]
    bare = {"role": "assistant", "content": "Nothing."}
    assert states(ledger, *before, EMPTY) == ["equal", "equal", "equal"]
    assert states(ledger, *before, bare) == ["equal", "equal", "missing"]


def test_another_model_is_reported(ledger: Ledger) -> None:
    """Reasoning of one model in a request to another is neither equal nor wrong."""
    assert states(ledger, ASK, FIRST, model="kimi-k3") == ["other_model"]


def test_signatures_follow_their_call(ledger: Ledger) -> None:
    """A client that splits parallel calls moves the signature with its call, and nowhere else."""
    signed = {"extra_content": {"google": {"thought_signature": "UyE="}}}
    oslo, rome = call("Oslo")["tool_calls"][0], call("Rome")["tool_calls"][0]
    both: Message = {"role": "assistant", "content": None, "tool_calls": [rome | signed, oslo]}
    emit(ledger, [AGAIN], both)

    def sent(*calls: Message) -> Message:
        return both | {"tool_calls": list(calls)}

    assert states(ledger, AGAIN, both) == ["equal"]
    assert states(ledger, AGAIN, sent(oslo, rome | signed)) == ["equal"]
    assert states(ledger, AGAIN, sent(rome | signed)) == ["equal"]
    assert states(ledger, AGAIN, sent(rome, oslo | signed)) == ["wrong", "missing"]
