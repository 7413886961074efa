"""
Ledger: the turns that this stand-in has emitted, for each caller, stored or not.

One Turn per response. The pairing of a reasoning item with the items it led to is computed once,
here, when the turn is recorded; the rules only compare. Bounded: the oldest turn is evicted first.
"""

from collections import OrderedDict, defaultdict
from collections.abc import Container, Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from tests.standin.shapes import (
    Answer,
    CustomToolCall,
    FunctionCall,
    Message,
    OutputItem,
    Reasoning,
)

__all__ = ["Emitted", "Ledger", "Turn", "pair"]

_TURNS_KEPT = 10_000
"""About 10 kB each: enough for any test run, and bounded for a demo that runs for days."""


class Emitted(Struct, frozen=True, kw_only=True):
    """
    One emitted item.

    `required` holds the ids of the reasoning run before its group, () if there was none. `follower`
    is, for a reasoning item, the first item after its run; None at the end.
    """

    id: str
    type: str
    response_id: str
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None
    text: str | None = None
    required: tuple[str, ...] = ()
    follower: str | None = None


class Turn(Struct, frozen=True, kw_only=True):
    """
    One response: its caller, its items, and the response that it continues.

    `answered` counts the tool outputs since the last user message of the request. It places a
    request that sends only new items in its loop.
    """

    answer: Answer
    caller: str
    family: str
    items: tuple[Emitted, ...]
    stored: bool
    finished: bool
    previous: str | None = None
    conversation: str | None = None
    answered: int = 0


def pair(response_id: str, output: Iterable[OutputItem]) -> tuple[Emitted, ...]:
    """
    Link each item of one response to the reasoning that led to it, both ways.

    A run of consecutive reasoning items belongs to everything after it up to the next run (parallel
    calls share one); every member of a run is followed by the first item after it. Source: recorded
    parallel calls, interleaving and consecutive reasoning items.
    """
    paired: list[Emitted] = []
    run: list[str] = []
    open_run = False
    for item in output:
        if isinstance(item, Reasoning):
            if not open_run:
                run, open_run = [], True
            run.append(item.id)
            paired.append(Emitted(id=item.id, type=item.type, response_id=response_id))
            continue
        if open_run:
            _tie(paired, len(run), item.id)
            open_run = False
        paired.append(_emitted(item, response_id, tuple(run)))
    return tuple(paired)


def _tie(paired: list[Emitted], length: int, follower: str) -> None:
    for at in range(len(paired) - length, len(paired)):
        paired[at] = replace(paired[at], follower=follower)


def _emitted(item: OutputItem, response_id: str, required: tuple[str, ...]) -> Emitted:
    call = item if isinstance(item, FunctionCall | CustomToolCall) else None
    return Emitted(
        id=item.id,
        type=item.type,
        response_id=response_id,
        call_id=call.call_id if call else None,
        name=call.name if call else None,
        arguments=item.arguments if isinstance(item, FunctionCall) else None,
        text="".join(part.text for part in item.content) if isinstance(item, Message) else None,
        required=required,
    )


class Ledger:
    """
    The turns emitted so far, indexed by response, item, call and text, for each caller.

    Beyond `turns_kept` turns the oldest is removed entirely, as if it had never been emitted.
    """

    def __init__(self, turns_kept: int = _TURNS_KEPT) -> None:
        self._turns_kept = turns_kept
        self._turns: OrderedDict[str, Turn] = OrderedDict()
        self._items: dict[tuple[str, str], Emitted] = {}
        self._calls: defaultdict[tuple[str, str], list[Emitted]] = defaultdict(list)
        self._texts: defaultdict[tuple[str, str], list[Emitted]] = defaultdict(list)

    def __len__(self) -> int:
        """Count the recorded turns."""
        return len(self._turns)

    def record(self, turn: Turn) -> None:
        """Record one turn; evict the oldest above the limit."""
        self._turns[turn.answer.id] = turn
        for item in turn.items:
            self._items[turn.caller, item.id] = item
            if item.call_id is not None:
                self._calls[turn.caller, item.call_id].append(item)
            if item.text is not None:
                self._texts[turn.caller, item.text].append(item)
        while len(self._turns) > self._turns_kept:
            self._forget(next(iter(self._turns)))

    def maybe_turn(self, response_id: str, caller: str) -> Turn | None:
        """Return the turn of that response, if it was emitted to this caller."""
        turn = self._turns.get(response_id)
        return turn if turn is not None and turn.caller == caller else None

    def maybe_stored_turn(
        self, response_id: str, caller: str, cached: Container[str] = ()
    ) -> Turn | None:
        """Return the turn of that response, if this caller may look it up or has it `cached`."""
        turn = self.maybe_turn(response_id, caller)
        return turn if turn is not None and (turn.stored or response_id in cached) else None

    def maybe_item(self, item_id: str, caller: str) -> Emitted | None:
        """Return the item of that id, if it was emitted to this caller."""
        return self._items.get((caller, item_id))

    def is_stored(self, item_id: str, caller: str) -> bool:
        """Return whether the item can be looked up by its id alone."""
        item = self.maybe_item(item_id, caller)
        return item is not None and self._turns[item.response_id].stored

    def by_call(self, call_id: str, caller: str) -> Sequence[Emitted]:
        """Return every call emitted to this caller under that `call_id`, oldest first."""
        return self._calls.get((caller, call_id), ())

    def by_text(self, text: str, caller: str) -> Sequence[Emitted]:
        """Return every message emitted to this caller with exactly that text, oldest first."""
        return self._texts.get((caller, text), ())

    def earlier(
        self,
        caller: str,
        previous: str | None,
        conversation: str | None,
        cached: Container[str] = (),
    ) -> tuple[Turn, ...]:
        """
        Return the turns that the server itself adds before a request, oldest first.

        Args:
            caller: Only this caller's turns are followed.
            previous: `previous_response_id`; its own chain is followed back.
            conversation: Id of a conversation; its turns in order.
            cached: Responses that may be continued although they are not stored.
        """
        if conversation is not None:
            return tuple(
                turn
                for turn in self._turns.values()
                if (turn.caller, turn.conversation) == (caller, conversation)
            )
        chain: list[Turn] = []
        while previous is not None:
            turn = self.maybe_stored_turn(previous, caller, cached)
            if turn is None:
                break
            chain.append(turn)
            previous = turn.previous
        return tuple(reversed(chain))

    def delete(self, response_id: str, caller: str) -> bool:
        """Delete a stored response; return False if this caller has none of that id."""
        if self.maybe_stored_turn(response_id, caller) is None:
            return False
        self._forget(response_id)
        return True

    def expire(self) -> None:
        """Mark every turn as not stored: from now on its ids cannot be looked up."""
        for turn in list(self._turns.values()):
            self._turns[turn.answer.id] = replace(turn, stored=False)

    def _forget(self, response_id: str) -> None:
        turn = self._turns.pop(response_id)
        for item in turn.items:
            self._items.pop((turn.caller, item.id), None)
            if item.call_id is not None:
                self._drop(self._calls, (turn.caller, item.call_id), item)
            if item.text is not None:
                self._drop(self._texts, (turn.caller, item.text), item)

    @staticmethod
    def _drop(
        index: defaultdict[tuple[str, str], list[Emitted]], key: tuple[str, str], item: Emitted
    ) -> None:
        index[key].remove(item)
        if not index[key]:
            del index[key]
