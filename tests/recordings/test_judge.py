"""Judge by atoms: it accepts reasoning where upstream emitted it, and names every other change."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.recordings.adapter import Key, Said
from tests.recordings.chat import Chat
from tests.recordings.client import Take, Variant, take
from tests.recordings.judge import Result, Verdict, judge, unsteady
from tests.recordings.tape import Exchange, Recording

Json = dict[str, Any]
Edit = Callable[[str], str]

CHAT = Chat()
ASK: Json = {"role": "user", "content": "Weather?"}
CALL: Json = {
    "id": "call_0",
    "type": "function",
    "function": {"name": "weather", "arguments": '{"at": "Rome"}'},
}
DONE: Json = {"role": "tool", "tool_call_id": "call_0", "content": "Sun."}
THOUGHT = "I should  look\nit up."
FIRST: Json = {"role": "assistant", "content": None, "tool_calls": [CALL], "reasoning": THOUGHT}
LAST: Json = {"role": "assistant", "content": "Sun.", "reasoning": "Easy."}
BARE: Json = {name: value for name, value in FIRST.items() if name != "reasoning"}
SIGNED_CALL: Json = {**CALL, "extra_content": {"google": {"thought_signature": "c2lnbg=="}}}


def wire(*messages: object) -> bytes:
    """Write a request with odd spacing, so that a re-encoded one differs."""
    inner = " ,\n".join(json.dumps(message) for message in messages)
    return ('{ "model":"m", "messages" : [' + inner + ' ], "n": 1.0e0}').encode()


def answer(message: object) -> bytes:
    """Write a JSON answer."""
    return json.dumps({"choices": [{"message": message, "finish_reason": "stop"}]}).encode()


def recorded(*turns: tuple[bytes, bytes]) -> Recording:
    """Record exchanges of one conversation; each request replays the answers before it."""
    exchanges: list[Exchange] = []
    answers: dict[Key, Said] = {}
    for n, (request, body) in enumerate(turns, 1):
        text = request.decode()
        roles = [CHAT.said(text[at.start : at.end]).role for at in CHAT.spans(text)]
        at = [n for n, role in enumerate(roles) if role == "model"]
        said = CHAT.answers(body, is_stream=False)
        origins = {place: (n, 0) for n, place in enumerate(at, 1) if (n, 0) in answers}
        rest: tuple[Any, ...] = ({}, 200, "", "", body, "full", 1, said, origins)
        exchanges.append(Exchange("tape", n, "", "", request, *rest))
        answers |= {(n, number): one for number, one in said.items()}
    return Recording("tape", "oracle", "test", "generic", tuple(exchanges), answers)


def played(client: object, upstream: object = FIRST, *, n: int = 2) -> Take:
    """Return how a client that drops reasoning plays a request, recorded with this message."""
    tape = recorded(
        (wire(ASK), answer(upstream)),
        (wire(ASK, client, DONE), answer(LAST)),
        (wire(ASK, client, DONE, LAST, ASK), answer(LAST)),
    )
    return take(CHAT, tape, tape.exchanges[n - 1], Variant.DROPPED)


def without(message: Json, *names: str) -> Json:
    """Return a message without some of its members."""
    return {name: value for name, value in message.items() if name not in names}


def arrived(*messages: object) -> Verdict:
    """Judge a received body of a client that dropped `reasoning`."""
    return judge(CHAT, played(FIRST), wire(*messages))


@pytest.mark.parametrize(
    ("messages", "result"),
    [
        pytest.param([ASK, FIRST, DONE], Result.INJECTED, id="as emitted"),
        pytest.param([ASK, {"reasoning": THOUGHT, **BARE}, DONE], Result.INJECTED, id="in front"),
        pytest.param([ASK, BARE, DONE], Result.LACKING, id="nothing"),
        pytest.param([ASK, {**BARE, "reasoning": "Easy."}, DONE], Result.WRONG, id="other turn"),
        pytest.param([ASK, {**BARE, "reasoning": "New."}, DONE], Result.WRONG, id="made up"),
        pytest.param([ASK, {**BARE, "reasoning": THOUGHT[1:]}, DONE], Result.WRONG, id="in part"),
        pytest.param(
            [ASK, {**BARE, "reasoning": " ".join(THOUGHT.split())}, DONE],
            Result.WRONG,
            id="re-spaced",
        ),
        pytest.param(
            [ASK, {**BARE, "reasoning_content": THOUGHT}, DONE], Result.WRONG, id="other field"
        ),
        pytest.param([ASK, {**FIRST, "note": 1}, DONE], Result.WRONG, id="no reasoning"),
        pytest.param(
            [ASK, {**BARE, "tool_calls": [{**CALL, "reasoning": THOUGHT}]}, DONE],
            Result.WRONG,
            id="in the call",
        ),
        pytest.param([{**ASK, "reasoning": THOUGHT}, BARE, DONE], Result.WRONG, id="too early"),
        pytest.param([ASK, BARE, {**DONE, "reasoning": THOUGHT}], Result.WRONG, id="too late"),
        pytest.param([ASK, FIRST, FIRST, DONE], Result.WRONG, id="message added"),
        pytest.param([ASK, FIRST], Result.WRONG, id="message lost"),
        pytest.param([DONE, FIRST, ASK], Result.WRONG, id="another order"),
        pytest.param([ASK, {**FIRST, "content": ""}, DONE], Result.WRONG, id="content changed"),
        pytest.param([ASK, without(FIRST, "content"), DONE], Result.WRONG, id="member lost"),
        pytest.param([ASK, {**FIRST, "tool_calls": []}, DONE], Result.WRONG, id="call lost"),
    ],
)
def test_the_received_messages_are_judged(messages: list[object], result: Result) -> None:
    """Only the emitted reasoning counts as injected; all that a proxy must never do is wrong."""
    assert arrived(*messages).result is result


@pytest.mark.parametrize(
    "edit",
    [
        pytest.param(lambda text: text.replace("{ ", "{"), id="space lost"),
        pytest.param(lambda text: text.replace("1.0e0", "1.0"), id="number re-encoded"),
        pytest.param(lambda text: text.replace('"m"', '"n"'), id="field changed"),
        pytest.param(lambda text: text.replace('"id": "call_0"', '"id":"call_0"'), id="in a call"),
        pytest.param(lambda text: text[:-9], id="cut short"),
    ],
)
def test_all_other_bytes_are_the_clients(edit: Edit) -> None:
    """Any other difference is a fault, even a single space."""
    assert arrived(ASK, FIRST, DONE).result is Result.INJECTED

    body = edit(wire(ASK, FIRST, DONE).decode()).encode()

    assert judge(CHAT, played(FIRST), body).result is Result.WRONG


def test_a_signature_belongs_to_its_call() -> None:
    """A signature is right at the call that upstream signed, and wrong at another."""
    second = {**CALL, "id": "call_1"}
    signed = {**BARE, "tool_calls": [SIGNED_CALL, second]}
    swapped = {
        **BARE,
        "tool_calls": [CALL, {**second, "extra_content": SIGNED_CALL["extra_content"]}],
    }
    this = played(signed, signed)

    assert judge(CHAT, this, wire(ASK, signed, DONE)).result is Result.INJECTED
    assert judge(CHAT, this, wire(ASK, swapped, DONE)).result is Result.WRONG


@pytest.mark.parametrize(
    ("second", "third", "fault"),
    [
        pytest.param(FIRST, FIRST, "", id="twice"),
        pytest.param(BARE, BARE, "", id="never"),
        pytest.param(BARE, FIRST, "late", id="late"),
        pytest.param(FIRST, BARE, "not again", id="not again"),
    ],
)
def test_late_injections_are_named(second: object, third: object, fault: str) -> None:
    """Each later request of a conversation must get what the first one got."""
    takes = [played(FIRST, n=2), played(FIRST, n=3)]
    bodies = [wire(ASK, second, DONE), wire(ASK, third, DONE, without(LAST, "reasoning"), ASK)]
    verdicts = [judge(CHAT, this, body) for this, body in zip(takes, bodies, strict=True)]
    found = unsteady(zip(takes, verdicts, strict=True))

    assert [one.split(": ")[2] for one in found] == ([fault] if fault else [])
