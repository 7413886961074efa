"""
Replay: the steps of an exchange on a replayed route, in addition to forwarding it.

    ask (pure) -> look up (one await) -> decide (pure) -> send -> capture -> save

If a step fails, the failure is counted, and the request is forwarded unchanged.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from functools import partial

from reasoning_replay.adapters.resilience.safe_store import SafeStore, Saved
from reasoning_replay.adapters.runtime.offload import Busy, Offloader, is_long
from reasoning_replay.core.dialects.base import (
    NOT_BEGUN,
    Anew,
    Bodies,
    Caller,
    Cure,
    Decision,
    Question,
)
from reasoning_replay.core.dialects.captures import Origin
from reasoning_replay.core.dialects.continuation import NOTHING_FOUND
from reasoning_replay.core.dialects.engine import Engine
from reasoning_replay.core.dialects.error_texts import Refusal
from reasoning_replay.core.dialects.registry import CAPTURED_ROUTES, scope_in
from reasoning_replay.core.dialects.states import CaptureState, RequestState, Way
from reasoning_replay.core.history.lookup_keys import (
    RESPONSE,
    Lookup,
    LookupResult,
    count_led,
    key_of_response,
    keys_of_turn,
)
from reasoning_replay.core.history.records import records_of_part, withheld_records
from reasoning_replay.core.tenancy.scope import Scoping, account_of
from reasoning_replay.core.wire.json_spans import TooMany, Unspliceable
from reasoning_replay.web.exchange import Exchange

# Items that are saved at once; each takes about 50 microseconds on the event loop.
SAVED_AT_ONCE = 64
# Turns of which the keys are computed at once.
COUNTED_AT_ONCE = 64
_STATES = {
    Saved.DONE: CaptureState.SAVED,
    Saved.LATE: CaptureState.LATE,
    Saved.FAILED: CaptureState.STORE_FAILED,
    Saved.DELETED: CaptureState.DELETED,
}


@dataclass(frozen=True, slots=True)
class Replay:
    """
    Preparation of requests and capture of responses, for one upstream and one dialect.

    Attributes:
        engine: The engine of the dialect.
        scoping: Rule for the scope of a request.
        store: Store that never raises for an exchange.
        offloader: Threads for long work.
        epoch_ms: Clock in milliseconds since the epoch; it orders turns.
        is_shadow: Whether requests are forwarded unchanged and decisions are only recorded.
        heals: Whether a refused request may be sent once more.
        store_budget_s: Total time that one exchange may wait for the store.
    """

    engine: Engine
    scoping: Scoping
    store: SafeStore
    offloader: Offloader
    epoch_ms: Callable[[], int]
    is_shadow: bool
    heals: bool
    store_budget_s: float

    def identify(self, exchange: Exchange, headers: Mapping[str, str]) -> None:
        """Set the tenant, the scope, the account and the store budget of an exchange."""
        exchange.tenant = tenant = self.scoping.of(headers)
        exchange.scope = None if tenant is None else scope_in(self.engine.name, tenant)
        exchange.lease.tenant = exchange.scope or b""
        if self.scoping.former is not None and (old := self.scoping.former.of(headers)) is not None:
            exchange.former_scope = scope_in(self.engine.name, old)
        exchange.account = account_of(headers)
        exchange.store_budget = self.store.budget(self.store_budget_s)

    def may_tell(self, status: int) -> bool:
        """Return whether a response with this status may carry the header with the result."""
        return self.scoping.tells(status)

    # --- requests ---

    async def prepare(
        self, exchange: Exchange, body: bytes, headers: Mapping[str, str], path: str = ""
    ) -> Bodies:
        """
        Decide which reasoning a request lacks, and inject it.

        Args:
            exchange: Its scope is set; the decision and the capture are recorded in it. Its lease
                holds the size of `body`, and is extended by what is added.
            body: Complete body, without content coding.
            headers: Headers of the request.
            path: Its path, without the query; "" if it has none of its own.

        Returns:
            The body as received, and as it is sent.
        """
        unread = Bodies(body, body, path)
        scope = exchange.scope
        if scope is None:
            exchange.request.state = RequestState.NO_SCOPE
            return unread
        try:
            if exchange.former_scope is not None:
                scope = exchange.scope = await self._home(exchange, body, headers, path)
            decision = await self._decided(exchange, scope, body, headers, path)
            self._note_decision(exchange, decision)
        except TooMany:
            exchange.request.state = RequestState.TOO_LARGE
            return unread
        except Unspliceable:
            exchange.request.state = RequestState.UNREADABLE
            return unread
        except Busy:
            exchange.note_unread(RequestState.BUSY)
            return unread
        bodies = unread
        if decision.base is not body:
            bodies = Bodies(body, decision.body, path, added=decision.added)
        elif decision.edits:
            # It is not held twice: it is sent in pieces.
            bodies = Bodies(body, None, path, decision.edits, decision.added)
        bodies.is_doubted = decision.is_doubted
        bodies.is_continued = decision.origin is not None and bool(decision.origin.conversation)
        if not exchange.lease.reserve(bodies.size_bytes - len(body)):
            exchange.note_unread(RequestState.BUSY)
            return unread
        return bodies

    async def _home(
        self, exchange: Exchange, body: bytes, headers: Mapping[str, str], path: str
    ) -> bytes:
        """
        Return the scope of the secret under which most of a request's history is stored.

        Of equals it is the first secret's, so a conversation stays where it began, and a new one
        is stored under the first. Nothing is copied.
        """
        spaces = [one for one in (exchange.scope, exchange.former_scope) if one is not None]
        for space in spaces:
            if self.engine.begun(body, space, path).is_any:
                return space
        is_slow = is_long(body)
        async with self._document(exchange, len(body), is_slow=is_slow):
            ask = partial(self.engine.ask, body, headers, NOT_BEGUN, path)
            question = await self._question(ask, spaces[0], is_slow=is_slow)
        counts: dict[bytes, tuple[int, int]] = {}
        for space in spaces:
            found = await self._look_up(exchange, space, question) or NOTHING_FOUND
            count = partial(count_led, question.lookups, found.turns)
            is_slow = len(found.turns) > COUNTED_AT_ONCE
            counts[space] = await self.offloader.run(count, space, is_long=is_slow)
        return max(spaces, key=lambda space: counts[space])  # the first of equals

    def _document(
        self, exchange: Exchange, size: int, *, is_slow: bool
    ) -> AbstractAsyncContextManager[None]:
        if not is_slow:
            return nullcontext()
        return self.offloader.document(exchange.scope, size)

    async def _decided(
        self, exchange: Exchange, scope: bytes, body: bytes, headers: Mapping[str, str], path: str
    ) -> Decision:
        """Return the decision about a request; what is decided already is used while it holds."""
        begun = self.engine.begun(body, scope, path)
        while True:  # once, and again only if anything has changed
            ask = partial(self.engine.ask, body, headers, begun, path)
            is_slow = is_long(begun.unread(body))
            try:
                async with self._document(exchange, len(body), is_slow=is_slow):
                    return await self._decision(exchange, scope, body, ask, is_slow=is_slow)
            except Anew as anew:
                begun = anew.begun

    async def _decision(
        self,
        exchange: Exchange,
        scope: bytes,
        body: bytes,
        ask: Callable[[], Question],
        *,
        is_slow: bool,
    ) -> Decision:
        """
        Return the decision about a request.

        Raises:
            Anew: What is decided already does not hold.
        """
        question = await self._question(ask, scope, is_slow=is_slow)
        if question.begun.known.changed_by(partial(self.store.line, scope)):
            raise Anew(question.begun.anew(Way.OTHER_TURNS))  # its lookup would be in vain
        found = await self._look_up(exchange, scope, question)
        caller, is_created = _caller(exchange, scope), exchange.route in CAPTURED_ROUTES
        decide = partial(self.engine.decide, caller, body, question, found, is_created=is_created)
        return await self.offloader.run(decide, scope, is_long=is_slow)

    async def _look_up(
        self, exchange: Exchange, scope: bytes, question: Question
    ) -> LookupResult | None:
        if not question.lookups:
            return NOTHING_FOUND
        return await self.store.look_up(scope, question.lookups, exchange.store_budget)

    def _note_decision(self, exchange: Exchange, decision: Decision) -> None:
        """Record a decision, and begin the capture of the response."""
        exchange.note_decision(decision)
        if exchange.request.state == RequestState.STORE_FAILED and exchange.store_budget.is_used_up:
            exchange.request.state = RequestState.BUDGET_EXCEEDED
        if exchange.route in CAPTURED_ROUTES:
            exchange.response.capture = self.engine.capture(decision.origin)

    async def prepare_retrieval(self, exchange: Exchange, path: str) -> None:
        """Capture a retrieved response as a part of the turn that its request began."""
        retrieval = self.engine.readers.retrieval
        response_id = retrieval.id_in(path) if retrieval is not None else ""
        if exchange.scope is None or retrieval is None or not response_id:
            return
        lookups = [Lookup(RESPONSE, [key_of_response(response_id)])]
        for space in filter(None, (exchange.scope, exchange.former_scope)):
            found = await self.store.look_up(space, lookups, exchange.store_budget)
            origin = retrieval.origin_of(response_id, found or NOTHING_FOUND)
            if origin is not None:
                exchange.scope = space
                exchange.response.capture = self.engine.capture(origin)
                return

    def follow(self, exchange: Exchange, origin: Origin | None) -> None:
        """Capture a response to an unknown request; `origin` is the turn it continues, if known."""
        exchange.response.capture = self.engine.capture(origin)

    # --- refusals ---

    async def cure(
        self,
        exchange: Exchange,
        bodies: Bodies,
        refusal: Refusal,
        *,
        without_reasoning: bool = False,
    ) -> Cure | None:
        """
        Return the cure for a refused request; None if there is none.

        `without_reasoning` as in `Dialect.cure`.

        Raises:
            Busy: There is no memory for it, or no thread.
            Unspliceable: The request cannot be parsed.
        """
        # For the refused body, if it is not joined yet, and for the cured one.
        if not exchange.lease.reserve(2 * len(bodies.received)):
            raise Busy
        # A short request may be long with what was added to it.
        scope, is_slow = exchange.scope, is_long(bodies.sent)
        async with self._document(exchange, len(bodies.sent), is_slow=is_slow):
            ask = partial(self.engine.ask_for_cure, bodies, refusal)
            question = await self._question(ask, scope, is_slow=is_slow)
            found: LookupResult | None = None
            if scope is not None:
                found = await self.store.look_up(scope, question.lookups, exchange.store_budget)
            held = found or NOTHING_FOUND
            cure = partial(
                self.engine.cure,
                scope,
                bodies,
                question,
                refusal,
                held,
                without_reasoning=without_reasoning,
            )
            return await self.offloader.run(cure, scope, is_long=is_slow)

    async def learn(self, exchange: Exchange, refusal: Refusal, cure: Cure) -> None:
        """Learn from an accepted cure: the reasoning that it lacks would be refused again."""
        if exchange.scope is None:
            return
        self.engine.learn(exchange.scope, refusal, cure, exchange.request.model)
        for turn in cure.withheld:
            records = withheld_records(turn, cure.lost.__contains__)
            await self.store.save(
                exchange.scope, turn.conversation, records, {}, exchange.store_budget
            )

    async def _question(
        self, ask: Callable[[], Question], tenant: bytes | None, *, is_slow: bool
    ) -> Question:
        """Parse a request; for a long one, the keys are also computed in the thread."""
        if not is_slow:
            return ask()
        return await self.offloader.run(partial(_with_keys, ask), tenant)

    # --- responses ---

    async def save(self, exchange: Exchange, *, is_over: bool = False) -> None:
        """
        Save what is new of the captured turn, if there is anything, in parts of a bounded size.

        Args:
            exchange: Its response is captured.
            is_over: Whether the response is over: failed saves are then repeated at last.
        """
        capture, report = exchange.response.capture, exchange.response
        if capture is None:
            return
        if capture.is_behind:
            async with self._document(exchange, capture.held_bytes, is_slow=True):
                await self.offloader.run(capture.catch_up, exchange.scope)
        if exchange.scope is None:
            return
        is_retried = is_over and not capture.dirty and report.state == CaptureState.STORE_FAILED
        while capture.dirty:
            report.state = report.state or CaptureState.NOTHING
            part = capture.snapshot(self.epoch_ms(), SAVED_AT_ONCE).part
            if part is not None:
                turn = part.turn
                exchange.conversation, report.turn = turn.conversation, turn.id
                self.engine.note_issued(exchange.account, part.reasoning)
                await self._save(
                    exchange, exchange.scope, records_of_part(part), keys_of_turn(turn)
                )
            if capture.dirty:
                await asyncio.sleep(0)  # other exchanges run between two parts
        if is_retried:
            await self._save(exchange, exchange.scope, {}, {})

    async def _save(
        self,
        exchange: Exchange,
        scope: bytes,
        records: Mapping[bytes, bytes],
        keys: Mapping[bytes, bool],
    ) -> None:
        """Save a part of the turn; what the store does not take now stays in the local table."""
        report = exchange.response
        saved = await self.store.save(
            scope, exchange.conversation, records, keys, exchange.store_budget
        )
        report.state = _STATES[saved]
        if saved is Saved.DONE and report.capture is not None:
            report.reasoning_items = report.capture.reasoning_items
            report.reasoning_bytes = report.capture.reasoning_bytes


# The replay of each route that belongs to a dialect; empty if the mode is off.
Replays = Mapping[str, Replay]


def _caller(exchange: Exchange, scope: bytes) -> Caller:
    return Caller(scope, exchange.account)


def _with_keys(ask: Callable[[], Question]) -> Question:
    question = ask()
    lookups = [item._replace(content_keys=list(item.content_keys)) for item in question.lookups]
    return question._replace(lookups=lookups)
