"""
What is done to a request on a replayed route, and learned from its answer.

Ask, recall, decide, splice: the two awaits in here are the store's, the rest is core.
What goes wrong in here is counted, and the request goes out as it came.
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from reasoning_replay.adapters.resilience.safe_store import Budget, SafeStore, Saved
from reasoning_replay.adapters.runtime.offload import Offloader, is_long
from reasoning_replay.core.dialects.responses.capture import Capture, Origin
from reasoning_replay.core.dialects.responses.heal.cure import Cure, asked_of, cure
from reasoning_replay.core.dialects.responses.heal.diagnosis import Diagnosis, RefusalKind
from reasoning_replay.core.dialects.responses.request import History, Request, read_request
from reasoning_replay.core.history.lookup_keys import (
    RESPONSE,
    Lookup,
    LookupResult,
    key_of_response,
    keys_of_request,
    keys_of_turn,
)
from reasoning_replay.core.history.model_names import family
from reasoning_replay.core.history.prefix_cache import PrefixCache
from reasoning_replay.core.history.turns import Context, records_of, turn_id, withheld_records
from reasoning_replay.core.tenancy.scope import account_of
from reasoning_replay.core.wire.json_spans import TooMany, Unspliceable
from reasoning_replay.web.exchange import Exchange
from reasoning_replay.web.pipeline.decision import ReplaySettings, RequestPlanner, Whose
from reasoning_replay.web.pipeline.refusal_memory import RefusalMemory
from reasoning_replay.web.routes import Route, retrieved

__all__ = ["Prepared", "Replay", "ReplaySettings"]

# Of inputs that were read lately: some twenty long conversations under way at once.
LATELY_MAX_BYTES = 24 << 20
_NOTHING_HELD = LookupResult()
# Faults that are the model's own, and so are expected of it from then on.
_OF_MODEL = frozenset({RefusalKind.INCLUDE, RefusalKind.NO_REASONING_MODEL})


@dataclass(frozen=True, slots=True)
class Prepared:
    """
    A request as it shall go out.

    Attributes:
        original: What the client said: the bytes that came, decoded where that was possible.
        body: The same object, unless something is edited. Then it is not encoded.
    """

    original: bytes
    body: bytes


class Replay:
    """Prepares requests and captures answers, for one upstream."""

    def __init__(
        self,
        settings: ReplaySettings,
        store: SafeStore,
        clock: Callable[[], float],
        epoch_ms: Callable[[], int],
    ) -> None:
        """
        Keep what is shared by all exchanges.

        Args:
            settings: Plain values.
            store: Guarded, so that it cannot raise.
            clock: Seconds, never going backwards.
            epoch_ms: Milliseconds since the epoch, to order turns by.
        """
        self._settings = settings
        self._store = store
        self._epoch_ms = epoch_ms
        self.is_shadow = settings.is_shadow
        self.heals = settings.heals and not settings.is_shadow
        self._learned = RefusalMemory(clock)
        self._decider = RequestPlanner(settings, self._learned)
        self._lately: PrefixCache[History] = PrefixCache(LATELY_MAX_BYTES, threading.Lock())
        self._aside = Offloader()

    def identify(self, exchange: Exchange, headers: Mapping[str, str]) -> None:
        """Find out whose exchange it is."""
        exchange.scope = self._settings.scoping.of(headers)
        exchange.account = account_of(headers)
        exchange.store_budget = Budget(self._settings.store_budget_s)

    def may_tell(self, status: int) -> bool:
        """Tell whether an answer of this status may say what was done."""
        return self._settings.scoping.tells(status)

    async def prepare(
        self, exchange: Exchange, body: bytes, headers: Mapping[str, str]
    ) -> Prepared:
        """
        Decide what a request lacks, and splice it in.

        Args:
            exchange: Its scope is known; outcomes and capture are filled in.
            body: Whole, and not encoded.
            headers: The request's.
        """
        if exchange.scope is None:
            exchange.asked = "no_scope"
            return Prepared(body, body)
        is_slow = is_long(body)
        try:
            if is_slow:
                read = partial(self._read, body, headers, exchange.scope)
                request, asked = await self._aside.run(read, is_long=True)
            else:
                request, asked = self._read(body, headers, exchange.scope)
        except Unspliceable as error:
            exchange.asked = "too_large" if isinstance(error, TooMany) else "unreadable"
            return Prepared(body, body)
        found: LookupResult | None = _NOTHING_HELD
        if asked:
            found = await self._store.look_up(exchange.scope, asked, exchange.store_budget)
        is_created = exchange.route in Route.CAPTURED
        whose = Whose(exchange.scope, exchange.account)
        decide = self._decider.decide
        if is_slow:
            work = partial(decide, whose, body, request, found, is_created=is_created)
            decided = await self._aside.run(work, is_long=True)
        else:
            decided = decide(whose, body, request, found, is_created=is_created)
        origin = decided.origin
        exchange.conversation = origin.conversation
        if is_created:
            exchange.capture = Capture(origin, self._settings.frame_max_bytes)
        exchange.model = origin.model
        exchange.asked = decided.asked
        if decided.asked == "store_failed" and exchange.store_budget.is_used_up:
            exchange.asked = "budget_exceeded"
        exchange.injected_bytes = decided.injected_bytes
        exchange.repairs.update(decided.repairs)
        exchange.outcomes.update(decided.outcomes)
        exchange.edited = decided.body is not body
        exchange.strip = decided.strip
        return Prepared(body, decided.body)

    def _read(
        self, body: bytes, headers: Mapping[str, str], scope: bytes
    ) -> tuple[Request, list[Lookup]]:
        request = read_request(body, headers, self._lately, scope)
        return request, keys_of_request(request)

    async def cure(
        self, exchange: Exchange, prepared: Prepared, diagnosis: Diagnosis
    ) -> Cure | None:
        """
        Decide what to send instead of a request that was refused.

        Raises:
            Unspliceable: The request cannot be read.
        """
        is_slow = is_long(prepared.body)
        read = partial(_read_both, prepared, is_edited=exchange.edited)
        sent, given = await self._aside.run(read, is_long=is_slow)
        if sent.body is not prepared.body:  # half a surrogate in it: it can be taken back whole
            return Cure(prepared.original, takes_back=True) if exchange.edited else None
        if exchange.scope is None:
            return cure(sent, given, diagnosis, LookupResult(), self._decider.policy)
        asked = asked_of(sent, diagnosis)
        held = await self._store.look_up(exchange.scope, asked, exchange.store_budget)
        kept = held or LookupResult()
        recalled = self._learned.less_refused(exchange.scope, kept)
        work = partial(cure, sent, given, diagnosis, recalled, self._decider.policy)
        found = await self._aside.run(work, is_long=is_slow)
        if found is None or not found.evicted:
            return found
        # As they are stored: what is only not sent for an hour stays so.
        named = {turn.id for turn in found.evicted}
        return replace(found, evicted=tuple(turn for turn in kept.turns if turn.id in named))

    async def learn(self, exchange: Exchange, fault: RefusalKind, cure: Cure) -> None:
        """Note that a cured request was taken: what it went without will be refused again."""
        if exchange.scope is None:
            return
        for blob in cure.lost:
            self._learned.refuse(exchange.scope, RefusalKind.BLOB, blob)
        for turn in cure.evicted:
            records = withheld_records(turn, cure.lost.__contains__)
            await self._store.save(
                exchange.scope, turn.conversation, records, [], exchange.store_budget
            )
        if fault in _OF_MODEL:
            read = partial(read_request, cure.body, {})
            model = family((await self._aside.run(read, is_long=is_long(cure.body))).model)
            self._learned.refuse(exchange.scope, fault, model)

    async def prepare_retrieval(self, exchange: Exchange, path: str) -> None:
        """Capture the answer to `GET …/responses/{id}` as the turn that its request began."""
        response_id = retrieved(path)
        if exchange.scope is None or not response_id:
            return
        asked = [Lookup(RESPONSE, [key_of_response(response_id)])]
        found = await self._store.look_up(exchange.scope, asked, exchange.store_budget)
        recalled = found or LookupResult()
        this = turn_id(response_id)
        begun = next((turn for turn in recalled.turns if turn.id == this), None)
        if begun is None:
            origin = Origin(context=Context(), model="")
        elif any(item.run for item in begun.items):
            return  # captured when it was made, with blobs: what is retrieved has none
        else:
            origin = Origin(
                context=begun.context,
                model=begun.models[0] if begun.models else "",
                conversation=begun.conversation,
                parent=begun.parent,
                stores=begun.is_stored,
                created_ms=begun.created_ms,
            )
        exchange.capture = Capture(origin, self._settings.frame_max_bytes)

    def follow(self, exchange: Exchange, origin: Origin | None) -> None:
        """Capture an answer that no request is known of; `origin` is what it comes behind."""
        begun = origin or Origin(context=Context(), model="")
        exchange.capture = Capture(begun, self._settings.frame_max_bytes)

    async def read(self, exchange: Exchange, answer: bytes) -> None:
        """Learn from a whole JSON answer."""
        if exchange.capture is None:
            return
        if is_long(answer):
            await self._aside.run(partial(exchange.capture.read, answer), is_long=True)
        else:
            exchange.capture.read(answer)

    async def save(self, exchange: Exchange) -> None:
        """Save what the answer has brought so far, if there is anything new."""
        capture = exchange.capture
        if capture is None or exchange.scope is None or not capture.dirty:
            return
        turn = capture.snapshot(self._epoch_ms()).turn
        if turn is None:
            exchange.captured = exchange.captured or "nothing"
            return
        exchange.conversation = turn.conversation
        before = exchange.saved_names
        keys = [key for key in keys_of_turn(turn) if key not in before]
        records = records_of(turn, before)
        if not records and not keys:
            return
        saved = await self._store.save(
            exchange.scope, turn.conversation, records, keys, exchange.store_budget
        )
        if saved is Saved.FAILED:
            exchange.captured = "store_failed"
            return
        self._learned.issue(exchange.account, turn)
        exchange.saved_names = before.union(records, keys)
        exchange.captured = "late"
        if saved is Saved.DONE:
            exchange.captured = "saved"
            exchange.captured_items = capture.reasoning_items
            exchange.captured_bytes = capture.reasoning_bytes


def _read_both(prepared: Prepared, *, is_edited: bool) -> tuple[Request, Request]:
    """Return a request as it went out, and as it came."""
    sent = read_request(prepared.body, {})
    return sent, read_request(prepared.original, {}) if is_edited else sent
