"""
Repair: fixes errors in a request that are certain, before the first attempt.

Errors that only upstream can judge are left to upstream: see `cure`.
"""

from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from itertools import pairwise

from reasoning_replay.core.dialects.refusal_memory import KnownRefusals
from reasoning_replay.core.dialects.responses.emitted import blob_digest
from reasoning_replay.core.dialects.responses.heal.captured import KnownReasoning, ReasoningIndex
from reasoning_replay.core.dialects.responses.heal.diagnosis import RefusalKind
from reasoning_replay.core.dialects.responses.heal.draft import EMITTED, Draft, sent_runs
from reasoning_replay.core.dialects.responses.heal.pairs import pair_ids
from reasoning_replay.core.dialects.responses.items import ResponsesItem
from reasoning_replay.core.dialects.responses.profiles import Ids, Profile
from reasoning_replay.core.dialects.responses.request import Request
from reasoning_replay.core.history.items import Role
from reasoning_replay.core.history.model_names import are_known_to_differ, family
from reasoning_replay.core.history.turns import Turn


class Repair(StrEnum):
    """Repairs that need no refusal; each can be switched off."""

    DUPLICATES = "duplicates"  # the same reasoning twice in a row
    HOLLOW = "hollow"  # a bare id, sent to an upstream that stores nothing
    FOREIGN = "foreign"  # reasoning of another model or account, or refused before
    UNPAIRED = "unpaired"  # reasoning has its id and its follower has none, or the reverse
    LEARNED = "learned"  # what upstream refused in this conversation, and took as it was cured
    DANGLING = "dangling"  # reasoning at the very end, without the item that it led to


def repair(
    request: Request,
    turns: Sequence[Turn],
    refused: KnownRefusals,
    profile: Profile,
    allowed: Collection[Repair],
) -> tuple[bytes, Mapping[Repair, int]]:
    """
    Repair the errors that are certain; only those that the upstream checks for.

    Args:
        request: Request as received, not stateful.
        turns: Turns that were looked up for it.
        refused: What upstream refused.
        profile: Profile of the upstream.
        allowed: Repairs that the operator allows.

    Returns:
        The body (the same object if unchanged), and the number of items per repair.

    Cost: one check per item if there is nothing to repair.
    """
    if not request.has_reasoning:
        return request.body, {}
    draft, index, model = Draft(request), ReasoningIndex(turns), request.model
    counts: dict[Repair, int] = {}
    keeps_items = request.stores and profile.keeps_items
    if Repair.HOLLOW in allowed and not keeps_items:
        found = {item: known for item in draft.items if (known := index.find(item)) is not None}
        whole = [known for item, known in found.items() if not item.is_id_alone]
        bare = {item: known for item, known in found.items() if item.is_id_alone}
        copies = {item for item, known in bare.items() if known in whole}
        wholes = {item: known.acceptable(model, profile) for item, known in bare.items()}
        counts[Repair.HOLLOW] = len(copies | {item for item, raw in wholes.items() if raw})
        draft.remove(copies)
        draft.complete(wholes)
    if Repair.FOREIGN in allowed:
        foreign = _foreign(draft, index, model, profile, refused)
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
            RefusalKind.LACKS_REASONING, family(model)
        )
        counts[Repair.UNPAIRED] = pair_ids(
            draft, index, profile, looks_up_ids=keeps_items, names_reasoning=is_demanded
        )
    if Repair.DANGLING in allowed and profile.checks_pairs:
        dangling = _dangling(draft)
        counts[Repair.DANGLING] = len(dangling)
        draft.remove(dangling)
    body = draft.body()
    if body is request.body:
        return body, {}  # also if an item has a key twice, so that it could not be cut
    return body, {kind: count for kind, count in counts.items() if count}


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


def _foreign(
    draft: Draft, index: ReasoningIndex, model: str, profile: Profile, refused: KnownRefusals
) -> dict[ResponsesItem, bytes]:
    """
    Return the reasoning that upstream will refuse, each with the captured item, or b"".

    Removing reasoning before a hosted item would remove that item too, so such reasoning counts
    only after upstream has refused it.
    """
    takes_none = refused.has(RefusalKind.NO_REASONING_MODEL, family(model))

    def original(known: KnownReasoning | None, item: ResponsesItem) -> bytes:
        """Return the captured item if the client altered it, and upstream accepts it."""
        if known is None or takes_none or not known.is_altered(item):
            return b""
        is_refused = any(map(refused.is_foreign, known.part.blobs))
        return b"" if is_refused else known.acceptable(model, profile)

    foreign: dict[ResponsesItem, bytes] = {}
    for run in sent_runs(draft.items):
        is_hosting = any(item.id and not item.id_is_optional for item in run.group)
        for item in run.reasoning:
            blob, known = blob_digest(item), index.find(item)
            whole = original(known, item)
            if takes_none or (blob and refused.is_foreign(blob)):
                foreign[item] = whole
            elif known is None:
                continue
            elif refused.completes(known.turn):
                if whole:
                    foreign[item] = whole
            elif blob and not is_hosting and are_known_to_differ(model, known.turn.models):
                foreign[item] = whole
    return foreign
