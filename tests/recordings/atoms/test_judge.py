"""Judge by atoms: it accepts reasoning where upstream emitted it, and names every other change."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.recordings.atoms.chat import Chat
from tests.recordings.atoms.client import Take, Variant, take
from tests.recordings.atoms.judge import Note, Result, Verdict, judge, unsteady
from tests.recordings.atoms.tape import Exchange, Recording

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
SIGNED: Json = {
    **FIRST,
    "reasoning_details": [
        {"type": "reasoning.text", "text": THOUGHT, "index": 0, "format": "x"},
        {"type": "reasoning.encrypted", "data": "gAAAA", "index": 1, "id": "rs_1"},
    ],
}
SIGNED_CALL: Json = {**CALL, "extra_content": {"google": {"thought_signature": "c2lnbg=="}}}


def wire(*messages: object) -> bytes:
    """Write a request with odd spacing, so that a re-encoded one differs."""
    inner = " ,\n".join(json.dumps(message) for message in messages)
    return ('{ "model":"m", "messages" : [' + inner + ' ], "n": 1.0e0}').encode()


def answer(message: object) -> bytes:
    """Write a JSON answer."""
    return json.dumps({"choices": [{"message": message, "finish_reason": "stop"}]}).encode()


def stream(*deltas: object, ends: bool = True) -> bytes:
    """Write a streamed answer, with a comment and blank lines that carry nothing."""
    choices = [{"index": 0, "delta": delta} for delta in deltas]
    choices += [{"index": 0, "delta": {}, "finish_reason": "stop"}] if ends else []
    lines = [f"data: {json.dumps({'choices': [choice]})}" for choice in choices]
    return "\n\n".join([": WAIT", *lines, "data: [DONE]", ""]).encode()


def recorded(*turns: tuple[bytes, bytes], is_stream: bool = False) -> Recording:
    """Record exchanges of one conversation; each request replays the answers before it."""
    exchanges: list[Exchange] = []
    answers = {}
    for n, (request, body) in enumerate(turns, 1):
        text = request.decode()
        roles = [CHAT.said(text[at.start : at.end]).role for at in CHAT.spans(text)]
        at = [n for n, role in enumerate(roles) if role == "model"]
        said = CHAT.answer(body, is_stream=is_stream)
        origins = {place: which for which, place in enumerate(at, 1) if which in answers}
        rest: tuple[Any, ...] = ({}, 200, "", "", body, "full", 1, said, origins)
        exchanges.append(Exchange("tape", n, "", "", request, *rest))
        if said is not None:
            answers[n] = said
    return Recording("tape", "oracle", "test", "generic", tuple(exchanges), answers)


def played(
    client: object,
    upstream: object = FIRST,
    *,
    is_stream: bool = False,
    n: int = 2,
    variant: Variant = Variant.DROPPED,
) -> Take:
    """Return how a client plays a request that replays one message, recorded as given."""
    body = upstream if isinstance(upstream, bytes) else answer(upstream)
    tape = recorded(
        (wire(ASK), body),
        (wire(ASK, client, DONE), answer(LAST)),
        (wire(ASK, client, DONE, LAST, ASK), answer(LAST)),
        is_stream=is_stream,
    )
    return take(CHAT, tape, tape.exchanges[n - 1], variant)


def without(message: Json, *names: str) -> Json:
    """Return a message without some of its members."""
    return {name: value for name, value in message.items() if name not in names}


def arrived(*messages: object) -> Verdict:
    """Judge a received body of a client that dropped `reasoning`."""
    return judge(CHAT, played(FIRST), wire(*messages))


def test_the_client_drops_reasoning_and_no_other_byte() -> None:
    """The client sends the recorded request without its reasoning, spacing kept."""
    assert played(FIRST).body == wire(ASK, without(FIRST, "reasoning"), DONE)


def test_the_client_may_cut_the_head() -> None:
    """Without the messages before the model's first, the same reasoning is lacking."""
    this = played(FIRST, variant=Variant.HEAD_CUT)

    assert json.loads(this.body)["messages"] == [BARE, DONE]
    assert judge(CHAT, this, wire(FIRST, DONE)).result is Result.INJECTED


def test_the_client_keeps_reasoning_that_no_answer_emitted() -> None:
    """A member with reasoning from elsewhere stays, and that message lacks nothing."""
    this = played({**FIRST, "reasoning": "Of another model."})

    assert this.body == wire(ASK, {**FIRST, "reasoning": "Of another model."}, DONE)
    assert (dict(this.lacks), this.kept) == ({}, frozenset({1}))


