"""
Cure: the smallest edit that makes a refused request acceptable, without inventing anything.

`cure` is pure.

- A signature is missing: all that is known is injected, also what an earlier request lacked.
- A signature is not accepted: if the client's differ from those of a known turn, that gets what was
  captured. Otherwise the one that the refusal names is taken out. If it names none: all that the
  proxy injected, or if that is none, those of the client that are not known to be of this model.
- Signatures are not accepted at all, or anything else about them: the client's own request is sent.

A value of the client that asks the API not to check is never taken out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from reasoning_replay.core.dialects.base import Cure
from reasoning_replay.core.dialects.gemini.heal.diagnosis import Diagnosis, RefusalKind
from reasoning_replay.core.dialects.gemini.heal.signature_editor import (
    Signature,
    signatures_in,
    without,
)
from reasoning_replay.core.dialects.gemini.items import GeminiItem
from reasoning_replay.core.dialects.gemini.parts import is_sentinel
from reasoning_replay.core.dialects.gemini.request import GeminiRequest, read_request
from reasoning_replay.core.history.item_changes import item_changes
from reasoning_replay.core.history.model_names import family
from reasoning_replay.core.history.sent_items import packed, sent_items
from reasoning_replay.core.history.turns import Turn

__all__ = ["RefusedGemini", "cure"]


@dataclass(frozen=True, slots=True)
class RefusedGemini:
    """
    All data that a cure can use.

    Attributes:
        sent: Request as it was refused.
        given: Request as the client sent it; the same object if nothing was edited.
        planned: Body of `given` with the signatures that are known for it.
        completed: Offset of each content of `given` in which these replace the client's -> the
            conversation.
        turns: Stored turns of its conversation.
    """

    sent: GeminiRequest
    given: GeminiRequest
    diagnosis: Diagnosis
    planned: bytes
    completed: Mapping[int, bytes] = field(default_factory=dict)
    turns: Sequence[Turn] = ()


def cure(case: RefusedGemini) -> Cure | None:
    """Return the request to send instead of a refused one; None if nothing can be done."""
    kind = case.diagnosis.kind
    signatures = list(signatures_in(case.sent))
    theirs = {one.blob for one in signatures_in(case.given)}
    named = [one for one in signatures if _is_named(one, case)]
    completed: Mapping[int, bytes] = {}
    match kind:
        case RefusalKind.LACKS_REASONING:
            body = case.planned
        case RefusalKind.BLOB if _is_concerned(case, named):
            body, completed = case.planned, case.completed
        case RefusalKind.BLOB if named:
            body = without(case.sent, named)
        case RefusalKind.BLOB if case.sent is case.given:
            known = _blobs_of_model(case)
            body = without(case.sent, [one for one in signatures if one.blob not in known])
        case _:
            body = case.given.body
    if body == case.sent.body:
        return None
    cured = read_request(body, {})
    now = list(signatures_in(cured))
    added = [one for one in now if one.blob not in theirs]
    lost: frozenset[bytes] = frozenset()
    if kind is RefusalKind.BLOB and not completed:
        lost = frozenset(one.blob for one in signatures) - {one.blob for one in now}
    proven = {one.blob for one in named} & lost
    return Cure(
        body,
        injected=len(added),
        injected_bytes=sum(len(one.part.signature) for one in added),
        is_clients_own=body == case.given.body,
        lost=lost,
        completed=frozenset(completed.values()),
        withheld=tuple(
            turn for turn in case.turns if turn.without_reasoning(proven.__contains__) is not turn
        ),
        sent=sent_items(cured.head, cured.places)._replace(
            injected=packed(hash(one.blob) for one in added)
        ),
        changes=item_changes(_items(case.sent), _items(cured)),
    )


def _is_concerned(case: RefusedGemini, named: Sequence[Signature]) -> bool:
    """Return whether a refusal is about one of the contents that can be completed."""
    starts = [start for start, _ in case.given.contents]
    is_about = not named or any(starts[one.content] in case.completed for one in named)
    return bool(case.completed) and is_about and case.planned != case.sent.body


def _is_named(one: Signature, case: RefusedGemini) -> bool:
    """Return whether a refusal names a signature: by its place, or by its beginning."""
    said = case.diagnosis
    if is_sentinel(one.part.signature):
        return False
    is_quoted = any(one.part.signature[1:].startswith(text.encode()) for text in said.quoted)
    return is_quoted or (one.content, one.number) == (said.content, said.part)


def _blobs_of_model(case: RefusedGemini) -> frozenset[bytes]:
    """Return the signatures that are known to be of the model that the request names."""
    model = family(case.sent.model)
    runs = (item.run for turn in case.turns if model in turn.models for item in turn.items)
    return frozenset(blob for run in runs for part in run for blob in part.blobs)


def _items(request: GeminiRequest) -> list[GeminiItem]:
    return [place.item for place in request.places]
