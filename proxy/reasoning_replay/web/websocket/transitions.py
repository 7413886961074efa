"""
Transition table of a stream: its state and what arrives, what is done and the state after it.

This is the only place that says so, in the manner of h11's `_state.py`; `session` sorts a message
into events, and does what the table says. A message may be several events: the first message of a
response is a beginning and an EVENT, its last one an EVENT and an end. An event that a state does
not list changes nothing, and its message passes.

Not in the table:
- How many requests wait. They are in `Stream.waiting`; the events of an error tell them apart.
- What concerns all streams: an error without a `stream_id` is UNCLEAR if several are busy; what
  is UNREAD is so on each of them, and later ones begin as UNSURE_IDLE; a drain waits for all of
  them (`Session.idle`).
- Waiting. While an event is read, or a cure is looked for, the client may send, and the WebSocket
  may end. A state is therefore set before anything waits, and asked for again afterwards.
"""

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final, NamedTuple

from reasoning_replay.core.dialects.states import ExchangeOutcome


class State(Enum):
    """What the upstream does on a stream; UNSURE: which request it is about is not certain."""

    IDLE = "no response runs"
    CUT_SHORT = "as IDLE, and the newest response has ended incomplete, as a steered one does"
    RUNNING = "a response runs"
    IN_DOUBT = "an error arrived while it ran, and no event of it since: it may have ended"
    UNSURE_IDLE = "as IDLE"
    UNSURE_RUNNING = "as RUNNING"
    UNSURE_IN_DOUBT = "as IN_DOUBT"
    CLOSED = "the WebSocket has ended, or its messages are not read any more"


class Event(Enum):
    """What arrives."""

    SENT = "a request of the client, which is decided"
    UNREAD = "a message of the client that may be a request, and that is not read"
    ANSWER = "a response begins: that of the oldest request that waits"
    SUCCESSOR = "a response begins that no request asked for; it continues the newest one"
    UNNAMED = "a response begins that no request asked for; it does not say what it continues"
    STRANGER = "a response begins that no request asked for; it continues another one"
    EVENT = "any message of a response"
    END = "the response has ended"
    INCOMPLETE = "the response has ended incomplete"
    ERROR = "an error while no request waits"
    REFUSAL = "an error while one request waits"
    FAILURE = "an error while several requests wait"
    UNCLEAR = "an error that may be about another stream, while a request waits"
    CLOSE = "the end of the WebSocket, or of reading it"


class Do(Enum):
    """What is done."""

    WAIT = auto()  # the request waits for its response
    BEGIN = auto()  # the response of the oldest request begins
    BEGIN_UNSURE = auto()  # the same, but it may be another's: it is captured by its ids only
    CONTINUE = auto()  # a response begins that continues the newest one
    START = auto()  # a response begins of which nothing is known
    READ = auto()  # the message is captured
    HEAL = auto()  # the oldest request is sent again if it can be cured; if not: REFUSE
    REFUSE = auto()  # the oldest request has failed
    LOSE = auto()  # a request that waits may have ended
    STOP = auto()  # what runs and what waits ends as the WebSocket does


class Step(NamedTuple):
    """
    What an event does in a state.

    Attributes:
        state: The state after it.
        do: What is done, if anything.
        ends: Outcome of the response that ran, if it ends by this; it ends before `do`.
    """

    state: State
    do: Do | None = None
    ends: str = ""


