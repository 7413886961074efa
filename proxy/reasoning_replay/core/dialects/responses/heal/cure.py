"""
Cure of a refused request to the Responses API; see `cures`. One table says which.

It edits the request as it was sent, with the proxy's own edits. It applies the same edit to every
affected item, because the API names only the first one. Related items stay together: reasoning,
the items it led to, and the outputs of their calls.
"""

from collections.abc import Collection
from dataclasses import replace

from typing_extensions import override

from reasoning_replay.core.dialects.base import Cure
from reasoning_replay.core.dialects.responses.emitted import PHASE, blob_digest
from reasoning_replay.core.dialects.responses.heal.blobs import (
    blamed_blobs,
    named_blobs,
)
from reasoning_replay.core.dialects.responses.heal.captured import Case
from reasoning_replay.core.dialects.responses.heal.diagnosis import Diagnosis, RefusalKind
from reasoning_replay.core.dialects.responses.heal.learned import lesson_of
from reasoning_replay.core.dialects.responses.heal.normal_form import normal
from reasoning_replay.core.dialects.responses.request import Request
from reasoning_replay.core.history.lookup_keys import (
    RESPONSE,
    Lookup,
    keys_of_name,
    keys_of_request,
)

# Limit of bare ids, and of outputs, that are looked up in addition to the ids that upstream names.
BARE_LOOKED_UP = 64

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


class RefusedResponses(Case):
    """A refused request; it was looked up with `lookups_for`."""

    @override
    def fulfilled(self) -> bytes:
        return self.edited()

    @override
    def edited(self) -> bytes:
        if self.diagnosis.is_of_agent:
            return self.sent.body
        body = normal(self)
        is_ours = self.diagnosis.kind not in _NEVER_OURS
        return self.given.body if body == self.sent.body and is_ours else body

    @override
    def blamed(self, lost: frozenset[bytes]) -> frozenset[bytes]:
        return blamed_blobs(self, lost)

    @override
    def proven(self, lost: frozenset[bytes]) -> Collection[bytes]:
        return named_blobs(self) if self.diagnosis.kind is RefusalKind.BLOB else ()

    @override
    def finished(self, cure: Cure, cured: Request) -> Cure:
        phases = max(0, _phases(cured) - _phases(self.given))
        lesson = None if cure.is_clients_own else lesson_of(self, cure.body)
        lessons = (lesson,) if lesson is not None else ()
        completed = _completed(self, cured)
        return replace(cure, phases=phases, completed=completed, lessons=lessons)


def _completed(case: Case, cured: Request) -> frozenset[bytes]:
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
