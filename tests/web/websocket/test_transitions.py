"""The transition table: each event in each state, as both peers see it."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from reasoning_replay.adapters.stores.base import Name, Store, VersionChange
from reasoning_replay.core.history.records import turns_of
from reasoning_replay.core.history.turns import Turn
from reasoning_replay.web.websocket import handler
from reasoning_replay.web.websocket.session import Session
from reasoning_replay.web.websocket.transitions import TABLE, Do, Event, State, Step

from tests.web.sockets import BINARY, KEY, UPGRADE, Peer, frame, said, tunnelled
from tests.web.websocket.creates import create, failed, told
from tests.web.wire import ASK, LOST, MESSAGE, NEXT, PAIRING, RS_2, Item, response
from tests.web.world import World, eventually, world

SURE = {
    State.UNSURE_IDLE: State.IDLE,
    State.UNSURE_RUNNING: State.RUNNING,
    State.UNSURE_IN_DOUBT: State.IN_DOUBT,
}
BEGINS = {Do.BEGIN, Do.BEGIN_UNSURE, Do.CONTINUE, Do.START}
OUTCOMES = ("ok", "cut_off", "upstream_error", "refused", "client_gone")

LAST = "resp_last"
SAID = MESSAGE | {
    "id": "msg_9f8e7d6c5b4a39281706f5e5",
    "content": [{"type": "output_text", "text": "Two."}],
}
BARE = {name: SAID[name] for name in SAID if name != "id"}
ITEMS = told(MESSAGE, RS_2, SAID)[3:-1]
ERROR = failed(PAIRING)
UNREAD = frame(BINARY, b"?", key=KEY)

# Histories that may lead to the reasoning directly before SAID, and what is done if they do.
_BRINGS = {Event.ANSWER, Event.SUCCESSOR, Event.UNNAMED, Event.STRANGER, Event.EVENT}
PROBES: dict[str, tuple[set[Do], list[Item]]] = {
    "after its request": ({Do.BEGIN}, [*LOST, BARE, NEXT]),
    "by its id": ({*BEGINS, Do.READ}, [NEXT, SAID, ASK]),
}


def ended(kind: str) -> bytes:
    """Return the last event of the newest response."""
    return said({"type": f"response.{kind}", "response": response(rid=LAST, status=kind)})


def begun(previous: str = "") -> bytes:
    """Return the first event of a response that may name the one that it continues."""
    named = {"previous_response_id": previous} if previous else {}
    return said({"type": "response.created", "response": response(rid="resp_2", **named)})


# How each event comes about: requests that wait, what the upstream says then, and the events.
WAYS: dict[Event, tuple[int, list[bytes], list[Event]]] = {
    Event.SENT: (1, [], []),
    Event.UNREAD: (0, [], [Event.UNREAD]),
    Event.ANSWER: (1, [begun()], [Event.ANSWER, Event.EVENT]),
    Event.SUCCESSOR: (1, [begun(LAST)], [Event.SUCCESSOR, Event.EVENT]),
    Event.UNNAMED: (0, [begun()], [Event.UNNAMED, Event.EVENT]),
    Event.STRANGER: (1, [begun("resp_9")], [Event.STRANGER, Event.EVENT]),
    Event.EVENT: (0, ITEMS, [Event.EVENT]),
    Event.END: (0, [ended("completed")], [Event.EVENT, Event.END]),
    Event.INCOMPLETE: (0, [ended("incomplete")], [Event.EVENT, Event.INCOMPLETE]),
    Event.ERROR: (0, [ERROR], [Event.ERROR]),
    Event.REFUSAL: (1, [ERROR], [Event.REFUSAL]),
    Event.FAILURE: (2, [ERROR], [Event.FAILURE]),
    Event.UNCLEAR: (1, [ERROR], [Event.UNCLEAR]),
    Event.CLOSE: (1, [], [Event.CLOSE]),
}


def followed(state: State, events: Sequence[Event]) -> list[Step]:
    """Return the steps of the table that events take."""
    steps = [Step(state)]
    for event in events:
        after = steps[-1].state
        steps.append(TABLE[after].get(event, Step(after)))
    return steps


class Saves:
    """The turns that are saved."""

    def __init__(self, w: World) -> None:
        self.turns: list[Turn] = []
        self._inner: Store = w.store
        self._save, self._inner.save = self._inner.save, self._noted  # type: ignore[method-assign]

    async def _noted(self, name: Name, records: Any, *more: Any, **given: Any) -> VersionChange:
        self.turns += turns_of(name[1], records)  # the head comes too, since it is saved first
        return await self._save(name, records, *more, **given)


def outcomes(w: World) -> Counter[str]:
    """Return how many exchanges have ended, by outcome."""
    ends = {word: w.counted("exchanges_total", route="create", outcome=word) for word in OUTCOMES}
    return Counter({word: int(count) for word, count in ends.items()})


class Cell:
    """One WebSocket, on whose default stream an event arrives."""

    def __init__(self, w: World, peers: tuple[Peer, Peer], session: Session) -> None:
        self.w, self.session = w, session
        self.client, self.upstream = peers

    async def asks(self, *items: Item, stream: str = "") -> list[Item]:
        """Send a request; return the input that upstream receives."""
        named: dict[str, Any] = {"stream_id": stream} if stream else {}
        await self.client.send(create(*items, **named))
        given: list[Item] = (await self.upstream.event())["input"]
        return given

    async def tells(self, *messages: bytes) -> None:
        """Let upstream send messages, which the client gets."""
        await self.upstream.send(b"".join(messages))
        await self.client.gets(*messages)

    async def sends_unread(self) -> None:
        """Let the client send a message that is not read."""
        await self.client.send(UNREAD)
        await self.upstream.gets(UNREAD)

    async def reaches(self, state: State) -> None:
        """Bring the stream into a state; LAST is its newest response, to ASK."""
        await self.asks(ASK)
        await self.tells(*told(MESSAGE, rid=LAST)[:-1])
        match SURE.get(state, state):
            case State.IDLE | State.CLOSED:
                await self.tells(ended("completed"))
            case State.CUT_SHORT:
                await self.tells(ended("incomplete"))
            case State.IN_DOUBT:
                await self.tells(ERROR)
        if state in SURE:
            await self.sends_unread()
        if state is State.CLOSED:
            self.session.close("ok")
        assert self.session.streams[""].state is state

    async def plays(self, event: Event) -> list[Step]:
        """Let an event arrive; return the steps of the table, after asserting what they do."""
        state, before = self.session.streams[""].state, outcomes(self.w)
        count, messages, events = WAYS[event]
        steps = followed(state, [Event.SENT] * count + events)
        does = [step.do for step in steps]
        for _ in range(count):
            await self.asks(*LOST)
        if event is Event.UNCLEAR:
            await self.asks(*LOST, stream="b")
        if event is Event.UNREAD:
            await self.sends_unread()
        if event is Event.CLOSE:
            (self.upstream if state in SURE else self.client).leave()
            await eventually(lambda: self.session.streams[""].state is State.CLOSED)
        elif Do.HEAL in does:
            await self.upstream.send(ERROR)
            assert "id" not in (await self.upstream.event())["input"][1]  # the cure of PAIRING
        else:
            await self.tells(*messages)

        assert self.session.streams[""].state is steps[-1].state
        runs = SURE.get(state, state) is State.RUNNING
        ends = Counter(step.ends for step in steps if step.ends)
        ends["refused"] = does.count(Do.REFUSE)
        gone = "cut_off" if state in SURE else "client_gone"
        ends[gone] += (count + runs) * does.count(Do.STOP)
        await eventually(lambda: outcomes(self.w) - before == +ends)
        return steps

    def is_idle_after(self, event: Event, steps: Sequence[Step]) -> bool:
        """Return whether a drain should not wait, after these steps."""
        does = [step.do for step in steps]
        answers = does.count(Do.BEGIN) + does.count(Do.BEGIN_UNSURE)
        waits = does.count(Do.WAIT) - answers - does.count(Do.REFUSE)
        waits += event is Event.UNCLEAR  # on the other stream
        lost = does.count(Do.LOSE) + (event is Event.UNCLEAR)
        return waits <= lost and SURE.get(steps[-1].state, steps[-1].state) is not State.RUNNING


@pytest.mark.parametrize("state", State)
async def test_every_event_does_what_the_table_says(
    state: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is forwarded, sent again, recorded, captured and waited for, and the state after it."""
    sessions: list[Session] = []

    def noted(*args: object) -> Session:
        sessions.append(Session(*args))  # type: ignore[arg-type]
        return sessions[-1]

    monkeypatch.setattr(handler, "Session", noted)
    async with world(has_store=True) as w:
        saves = Saves(w)
        for number, event in enumerate(Event):
            headers = [header.replace("sk-a", f"sk-{number}") for header in UPGRADE]
            async with tunnelled(w, *headers) as peers:
                cell = Cell(w, peers, sessions[-1])
                saves.turns.clear()
                await cell.reaches(state)
                steps = await cell.plays(event)
                if steps[-1].state is State.CLOSED:
                    continue
                assert cell.session.idle.is_set() == cell.is_idle_after(event, steps), event
                does = {step.do for step in steps}
                if BEGINS & does:
                    does.discard(Do.READ)
                    await cell.tells(*ITEMS)
                    continues = saves.turns[-1].parent == saves.turns[0].id
                    is_same = saves.turns[-1].conversation == saves.turns[0].conversation
                    assert continues == is_same == (Do.CONTINUE in does), event
                for name, (may, history) in PROBES.items():
                    found = RS_2 in await cell.asks(*history, stream="probe")
                    assert found == bool(may & does and event in _BRINGS), (event, name)


