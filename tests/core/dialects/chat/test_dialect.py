"""Dialect: what the Chat Completions API gives to the engine."""

from reasoning_replay.core.dialects.base import Cure
from reasoning_replay.core.dialects.chat.heal.diagnosis import Diagnosis, RefusalKind
from reasoning_replay.core.dialects.states import RequestState
from reasoning_replay.core.history.plan import ItemForm

from tests.core.dialects.chat.chats import (
    Chats,
    assistant,
    body_of,
    tool,
    user,
)
from tests.core.dialects.chat.streams import MODEL
from tests.core.dialects.tenant import CALLER

ASK, GO = user("What is the weather in Paris?"), user("Go on")
SAID = assistant("It is sunny in Paris, and warm.")
LATER = [ASK, SAID, GO]


def learned(chats: Chats) -> Chats:
    """Return the chats after one response."""
    chats.learn([ASK], SAID | {"reasoning_content": "Hm"})
    return chats


def test_a_request_is_decided_on() -> None:
    """The decision has the body, the counts, the summary, and the origin of the response."""
    chats = learned(Chats())
    body = body_of(LATER)
    decided = chats.decide(body)

    assert decided.state is RequestState.PLANNED
    assert decided.body == body.replace(b'warm."', b'warm.","reasoning_content":"Hm"')
    assert decided.injected_bytes == len('"reasoning_content":"Hm"')
    assert decided.summary is not None
    assert decided.summary.total == 3
    assert decided.origin is not None
    (turn,) = chats.store.turns.values()
    assert (decided.origin.parent, decided.origin.stores) == (turn.id, False)


def test_fillers_stand_beside_what_is_injected() -> None:
    """A tenant whose upstream wants reasoning in each message: known as it was, else the filler."""
    chats = learned(Chats())
    lacks = Diagnosis(RefusalKind.LACKS_REASONING, "reasoning_content")
    chats.engine.learn(CALLER.scope, lacks, Cure(b"", degraded=1), MODEL)
    calls = [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
    unknown = assistant("Of another vendor.", tool_calls=calls)
    bare = [*LATER, unknown, tool("7", "c")]

    sent = chats.send(bare)

    assert sent[1] == SAID | {"reasoning_content": "Hm"}
    assert sent[3] == unknown | {"reasoning_content": ""}
    assert chats.decide(body_of(bare)).forms == {ItemForm.DEGRADED: 1}
