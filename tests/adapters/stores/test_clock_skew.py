"""Clock skew: the order of a conversation's turns follows the conversation, not the clocks."""

import pytest
from reasoning_replay.adapters.stores.base import Bounds
from reasoning_replay.adapters.stores.memory import MemoryStore
from reasoning_replay.core.dialects.base import Caller
from reasoning_replay.core.dialects.responses.dialect import ResponsesDialect
from reasoning_replay.core.dialects.responses.profiles import GENERIC
from reasoning_replay.core.history.lookup_keys import LookupResult, keys_of_turn
from reasoning_replay.core.history.turns import Turn, records_of, turns_of
from reasoning_replay.core.tenancy.scope import NO_ACCOUNT

from tests.core.engines import engine_of
from tests.core.world import Item, answer, body, call, output, reasoning, user

SCOPE = b"s" * 16
TURNS_MAX = 10
NOW_MS = 1_800_000_000_000
DAY_MS = 86_400_000


class Replica:
    """A dialect with a clock of its own, on a shared store."""

    def __init__(self, store: MemoryStore, skew_ms: int) -> None:
        self.engine = engine_of(ResponsesDialect(GENERIC, "never"))
        self.store = store
        self.skew_ms = skew_ms

    async def exchange(self, history: list[Item], number: int, now_ms: int) -> tuple[Turn, int]:
        """Answer a request; return the stored turn, and how many turns were found for it."""
        sent = body(history)
        question = self.engine.ask(sent, {}, SCOPE)
        found = await self.store.look_up(SCOPE, question.lookups, {})
        turns = [
            turn
            for one in found.conversations
            for turn in turns_of(one.conversation, one.records or {})
        ]
        caller = Caller(SCOPE, NO_ACCOUNT)
        made = self.engine.decide(caller, sent, question, LookupResult(turns), is_created=True)
        capture = self.engine.capture(made.origin)
        items = [reasoning(f"{number}"), call(f"{number}")]
        capture.read(answer(items, f"resp_{number}"))
        turn = capture.snapshot(now_ms + self.skew_ms).turn
        assert turn is not None
        await self.store.save(SCOPE, turn.conversation, records_of(turn), keys_of_turn(turn))
        return turn, len(turns)


@pytest.mark.parametrize("skew_ms", [0, 5_000, -5_000, DAY_MS, -DAY_MS])
async def test_turns_are_in_the_order_of_the_conversation(skew_ms: int) -> None:
    """The newest turns are found at every replica, also once the oldest ones are dropped."""
    store = MemoryStore(Bounds(3600, TURNS_MAX, 1 << 20), 1 << 20, lambda: 0.0)
    replicas = Replica(store, 0), Replica(store, skew_ms)
    history: list[Item] = [user("Hi")]
    before: Turn | None = None
    for number in range(3 * TURNS_MAX):
        turn, found = await replicas[number % 2].exchange(history, number, NOW_MS + 10 * number)
        if before is not None:
            assert turn.parent == before.id
            assert turn.created_ms > before.created_ms
        assert found >= min(number, TURNS_MAX - 1)
        before = turn
        history += [call(f"{number}"), output(call(f"{number}"))]
