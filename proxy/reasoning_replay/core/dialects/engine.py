"""
Engine: the way of a request, which is the same in every dialect.

    begun -> ask -> (look up) -> decide -> (send) -> capture
    ask_for_cure -> (look up) -> cure -> (send) -> learn: if it is refused

What is decided already is an argument of `ask` and `decide`: nothing for a first request, otherwise
the state that the longest known beginning of the request left. If that cannot be gone on from, they
raise `Anew`.

A dialect is data and readers (`base.Dialect`). The engine holds all state: the refusal memory, and
the prefix cache, which it shares with those of the other dialects. Both are bounded, and every call
may run in a thread.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from msgspec import structs

from reasoning_replay.core.dialects.added_members import (
    AddedMember,
    edits_of,
    with_added,
    without_added,
)
from reasoning_replay.core.dialects.base import (
    NOT_BEGUN,
    Anew,
    Begun,
    Bodies,
    Caller,
    Cure,
    Decision,
    Dialect,
    Question,
)
from reasoning_replay.core.dialects.cache_diagnoses import CACHE_DIAGNOSIS
from reasoning_replay.core.dialects.cache_keys import CACHE_KEY, cache_key_of, member_of
from reasoning_replay.core.dialects.captures import UNKNOWN_ORIGIN, Capture, Origin
from reasoning_replay.core.dialects.continuation import NOTHING_FOUND, Continuation, continuation_of
from reasoning_replay.core.dialects.error_texts import Refusal, error_names
from reasoning_replay.core.dialects.known_state import (
    KnownState,
    Prefixes,
    injected_after,
    known_state,
)
from reasoning_replay.core.dialects.lessons import (
    AS_GIVEN,
    FORM,
    NO_REASONING,
    OLDER,
    refused_by,
    taught_by,
    with_doubt,
    with_lessons,
)
from reasoning_replay.core.dialects.refusal_memory import KnownRefusals, RefusalMemory
from reasoning_replay.core.dialects.repairs import repaired
from reasoning_replay.core.dialects.request_body import ParsedRequest
from reasoning_replay.core.dialects.states import RequestState, Way
from reasoning_replay.core.dialects.unknown_words import is_about_request, or_form
from reasoning_replay.core.history.decided import Reopened
from reasoning_replay.core.history.item_summary import maybe_summary
from reasoning_replay.core.history.items import HistoryItem
from reasoning_replay.core.history.lookup_keys import LookupResult, keys_of_request
from reasoning_replay.core.history.matching.matches import match_items
from reasoning_replay.core.history.plan import Plan
from reasoning_replay.core.history.prefix_cache import Owner
from reasoning_replay.core.history.turns import Lesson, Reasoning
from reasoning_replay.core.tenancy.scope import Account
from reasoning_replay.core.wire.packed_edits import NO_EDITS

EVERYONE = b""  # owner of what is refused to all tenants
_OF_ADDED = frozenset({CACHE_KEY, CACHE_DIAGNOSIS})
_NO_PLAN = Plan()


class Engine:
    """
    The engine of one dialect at one upstream.

    Attributes:
        name: Name of the dialect.
        readers: Its readers.
    """

    def __init__(  # noqa: PLR0913 (all parts of an engine)
        self,
        dialect: Dialect[Any, Any],
        clock: Callable[[], float],
        prefixes: Prefixes,
        capture_max_bytes: int,
        *,
        epoch_ms: Callable[[], int],
        is_shadow: bool = False,
        adds_cache_keys: bool = False,
        compares_prompts: bool = False,
    ) -> None:
        """
        Create the state that all exchanges share.

        The clock is monotonic, in seconds; `epoch_ms` is that of the turns. All engines share one
        prefix cache. No event may be larger than `capture_max_bytes`, and no more is kept of one
        response. In shadow mode, requests are decided on but sent unchanged. With
        `adds_cache_keys`, a request without a cache key gets that of its conversation; with
        `compares_prompts`, it gets the member that asks why the prompt cache missed.
        """
        self.name = dialect.name
        self.readers = dialect.readers
        self._dialect = dialect
        self._read = dialect.readers.request
        self._capture_max_bytes = capture_max_bytes
        self._is_shadow = is_shadow
        self._adds_cache_keys = adds_cache_keys and not is_shadow
        self._compares_prompts = compares_prompts and not is_shadow
        self._refusals = RefusalMemory(clock)
        self._epoch_ms = epoch_ms
        self._prefixes = prefixes

    # Requests

    def begun(self, body: bytes, scope: bytes, path: str = "") -> Begun:
        """Return what is decided already about the longest known beginning of a request."""
        owner = self._owner(scope, path)
        prefix = self._prefixes.find(owner, body)
        if prefix is None or prefix.known is None:
            return Begun(owner, prefix)
        begun = Begun(owner, prefix, prefix.known, Way.SHORT)
        return begun if body.endswith(prefix.around) else begun.anew(Way.OTHER_FORM)

    def ask(
        self, body: bytes, headers: Mapping[str, str], begun: Begun = NOT_BEGUN, path: str = ""
    ) -> Question:
        """
        Parse what a request has after its beginning; return the store lookups that it needs.

        The body is without content coding, and the path without the query: it names the model in
        some dialects.

        Raises:
            Anew: What is decided cannot be gone on from.
            TooMany: The request has too many items or values to process.
            Unspliceable: Parsers could disagree on the body; it must be forwarded unchanged.

        Cost: linear in what is new.
        """
        known, prefix = begun.known, begun.prefix
        if known.outline is None or prefix is None:
            request = self._read(body, headers, prefix, path)
            return Question(request, keys_of_request(request), begun)
        earlier = known.outline, known.end, known.decided
        new = self._read.after(body, headers, prefix, earlier)
        if new is None or not known.allows(new):
            raise Anew(begun.anew(Way.OTHER_FORM))
        new.bound_to = known.binding
        return Question(new, [*keys_of_request(new), *known.lookups], begun)

    def decide(
        self,
        caller: Caller,
        body: bytes,
        question: Question,
        found: LookupResult | None,
        *,
        is_created: bool,
    ) -> Decision:
        """
        Decide which reasoning a request lacks after what is decided, and inject all of it.

        The body is as the client sent it, after content decoding. `found` is None if the store did
        not respond. `is_created` says whether the request creates a response that is captured.

        Raises:
            Anew: What is decided does not hold any more.
        """
        begun, asked = question.begun, question.request
        known, result = begun.known, found or NOTHING_FOUND
        refused = self._refusals.known_to(caller.scope, caller.account)
        refused = with_lessons(refused, result.turns, asked.model, self._epoch_ms())
        begun.check(result, refused.mark)
        try:
            request, repairs = repaired(self._dialect, asked, result, refused)
            if begun.is_any and request is not asked:
                raise Anew(begun.anew(Way.REFUSED))
            matched = self._dialect.match(request, result, refused)
            continued = continuation_of(request, found, refused, matched)
            plan = self._planned(request, continued, refused)
        except Reopened:
            raise Anew(begun.anew(Way.OTHER_ITEMS)) from None
        if begun.is_any and not asked.places:
            plan = replace(plan, binding=known.binding, open_from=0 if known.is_open else None)
        elif known.is_open and plan.open_from != 0:
            raise Anew(begun.before_open())
        plan = plan.after(known.planned)
        if is_created and not (self._is_shadow or refused.has(FORM, AS_GIVEN)):
            plan = self._dialect.finished(request, plan, continued.parent, refused)
        injected = injected_after(known, request, plan, is_shadow=self._is_shadow)
        edited, sent = request, injected.edits.plus(injected.more)
        if self._is_shadow:
            edited, sent = asked, NO_EDITS
        origin = self._origin(caller, edited, continued, refused, injected.binding)
        before = continued.parent.response_id if continued.parent is not None else ""
        added = self._added_to(edited, origin, before) if is_created else ()
        way = self._way_of(caller, begun, continued)
        state = None
        lasts = edited is asked and not continued.has_failed
        if lasts and not self._is_shadow and (asked.places or not begun.is_any):
            state = known_state(known, asked, injected, (continued.matched, result), refused.mark)
        if state is not None and state.binding != origin.binding:
            state = None  # the binding is that of a request that is sent as it is
        self._keep(question, state)
        planned = injected.planned
        return Decision(
            way=way,
            state=RequestState.STATEFUL if request.is_stateful else continued.state,
            base=body if edited is asked else edited.body,
            edits=sent.plus(edits_of(edited.body, added)),
            added=added,
            is_compared=bool(before) and any(one.kind == CACHE_DIAGNOSIS for one in added),
            origin=origin,
            repairs=repairs,
            outcomes=planned.outcomes,
            forms=planned.forms,
            injected_bytes=0 if self._is_shadow else planned.injected_bytes,
            summary=maybe_summary(request, planned.notes, injected.shown),
            is_doubted=refused.has(FORM, OLDER),
        )

    # Responses

    def capture(self, origin: Origin | None) -> Capture:
        """Return the capture for a response; `origin` is None if the request is unknown."""
        return self.readers.capture(origin or UNKNOWN_ORIGIN, self._capture_max_bytes)

    def note_issued(self, account: Account, reasoning: Iterable[Reasoning]) -> None:
        """Record for which account upstream issued the reasoning of a response."""
        if self._dialect.has_accounts:
            self._refusals.issue(account, reasoning)

    # Refusals

    def diagnose(self, status: int, body: bytes, *, is_certain: bool = True) -> Refusal:
        """
        Return why a request was refused.

        Args:
            status: Status of the response; 400 for an event.
            body: Decoded body, or the data of the event.
            is_certain: Whether the status says that the request is at fault.
        """
        refusal: Refusal = self.readers.diagnose(status, body)
        if is_certain or is_about_request(error_names(body)):
            return or_form(refusal, status, body)
        return refusal

    def ask_for_cure(self, bodies: Bodies, refusal: Refusal) -> Question:
        """
        Parse a refused request and return the store lookups that a cure needs.

        Raises:
            Unspliceable: The body cannot be parsed safely.
        """
        sent = self._read(without_added(bodies.sent, bodies.added), {}, path=bodies.path)
        return Question(sent, self._dialect.lookups_for_cure(sent, refusal))

    def cure(  # noqa: PLR0913 (all that a cure depends on)
        self,
        scope: bytes | None,
        bodies: Bodies,
        question: Question,
        refusal: Refusal,
        found: LookupResult,
        *,
        without_reasoning: bool = False,
    ) -> Cure | None:
        """
        Return the request to send instead of a refused one; None if there is none.

        `without_reasoning` as in `Dialect.cure`.
        """
        sent, added = question.request, bodies.added
        if any(one.kind == refusal.kind for one in added):
            body = with_added(sent.body, [one for one in added if one.kind != refusal.kind])
            return Cure(body, is_clients_own=body == bodies.received, is_same_history=True)
        if sent.is_mended:  # it has a lone surrogate, so it cannot be edited
            return Cure(bodies.received, is_clients_own=True) if bodies.is_edited else None
        given = self._read(bodies.received, {}, path=bodies.path) if bodies.is_edited else sent
        # What upstream refused is not repeated.
        self._prefixes.drop(self._owner(scope or b"", bodies.path), bodies.received)
        refused = self._refusals.known_to(scope or b"")
        refused = with_lessons(refused, found.turns, given.model, self._epoch_ms())
        usable = refused.without_refused(found)
        cured = self._dialect.cure(
            sent, given, refusal, usable, refused, without_reasoning=without_reasoning
        )
        if added and cured is not None and not cured.is_clients_own:
            cured = replace(cured, body=with_added(cured.body, added))
        if cured is None:
            return None
        if self._dialect.has_accounts:
            cured = with_doubt(cured, refusal.kind, found.turns, given.model)
        if cured.matched is not None or not bodies.is_continued:
            again = self._read(cured.body, {}, path=bodies.path)
            matched = cured.matched or match_items(again, usable)
            origin = continuation_of(again, found, refused, matched).origin
            cured = replace(cured, origin=origin)
        if not cured.withheld:
            return cured
        # Turns as stored: runs withheld for an hour only must not be withheld for good.
        named = {turn.id for turn in cured.withheld}
        return replace(cured, withheld=tuple(turn for turn in found.turns if turn.id in named))

    def lessons(self, refusal: Refusal, cure: Cure, model: str) -> tuple[Lesson, ...]:
        """Return what an accepted cure teaches about its conversation; see `learn`."""
        return taught_by(cure, self._dialect.lessons(refusal, cure, model))

    def learn(self, scope: bytes, refusal: Refusal, cure: Cure, model: str) -> None:
        """
        Record an accepted cure: upstream would refuse the content that it leaves out again.

        The model is the one of the request's `Origin`: the body may not name it.
        """
        for kind, what in refused_by(cure, self._dialect.lessons(refusal, cure, model)):
            self._refusals.refuse(scope, kind, what)
        if refusal.kind in _OF_ADDED:  # it does not depend on the tenant
            self._refusals.refuse(EVERYONE, refusal.kind, self.name)

    # Parts of a decision

    def _origin(
        self,
        caller: Caller,
        request: ParsedRequest[Any],
        continued: Continuation,
        refused: KnownRefusals,
        binding: bytes | None,
    ) -> Origin:
        """Return the origin of the response, with the binding and the cache key of the request."""
        origin = continued.origin
        if binding is None:
            binding = self._dialect.binding_of(request, refused)
        if binding:
            origin = structs.replace(origin, binding=binding)
        if refused.has(FORM, AS_GIVEN):
            return origin
        if self._adds_cache_keys:
            key = cache_key_of(caller.scope, request, continued.parent)
            origin = structs.replace(origin, cache_key=key)
        return structs.replace(origin, keeps_id=True) if self._compares_prompts else origin

    def _way_of(self, caller: Caller, begun: Begun, continued: Continuation) -> Way:
        """Return how much of a request was decided anew, and why."""
        newest = continued.matched.newest()
        if begun.way is not Way.NEW or newest is None:
            return begun.way
        gone = self._prefixes.room.maybe_gone((caller.scope, newest.conversation))
        return Way(gone.value) if gone is not None else Way.NEW

    def _planned(
        self, request: ParsedRequest[Any], continued: Continuation, refused: KnownRefusals
    ) -> Plan:
        """Return the plan of a request; unknown words may have refused all reasoning."""
        if continued.has_failed:
            return _NO_PLAN
        plan = self._dialect.plan(request, continued.matched, refused)
        is_refused = refused.has(FORM, AS_GIVEN) or refused.has(FORM, NO_REASONING)
        return plan.refused() if is_refused else plan

    def _added_to(
        self, request: ParsedRequest[HistoryItem], origin: Origin, response_id: str
    ) -> tuple[AddedMember, ...]:
        """Return the members to add to a request, which continues this response; "": unknown."""
        if not (origin.cache_key or origin.keeps_id) or request.is_mended:
            return ()
        refused = self._refusals.known_to(EVERYONE)
        key = named = b""
        if not refused.has(CACHE_KEY, self.name):
            key = member_of(request, origin.cache_key)
        if origin.keeps_id and not refused.has(CACHE_DIAGNOSIS, self.name):
            named = self._dialect.comparison_in(request, response_id)
        both = AddedMember(CACHE_KEY, key), AddedMember(CACHE_DIAGNOSIS, named)
        return tuple([one for one in both if one.text])

    def _owner(self, scope: bytes, path: str) -> Owner:
        return Owner(scope, self.name, path.encode("utf-8", "surrogateescape"))

    def _keep(self, question: Question, state: KnownState | None) -> None:
        """Keep the history of a request, parsed, or what was decided about it."""
        owner, before, *_ = question.begun
        prefix = question.request.prefix(state)
        if prefix is not None and prefix.end:
            self._prefixes.keep(owner, prefix, before)
