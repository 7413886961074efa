"""
Request engine: what a request asks of the store, and what is injected into it.

    begun -> ask -> (look up) -> decide -> (send)

What is decided already is an argument of each: nothing for a first request, otherwise the state
that the longest known beginning of the request left. What cannot be gone on from is answered with
what to begin with instead.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from msgspec import structs

from reasoning_replay.core.dialects.added_members import AddedMember, edits_of
from reasoning_replay.core.dialects.base import Begun, Caller, Decision, Dialect, Question
from reasoning_replay.core.dialects.cache_diagnoses import CACHE_DIAGNOSIS
from reasoning_replay.core.dialects.cache_keys import CACHE_KEY, cache_key_of, member_of
from reasoning_replay.core.dialects.captures import Origin
from reasoning_replay.core.dialects.continuation import NOTHING_FOUND, Continuation, continuation_of
from reasoning_replay.core.dialects.known_state import Injected, KnownState, known_state
from reasoning_replay.core.dialects.lessons import AS_GIVEN, FORM, NO_REASONING, OLDER, with_lessons
from reasoning_replay.core.dialects.refusal_memory import KnownRefusals, RefusalMemory
from reasoning_replay.core.dialects.request_body import ParsedRequest
from reasoning_replay.core.dialects.states import RequestState, Way
from reasoning_replay.core.dialects.unknown_words import form_of
from reasoning_replay.core.history.decided import Reopened
from reasoning_replay.core.history.item_index import by_conversation
from reasoning_replay.core.history.item_summary import (
    ItemSummary,
    ShownItems,
    shown_items,
    summarise,
)
from reasoning_replay.core.history.items import HistoryItem
from reasoning_replay.core.history.lookup_keys import LookupResult, keys_of_request
from reasoning_replay.core.history.plan import Plan
from reasoning_replay.core.history.prefix_cache import Owner, PrefixCache
from reasoning_replay.core.history.request_history import HistoryPrefix
from reasoning_replay.core.history.turns import Turn
from reasoning_replay.core.wire.packed_edits import NO_EDITS

Prefixes = PrefixCache[HistoryPrefix[Any], KnownState]
NOT_BEGUN = Begun()
EVERYONE = b""  # owner of what is refused to all tenants
_NO_PLAN = Plan()
_NO_REPAIRS: Mapping[str, int] = MappingProxyType({})


class RequestEngine:
    """
    The part of an engine that decides about requests, and the state of all of it.

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
        prefix cache. No event may be
        larger than `capture_max_bytes`, and no more is kept of one response. In shadow mode,
        requests are decided on but sent unchanged. With `adds_cache_keys`, a request without a
        cache key gets that of its conversation; with `compares_prompts`, it gets the member that
        asks why the prompt cache missed.
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
    ) -> Question | Begun:
        """
        Parse what a request has after its beginning; return the store lookups that it needs.

        The body is without content coding, and the path without the query: it names the model in
        some dialects.

        Returns:
            If what is decided cannot be gone on from: what to begin with instead.

        Raises:
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
            return begun.anew(Way.OTHER_FORM)
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
    ) -> Decision | Begun:
        """
        Decide which reasoning a request lacks after what is decided, and inject all of it.

        The body is as the client sent it, after content decoding. `found` is None if the store did
        not respond. `is_created` says whether the request creates a response that is captured.

        Returns:
            If what is decided does not hold any more: what to begin with instead.
        """
        begun, asked = question.begun, question.request
        known, result = begun.known, found or NOTHING_FOUND
        refused = self._with_lessons(
            self._refusals.known_to(caller.scope, caller.account), asked, result
        )
        if known.changed_by(lines_of(result)):
            return begun.anew(Way.OTHER_TURNS)
        if begun.is_any and known.refusals != refused.mark:
            return begun.anew(Way.REFUSED)
        try:
            request, repairs = self._repaired(asked, result, refused)
            if begun.is_any and request is not asked:
                return begun.anew(Way.REFUSED)
            matched = self._dialect.match(request, result, refused)
            continued = continuation_of(request, found, refused, matched)
            plan = self._planned(request, continued, refused)
        except Reopened:
            return begun.anew(Way.OTHER_ITEMS)
        if begun.is_any and not asked.places:
            plan = replace(plan, binding=known.binding, open_from=0 if known.is_open else None)
        elif known.is_open and plan.open_from != 0:
            return begun.before_open()
        injected = self._injected(request, plan, continued, refused, known, is_created=is_created)
        edited, sent = request, injected.edits.plus(injected.more)
        if self._is_shadow:
            edited, sent = asked, NO_EDITS
        origin = self._origin(caller, edited, continued, refused, injected.binding)
        added, is_compared = self._added_to(edited, origin, continued.parent, is_created=is_created)
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
            is_compared=is_compared,
            origin=origin,
            repairs=repairs,
            outcomes=planned.outcomes,
            forms=planned.forms,
            injected_bytes=0 if self._is_shadow else planned.injected_bytes,
            summary=_maybe_summary(request, planned, injected.shown),
            is_doubted=refused.has(FORM, OLDER),
        )

    def _injected(  # noqa: PLR0913 (all that it depends on)
        self,
        request: ParsedRequest[Any],
        plan: Plan,
        continued: Continuation,
        refused: KnownRefusals,
        known: KnownState,
        *,
        is_created: bool,
    ) -> Injected:
        """Return all that is injected: what is decided, and the finished plan of what is new."""
        finished = plan.after(known.planned)
        if is_created and not (self._is_shadow or refused.has(FORM, AS_GIVEN)):
            finished = self._dialect.finished(request, finished, continued.parent, refused)
        start, end, at = request.history_start, request.history_end, known.decided.items
        inside = [edit for edit in finished.edits if start < edit.start < end]
        more = known.more_at(end)
        if not more and len(inside) < len(finished.edits):
            more = tuple([edit for edit in finished.edits if not start < edit.start < end])
        notes = finished.notes
        if at:
            notes = tuple([note._replace(place=note.place + at) for note in notes])
        return Injected(
            open_from=plan.open_from,
            planned=Plan(
                outcomes=finished.outcomes,
                forms=finished.forms,
                notes=(*known.planned.notes, *notes),
                completed={**known.planned.completed, **finished.completed},
            ),
            edits=known.edits.plus(inside),
            more=more,
            shown=shown_items(request.places, notes, known.shown),
            binding=None if self._is_shadow else finished.binding,
        )

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

    def _repaired(
        self, asked: ParsedRequest[Any], found: LookupResult, refused: KnownRefusals
    ) -> tuple[ParsedRequest[Any], Mapping[Any, int]]:
        """
        Return a request without certain errors, in the form that its conversation needs.

        Raises:
            Reopened: That can only be told of the whole request.
        """
        if asked.is_mended or refused.has(FORM, AS_GIVEN):
            return asked, _NO_REPAIRS
        request, repairs = self._dialect.repaired(asked, found, refused)
        is_last = refused.has(FORM, NO_REASONING)
        is_left = refused.has(FORM, "") and not self._dialect.repeats_cures
        if request.is_mended or not (is_last or is_left):
            return request, repairs
        if asked.decided.items:
            raise Reopened
        usable = refused.without_refused(found)
        refusal = self.readers.diagnose(400, b"")
        refusal = replace(refusal, kind=form_of(refusal))
        cure = self._dialect.cure(request, request, refusal, usable, refused, is_last=is_last)
        if cure is None:
            return request, repairs
        return self._read.again(request, cure.body), repairs

    def _with_lessons(
        self, refused: KnownRefusals, request: ParsedRequest[Any], found: LookupResult
    ) -> KnownRefusals:
        return with_lessons(refused, found.turns, request.model, self._epoch_ms())

    def _added_to(
        self,
        request: ParsedRequest[HistoryItem],
        origin: Origin,
        parent: Turn | None,
        *,
        is_created: bool,
    ) -> tuple[tuple[AddedMember, ...], bool]:
        """
        Return the members to add to a request, and whether one names a response.

        `parent` is the turn that it continues; None if unknown.
        """
        if not (is_created and (origin.cache_key or origin.keeps_id)) or request.is_mended:
            return (), False
        refused = self._refusals.known_to(EVERYONE)
        key = named = b""
        before = parent.response_id if parent is not None else ""
        if not refused.has(CACHE_KEY, self.name):
            key = member_of(request, origin.cache_key)
        if origin.keeps_id and not refused.has(CACHE_DIAGNOSIS, self.name):
            named = self._dialect.comparison_in(request, before)
        both = AddedMember(CACHE_KEY, key), AddedMember(CACHE_DIAGNOSIS, named)
        return tuple([one for one in both if one.text]), bool(named and before)

    def _owner(self, scope: bytes, path: str) -> Owner:
        return Owner(scope, self.name, path.encode("utf-8", "surrogateescape"))

    def _keep(self, question: Question, state: KnownState | None) -> None:
        """Keep the history of a request, parsed, or what was decided about it."""
        owner, before, *_ = question.begun
        prefix = question.request.prefix(state)
        if prefix is not None and prefix.end:
            self._prefixes.keep(owner, prefix, before)


def _maybe_summary(
    request: ParsedRequest[HistoryItem],
    plan: Plan,
    shown: ShownItems,
) -> ItemSummary | None:
    """Return the item summary; None on a fault, which must not fail the request."""
    try:
        return summarise(request, plan.notes, shown)
    except Exception:  # noqa: BLE001 (fail open: the request does not need it)
        return None


def lines_of(found: LookupResult) -> Callable[[bytes], object]:
    """Return what returns the `IndexedTurns.line` of a conversation that was found."""
    parts = {} if found.is_stale else by_conversation(found.turns)
    return lambda name: parts[name].line if name in parts else None
