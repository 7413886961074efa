"""Player: conversations of clients that drop reasoning, judged by the known truth."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import NamedTuple

from tests.core.changes import Change, nothing
from tests.core.world import (
    MODEL,
    Item,
    World,
    body,
    call,
    drawn,
    dropped,
    message,
    nameless,
    output,
    reasoning,
    user,
)

# A text with everything that clients may normalise.
LONG = (
    "Number {n} isn’t hard – it’s “façade”: a < b & c…\u00a0I have looked at each of its files"  # noqa: RUF001
    " ([docs.org](https://docs.org/?utm_source=openai))"
)
OF = "response"  # key of the truth, which no client sends: the number of an item's response


class Cell(NamedTuple):
    """One sort of client: a column of the table."""

    has_tools: bool
    keeps_ids: bool


CELLS = [Cell(tools, ids) for tools in (True, False) for ids in (True, False)]


@dataclass(frozen=True)
class Behaviour:
    """
    Behaviour of a client, of its upstream, and of other clients of its tenant.

    Attributes:
        change: Edit of the history before it is sent.
        more: Further fields of a request, by its number.
        is_short: Whether all text is short and repeated.
        cells: Sorts of clients for which the behaviour makes sense.
        call_id: Format of call ids, with `{count}` or `{k}` in a response; empty: random.
        calls: Number of parallel calls in a response.
        is_counted: Whether the other ids are counted, too.
        run: Number of consecutive reasoning items.
        is_stored: Whether upstream keeps items (`store`).
        names_round: Whether `previous_response_id` is the last response of the round before.
        passes: Responses that the proxy does not see.
        fails: Requests with a lookup that fails.
        is_asked_twice: Whether each request is sent twice; the client keeps the first and the
            second response in turn.
        is_edited: Whether the client replaces its last message in the end and asks again.
        others: Number of conversations of the tenant with the same first words, before this one.
        are_twins: Whether those conversations have the same text throughout.
        are_beside: Whether they run in parallel, each a step before this one.
        are_named: Whether each conversation has its own name.
    """

    change: Change = nothing
    more: Callable[[int], dict[str, str]] = lambda _: {}
    is_short: bool = False
    cells: Iterable[Cell] = tuple(CELLS)
    call_id: str = ""
    calls: int = 1
    is_counted: bool = False
    run: int = 1
    is_stored: bool = False
    names_round: bool = False
    passes: frozenset[int] = frozenset()
    fails: frozenset[int] = frozenset()
    is_asked_twice: bool = False
    is_edited: bool = False
    others: int = 0
    are_twins: bool = False
    are_beside: bool = False
    are_named: bool = False


class Tally(NamedTuple):
    """
    Numbers of reasoning items in all requests of a conversation.

    Attributes:
        restored, due: Items injected at their place, and items that belong there.
        twins: Items of another response to the same request with the same text, which cannot be
            distinguished.
        wrong: Items of any other response.
    """

    restored: int = 0
    due: int = 0
    twins: int = 0
    wrong: int = 0


def play(behaviour: Behaviour, cell: Cell) -> Tally:
    """Play one conversation of a client, after or in parallel with those of other clients."""
    truth = _Truth()
    others = [_Client(truth, behaviour, cell, f"other {n}") for n in range(behaviour.others)]
    mine = _Client(truth, behaviour, cell, "mine")
    every = [one.turns() for one in (*others, mine)]
    for _ in zip_longest(*every) if behaviour.are_beside else chain(*every):
        pass
    return mine.tally


class _Truth(World):
    """World that stores for each reasoning item its request and the item that it led to."""

    def __init__(self) -> None:
        super().__init__()
        self.led: dict[str, tuple[str, str]] = {}

    def note(self, asked: str, said: list[Item]) -> None:
        """Store the truth about a response."""
        for made in said:
            if made["type"] == "reasoning":
                self.led[made["id"]] = asked, _visible(dropped(said)[0])


class _Client:
    """One conversation; its history has all reasoning and the response of each item."""

    def __init__(self, world: _Truth, behaviour: Behaviour, cell: Cell, name: str) -> None:
        self._world, self._behaviour, self._cell, self._name = world, behaviour, cell, name
        self._history: list[Item] = []
        self._asked = self._emitted = self._counted = 0
        self._round_before = self._newest = ""
        self.tally = Tally()

    def turns(self) -> Iterator[None]:
        """Play the conversation, one step for each response."""
        rounds, steps = (3, 2) if self._cell.has_tools else (6, 0)
        for _ in range(rounds):
            yield from self._round(steps)
        if self._behaviour.is_edited:
            users = [n for n, item in enumerate(self._history) if item.get("role") == "user"]
            del self._history[users[-1] :]
            yield from self._round(steps)
        self._history.append(user("Was that all?"))
        self._ask([])

    def _round(self, steps: int) -> Iterator[None]:
        n, self._round_before = self._asked, self._newest
        text = f"Go on with number {n}, please, and tell me about all of it"
        self._history.append(user(self._saying("continue", "yes", text)))
        for step in range(steps + 1):
            yield
            self._turn(self._behaviour.calls if step < steps else 0)

    def _turn(self, calls: int) -> None:
        """Send the history, and add the response to it."""
        said = self._answer(calls)
        self._ask(said)
        if self._behaviour.is_asked_twice:
            again = self._answer(calls)
            self._ask(again)
            said = again if self._asked % 4 else said
        self._history += said
        for made in said:
            if made["type"] == "function_call":
                text = f"{self._asked}: all of it went well, as one can see here."
                self._history.append(output(made, "ok" if self._behaviour.is_short else text))

    def _saying(self, short: str, other: str, long: str) -> str:
        """Return a text; from the second exchange on, other conversations may have another one."""
        is_other = self._asked and self._name != "mine" and not self._behaviour.are_twins
        if self._behaviour.is_short:
            return other if is_other else short
        return f"{long} ({self._name})." if is_other else f"{long}."

    # --- responses of the upstream ---

    def _answer(self, calls: int) -> list[Item]:
        behaviour, n = self._behaviour, self._emitted
        self._emitted += 1
        name = f"{self._name} {n}"
        text = self._saying("Done.", "OK.", LONG.format(n=n))
        said = [reasoning(f"{name}.{k}") for k in range(behaviour.run)]
        said.append(self._named(message(name, text), "msg"))
        for k in range(calls):
            what = json.dumps(
                {} if behaviour.is_short else {"file": self._saying("", "", f"{n}.{k}")}
            )
            made = self._named(call(f"{name}.{k}", arguments=what), "fc")
            if behaviour.call_id:
                made["call_id"] = behaviour.call_id.format(count=self._counted, k=k)
            said.append(made)
        return [{**item, OF: n} for item in said]

    def _named(self, item: Item, prefix: str) -> Item:
        self._counted += 1
        named = {"id": f"{prefix}_{self._counted:016}"} if self._behaviour.is_counted else {}
        return item | named

    # --- requests of the client ---

    def _ask(self, said: list[Item]) -> None:
        """Send the history, judge what the upstream receives, and capture the response."""
        behaviour, n = self._behaviour, self._asked
        self._asked += 1
        whole = behaviour.change(n, self._history)
        told = [self._kept(item) for item in dropped(whole)]
        more = {"model": MODEL, "store": behaviour.is_stored, **behaviour.more(n)}
        if behaviour.are_named:
            more["prompt_cache_key"] = self._name
        if behaviour.names_round and self._round_before:
            more["previous_response_id"] = self._round_before
        sent = body(told, **more)
        if n not in behaviour.passes:
            request = self._world.ask(sent)[0]
            seen = told if n in behaviour.fails else self._world.seen(sent)
            self._judge(whole, told, seen, str(more))
            self._world.note(str([*map(_visible, told), str(more)]), said)
            if said:
                lacks_blobs = behaviour.is_stored and not request.has_easy_form
                less = {"encrypted_content": None} if lacks_blobs else {}
                made = [
                    {key: value for key, value in item.items() if key != OF}
                    | (less if item["type"] == "reasoning" else {})
                    for item in said
                ]
                self._world.learn(
                    sent,
                    made,
                    has_failed=n in behaviour.fails,
                    store=behaviour.is_stored,
                    model=more["model"],
                )
                self._newest = f"resp_{drawn(self._world.responses)}"

    def _kept(self, item: Item) -> Item:
        kept = {key: value for key, value in item.items() if key != OF}
        return kept if self._cell.keeps_ids or OF not in item else nameless(kept)

    def _judge(self, whole: list[Item], told: list[Item], seen: list[Item], more: str) -> None:
        due, found = _runs(whole), _runs(seen)
        heads = [item for item in whole if item.get("type") != "reasoning"]
        moved: list[str] = []
        counted = Counter(self.tally._asdict())
        for n, (ours, theirs) in enumerate(zip(due, found, strict=True)):
            counted["due"] += len(ours)
            left = iter([*moved, *ours])
            for made in theirs:
                asked = str([*map(_visible, told[:n]), more])
                own = {self._world.led[one] for one in ours if one in self._world.led}
                if made in left:
                    counted["restored"] += 1
                elif self._world.led[made] in {(asked, _visible(heads[n])), *own}:
                    counted["twins"] += 1
                else:
                    counted["wrong"] += 1
            # After a text that the client wrote in place of the model's, it is at its place, too.
            is_followed = heads[n + 1 : n + 2] and heads[n + 1].get(OF) == heads[n].get(OF)
            is_replaced = "id" not in told[n] and heads[n] not in self._history
            moved = (
                [one for one in ours if one not in theirs] if is_followed and is_replaced else []
            )
        self.tally = Tally(**counted)


def _runs(items: list[Item]) -> list[list[str]]:
    """Return the reasoning before each other item, without that of items that are gone."""
    runs: list[list[str]] = []
    run: list[Item] = []
    for item in items:
        if item.get("type") == "reasoning":
            run.append(item)
        else:
            runs.append([_id(one) for one in run if one.get(OF) == item.get(OF)])
            run = []
    return runs


def _id(made: Item) -> str:
    """Return the id of reasoning, also if only its encrypted content was sent."""
    known: str = made.get("id") or reasoning(made["encrypted_content"].removeprefix("gAAAA"))["id"]
    return known


def _visible(item: Item) -> str:
    """Return the visible content of an item, without ids."""
    return json.dumps([item.get(key) for key in ("role", "content", "arguments", "output", "name")])
