"""
Cure: the smallest edit that makes a refused request acceptable, without inventing anything.

`cure` is pure and total. It edits the request as it was sent, with the proxy's own edits. It
applies the same edit to every affected item, because the API names only the first one.
Related items stay together: reasoning, the items it led to, and the outputs of their calls.
"""

from collections.abc import Callable, Mapping

from reasoning_replay.core.dialects.base import Cure
from reasoning_replay.core.dialects.responses.emitted import PHASE, blob_digest
from reasoning_replay.core.dialects.responses.heal.blobs import (
    lost_blobs,
    named_blobs,
    without_blobs,
    without_include,
    without_member,
    without_reasoning,
)
from reasoning_replay.core.dialects.responses.heal.calls import (
    with_calls,
    with_outputs,
    with_text,
)
from reasoning_replay.core.dialects.responses.heal.captured import (
    RefusedRequest,
    added_reasoning,
)
from reasoning_replay.core.dialects.responses.heal.diagnosis import Diagnosis, RefusalKind
from reasoning_replay.core.dialects.responses.heal.ids import completed, deduplicated, with_good_ids
from reasoning_replay.core.dialects.responses.heal.pairs import with_follower, with_reasoning
from reasoning_replay.core.dialects.responses.profiles import Profile
from reasoning_replay.core.dialects.responses.request import Request, read_request
from reasoning_replay.core.history.item_changes import item_changes
from reasoning_replay.core.history.lookup_keys import (
    RESPONSE,
    Lookup,
    LookupResult,
    keys_of_name,
    keys_of_request,
)
from reasoning_replay.core.history.sent_items import digests_of, sent_items
from reasoning_replay.core.wire.json_spans import Unspliceable

__all__ = ["cure", "lookups_for"]

# Limit of bare ids, and of outputs, that are looked up in addition to the ids that upstream names.
BARE_LOOKED_UP = 64

_CURES: Mapping[RefusalKind, Callable[[RefusedRequest], bytes | None]] = {
    RefusalKind.LACKS_REASONING: with_reasoning,
    RefusalKind.LACKS_FOLLOWER: with_follower,
    RefusalKind.LACKS_OUTPUT: with_outputs,
    RefusalKind.LACKS_CALL: with_calls,
    RefusalKind.LACKS_TEXT: with_text,
    RefusalKind.DUPLICATE: deduplicated,
    RefusalKind.NOT_FOUND: completed,
    RefusalKind.BAD_ID: with_good_ids,
    RefusalKind.BLOB: without_blobs,
    RefusalKind.FIELD: without_member,
    RefusalKind.INCLUDE: without_include,
    RefusalKind.NO_REASONING_MODEL: without_reasoning,
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
    """
    Return the request to send instead of one that was refused.

    Args:
        sent: Request as it was sent.
        given: Request as the client sent it.
        diagnosis: Diagnosis of the refusal.
        looked_up: Result of the lookups of `lookups_for`.
        profile: As in `plan_injection`.

    Returns:
        None if nothing can be done, and the refusal goes to the client.
    """
    case = RefusedRequest(sent, given, diagnosis, looked_up, profile)
    act = _CURES.get(diagnosis.kind)
    try:
        body = act(case) if act is not None else None
    except Unspliceable:
        body = None
    if body in (None, sent.body):
        body = given.body
    if body == sent.body or (body == given.body and diagnosis.kind in _NEVER_OURS):
        return None
    cured = read_request(body, {})
    is_about_blobs = diagnosis.kind is RefusalKind.BLOB
    named = named_blobs(case) if is_about_blobs else set()
    left = ((turn, turn.without_reasoning(named.__contains__)) for turn in looked_up.turns)
    injected = added_reasoning(cured, given)
    return Cure(
        body,
        injected=len(injected),
        injected_bytes=sum(item.end - item.start for item in injected),
        phases=max(0, _phases(cured) - _phases(given)),
        is_clients_own=body == given.body,
        lost=frozenset(lost_blobs(case, cured)) if is_about_blobs else frozenset(),
        withheld=tuple(after for before, after in left if after is not before),
        completed=_completed(case, cured),
        sent=sent_items(cured.head, cured.places)._replace(injected=digests_of(injected)),
        changes=item_changes(case.items, [place.item for place in cured.places]),
    )


def _completed(case: RefusedRequest, cured: Request) -> frozenset[bytes]:
    """Return the conversations in which captured blobs replace what the client made of them."""
    now = {blob_digest(place.item) for place in cured.places if place.item.blob}
    before = {blob_digest(item) for item in case.items if item.blob}
    return frozenset(
        known.turn.conversation
        for known in filter(None, map(case.known, case.items))
        if before.isdisjoint(known.part.blobs) and not now.isdisjoint(known.part.blobs)
    )


def _phases(request: Request) -> int:
    return sum(PHASE in place.item.raw for place in request.places)
