"""
One way to decide: with nothing decided, and with what is known of the beginning of a request.

What clients do in a random world is decided both times, each with a store of its own. Both must
send the same bytes and store the same turns.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple

from msgspec import structs
from reasoning_replay.core.dialects.anthropic.dialect import MessagesDialect
from reasoning_replay.core.dialects.anthropic.profiles import PROFILES
from reasoning_replay.core.dialects.base import Anew, Begun, Caller, Decision, Dialect
from reasoning_replay.core.dialects.chat.dialect import ChatDialect
from reasoning_replay.core.dialects.chat.profiles import GENERIC as CHAT
from reasoning_replay.core.dialects.engine import Engine
from reasoning_replay.core.dialects.gemini.dialect import FOREIGN, GeminiDialect
from reasoning_replay.core.dialects.gemini.profiles import GENERIC as GEMINI
from reasoning_replay.core.dialects.known_state import KnownState
from reasoning_replay.core.dialects.request_body import ParsedRequest
from reasoning_replay.core.dialects.responses.dialect import ResponsesDialect
from reasoning_replay.core.dialects.responses.heal.repair import Repair
from reasoning_replay.core.dialects.responses.profiles import GENERIC as RESPONSES
from reasoning_replay.core.dialects.states import Way
from reasoning_replay.core.history.item_index import FoundTurns, IndexedTurns
from reasoning_replay.core.history.items import HistoryItem
from reasoning_replay.core.history.lookup_keys import (
    Lookup,
    LookupResult,
    choose,
    keys_of_turn,
)
from reasoning_replay.core.history.plan import Outcome
from reasoning_replay.core.history.prefix_cache import ParsedPrefix
from reasoning_replay.core.history.request_history import RequestHistory
from reasoning_replay.core.history.seen import Seen, recorded
from reasoning_replay.core.history.turns import Turn
from reasoning_replay.core.tenancy.scope import NO_ACCOUNT
from typing_extensions import override

from tests.core.engines import engine_of
from tests.core.worlds.crowd import Conversation
from tests.core.worlds.world import RandomWorld

OF_DIALECT: dict[str, Dialect[Any, Any]] = {
    "responses": ResponsesDialect(RESPONSES, "auto", frozenset(Repair)),
    "chat": ChatDialect(CHAT),
    "messages": MessagesDialect(PROFILES["anthropic"], frozenset({"foreign"})),
    "gemini": GeminiDialect(GEMINI, (FOREIGN,)),
}
_UNKNOWN = (Outcome.MISSED, Outcome.AMBIGUOUS)
CALLER = Caller(b"tenant", NO_ACCOUNT)


class Told(NamedTuple):
    """
    One exchange, or a loss of the store.

    Attributes:
        body: Request; b"" for a loss.
        response: JSON response; b"" if the proxy did not see it.
        has_failed: Whether the lookup fails.
        lost: Ids of turns that the store loses.
    """

    body: bytes
    response: bytes = b""
    has_failed: bool = False
    lost: frozenset[bytes] = frozenset()


class Recorded(RandomWorld):
    """A random world that records what its clients and its upstream do."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.told: list[Told] = []
        self._newest: RequestHistory[HistoryItem] | None = None

    @override
    def recall(self, request: RequestHistory[HistoryItem]) -> LookupResult:
        self._newest = request
        return super().recall(request)

    @override
    def capture(
        self,
        request: RequestHistory[HistoryItem],
        parent: Turn | None,
        made: bytes,
        created_ms: int,
        seen: Seen | None = None,
    ) -> Turn | None:
        assert isinstance(request, ParsedRequest)
        self.told.append(Told(request.body, made, has_failed=self._newest is not request))
        return super().capture(request, parent, made, created_ms, seen)

    @override
    def _lose(self, one: Conversation) -> None:
        before = set(self.turns)
        super()._lose(one)
        self.told.append(Told(b"", lost=frozenset(before - set(self.turns))))


