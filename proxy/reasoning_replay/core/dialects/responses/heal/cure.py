"""
Cure of a refused request to the Responses API; see `cures`. One table says which.

It edits the request as it was sent, with the proxy's own edits. It applies the same edit to every
affected item, because the API names only the first one. Related items stay together: reasoning,
the items it led to, and the outputs of their calls.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from typing_extensions import override

from reasoning_replay.core.dialects.base import Cure
from reasoning_replay.core.dialects.refusal_memory import KnownRefusals
from reasoning_replay.core.dialects.responses.emitted import PHASE, blob_digest
from reasoning_replay.core.dialects.responses.heal.blobs import (
    blamed_blobs,
    named_blobs,
    without_blobs,
    without_include,
    without_member,
    without_reasoning,
)
from reasoning_replay.core.dialects.responses.heal.calls import in_units, with_text
from reasoning_replay.core.dialects.responses.heal.captured import RefusedItems
from reasoning_replay.core.dialects.responses.heal.diagnosis import Diagnosis, Form, RefusalKind
from reasoning_replay.core.dialects.responses.heal.ids import completed, deduplicated, with_good_ids
from reasoning_replay.core.dialects.responses.heal.learned import learned, lesson_of
from reasoning_replay.core.dialects.responses.heal.normal_form import normal_form
from reasoning_replay.core.dialects.responses.heal.pairs import (
    with_follower,
    with_reasoning,
    with_unknown_by_value,
)
from reasoning_replay.core.dialects.responses.heal.unanswered import with_answers
from reasoning_replay.core.dialects.responses.profiles import Profile
from reasoning_replay.core.dialects.responses.request import Request, read_request
from reasoning_replay.core.history.lookup_keys import (
    RESPONSE,
    Lookup,
    LookupResult,
    keys_of_name,
    keys_of_request,
)
from reasoning_replay.core.history.model_names import family

# Limit of bare ids, and of outputs, that are looked up in addition to the ids that upstream names.
BARE_LOOKED_UP = 64

CURES: Mapping[RefusalKind, Callable[[RefusedItems], bytes | None]] = {
    RefusalKind.LACKS_REASONING: with_reasoning,
    RefusalKind.LACKS_FOLLOWER: with_follower,
    RefusalKind.LACKS_OUTPUT: with_answers,
    RefusalKind.LACKS_CALL: in_units,
    RefusalKind.LACKS_TEXT: with_text,
    RefusalKind.DUPLICATE: deduplicated,
    RefusalKind.NOT_FOUND: completed,
    RefusalKind.BAD_ID: with_good_ids,
    RefusalKind.BLOB: without_blobs,
    RefusalKind.FIELD: without_member,
    RefusalKind.INCLUDE: without_include,
    RefusalKind.NO_REASONING_MODEL: without_reasoning,
    RefusalKind.INPUT: normal_form,
    RefusalKind.FORM: normal_form,
}
# Refusals that the proxy's edits cannot cause: none removes a call or an output.
_NEVER_OURS = frozenset({RefusalKind.LACKS_OUTPUT, RefusalKind.LACKS_CALL})


def lookups_for(sent: Request, diagnosis: Diagnosis) -> list[Lookup]:
    """Return the lookups for a cure: ids that upstream names, and all keys of the request."""
    bare = [place.item.id for place in sent.places if place.item.is_id_alone]
    called = [place.item.call_id for place in sent.places if place.item.type.endswith("_output")]
    names = [diagnosis.wanted, diagnosis.subject]
    names += bare[-BARE_LOOKED_UP:] + called[-BARE_LOOKED_UP:]
    named = [Lookup(RESPONSE, keys_of_name(name)) for name in dict.fromkeys(names) if name]
    return [*(asked for asked in named if asked.keys), *keys_of_request(sent)]


def cure(
    sent: Request, given: Request, diagnosis: Diagnosis, looked_up: LookupResult, profile: Profile
) -> Cure | None:
    """Return the request to send instead of one that was refused; `looked_up`: `lookups_for`."""
    return _RefusedResponses(sent, given, diagnosis, looked_up, profile).cure()


def with_learned(
    request: Request, held: LookupResult, refused: KnownRefusals, profile: Profile
) -> tuple[bytes, int]:
    """
    Return a request with the edits that cured its conversation before, and how many these are.

    An edit that only injects is left to the plan, which does the same: the reasoning was missing
    for a while, as when the store did not respond.

    Cost: as many cures as lessons.
    """
    body, count = request.body, 0
    for diagnosis in learned(refused, family(request.model)):
        sent = request if body is request.body else read_request(body, {})
        case = RefusedItems(sent, sent, diagnosis, held, profile)
        edited = _repeated(case)
        if edited not in (body, case.inject_again(body)):
            body, count = edited, count + 1
    return body, count


def _repeated(case: RefusedItems) -> bytes:
    """Return a request with an edit that was learned, for which upstream names nothing."""
    act: Callable[[RefusedItems], bytes | None] = CURES[case.diagnosis.kind]
    if case.diagnosis.kind is RefusalKind.LACKS_REASONING:
        act = normal_form
    if case.diagnosis.form is Form.BY_VALUE and act is not without_blobs:
        act = with_unknown_by_value
    edited = act(case)
    return case.sent.body if edited is None else edited


class _RefusedResponses(RefusedItems):
    @override
    def fulfilled(self) -> bytes:
        return self.edited()

    @override
    def edited(self) -> bytes:
        kind = self.diagnosis.kind
        if self.diagnosis.is_of_agent:
            return self.sent.body
        act = CURES.get(kind)
        body = act(self) if act is not None else None
        if body is not None and body != self.sent.body:
            return body
        return self.sent.body if kind in _NEVER_OURS else self.given.body

    @override
    def blamed(self, lost: frozenset[bytes]) -> frozenset[bytes]:
        return blamed_blobs(self, lost)

    @override
    def proven(self, lost: frozenset[bytes]) -> Collection[bytes]:
        return named_blobs(self) if self.diagnosis.kind is RefusalKind.BLOB else ()

    @override
    def finished(self, cure: Cure, cured: Request) -> Cure:
        phases = max(0, _phases(cured) - _phases(self.given))
        lesson = None if cure.is_clients_own else lesson_of(self, cure.body, _repeated)
        lessons = (lesson,) if lesson is not None else ()
        completed = _completed(self, cured)
        return replace(cure, phases=phases, completed=completed, lessons=lessons)


def _completed(case: RefusedItems, cured: Request) -> frozenset[bytes]:
    """Return the conversations in which captured reasoning replaces what the client made of it."""
    before, now = _names(case.sent), _names(cured)
    found = set[bytes]()
    for item in case.items:
        if (known := case.known(item)) is None:
            continue
        blobs = {("", blob) for blob in known.part.blobs}
        names = {(known.part.id, blob) for blob in known.part.blobs}
        wanted = names if item.id != known.part.id and not blobs.isdisjoint(before) else blobs
        if item.id and wanted.isdisjoint(before) and not wanted.isdisjoint(now):
            found.add(known.turn.conversation)
    return frozenset(found)


def _names(request: Request) -> set[tuple[str, bytes]]:
    """Return the blobs in a request, alone and with the ids that they have there."""
    items = [place.item for place in request.places if place.item.blob]
    pairs = [(item.id, blob_digest(item)) for item in items]
    return {*pairs, *(("", blob) for _, blob in pairs)}


def _phases(request: Request) -> int:
    return sum(PHASE in place.item.raw for place in request.places)
