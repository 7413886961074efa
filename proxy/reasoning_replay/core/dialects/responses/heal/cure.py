"""
Cure: the smallest edit that makes a refused request acceptable, without inventing anything.

`cure` is pure and total. It edits the request as it was sent, with the proxy's own edits. It
applies the same edit to every affected item, because the API names only the first one.
Related items stay together: reasoning, the items it led to, and the outputs of their calls.
"""

from collections import Counter
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
from reasoning_replay.core.dialects.responses.heal.diagnosis import Diagnosis, RefusalKind
from reasoning_replay.core.dialects.responses.heal.ids import completed, deduplicated, with_good_ids
from reasoning_replay.core.dialects.responses.heal.input_editor import pieces_of
from reasoning_replay.core.dialects.responses.heal.pairing import (
    with_calls,
    with_follower,
    with_outputs_behind,
    with_reasoning,
    with_text,
)
from reasoning_replay.core.dialects.responses.heal.refused_request import RefusedRequest
from reasoning_replay.core.dialects.responses.items import ResponsesItem
from reasoning_replay.core.dialects.responses.profiles import Profile
from reasoning_replay.core.dialects.responses.request import Request, read_request
from reasoning_replay.core.history.item_changes import item_changes
from reasoning_replay.core.history.items import Role
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
HOLLOW_LOOKED_UP = 64

_CURES: Mapping[RefusalKind, Callable[[RefusedRequest], bytes | None]] = {
    RefusalKind.LACKS_REASONING: with_reasoning,
    RefusalKind.LACKS_FOLLOWER: with_follower,
    RefusalKind.LACKS_OUTPUT: with_outputs_behind,
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
# Refusals that the proxy's edits cannot cause, unless an edit removed a call or an output.
_NEVER_OURS = frozenset({RefusalKind.LACKS_OUTPUT, RefusalKind.LACKS_CALL})


def lookups_for(sent: Request, diagnosis: Diagnosis) -> list[Lookup]:
    """Return the lookups for a cure: ids that upstream names, and all keys of the request."""
    names = [diagnosis.wanted, diagnosis.subject]
    hollow = [p.item.id for p in sent.places if p.item.is_id_alone]
    orphans = [p.item.call_id for p in sent.places if p.item.type.endswith("_output")]
    names += hollow[-HOLLOW_LOOKED_UP:] + orphans[-HOLLOW_LOOKED_UP:]
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
    if body == sent.body:
        return None
    is_ours = diagnosis.kind not in _NEVER_OURS or _is_less(sent, given)
    if body == given.body and not is_ours:
        return None
    is_about_blobs = diagnosis.kind is RefusalKind.BLOB
    named = named_blobs(case) if is_about_blobs else set()
    left = ((turn, turn.without_reasoning(named.__contains__)) for turn in looked_up.turns)
    cured = read_request(body, {})
    ours = _added(cured, given)
    return Cure(
        body,
        injected=len(ours),
        injected_bytes=sum(item.end - item.start for item in ours),
        phases=max(0, _phases(cured) - _phases(given)),
        is_clients_own=body == given.body,
        lost=frozenset(lost_blobs(case, body)) if is_about_blobs else frozenset(),
        withheld=tuple(after for before, after in left if after is not before),
        completed=_completed(case, cured),
        sent=sent_items(cured.head, cured.places)._replace(injected=digests_of(ours)),
        changes=item_changes(_items(sent), _items(cured)),
    )


def _completed(case: RefusedRequest, cured: Request) -> frozenset[bytes]:
    """Return the conversations in which captured blobs replace what the client made of them."""
    now = {blob_digest(place.item) for place in cured.places if place.item.blob}
    before = {blob_digest(place.item) for place in case.sent.places if place.item.blob}
    known = filter(None, map(case.thought, pieces_of(case.sent)))
    return frozenset(
        thought.turn.conversation
        for thought in known
        if before.isdisjoint(thought.part.blobs) and not now.isdisjoint(thought.part.blobs)
    )


def _is_less(sent: Request, given: Request) -> bool:
    """Return whether the sent request has fewer items, without reasoning, than the client's."""
    return len(sent.places) - _thoughts(sent) < len(given.places) - _thoughts(given)


def _thoughts(request: Request) -> int:
    return sum(place.item.role is Role.REASONING for place in request.places)


def _phases(request: Request) -> int:
    return sum(PHASE in place.item.raw for place in request.places)


def _items(request: Request) -> list[ResponsesItem]:
    return [place.item for place in request.places]


def _added(request: Request, given: Request) -> list[ResponsesItem]:
    """Return the reasoning items that the client did not send."""
    theirs = Counter(
        place.item.blob or place.item.id
        for place in given.places
        if place.item.role is Role.REASONING
    )
    added: list[ResponsesItem] = []
    for place in request.places:
        item = place.item
        if item.role is Role.REASONING:
            name = item.blob or item.id
            if theirs[name]:
                theirs[name] -= 1
            else:
                added.append(item)
    return added