# --- laws of the table ---

ROWS = [(state, event, step) for state, row in TABLE.items() for event, step in row.items()]
RUNS = {State.RUNNING, State.IN_DOUBT, State.UNSURE_RUNNING, State.UNSURE_IN_DOUBT}


def test_what_is_not_certain_never_is_again() -> None:
    """Then nothing is captured by its history, and nothing is sent again."""
    unclear = {Event.UNREAD, Event.UNCLEAR, Event.FAILURE}
    for state, event, step in ROWS:
        if state in SURE:
            assert step.state in {*SURE, State.CLOSED}
            assert step.do not in {Do.BEGIN, Do.CONTINUE, Do.HEAL}
        elif event in unclear or (event is Event.REFUSAL and state in RUNS):
            assert step.state in SURE
        else:
            assert step.state not in SURE


def test_a_response_runs_until_it_or_the_websocket_ends_or_another_one_begins() -> None:
    """An error is no end of it, and decides how it has ended if no event follows."""
    ends = {Event.END: "ok", Event.INCOMPLETE: "ok", Event.CLOSE: ""}
    for state, event, step in ROWS:
        is_in_doubt = SURE.get(state, state) is State.IN_DOUBT
        if state not in RUNS:
            assert not step.ends
        elif step.do in BEGINS or event in ends:
            assert step.ends == ("upstream_error" if is_in_doubt else ends.get(event, "cut_off"))
        else:
            assert not step.ends
        if event not in ends:
            assert (step.state in RUNS) == (state in RUNS or step.do in BEGINS)


def test_each_beginning_is_as_certain_as_it_can_be() -> None:
    """Only a steered response that names none, or one that names it, continues the newest one."""
    for state in {*State} - {*SURE, State.CLOSED}:
        does = {event: TABLE[state][event].do for event in TABLE[state]}
        is_cut_short = state is State.CUT_SHORT
        assert does[Event.ANSWER] is Do.BEGIN
        assert does[Event.SUCCESSOR] is Do.CONTINUE
        assert does[Event.UNNAMED] is (Do.CONTINUE if is_cut_short else Do.START)
        assert does[Event.STRANGER] is Do.START
        assert does[Event.REFUSAL] is (Do.LOSE if state in RUNS else Do.HEAL)
        assert does[Event.FAILURE] is (Do.LOSE if state in RUNS else Do.REFUSE)


def test_the_end_is_the_end() -> None:
    """Each state has one, and nothing follows it."""
    assert TABLE.keys() == set(State)
    assert {state for state in State if not TABLE[state]} == {State.CLOSED}
    for state in {*State} - {State.CLOSED}:
        assert TABLE[state][Event.CLOSE].state is State.CLOSED