_IDLE = {
    Event.SENT: Step(State.IDLE, Do.WAIT),
    Event.UNREAD: Step(State.UNSURE_IDLE),
    Event.ANSWER: Step(State.RUNNING, Do.BEGIN),
    Event.SUCCESSOR: Step(State.RUNNING, Do.CONTINUE),
    Event.UNNAMED: Step(State.RUNNING, Do.START),
    Event.STRANGER: Step(State.RUNNING, Do.START),
    Event.REFUSAL: Step(State.IDLE, Do.HEAL),
    Event.FAILURE: Step(State.UNSURE_IDLE, Do.REFUSE),
    Event.UNCLEAR: Step(State.UNSURE_IDLE),
    Event.CLOSE: Step(State.CLOSED, Do.STOP),
}
_CUT_SHORT = _IDLE | {
    Event.SENT: Step(State.CUT_SHORT, Do.WAIT),
    Event.UNNAMED: Step(State.RUNNING, Do.CONTINUE),
    Event.REFUSAL: Step(State.CUT_SHORT, Do.HEAL),
}
_RUNNING = {
    Event.SENT: Step(State.RUNNING, Do.WAIT),
    Event.UNREAD: Step(State.UNSURE_RUNNING),
    Event.ANSWER: Step(State.RUNNING, Do.BEGIN, ends=ExchangeOutcome.CUT_OFF),
    Event.SUCCESSOR: Step(State.RUNNING, Do.CONTINUE, ends=ExchangeOutcome.CUT_OFF),
    Event.UNNAMED: Step(State.RUNNING, Do.START, ends=ExchangeOutcome.CUT_OFF),
    Event.STRANGER: Step(State.RUNNING, Do.START, ends=ExchangeOutcome.CUT_OFF),
    Event.EVENT: Step(State.RUNNING, Do.READ),
    Event.END: Step(State.IDLE, ends=ExchangeOutcome.OK),
    Event.INCOMPLETE: Step(State.CUT_SHORT, ends=ExchangeOutcome.OK),
    Event.ERROR: Step(State.IN_DOUBT),
    Event.REFUSAL: Step(State.UNSURE_RUNNING, Do.LOSE),
    Event.FAILURE: Step(State.UNSURE_RUNNING, Do.LOSE),
    Event.UNCLEAR: Step(State.UNSURE_RUNNING),
    Event.CLOSE: Step(State.CLOSED, Do.STOP),
}
_IN_DOUBT = {
    Event.SENT: Step(State.IN_DOUBT, Do.WAIT),
    Event.UNREAD: Step(State.UNSURE_IN_DOUBT),
    Event.ANSWER: Step(State.RUNNING, Do.BEGIN, ends=ExchangeOutcome.UPSTREAM_ERROR),
    Event.SUCCESSOR: Step(State.RUNNING, Do.CONTINUE, ends=ExchangeOutcome.UPSTREAM_ERROR),
    Event.UNNAMED: Step(State.RUNNING, Do.START, ends=ExchangeOutcome.UPSTREAM_ERROR),
    Event.STRANGER: Step(State.RUNNING, Do.START, ends=ExchangeOutcome.UPSTREAM_ERROR),
    Event.EVENT: Step(State.RUNNING, Do.READ),  # the error was about something else
    Event.END: Step(State.IDLE, ends=ExchangeOutcome.UPSTREAM_ERROR),  # too long to be read
    Event.REFUSAL: Step(State.UNSURE_IN_DOUBT, Do.LOSE),
    Event.FAILURE: Step(State.UNSURE_IN_DOUBT, Do.LOSE),
    Event.UNCLEAR: Step(State.UNSURE_IN_DOUBT),
    Event.CLOSE: Step(State.CLOSED, Do.STOP, ends=ExchangeOutcome.UPSTREAM_ERROR),
}

# Once it is not certain which request a message is about, it never is again: what is done is the
# same, except that nothing is captured by its history, and nothing is sent again.
_UNSURE = {
    State.IDLE: State.UNSURE_IDLE,
    State.CUT_SHORT: State.UNSURE_IDLE,
    State.RUNNING: State.UNSURE_RUNNING,
    State.IN_DOUBT: State.UNSURE_IN_DOUBT,
}
_UNCERTAIN = {Do.BEGIN: Do.BEGIN_UNSURE, Do.CONTINUE: Do.START, Do.HEAL: Do.REFUSE}


def _unsure(row: Mapping[Event, Step]) -> dict[Event, Step]:
    return {
        event: Step(_UNSURE.get(state, state), do and _UNCERTAIN.get(do, do), ends)
        for event, (state, do, ends) in row.items()
    }


TABLE: Final[Mapping[State, Mapping[Event, Step]]] = {
    State.IDLE: _IDLE,
    State.CUT_SHORT: _CUT_SHORT,
    State.RUNNING: _RUNNING,
    State.IN_DOUBT: _IN_DOUBT,
    State.UNSURE_IDLE: _unsure(_IDLE),
    State.UNSURE_RUNNING: _unsure(_RUNNING),
    State.UNSURE_IN_DOUBT: _unsure(_IN_DOUBT),
    State.CLOSED: {},
}