@dataclass
class Proxy:
    """
    An engine with a small store, as one process has it.

    Attributes:
        engine: The engine.
        is_short: Whether it begins with what is known.
        conversations: The store.
        index: Lookup key -> conversations.
        ways: How often each way was taken.
        draw: If given, a request begins with a random one of all states that it may begin with.
        states: All states.
        has_lost: Whether the store has lost turns.
    """

    engine: Engine
    is_short: bool = True
    conversations: dict[bytes, IndexedTurns] = field(default_factory=dict)
    index: dict[bytes, list[bytes]] = field(default_factory=dict)
    ways: Counter[Way] = field(default_factory=Counter)
    draw: Random | None = None
    states: list[ParsedPrefix[Any, KnownState]] = field(default_factory=list)
    has_lost: bool = False

    def look_up(self, lookups: Sequence[Lookup]) -> LookupResult:
        """Return what a store has for a lookup."""
        choice = choose(lookups, lambda key: self.index.get(key, ()))
        known = self.conversations
        found = {one: known[one] for one in choice.conversations if known.get(one)}
        alone = next(iter(found.values())) if len(found) == 1 else FoundTurns(found)
        return LookupResult(alone, choice.crowded)

    def _begun(self, body: bytes) -> Begun:
        begun = self.engine.begun(body, CALLER.scope)
        if self.draw is None:
            return begun
        may = [one for one in self.states if one.begins(body) and body.endswith(one.around)]
        older = self.draw.choice(may) if may else None
        if older is None or older.known is None:
            return begun
        return Begun(begun.owner, older, older.known, Way.SHORT)

    def decide(self, told: Told) -> Decision:
        """Decide on a request, with what is known of its beginning if that is wanted."""
        begun = self._begun(told.body)
        if not self.is_short:
            begun = begun.anew(Way.NEW)
        decision: Decision | None = None
        while decision is None:
            try:
                question = self.engine.ask(told.body, {}, begun)
                found = None if told.has_failed else self.look_up(question.lookups)
                decision = self.engine.decide(CALLER, told.body, question, found, is_created=True)
            except Anew as anew:
                begun = anew.begun
        self.ways[decision.way] += 1
        kept = self.engine.begun(told.body, CALLER.scope).prefix
        if kept is not None and kept.known is not None and kept not in self.states:
            self.states.append(kept)
        return decision

    def capture(self, decision: Decision, response: bytes, now_ms: int) -> Turn | None:
        """Store the turn of a response."""
        capture = self.engine.capture(decision.origin)
        capture.read(response)
        if capture.is_behind:
            capture.catch_up()
        turn = capture.snapshot(now_ms).turn if capture.dirty else None
        if turn is not None:
            self._save(turn)
        return turn

    def lose(self, turns: frozenset[bytes]) -> None:
        """Forget turns, as a store does that is full."""
        self.has_lost = True
        for conversation, known in self.conversations.items():
            if any(turn.id in turns for turn in known):
                left = [turn for turn in known if turn.id not in turns]
                self.conversations[conversation] = IndexedTurns(left)

    def _save(self, turn: Turn) -> None:
        before = self.conversations.get(turn.conversation)
        older = [one for one in before or () if one.id != turn.id]
        grows = before is not None and len(older) == len(before)
        self.conversations[turn.conversation] = IndexedTurns(
            [*older, turn], before if grows else None
        )
        for key in keys_of_turn(turn):
            led = self.index.setdefault(key, [])
            if turn.conversation not in led:
                led.append(turn.conversation)


def _parent_of(decision: Decision) -> bytes:
    return decision.origin.parent if decision.origin is not None else b""


def _counts(decision: Decision) -> tuple[int, dict[Outcome, int]]:
    """Return what was injected and guarded; what is not known is counted as it was at first."""
    counts = {one: count for one, count in decision.outcomes.items() if one not in _UNKNOWN}
    return decision.injected_bytes, counts


def _shown(decision: Decision) -> object:
    """Return what the inspector shows, without what is not known."""
    if decision.summary is None:
        return None
    shown = json.loads(decision.summary.shown)
    return shown["items"], [note for note in shown["notes"] if note[1] not in _UNKNOWN]


def _is_recorded_alike(one: Proxy, first: Seen | None, other: Proxy, second: Seen | None) -> bool:
    """
    Return whether two ways record the same decisions, whatever turns record them.

    With a turn, its record is lost. Then one may know decisions about older items than the other.
    """
    if first is None or second is None:
        return first is second
    records = []
    for proxy, seen in ((one, first), (other, second)):
        of_turn = {turn.id: turn.seen for turns in proxy.conversations.values() for turn in turns}
        records.append(recorded(seen, of_turn.get))
    since = [record[0] for record in records]
    start = max(since) if one.has_lost else 0
    known = [{n: it for n, it in record[1].items() if n >= start} for record in records]
    return known[0] == known[1] and (one.has_lost or since[0] == since[1])


def _is_alike(one: Proxy, first: Decision, other: Proxy, second: Decision) -> bool:
    """Return whether two ways store the same with the response."""
    if first.origin is None or second.origin is None:
        return first.origin is second.origin
    bare = [structs.replace(each, seen=None) for each in (first.origin, second.origin)]
    return bare[0] == bare[1] and _is_recorded_alike(
        one, first.origin.seen, other, second.origin.seen
    )


def differences(
    told: Sequence[Told], dialect: str, draw: Random | None = None
) -> tuple[list[str], Counter[Way]]:
    """Return where the two ways differ, and how often each was taken; `draw` as in `Proxy`."""
    long, short = (
        Proxy(engine_of(OF_DIALECT[dialect]), is_short=is_short) for is_short in (False, True)
    )
    short.draw = draw
    found: list[str] = []
    asked: set[bytes] = set()
    for n, one in enumerate(told):
        if not one.body:
            long.lose(one.lost)
            short.lose(one.lost)
            continue
        first, second = long.decide(one), short.decide(one)
        # A request of which nothing was known is repeated as it was; it may be known by now.
        is_repeated = one.body in asked and second.way is Way.SHORT and not _parent_of(second)
        asked.add(one.body)
        if first.body != second.body:
            found.append(f"request {n} ({second.way}): other bytes")
        if is_repeated:
            continue
        if _counts(first) != _counts(second):
            found.append(f"request {n} ({second.way}): {first.outcomes} {second.outcomes}")
        if not _is_alike(long, first, short, second):
            found.append(f"request {n} ({second.way}): {first.origin}\n{second.origin}")
        if _shown(first) != _shown(second):
            found.append(f"request {n} ({second.way}): {first.summary}\n{second.summary}")
        if one.response:
            turns = [
                proxy.capture(decision, one.response, n)
                for proxy, decision in ((long, first), (short, second))
            ]
            bare = [structs.replace(turn, seen=None) if turn else None for turn in turns]
            if bare[0] != bare[1]:
                found.append(f"request {n} ({second.way}): {turns}")
    return found, short.ways
