"""Random histories, and the requests that clients send from them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st
from reasoning_replay.core.dialects.responses.heal.diagnosis import Diagnosis, Form, RefusalKind

from tests.core.dialects.responses.heal.played import ASK, hollow, reference
from tests.core.world import (
    Item,
    World,
    body,
    drawn,
    emitted,
    nameless,
    output,
    user,
)

SHAPES = ["R C", "R C C", "C", "R M", "M", "R M C", "R R C", "R W R C", "R C R C", "R W R M", "S"]
STATEFUL = {"previous_response_id": f"resp_{drawn(1)}"}
# What a request has in addition to its input.
MORE: list[dict[str, Any]] = [
    {},
    {"store": True},
    {"store": False},
    {"model": "o4-mini"},
    {"store": False, **STATEFUL},
]


@dataclass
class History:
    """
    A history of a conversation, and a store that captured parts of it.

    Attributes:
        items: All items, as an honest client sends them.
        emitted: The items that upstream emitted.
        outputs: The same, by response.
        ends: Number of items before each turn.
        world: A store that captured some of the turns.
    """

    items: list[Item] = field(default_factory=lambda: [ASK])
    emitted: list[Item] = field(default_factory=list)
    outputs: list[list[Item]] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    world: World = field(default_factory=World)


def history_of(tape: list[tuple[str, bool]]) -> History:
    """Play a conversation: for each turn, the shape of its output and whether it is captured."""
    history = History()
    for turn, (shape, is_captured) in enumerate(tape):
        items = emitted(shape, f"{turn}")
        if is_captured:
            history.world.learn(body(history.items), items)
        history.items += items
        history.emitted += items
        history.outputs.append(items)
        history.ends.append(len(history.items) - len(items))
        calls = [item for item in items if "call_id" in item]
        history.items += [output(item, f"{turn}") for item in calls] or [user(f"Go on, {turn}.")]
    return history


tapes = st.lists(st.tuples(st.sampled_from(SHAPES), st.booleans()), min_size=1, max_size=5)
histories = tapes.map(history_of)


def _with_bad_id(item: Item) -> Item:
    return {**item, "id": "call 1"}


def _refilled(item: Item) -> Item:
    return {**item, "status": None, "content": [{"type": "reasoning_text", "text": "Hm."}]}


_CHANGES: list[Callable[[Item], Item]] = [nameless, hollow, _with_bad_id, reference, _refilled]
_PLACES = st.integers(0, 40)
_OPERATIONS = st.lists(
    st.tuples(st.sampled_from(["drop", "copy", "move", "change"]), _PLACES, _PLACES), max_size=6
)


def changed(items: list[Item], operations: list[tuple[str, int, int]]) -> list[Item]:
    """Return what a client sends of a history: items dropped, copied, moved and changed."""
    sent = list(items)
    for what, here, there in operations:
        if not sent:
            break
        n, to = here % len(sent), there % len(sent)
        match what:
            case "drop":
                del sent[n]
            case "copy":
                sent.insert(to, dict(sent[n]))
            case "move":
                sent.insert(to, sent.pop(n))
            case _ if "id" in sent[n]:
                sent[n] = _CHANGES[there % len(_CHANGES)](sent[n])
    return sent


@st.composite
def requests(draw: st.DrawFn) -> tuple[History, list[Item], dict[str, Any]]:
    """Draw a history, the items that a client sends of it, and the other fields of its request."""
    history = draw(histories)
    return history, changed(history.items, draw(_OPERATIONS)), draw(st.sampled_from(MORE))


@st.composite
def later_faults(
    draw: st.DrawFn,
) -> tuple[tuple[History, list[Item], dict[str, Any]], int]:
    """Draw a request of which only the items from a turn on are changed, and their number."""
    history = draw(histories)
    end = draw(st.sampled_from(history.ends))
    sent = [*history.items[:end], *changed(history.items[end:], draw(_OPERATIONS))]
    return (history, sent, draw(st.sampled_from(MORE[:3]))), end


@st.composite
def refusals(draw: st.DrawFn) -> tuple[History, list[Item], dict[str, Any], Diagnosis]:
    """Draw a request and any refusal of it."""
    history, sent, more = draw(requests())
    names = [str(item[key]) for item in sent for key in ("id", "call_id") if key in item]
    wanted = [item["id"] for item in history.emitted if item["type"] == "reasoning"]
    blobs = [item["encrypted_content"] for item in sent if "encrypted_content" in item]
    blob = draw(st.sampled_from([*blobs, ""]))
    kind = draw(st.sampled_from(sorted(RefusalKind)))
    if kind in (RefusalKind.INPUT, RefusalKind.FORM):  # they name nothing
        return history, sent, more, Diagnosis(kind)
    diagnosis = Diagnosis(
        kind,
        subject=draw(st.sampled_from([*names, "", "rs_unknown"])),
        wanted=draw(st.sampled_from([*wanted, "rs_unknown"])),
        index=draw(st.none() | st.integers(0, len(sent))),
        member=draw(st.sampled_from(["status", "content", "encrypted_content"])),
        ends=(blob[:4], blob[-4:]) if blob else None,
        form=draw(st.sampled_from(list(Form))),
        is_foreign=draw(st.booleans()),
    )
    return history, sent, more, diagnosis