@pytest.mark.parametrize(
    ("messages", "result"),
    [
        pytest.param([ASK, FIRST, DONE], Result.INJECTED, id="as emitted"),
        pytest.param([ASK, {"reasoning": THOUGHT, **BARE}, DONE], Result.INJECTED, id="in front"),
        pytest.param([ASK, BARE, DONE], Result.UNTOUCHED, id="nothing"),
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


def test_an_unchanged_body_is_untouched() -> None:
    """The client's own bytes are never wrong, and name what is missing."""
    this = played(FIRST)
    verdict = judge(CHAT, this, this.body)

    assert (verdict.result, verdict.missing) == (
        Result.UNTOUCHED,
        [f"message 1: reasoning ({len(THOUGHT)})"],
    )


def test_a_null_may_be_filled() -> None:
    """A member that the client sends as `null` may get the emitted value."""
    this = played({**FIRST, "reasoning_details": None}, SIGNED)
    value = json.dumps(SIGNED["reasoning_details"]).encode()
    filled = this.body.replace(b'"reasoning_details": null', b'"reasoning_details": ' + value)

    assert filled != this.body
    assert judge(CHAT, this, filled).wrong == []


@pytest.mark.parametrize(
    "client",
    [
        pytest.param({**BARE, "content": f"<think>{THOUGHT}</think>"}, id="think"),
        pytest.param(
            {
                **BARE,
                "content": [{"type": "thinking", "thinking": [{"type": "text", "text": THOUGHT}]}],
            },
            id="chunks",
        ),
    ],
)
def test_a_message_with_reasoning_in_its_text_is_left_alone(client: Json) -> None:
    """Where the client sends reasoning in the visible text, an injection is wrong."""
    this = played(client)
    added = {**client, "reasoning_details": [{"type": "reasoning.text", "text": THOUGHT}]}

    assert this.is_held
    assert judge(CHAT, this, this.body).result is Result.NOTHING_TO_DO
    assert judge(CHAT, this, wire(ASK, added, DONE)).result is Result.WRONG


@pytest.mark.parametrize(
    ("client", "added", "is_right"),
    [
        pytest.param({"reasoning": ""}, {"reasoning": THOUGHT}, True, id="empty"),
        pytest.param({"reasoning": ""}, {"reasoning": "New."}, False, id="made up"),
        pytest.param({"reasoning": "Mine."}, {"reasoning": THOUGHT}, False, id="replaced"),
        pytest.param({"reasoning": THOUGHT[3:]}, {"reasoning": THOUGHT}, True, id="torn"),
        pytest.param({"reasoning": THOUGHT[3:]}, {"reasoning": THOUGHT[2:]}, False, id="not whole"),
        pytest.param({"reasoning_content": "Mine."}, {"reasoning": THOUGHT}, True, id="other name"),
        pytest.param(
            {"reasoning": "Mine."}, {"reasoning_content": THOUGHT}, False, id="not emitted so"
        ),
    ],
)
def test_a_member_that_the_client_lacks_may_be_added(
    client: Json, added: Json, *, is_right: bool
) -> None:
    """It is what upstream emitted under that name; what the client sends itself must stay."""
    this = played({**BARE, **client})

    assert not judge(CHAT, this, this.body).wrong
    assert (not judge(CHAT, this, wire(ASK, {**BARE, **client, **added}, DONE)).wrong) is is_right


@pytest.mark.parametrize(
    ("client", "upstream", "notes"),
    [
        pytest.param(FIRST, FIRST, set(), id="as sent"),
        pytest.param({**FIRST, "reasoning": THOUGHT.strip() + "\n"}, FIRST, set(), id="re-spaced"),
        pytest.param({**BARE, "reasoning_content": THOUGHT}, FIRST, {Note.OTHER_FIELD}, id="moved"),
        pytest.param(
            {**FIRST, "reasoning_content": THOUGHT}, FIRST, {Note.OTHER_FIELD}, id="doubled"
        ),
        pytest.param({**BARE, "reasoning": THOUGHT[4:]}, FIRST, {Note.LONGER}, id="start lost"),
        pytest.param(
            {**BARE, "reasoning_details": SIGNED["reasoning_details"][1:]},
            SIGNED,
            {Note.MORE},
            id="text dropped",
        ),
        pytest.param(FIRST, SIGNED, {Note.MORE}, id="ciphertext dropped"),
        pytest.param(
            without(SIGNED, "reasoning"), SIGNED, {Note.ALSO_THERE}, id="one copy dropped"
        ),
        pytest.param(BARE, FIRST, {Note.MORE}, id="all dropped"),
    ],
)
def test_differences_from_the_recorded_client_are_noted(
    client: Json, upstream: Json, notes: set[Note]
) -> None:
    """What upstream emitted is right, and noted where the client once sent something else."""
    verdict = judge(CHAT, played(client, upstream), wire(ASK, upstream, DONE))

    assert (verdict.result, verdict.notes) == (Result.INJECTED, notes)


def test_a_part_is_not_all() -> None:
    """A text without the ciphertext that the client once sent with it is only a part."""
    verdict = judge(CHAT, played(SIGNED, SIGNED), wire(ASK, FIRST, DONE))

    assert (verdict.result, verdict.missing) == (
        Result.PARTLY,
        ["message 1: reasoning_details.data (5)"],
    )


@pytest.mark.parametrize(
    ("details", "is_right"),
    [
        pytest.param(SIGNED["reasoning_details"], True, id="as emitted"),
        pytest.param(SIGNED["reasoning_details"][::-1], False, id="another order"),
        pytest.param(
            [{**SIGNED["reasoning_details"][0], "format": "y"}, SIGNED["reasoning_details"][1]],
            False,
            id="changed member",
        ),
        pytest.param(
            [SIGNED["reasoning_details"][0], {**SIGNED["reasoning_details"][1], "data": "gBBBB"}],
            False,
            id="changed ciphertext",
        ),
    ],
)
def test_values_of_a_json_answer_arrive_as_they_are(
    details: list[object], *, is_right: bool
) -> None:
    """Entries of an array keep their order and their bytes."""
    body = wire(ASK, {**FIRST, "reasoning_details": details}, DONE)

    assert (not judge(CHAT, played(SIGNED, SIGNED), body).wrong) is is_right


def test_a_re_encoded_value_of_a_json_answer_is_wrong() -> None:
    """The bytes of a value from a JSON answer are kept, escapes included."""
    spelled = {**FIRST, "reasoning": "Caf\u00e9."}
    body = wire(ASK, spelled, DONE)

    assert judge(CHAT, played(spelled, spelled), body).result is Result.INJECTED
    decoded = body.replace(b"Caf\\u00e9", "Caf\u00e9".encode())
    assert judge(CHAT, played(spelled, spelled), decoded).wrong


def test_a_stream_is_joined() -> None:
    """Fragments of one index and type are one text, merged or not; a call is joined by index."""
    fragments = [
        {"type": "reasoning.text", "text": "I should  ", "index": 0},
        {"type": "reasoning.text", "text": "look\nit up.", "index": 0, "format": "x"},
        {"type": "reasoning.text", "signature": "c2ln", "index": 0},
    ]
    deltas = [
        {"role": "assistant", "reasoning": THOUGHT[:5], "reasoning_details": fragments[:1]},
        {"reasoning": THOUGHT[5:], "reasoning_details": fragments[1:]},
        {"tool_calls": [{**SIGNED_CALL, "index": 0, "function": {"name": "weather"}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"at": '}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '"Rome"}'}}]},
    ]
    merged = [
        {"type": "reasoning.text", "text": THOUGHT, "index": 0, "format": "x", "signature": "c2ln"}
    ]
    sent = {**FIRST, "tool_calls": [SIGNED_CALL], "reasoning_details": merged}
    this = played(sent, stream(*deltas), is_stream=True)

    for details in (merged, fragments):
        body = wire(ASK, {**sent, "reasoning_details": details}, DONE)
        assert judge(CHAT, this, body).wrong == []
        assert judge(CHAT, this, body).result is Result.INJECTED
    forged = [{**merged[0], "id": "rs_9"}]
    assert judge(CHAT, this, wire(ASK, {**sent, "reasoning_details": forged}, DONE)).wrong


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(stream({"reasoning": THOUGHT, "content": "Hi"}, ends=False), id="cut"),
        pytest.param(stream({"content": "Hi"}) + b'data: {"error":{"code":400}}\n\n', id="error"),
    ],
)
def test_a_stream_that_failed_is_no_answer(body: bytes) -> None:
    """Reasoning of a stream without a finish reason, or with an error, is of no turn."""
    assert CHAT.answer(body, is_stream=True) is None


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
