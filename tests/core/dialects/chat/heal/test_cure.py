"""Cures: the least edit that answers a refusal; nothing is invented unless the operator allows."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from reasoning_replay.adapters.stores.contract.turns import turn as any_turn
from reasoning_replay.core.dialects.base import Cure
from reasoning_replay.core.dialects.chat.heal.cure import RefusedChat
from reasoning_replay.core.dialects.chat.heal.diagnosis import Diagnosis, RefusalKind
from reasoning_replay.core.dialects.chat.members import reasoning_of
from reasoning_replay.core.dialects.chat.request import ChatRequest, read_request
from reasoning_replay.core.history.plan import Plan
from reasoning_replay.core.history.turns import Emitted, Turn
from reasoning_replay.core.wire.json_spans import Edit

from tests.core.dialects.chat.heal.requests import (
    ASK,
    ENCRYPTED,
    RESULT,
    SIGNED,
    Json,
    body,
    call,
    message,
    read,
    result,
)

NO_TEXT = Diagnosis(RefusalKind.FIELD, refused=frozenset({"reasoning_content"}))
BLOB = Diagnosis(RefusalKind.BLOB)
QUOTES = Diagnosis(RefusalKind.BLOB, quoted=frozenset({"Es4DCss"}))
REFUSALS = {
    "lacks text": Diagnosis(RefusalKind.LACKS_REASONING, "reasoning_content"),
    "lacks signature": Diagnosis(RefusalKind.LACKS_REASONING, "extra_content"),
    "lacks details": Diagnosis(RefusalKind.LACKS_REASONING, "reasoning_details"),
    "no text": NO_TEXT,
    "blob": BLOB,
    "blob signed": QUOTES,
    "input": Diagnosis(RefusalKind.INPUT),
}
OTHER = {"google": {"thought_signature": "EvcDCvQDAb4"}}
SKIP = {"google": {"thought_signature": "skip_thought_signature_validator"}}
MEMBERS: dict[str, Json] = {
    "text": {"reasoning_content": "I look."},
    "empty": {"reasoning_content": ""},
    "other": {"reasoning": "b"},
    "details": {"reasoning_details": ENCRYPTED},
}
OF_CALLS = {"signed": SIGNED, "signed2": OTHER, "skip": SKIP}


def chat(text: str) -> list[Json]:
    """Return the messages that a cell describes."""
    made: list[Json] = []
    for token in text.split():
        name, *more = token.split("+")
        members = {key: value for word in more for key, value in MEMBERS.get(word, {}).items()}
        signed = [{"extra_content": OF_CALLS[word]} for word in more if word in OF_CALLS]
        if name == "u":
            made.append(ASK)
        elif name == "m":
            made.append(message(content="Hi", **members))
        elif name[0] == "o":
            made.append(result(int(name[1:])))
        else:
            calls = [
                call(int(n), **(signed[0] if signed and not at else {}))
                for at, n in enumerate(name[1:])
            ]
            made.append(message(*calls, **members))
    return made


def maybe_cured(
    diagnosis: Diagnosis,
    sent: Sequence[Json],
    given: Sequence[Json],
    *,
    planned: Sequence[Json] = (),
    turns: Sequence[Turn] = (),
    fills: bool = False,
) -> Cure | None:
    """Return the cure of a refused request; None if the refusal is passed on."""
    theirs = read(*given)
    ours = theirs if sent is given else read(*sent)
    plan = Plan((Edit(0, len(theirs.body), body(*planned)),)) if planned else Plan()
    return RefusedChat(ours, theirs, diagnosis, plan=plan, turns=turns, fills=fills).cure()


def cured(diagnosis: Diagnosis, sent: Sequence[Json], given: Sequence[Json], **more: Any) -> Cure:
    """Return the cure of a refused request that has one."""
    found = maybe_cured(diagnosis, sent, given, **more)
    assert found is not None
    return found


_LINES = Path(__file__).with_name("cures.md").read_text().splitlines()
ROWS = [
    pytest.param(*cells[1:], id=cells[0])
    for line in _LINES
    if line.startswith("| ") and not line.startswith("| case ")
    for cells in [[cell.strip() for cell in line.split("|")[1:-1]]]
]


@pytest.mark.parametrize(("client", "refused", "known", "refusal", "want"), ROWS)
def test_a_refused_chat_is_cured(
    client: str, refused: str, known: str, refusal: str, want: str
) -> None:
    """The retry has the messages of the table, byte for byte, or the refusal is passed on."""
    given = chat(client)
    sent = chat(refused) if refused else given
    name, fills = re.subn(" fills$", "", refusal)
    found = maybe_cured(REFUSALS[name], sent, given, planned=chat(known), fills=bool(fills))
    if want == "(refused)":
        assert found is None
        return
    assert found is not None
    messages, _, counts = want.partition("; ")
    assert json.loads(found.body)["messages"] == json.loads(body(*chat(messages)))["messages"]
    numbers = {"injected": found.injected, "degraded": found.degraded, "lost": len(found.lost)}
    told = ["own"] * found.is_clients_own + [f"{key}={n}" for key, n in numbers.items() if n]
    assert " ".join(told) == counts
    assert found.withheld == ()
    assert not found.is_clients_own or found.body == body(*given)


def test_injected_bytes_are_those_of_what_stays() -> None:
    """With the name of the member."""
    bare, both = chat("u c1 o1"), chat("u c1+text+other o1")
    found = cured(REFUSALS["lacks text"], bare, bare, planned=chat("u c1+text o1"))
    assert found.injected_bytes == len('"reasoning_content":"I look."')
    assert cured(NO_TEXT, both, bare).injected_bytes == len('"reasoning":"b"')


def signed_turn() -> Turn:
    """Return a stored turn with a signed call."""
    part = reasoning_of("extra_content", json.dumps(SIGNED).encode(), is_of_call=True)
    assert part is not None
    item = Emitted("function_call", "", "call_1", "look_up", b"content", (part,))
    return structs.replace(any_turn("t", "c"), items=(item,))


def test_an_injected_signature_that_is_refused_is_taken_out_and_remembered() -> None:
    """Text stays; for an hour, the turn is not injected with this signature."""
    sent = [ASK, message(call(1, extra_content=SIGNED), reasoning_content="a"), RESULT]
    left = [ASK, message(call(1), reasoning_content="a"), RESULT]
    stored, other = signed_turn(), any_turn("u", "c")
    found = cured(BLOB, sent, [ASK, message(call(1)), RESULT], turns=[stored, other])
    assert found.body == body(*left)
    assert found.lost == frozenset(stored.items[0].run[0].blobs)
    assert found.withheld == ()  # another one may be the cause
    assert found.injected == 1


def test_an_injected_signature_that_is_quoted_is_withheld_for_good() -> None:
    """Only the quoted one is taken out, and its turn is marked in the store."""
    sent = chat("u c1+signed o1 c2+signed2")
    given = chat("u c1 o1 c2")
    stored, foreign = signed_turn(), any_turn("u", "c")
    found = cured(QUOTES, sent, given, turns=[stored, foreign])
    assert found.body == body(*given[:3], sent[3])
    assert found.withheld == (stored,)
    assert found.lost == frozenset(stored.items[0].run[0].blobs)


def test_a_message_that_cannot_be_edited_stays() -> None:
    """Parsers could disagree on it, so nothing was injected there either."""
    odd = b'{"role":"assistant","role":"assistant","reasoning_content":"x"}'

    def request(raw: bytes) -> ChatRequest:
        return read_request(b'{"model":"m","messages":[' + odd + b"," + raw + b"]}", {})

    sent = request(b'{"reasoning_content":"a","role":"assistant","content":"b"}')
    given = request(b'{"role":"assistant","content":"b"}')
    found = RefusedChat(sent, given, NO_TEXT, plan=Plan(), turns=()).cure()
    assert found is not None
    assert found.body == given.body
    # A message that the client sent in that form was never edited.
    swapped = RefusedChat(given, request(odd), NO_TEXT, plan=Plan(), turns=()).cure()
    assert swapped is None


@pytest.mark.parametrize("kind", RefusalKind)
def test_a_cure_always_differs_from_the_refused_request(kind: RefusalKind) -> None:
    """The same request again would be refused again."""
    names = frozenset({"reasoning_content"})
    for sent in map(chat, ("u c1+text o1 c2+text o2", "u c1 o1 c2 o2", "u c1+signed o1")):
        for given in map(chat, ("u c1 o1 c2 o2", "u c1 o1")):
            if len(sent) == len(given):
                found = maybe_cured(
                    Diagnosis(kind, "extra_content", names), sent, given, fills=True
                )
                assert found is None or found.body != body(*sent)
