"""
Replay: the steps of an exchange on a replayed route, in addition to forwarding it.

    ask (pure) -> look up (one await) -> decide (pure) -> send -> capture -> save

If a step fails, the failure is counted, and the request is forwarded unchanged.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from reasoning_replay.adapters.resilience.safe_store import Budget, SafeStore, Saved
from reasoning_replay.adapters.runtime.offload import Offloader, is_long
from reasoning_replay.core.dialects.base import (
    AnyDialect,
    Caller,
    Cure,
    Decision,
    Question,
    Refusal,
    RefusedBodies,
)
from reasoning_replay.core.dialects.captures import Origin
from reasoning_replay.core.dialects.registry import scope_in
from reasoning_replay.core.dialects.states import (
    CAPTURED_ROUTES,
    CaptureState,
    RequestState,
    Route,
)
from reasoning_replay.core.history.lookup_keys import (
    RESPONSE,
    Lookup,
    LookupResult,
    key_of_response,
    keys_of_turn,
)
from reasoning_replay.core.history.matching.joining import NOT_JOINED
from reasoning_replay.core.history.turns import records_of, withheld_records
from reasoning_replay.core.tenancy.scope import Scoping, account_of
from reasoning_replay.core.wire.json_spans import TooMany, Unspliceable
from reasoning_replay.web.exchange import Exchange

__all__ = ["Replay", "ReplaySettings", "Replays"]

_NOTHING_FOUND = LookupResult()


@dataclass(frozen=True, slots=True)
class ReplaySettings:
    """
    The settings of replay, as plain values.

    Attributes:
        scoping: Rule for the scope of a request.
        is_shadow: Whether requests are forwarded unchanged and decisions are only recorded.
        heals: Whether a refused request is healed.
        store_budget_s: Total time that one exchange may wait for the store.
    """

    scoping: Scoping
    is_shadow: bool
    heals: bool
    store_budget_s: float


class Replay:
    """
    Preparation of requests and capture of responses, for one upstream and one dialect.

    Attributes:
        dialect: The wire format.
        is_shadow: Whether requests are forwarded unchanged.
        heals: Whether a refused request may be sent once more.
    """

    def __init__(
        self,
        settings: ReplaySettings,
        dialect: AnyDialect,
        store: SafeStore,
        epoch_ms: Callable[[], int],
    ) -> None:
        """
        Keep the parts that all exchanges share.

        Args:
            settings: See ReplaySettings.
            dialect: The wire format.
            store: Store that never raises for an exchange.
            epoch_ms: Clock in milliseconds since the epoch; it orders turns.
        """
        self.dialect = dialect
        self.is_shadow = settings.is_shadow
        self.heals = settings.heals and not settings.is_shadow
        self._settings = settings
        self._store = store
        self._epoch_ms = epoch_ms
        self._offloader = Offloader()

    def identify(self, exchange: Exchange, headers: Mapping[str, str]) -> None:
        """Set the tenant, the scope, the account and the store budget of an exchange."""
        exchange.tenant = tenant = self._settings.scoping.of(headers)
        exchange.scope = None if tenant is None else scope_in(self.dialect.name, tenant)
        exchange.account = account_of(headers)
        exchange.store_budget = Budget(self._settings.store_budget_s)

    def may_tell(self, status: int) -> bool:
        """Return whether a response with this status may carry the header with the result."""
        return self._settings.scoping.tells(status)

    # --- requests ---

    async def prepare(
        self, exchange: Exchange, body: bytes, headers: Mapping[str, str], path: str = ""
    ) -> bytes:
        """
        Decide which reasoning a request lacks, and inject it.

        Args:
            exchange: Its scope is set; the decision and the capture are recorded in it.
            body: Complete body, without content coding.
            headers: Headers of the request.
            path: Its path, without the query; "" if it has none of its own.

        Returns:
            The body to send; the same object if nothing is edited.
        """
        scope = exchange.scope
        if scope is None:
            exchange.request.state = RequestState.NO_SCOPE
            return body
        dialect, is_slow = self.dialect, is_long(body)
        try:
            ask = partial(dialect.ask, body, headers, scope, path)
            question = await self._question(ask, is_slow=is_slow)
        except TooMany:
            exchange.request.state = RequestState.TOO_LARGE
            return body
        except Unspliceable:
            exchange.request.state = RequestState.UNREADABLE
            return body
        found: LookupResult | None = _NOTHING_FOUND
        if question.lookups:
            found = await self._store.look_up(scope, question.lookups, exchange.store_budget)
        is_created = exchange.route in CAPTURED_ROUTES
        caller = Caller(scope, exchange.account)
        decide = partial(dialect.decide, caller, body, question, found, is_created=is_created)
        decision: Decision = await self._offloader.run(decide) if is_slow else decide()
        exchange.note_decision(decision)
        if exchange.request.state == RequestState.STORE_FAILED and exchange.store_budget.is_used_up:
            exchange.request.state = RequestState.BUDGET_EXCEEDED
        if is_created:
            exchange.answer.capture = dialect.capture(decision.origin)
        return decision.body

    async def prepare_retrieval(self, exchange: Exchange, path: str) -> None:
        """Capture a retrieved response as a part of the turn that its request began."""
        response_id = self.dialect.retrieved(path)
        if exchange.scope is None or not response_id:
            return
        lookups = [Lookup(RESPONSE, [key_of_response(response_id)])]
        found = await self._store.look_up(exchange.scope, lookups, exchange.store_budget)
        origin = self.dialect.origin_of(response_id, found or _NOTHING_FOUND)
        if origin is not None:
            exchange.answer.capture = self.dialect.capture(origin)

    def follow(self, exchange: Exchange, origin: Origin | None) -> None:
        """Capture a response to an unknown request; `origin` is the turn it continues, if known."""
        exchange.answer.capture = self.dialect.capture(origin)

    # --- refusals ---

    async def cure(
        self, exchange: Exchange, bodies: RefusedBodies, refusal: Refusal
    ) -> Cure | None:
        """
        Return the cure for a refused request; None if there is none.

        Raises:
            Unspliceable: The request cannot be parsed.
        """
        dialect, is_slow = self.dialect, is_long(bodies.sent)
        ask = partial(dialect.ask_for_cure, bodies, refusal)
        question = await self._question(ask, is_slow=is_slow)
        found: LookupResult | None = None
        if exchange.scope is not None:
            found = await self._store.look_up(
                exchange.scope, question.lookups, exchange.store_budget
            )
        return await self._offloader.run(
            partial(
                dialect.cure, exchange.scope, bodies, question, refusal, found or _NOTHING_FOUND
            ),
            is_long=is_slow,
        )

    async def learn(self, exchange: Exchange, refusal: Refusal, cure: Cure) -> None:
        """Learn from an accepted cure: the reasoning that it lacks would be refused again."""
        if exchange.scope is None:
            return
        self.dialect.learn(exchange.scope, refusal, cure, exchange.request.model)
        for turn in cure.withheld:
            records = withheld_records(turn, cure.lost.__contains__)
            await self._store.save(
                exchange.scope, turn.conversation, records, [], exchange.store_budget
            )

    async def _question(self, ask: Callable[[], Question[Any]], *, is_slow: bool) -> Question[Any]:
        """Parse a request; for a long one, the keys are also computed in the thread."""
        if not is_slow:
            return ask()
        return await self._offloader.run(partial(_with_keys, ask))

    # --- responses ---

    async def read(self, exchange: Exchange, answer: bytes) -> None:
        """Capture a complete JSON response."""
        capture = exchange.answer.capture
        if capture is None:
            return
        if is_long(answer):
            await self._offloader.run(partial(capture.read, answer))
        else:
            capture.read(answer)

    async def save(self, exchange: Exchange) -> None:
        """Save the new part of the captured turn, if there is one."""
        capture = exchange.answer.capture
        if capture is None or exchange.scope is None or not capture.dirty:
            return
        turn = capture.snapshot(self._epoch_ms()).turn
        if turn is None:
            exchange.answer.state = exchange.answer.state or CaptureState.NOTHING
            return
        exchange.conversation, exchange.answer.turn = turn.conversation, turn.id
        before = exchange.answer.saved_names
        keys = [key for key in keys_of_turn(turn) if key not in before]
        records = records_of(turn, before)
        if not records and not keys:
            return
        joined = exchange.answer.joined
        for one in joined.turns:
            records |= records_of(one)
            keys += keys_of_turn(one)
        saved = await self._store.save(
            exchange.scope, turn.conversation, records, keys, exchange.store_budget
        )
        if saved is Saved.FAILED:
            exchange.answer.state = CaptureState.STORE_FAILED
            return
        self.dialect.note_issued(exchange.account, turn)
        exchange.answer.saved_names = before.union(records, keys)
        exchange.answer.state = CaptureState.LATE
        if saved is Saved.DONE:
            for conversation in joined.left:
                self._store.forget_soon(exchange.scope, conversation)
            exchange.answer.joined = NOT_JOINED
            exchange.answer.state = CaptureState.SAVED
            exchange.answer.reasoning_items = capture.reasoning_items
            exchange.answer.reasoning_bytes = capture.reasoning_bytes


# The replay of each route that belongs to a dialect; empty if the mode is off.
Replays = Mapping[Route, Replay]


def _with_keys(ask: Callable[[], Question[Any]]) -> Question[Any]:
    question = ask()
    lookups = [item._replace(doubtful=list(item.doubtful)) for item in question.lookups]
    return question._replace(lookups=lookups)
