"""
Repair: fixes errors in a request that are certain, before the first attempt.

Errors that only upstream can judge are left to upstream: see `cure`.
"""

from collections.abc import Collection, Mapping
from enum import StrEnum
from itertools import pairwise

from reasoning_replay.core.dialects.refusal_memory import KnownRefusals
from reasoning_replay.core.dialects.responses.emitted import blob_digest
from reasoning_replay.core.dialects.responses.heal.captured import Case
from reasoning_replay.core.dialects.responses.heal.diagnosis import RefusalKind
from reasoning_replay.core.dialects.responses.heal.draft import EMITTED, Draft, sent_runs
from reasoning_replay.core.dialects.responses.heal.ids import complete_bare
from reasoning_replay.core.dialects.responses.heal.pairs import pair_ids
from reasoning_replay.core.dialects.responses.items import ResponsesItem
from reasoning_replay.core.dialects.responses.profiles import Ids
from reasoning_replay.core.dialects.responses.request import Request
from reasoning_replay.core.history.items import Role
from reasoning_replay.core.history.model_names import are_known_to_differ, family


class Repair(StrEnum):
    """Repairs that need no refusal; each can be switched off."""

    DUPLICATES = "duplicates"  # the same reasoning twice in a row
    HOLLOW = "hollow"  # a bare id, sent to an upstream that stores nothing
    FOREIGN = "foreign"  # reasoning of another model or account, or refused before
    UNPAIRED = "unpaired"  # reasoning has its id and its follower has none, or the reverse
    LEARNED = "learned"  # what upstream refused in this conversation, and took as it was cured
    DANGLING = "dangling"  # reasoning at the very end, without the item that it led to


def repair(
    case: Case, refused: KnownRefusals, allowed: Collection[Repair]
) -> tuple[bytes, Mapping[Repair, int]]:
    """
    Repair the errors that are certain; only those that the upstream checks for.

    Args:
        case: The request as received, not stateful, of which nothing is refused yet.
        refused: What upstream refused.
        allowed: Repairs that the operator allows.

    Returns:
        The body (the same object if unchanged), and the number of items per repair.

    Cost: one check per item if there is nothing to repair.
    """
    body, profile = case.sent.body, case.profile
    if not case.sent.has_reasoning:
        return body, {}
    draft = Draft(case.sent)
    counts: dict[Repair, int] = {}
    if Repair.HOLLOW in allowed and not case.looks_up_ids:
        before = sum(item.is_id_alone for item in draft.items)
        complete_bare(case, draft)
        counts[Repair.HOLLOW] = before - sum(item.is_id_alone for item in draft.items)
    if Repair.FOREIGN in allowed:
        foreign = _foreign(case, draft, refused)
        counts[Repair.FOREIGN] = len(foreign)
        draft.complete(foreign)
        draft.remove_reasoning([item for item, raw in foreign.items() if not raw])
    # What was completed may repeat its neighbour.
    if Repair.DUPLICATES in allowed and profile.checks_pairs:
        copies = _copies(draft)
        counts[Repair.DUPLICATES] = len(copies)
        draft.remove(copies)
    if Repair.UNPAIRED in allowed and profile.checks_pairs:
        is_demanded = profile.ids is Ids.REQUIRED or refused.has(
            RefusalKind.LACKS_REASONING, family(case.sent.model)
        )
        counts[Repair.UNPAIRED] = pair_ids(case, draft, names_reasoning=is_demanded)
    if Repair.DANGLING in allowed and profile.checks_pairs:
        dangling = _dangling(draft)
        counts[Repair.DANGLING] = len(dangling)
        draft.remove(dangling)
    edited = draft.body()
    if edited is body:
        return body, {}  # also if an item has a key twice, so that it could not be cut
    return edited, {kind: count for kind, count in counts.items() if count}


def is_sound(request: Request) -> bool:
    """
    Return whether the request alone shows that no item needs a repair.

    No reasoning occurs twice in a row or at the end, and no item is a bare id. All other repairs
    depend on captured turns or earlier refusals.
    """
    if not (request.places and request.has_reasoning):
        return True
    before = b""
    for place in request.places:
        item = place.item
        if item.is_id_alone or (item.raw == before and item.is_reasoning):
            return False
        before = item.raw
    return not item.is_reasoning


def _copies(draft: Draft) -> set[ResponsesItem]:
    """
    Return reasoning that repeats the item before it.

    Only reasoning never follows itself. A call, a message or an output may: where ids follow from
    the content, two equal ones are two items.
    """
    pairs = pairwise(draft.items)
    return {item for before, item in pairs if item.is_reasoning and item.raw == before.raw}


def _dangling(draft: Draft) -> set[ResponsesItem]:
    """
    Return the reasoning at the end if no other item of the input can be its follower.

    Reasoning without an id requires no follower. A model item without reasoning may be the
    follower, out of order: upstream decides.
    """
    items, end = draft.items, len(draft.items)
    while end and items[end - 1].role is Role.REASONING and items[end - 1].id:
        end -= 1
    covered = {item for run in sent_runs(items[:end]) for item in (*run.group, *run.later)}
    emitted = {item for item in items[:end] if item.role in EMITTED}
    return set() if end == 0 or emitted - covered else set(items[end:])


def _foreign(case: Case, draft: Draft, refused: KnownRefusals) -> dict[ResponsesItem, bytes]:
    """
    Return the reasoning that upstream will refuse, each with the captured item, or b"".

    Removing reasoning before a hosted item would remove that item too, so such reasoning counts
    only after upstream has refused it.
    """
    takes_none = refused.has(RefusalKind.NO_REASONING_MODEL, family(case.sent.model))
    foreign: dict[ResponsesItem, bytes] = {}
    for run in sent_runs(draft.items):
        is_hosting = any(item.id and not item.id_is_optional for item in run.group)
        for item in run.reasoning:
            blob, known, whole = blob_digest(item), case.known(item), b""
            if known and not (takes_none or any(map(refused.is_foreign, known.part.blobs))):
                whole = case.original(item)
            if takes_none or (blob and refused.is_foreign(blob)):
                foreign[item] = whole
            elif known is None:
                continue
            elif refused.completes(known.turn):
                if whole:
                    foreign[item] = whole
            elif (
                blob and not is_hosting and are_known_to_differ(case.sent.model, known.turn.models)
            ):
                foreign[item] = whole
    return foreign
