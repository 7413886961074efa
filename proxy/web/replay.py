"""
What is done to a request on a replayed route, and learned from its answer.

Ask, recall, decide, splice: the two awaits in here are the store's, the rest is core.
What goes wrong in here is counted, and the request goes out as it came.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from proxy.adapters.safe_store import Budget, SafeStore, Saved
from proxy.core import spans
from proxy.core.capture import Capture, Origin
from proxy.core.heal.cure import Cure, asked_of, cure
from proxy.core.heal.diagnosis import Diagnosis, Fault
from proxy.core.heal.repair import (
    Repair,
    Repairs,
    has_an_id_twice,
    has_thoughts,
    repair,
)
from proxy.core.identity import parent_of, recognise
from proxy.core.include import include_edit
from proxy.core.inject import Anchors, Outcome, Plan, Policy, plan
from proxy.core.keys import (
    RESPONSE,
    Asked,
    Recalled,
    key_of_response,
    keys_of_request,
    keys_of_turn,
)
from proxy.core.models import family, is_known_not_to_reason
from proxy.core.profiles import Profile
from proxy.core.request import Request, read_request
from proxy.core.scope import Scoping, account_of
from proxy.core.spans import TooMany, Unspliceable
from proxy.core.turns import Context, turn_id
from proxy.web.exchange import Exchange
from proxy.web.learned import Learned
from proxy.web.routes import Route, retrieved

__all__ = ["Prepared", "Replay", "ReplaySettings"]

# Faults that are the model's own, and so are expected of it from then on.
_OF_MODEL = frozenset({Fault.INCLUDE, Fault.NO_REASONING_MODEL})


@dataclass(frozen=True, slots=True)
class ReplaySettings:
    """The settings that matter here, as plain values; units as in `proxy.settings`."""

    scoping: Scoping
    is_shadow: bool
    anchors: Anchors
    profile: Profile
    include: str
    heals: bool
    repairs: Collection[Repair]
    frame_max_bytes: int
    store_budget_s: float


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
        self._policy = Policy(settings.anchors, settings.profile)
        self.is_shadow = settings.is_shadow
        self.heals = settings.heals and not settings.is_shadow
        self._learned = Learned(clock)

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
        try:
            request = read_request(body, headers)
        except Unspliceable as error:
            exchange.asked = "too_large" if isinstance(error, TooMany) else "unreadable"
            return Prepared(body, body)
        asked = keys_of_request(request)
        found: Recalled | None = Recalled()
        if asked:
            found = await self._store.recall(exchange.scope, asked, exchange.store_budget)
        recalled = self._learned.less_refused(exchange.scope, found or Recalled())
        base = body
        if request.body is body:  # nothing in it had to be read as something else
            request = self._repaired(exchange, request, recalled)
            base = request.body
        recognised = recognise(request, recalled)
        parent = parent_of(request, recognised, recalled)
        origin = Origin(
            context=request.context(),
            model=request.model,
            conversation=parent.conversation if parent is not None else b"",
            parent=parent.id if parent is not None else b"",
            stores=request.stores,
        )
        exchange.conversation = origin.conversation
        is_created = exchange.route in Route.CAPTURED
        if is_created:
            exchange.capture = Capture(origin, self._settings.frame_max_bytes)
        if request.is_stateful:
            exchange.asked = "stateful"
            return Prepared(body, body)
        exchange.asked = "planned" if found is not None else "store_failed"
        decided = plan(request, recognised, self._policy) if found is not None else Plan()
        if decided.outcomes:
            exchange.outcomes.update(decided.outcomes)
        if self.is_shadow:
            return Prepared(body, body)
        # Upstream says that it keeps nothing (zero data retention), and a blob was missing already.
        keeps_nothing = parent is not None and not parent.is_stored
        lacks_blob = keeps_nothing and Outcome.GUARDED_FORM in decided.outcomes
        wants = is_created and self._wants_include(exchange.scope, request, lacks_blob=lacks_blob)
        include = include_edit(request) if wants else None
        edits = [*decided.edits, include] if include is not None else decided.edits
        whole = spans.apply(base, edits)
        exchange.edited = whole is not body
        return Prepared(body, whole)

    def _repaired(self, exchange: Exchange, request: Request, recalled: Recalled) -> Request:
        """Mend what is certain, and read what came of it."""
        scope, learned = exchange.scope, self._learned
        if scope is None or request.is_stateful:
            return request
        if not (has_thoughts(request) or has_an_id_twice(request)):
            return request  # as most are: there is nothing to mend
        repairs = Repairs(
            allowed=self._settings.repairs,
            is_refused=lambda blob: (
                learned.is_refused(scope, Fault.BLOB, blob)
                or learned.is_anothers(exchange.account, blob)
            ),
            takes_reasoning=not learned.is_refused(
                scope, Fault.NO_REASONING_MODEL, family(request.model)
            ),
            profile=self._settings.profile,
        )
        mended = repair(request, recalled.turns, repairs)
        exchange.repairs.update(mended.counts)
        if mended.body is request.body:
            return request
        again = read_request(mended.body, {})
        again.hint = request.hint
        return again

    async def cure(
        self, exchange: Exchange, prepared: Prepared, diagnosis: Diagnosis
    ) -> Cure | None:
        """
        Decide what to send instead of a request that was refused.

        Raises:
            Unspliceable: The request cannot be read.
        """
        sent = read_request(prepared.body, {})
        given = read_request(prepared.original, {}) if exchange.edited else sent
        if sent.body is not prepared.body:  # half a surrogate in it: it can be taken back whole
            return Cure(prepared.original, takes_back=True) if exchange.edited else None
        if exchange.scope is None:
            return cure(sent, given, diagnosis, Recalled(), self._policy)
        asked = asked_of(sent, diagnosis)
        held = await self._store.recall(exchange.scope, asked, exchange.store_budget)
        kept = held or Recalled()
        recalled = self._learned.less_refused(exchange.scope, kept)
        found = cure(sent, given, diagnosis, recalled, self._policy)
        if found is None or not found.evicted:
            return found
        # What is only not sent for an hour stays kept.
        named = {turn.id for turn in found.evicted}
        turns = (turn for turn in kept.turns if turn.id in named)
        evicted = tuple(turn.without_reasoning(found.lost.__contains__) for turn in turns)
        return replace(found, evicted=evicted)

    async def learn(self, exchange: Exchange, fault: Fault, cure: Cure) -> None:
        """Note that a cured request was taken: what it went without will be refused again."""
        if exchange.scope is None:
            return
        for blob in cure.lost:
            self._learned.refuse(exchange.scope, Fault.BLOB, blob)
        for turn in cure.evicted:
            await self._store.save(exchange.scope, turn, [], exchange.store_budget)
        if fault in _OF_MODEL:
            model = family(read_request(cure.body, {}).model)
            self._learned.refuse(exchange.scope, fault, model)

    async def prepare_retrieval(self, exchange: Exchange, path: str) -> None:
        """Capture the answer to `GET …/responses/{id}` as the turn that its request began."""
        response_id = retrieved(path)
        if exchange.scope is None or not response_id:
            return
        asked = [Asked(RESPONSE, [key_of_response(response_id)])]
        found = await self._store.recall(exchange.scope, asked, exchange.store_budget)
        recalled = found or Recalled()
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
            )
        exchange.capture = Capture(origin, self._settings.frame_max_bytes)

    def follow(self, exchange: Exchange, origin: Origin | None) -> None:
        """Capture an answer that no request is known of; `origin` is what it comes behind."""
        begun = origin or Origin(context=Context(), model="")
        exchange.capture = Capture(begun, self._settings.frame_max_bytes)

    async def save(self, exchange: Exchange) -> None:
        """Save what the answer has brought so far, if there is anything new."""
        capture = exchange.capture
        if capture is None or exchange.scope is None or not capture.dirty:
            return
        snapshot = capture.snapshot(self._epoch_ms())
        if snapshot.turn is None:
            exchange.captured = exchange.captured or "nothing"
            return
        exchange.conversation = snapshot.turn.conversation
        keys = keys_of_turn(snapshot.turn)
        new = [key for key in keys if key not in exchange.saved_keys]
        saved = await self._store.save(exchange.scope, snapshot.turn, new, exchange.store_budget)
        if saved is Saved.FAILED:
            exchange.captured = "store_failed"
            return
        self._learned.issue(exchange.account, snapshot.turn)
        exchange.saved_keys.update(new)  # of what is late and fails, the store sees to the keys
        exchange.captured = "late"
        if saved is Saved.DONE:
            exchange.captured = "saved"
            exchange.captured_items = capture.reasoning_items

    def _wants_include(self, scope: bytes, request: Request, *, lacks_blob: bool) -> bool:
        """Ask for blobs where an item may have to go back to an upstream that knows no id of it."""
        profile = self._settings.profile
        if not profile.takes_include:
            return False
        if request.is_background or is_known_not_to_reason(request.model):
            return False
        match self._settings.include:
            case "never":
                return False
            case "auto" if request.stores and profile.keeps_items and not lacks_blob:
                return False
        return not self._learned.is_refused(scope, Fault.INCLUDE, family(request.model))
