"""
Request engine: what a request asks of the store, and what is injected into it.

    ask_after -> (look up) -> decide_after -> (send): only what is new is decided
    ask -> (look up) -> decide -> (send): otherwise
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any

from msgspec import structs

from reasoning_replay.core.dialects.base import Caller, Decision, Dialect, Question
from reasoning_replay.core.dialects.cache_keys import CACHE_KEY, cache_key_of, edit_for
from reasoning_replay.core.dialects.captures import Origin
from reasoning_replay.core.dialects.continuation import NOTHING_FOUND, Continuation, continuation_of
from reasoning_replay.core.dialects.known_prefix import (
    Continued,
    KnownPrefix,
    LongWay,
    known_prefix,
    lookups_after,
    match_after,
)
from reasoning_replay.core.dialects.lessons import AS_GIVEN, FORM, NO_REASONING, OLDER, with_lessons
from reasoning_replay.core.dialects.refusal_memory import KnownRefusals, RefusalMemory
from reasoning_replay.core.dialects.request_body import ParsedRequest
from reasoning_replay.core.dialects.states import RequestState, Way
from reasoning_replay.core.dialects.unknown_words import form_of
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
from reasoning_replay.core.history.sent_items import NOT_SENT, SentItems
from reasoning_replay.core.wire.json_spans import Edit
from reasoning_replay.core.wire.packed_edits import PackedEdits

Prefixes = PrefixCache[HistoryPrefix[Any], KnownPrefix]
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
    ) -> None:
        """
        Create the state that all exchanges share.

        The clock is monotonic, in seconds; `epoch_ms` is that of the turns. All engines share one
        prefix cache. No event may be
        larger than `capture_max_bytes`, and no more is kept of one response. In shadow mode,
        requests are decided on but sent unchanged. With `adds_cache_keys`, a request without a
        cache key gets that of its conversation.
        """
        self.name = dialect.name
        self.readers = dialect.readers
        self._dialect = dialect
        self._read = dialect.readers.request
        self._capture_max_bytes = capture_max_bytes
        self._is_shadow = is_shadow
        self._adds_cache_keys = adds_cache_keys and not is_shadow
        self._refusals = RefusalMemory(clock)
        self._epoch_ms = epoch_ms
        self._prefixes = prefixes

    def ask_after(
        self,
        body: bytes,
        headers: Mapping[str, str],
        scope: bytes,
        path: str = "",
        is_long: Callable[[bytes], bool] = lambda _: False,
    ) -> Question:
        """
        Parse what a request has after a known prefix, as `ask`, which parses all of it.

        `is_long` says whether a document must not be parsed here.

        Raises:
            LongWay: It has no known prefix, or must be decided on as a whole.

        Cost: a comparison of the prefix, and the work for what is new.
        """
        owner = self._owner(scope, path)
        prefix = self._prefixes.find(owner, body)
        known = prefix.known if prefix is not None else None
        if prefix is None or known is None:
            raise LongWay(Way.NEW)
        if is_long(body[prefix.end :]):
            raise LongWay(Way.LONG)
        new = self._read.go_on(body, headers, prefix, known.outline, known.end)
        if new is None or not self._dialect.may_go_on(new):
            raise LongWay(Way.OTHER_FORM)
        new.bound_to = known.origin.binding
        continued = Continued(known, new)
        return Question(new, lookups_after(continued), owner, prefix, continued)

    def decide_after(
        self, caller: Caller, question: Question, found: LookupResult | None, *, is_created: bool
    ) -> Decision:
        """
        Repeat what is known, and decide about what is new, as `decide`, which decides about all.

        Raises:
            LongWay: It must be decided on as a whole.
        """
        dialect, continued = self._dialect, question.continued
        refused = self._refusals.known_to(caller.scope, caller.account)
        prefix = question.prefix
        if found is None or continued is None or prefix is None:
            raise LongWay(Way.NOT_FOUND)
        parts = by_conversation(found.turns)
        if not refused.is_empty or any(part.names.has_lessons for part in parts.values()):
            raise LongWay(Way.REFUSED)
        matched, newest_ms = match_after(continued, found)
        known, new = continued
        turn, planned, binding = matched.newest(), known.planned, known.origin.binding
        edits, more = known.edits, known.more_at(prefix.end, new.history_end)
        if turn is not None:
            plan = dialect.plan(new, matched, refused)
            if not turn.binding.startswith(binding) or bool(plan.binding) != bool(binding):
                raise LongWay(Way.BOUND)
            planned, binding = continued.planned_with(plan), plan.binding or b""
            edits = edits.plus(plan.edits)
            if is_created and not more:
                finished = dialect.finished(
                    new, replace(plan, outcomes=planned.outcomes), turn, refused
                )
                more = finished.edits[len(plan.edits) :]
        origin = continued.origin_after(matched, binding, newest_ms)
        added = planned.notes[len(known.planned.notes) :]
        shown = shown_items(new.places, added, known.shown)
        if turn is not None:
            line = parts[turn.conversation].line
            kept = planned, edits, more
            grown = known.grown(new, shown, kept, origin=origin, newest=turn, line=line)
            self._keep(question, grown)
        named = self._cache_key_edit(new, origin, is_created=is_created)
        sent = edits.plus(more)
        return Decision(
            state=RequestState.PLANNED,
            way=Way.SHORT,
            base=new.body,
            edits=sent.plus(named),
            cache_key=named[0].new if named else b"",
            origin=origin,
            outcomes=planned.outcomes,
            injected_bytes=planned.injected_bytes,
            summary=_maybe_summary(new, planned, self._digests_anew(caller, new, sent), shown),
        )

    def ask(
        self, body: bytes, headers: Mapping[str, str], scope: bytes, path: str = ""
    ) -> Question:
        """
        Parse a request and return the store lookups that it needs.

        The body is without content coding, and the path without the query: it names the model in
        some dialects.

        Raises:
            TooMany: The request has too many items or values to process.
            Unspliceable: Parsers could disagree on the body; it must be forwarded unchanged.
        """
        owner = self._owner(scope, path)
        prefix = self._prefixes.find(owner, body)
        request = self._read(body, headers, prefix, path)
        return Question(request, keys_of_request(request), owner=owner, prefix=prefix)

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
        Decide which reasoning a request lacks, and inject it.

        The body is as the client sent it, after content decoding. `found` is None if the store did
        not respond. `is_created` says whether the request creates a response that is captured.
        """
        dialect, given = self._dialect, question.request
        refused = self._refusals.known_to(caller.scope, caller.account)
        refused = self._with_lessons(refused, given, found or NOTHING_FOUND)
        held = refused.without_refused(found or NOTHING_FOUND)
        request, repairs = self._repaired(given, held, refused)
        matched = dialect.match(request, held, refused)
        known = continuation_of(request, found, held, matched)
        plan = sent = self._planned(request, known, refused)
        planned = plan
        edited = request
        is_as_given = refused.has(FORM, AS_GIVEN)
        if self._is_shadow:
            edited, sent = given, _NO_PLAN
        elif is_created and not is_as_given:
            plan = sent = dialect.finished(request, plan, known.parent, refused)
        base = body if edited is given else edited.body
        origin, binding = known.origin, sent.binding
        if binding is None:
            binding = dialect.binding_of(edited, refused)
        if binding:
            origin = structs.replace(origin, binding=binding)
        if self._adds_cache_keys and not is_as_given:
            key = cache_key_of(caller.scope, request, known.parent)
            origin = structs.replace(origin, cache_key=key)
        named = self._cache_key_edit(edited, origin, is_created=is_created)
        lasts = edited is given and refused.is_empty and not self._is_shadow
        prefix = None
        if lasts and not known.has_failed:
            continued = known.matched, origin
            prefix = known_prefix(given, self._read.key, (planned, sent), continued, held)
        newest, gone = known.matched.newest(), None
        if newest is not None:
            gone = self._prefixes.room.maybe_gone((caller.scope, newest.conversation))
        self._keep(question, prefix)
        return Decision(
            way=Way(gone.value) if gone is not None else Way.NEW,
            state=RequestState.STATEFUL if request.is_stateful else known.state,
            base=base,
            edits=PackedEdits((*sent.edits, *named)),
            cache_key=named[0].new if named else b"",
            origin=origin,
            repairs=repairs,
            outcomes=plan.outcomes,
            injected_bytes=sent.injected_bytes,
            summary=_maybe_summary(request, plan, self._digests(caller, edited, sent)),
            is_doubted=refused.has(FORM, OLDER),
        )

    def _planned(
        self, request: ParsedRequest[Any], known: Continuation, refused: KnownRefusals
    ) -> Plan:
        """Return the plan of a request; unknown words may have refused all reasoning."""
        if known.has_failed:
            return _NO_PLAN
        plan = self._dialect.plan(request, known.matched, refused)
        is_refused = refused.has(FORM, AS_GIVEN) or refused.has(FORM, NO_REASONING)
        return plan.refused() if is_refused else plan

    def _repaired(
        self, given: ParsedRequest[Any], held: LookupResult, refused: KnownRefusals
    ) -> tuple[ParsedRequest[Any], Mapping[Any, int]]:
        """Return a request without certain errors, in the form that its conversation needs."""
        if given.is_mended or refused.has(FORM, AS_GIVEN):
            return given, _NO_REPAIRS
        request, repairs = self._dialect.repaired(given, held, refused)
        is_last = refused.has(FORM, NO_REASONING)
        is_left = refused.has(FORM, "") and not self._dialect.repeats_cures
        if request.is_mended or not (is_last or is_left):
            return request, repairs
        refusal = self.readers.diagnose(400, b"")
        refusal = replace(refusal, kind=form_of(refusal))
        cure = self._dialect.cure(request, request, refusal, held, refused, is_last=is_last)
        if cure is None:
            return request, repairs
        again: ParsedRequest[Any] = self._read(cure.body, {})
        again.model, again.hint = request.model, request.hint
        return again, repairs

    def _with_lessons(
        self, refused: KnownRefusals, request: ParsedRequest[Any], found: LookupResult
    ) -> KnownRefusals:
        return with_lessons(refused, found.turns, request.model, self._epoch_ms())

    def _cache_key_edit(
        self, request: ParsedRequest[HistoryItem], origin: Origin, *, is_created: bool
    ) -> tuple[Edit, ...]:
        """Return the edit that adds the cache key, if the request shall get it."""
        if not (is_created and origin.cache_key):
            return ()
        if self._refusals.known_to(EVERYONE).has(CACHE_KEY, self.name):
            return ()
        edit = edit_for(request, origin.cache_key)
        return () if edit is None else (edit,)

    def _owner(self, scope: bytes, path: str) -> Owner:
        return Owner(scope, self.name, path.encode("utf-8", "surrogateescape"))

    def _keep(self, question: Question, known: KnownPrefix | None) -> None:
        """Keep the history of a request, parsed, and what was decided about it."""
        prefix, before = question.request.prefix(known), question.prefix
        if prefix is not None and prefix.end:
            self._prefixes.keep(question.owner, prefix, before)

    def _digests(
        self, caller: Caller, request: ParsedRequest[Any], plan: Plan
    ) -> Callable[[], SentItems]:
        """Return what digests the items that are sent, for a watcher."""
        return partial(self._dialect.sent, request, plan) if caller.is_watched else _no_digests

    def _digests_anew(
        self, caller: Caller, request: ParsedRequest[Any], edits: PackedEdits
    ) -> Callable[[], SentItems]:
        """Do the same for a request of which only the last items were read: it is read again."""

        def digests() -> SentItems:
            return self._dialect.sent(self._read(request.body, {}), Plan((*edits,)))

        return digests if caller.is_watched else _no_digests


def _no_digests() -> SentItems:
    return NOT_SENT


def _maybe_summary(
    request: ParsedRequest[HistoryItem],
    plan: Plan,
    digests: Callable[[], SentItems],
    shown: ShownItems | None = None,
) -> ItemSummary | None:
    """Return the item summary; None on a fault, which must not fail the request."""
    try:
        return summarise(request, plan.notes, digests(), shown)
    except Exception:  # noqa: BLE001 (fail open: the request does not need it)
        return None
