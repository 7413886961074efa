"""
Cure: the smallest edit that makes a refused request acceptable, without inventing anything.

`cure` is pure. It applies the same edit to every affected message, because upstream names only the
first one:

- Reasoning is missing: all that is known is injected, also what the profile leaves out.
- A member is not accepted: it is taken out of every message.
- A signature is not accepted: if the client's differ from those of a known turn, that gets all that
  was captured. Otherwise those that the refusal quotes are taken out, else all that the proxy
  injected.
- Anything else about messages: the client's own request is sent.

If the operator allows it, places that still lack reasoning get a filler (`fillers`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from reasoning_replay.core.dialects.base import Cure
from reasoning_replay.core.dialects.chat.heal.diagnosis import Diagnosis, RefusalKind
from reasoning_replay.core.dialects.chat.heal.fillers import FILLERS, Filler, with_fillers
from reasoning_replay.core.dialects.chat.heal.message_editor import (
    Part,
    edited,
    messages_of,
    without,
)
from reasoning_replay.core.dialects.chat.members import reasoning_of
from reasoning_replay.core.dialects.chat.request import ChatRequest, read_request, sent_messages
from reasoning_replay.core.history.item_changes import ItemChange, listed
from reasoning_replay.core.history.sent_items import packed
from reasoning_replay.core.history.turns import Turn

__all__ = ["RefusedChat", "cure"]

_Parts = Mapping[int, Sequence[Part]]


@dataclass(frozen=True, slots=True)
class RefusedChat:
    """
    All data that a cure can use.

    Attributes:
        sent: Request as it was refused.
        given: Request as the client sent it; the same object if nothing was edited.
        planned: Body of `given` with the reasoning that is known for it.
        completed: Offset of each message of `given` in which that replaces the client's -> the
            conversation.
        turns: Stored turns of its conversation.
        fills: Whether the operator allows fillers.
    """

    sent: ChatRequest
    given: ChatRequest
    diagnosis: Diagnosis
    planned: bytes
    turns: Sequence[Turn] = ()
    fills: bool = False
    completed: Mapping[int, bytes] = field(default_factory=dict)


def cure(case: RefusedChat) -> Cure | None:
    """Return the request to send instead of a refused one; None if nothing can be done."""
    diagnosis, given = case.diagnosis, case.given
    theirs, ours = _parts_of(given), _parts_of(case.sent)
    completed: Mapping[int, bytes] = {}
    match diagnosis.kind:
        case RefusalKind.LACKS_REASONING:
            body, filler, completed = case.planned, FILLERS.get(diagnosis.wanted), case.completed
        case RefusalKind.BLOB if _is_concerned(case, ours):
            body, filler, completed = case.planned, None, case.completed
        case RefusalKind.FIELD:
            body, filler = _without(case, lambda _, part: part.name in diagnosis.refused), None
        case RefusalKind.BLOB:
            body = _without_blobs(case, theirs, ours)
            filler = _filler_of(_left_out(ours, _parts_of(read_request(body, {}))))
        case _:
            body, filler = given.body, None
    degraded = 0
    if filler is not None and case.fills:
        body, filled_in = with_fillers(read_request(body, {}), filler)
        degraded = len(filled_in)
    if body == case.sent.body:
        return None
    cured = read_request(body, {})
    now = _parts_of(cured)
    changes = [("removed", part) for part in _left_out(ours, now)]
    changes += [("added", part) for part in _left_out(now, ours)]
    added = _left_out(now, theirs)
    if degraded and filler is not None:
        added = [part for part in added if part.value != filler.value]
    is_about_blobs = diagnosis.kind is RefusalKind.BLOB and not completed
    left = _left_out(ours, now) if is_about_blobs else []
    quoted = {blob for part in left if _is_quoted(part, diagnosis) for blob in _blobs(part)}
    return Cure(
        body,
        injected=len(added),
        injected_bytes=sum(len(part.name) + len(part.value) + 3 for part in added),
        degraded=degraded,
        is_clients_own=body == given.body,
        lost=frozenset(blob for part in left for blob in _blobs(part)),
        completed=frozenset(completed.values()),
        withheld=tuple(
            turn for turn in case.turns if turn.without_reasoning(quoted.__contains__) is not turn
        ),
        sent=sent_messages(cured)._replace(injected=packed(map(hash, added))),
        changes=listed(
            [ItemChange(how, part.name, number=len(part.value)) for how, part in changes]
        ),
    )


def _is_concerned(case: RefusedChat, ours: _Parts) -> bool:
    """Return whether a refusal of signatures is about messages that can be completed."""
    if case.planned == case.sent.body:
        return False
    starts = {index: message.start for index, message in messages_of(case.given).items()}
    quoted = {
        starts.get(index)
        for index, parts in ours.items()
        if any(_is_quoted(part, case.diagnosis) for part in parts)
    }
    return bool(case.completed) and (not quoted or not quoted.isdisjoint(case.completed))


def _parts_of(request: ChatRequest) -> _Parts:
    return {index: message.parts for index, message in messages_of(request).items()}


def _left_out(before: _Parts, after: _Parts) -> list[Part]:
    """Return the parts of a request that another form of it does not have."""
    return [
        part
        for index, parts in before.items()
        for part in parts
        if part not in after.get(index, ())
    ]


def _without(case: RefusedChat, is_refused: Callable[[int, Part], bool]) -> bytes:
    """Return the refused request without the parts that are refused."""
    given = messages_of(case.given)
    new = {
        index: without(message, given[index], partial(is_refused, index))
        for index, message in messages_of(case.sent).items()
        if index in given
    }
    return edited(case.sent, new)


def _without_blobs(case: RefusedChat, theirs: _Parts, ours: _Parts) -> bytes:
    """Return the refused request without the signatures that are quoted, else without ours."""
    diagnosis = case.diagnosis
    if any(_is_quoted(part, diagnosis) for parts in ours.values() for part in parts):
        return _without(case, lambda _, part: _is_quoted(part, diagnosis))
    return _without(
        case, lambda index, part: part not in theirs.get(index, ()) and bool(_blobs(part))
    )


def _blobs(part: Part) -> tuple[bytes, ...]:
    reasoning = reasoning_of(part.name, part.value, is_of_call=part.call is not None)
    return reasoning.blobs if reasoning is not None else ()


def _is_quoted(part: Part, diagnosis: Diagnosis) -> bool:
    """Return whether the refusal quotes the beginning of a signature in this part."""
    return any(b'"' + quoted.encode() in part.value for quoted in diagnosis.quoted)


def _filler_of(parts: Sequence[Part]) -> Filler | None:
    """Return the filler for what is taken out; None if there is none for it."""
    return next((FILLERS[part.name] for part in parts if part.name in FILLERS), None)
