"""
Cure: the smallest edit that makes a refused request acceptable, without inventing anything.

`cure` is pure.

- Reasoning is missing: all that is known is injected, also what an earlier request lacked.
- The refusal concerns a message of a known turn, in which the client sends other reasoning than
  upstream emitted: the captured reasoning goes in its place, and so in all such messages.
- A block is not accepted: all reasoning of its message is left out. If the client sends it, so are
  the blocks that are not known to be of this model: upstream names the first one only.
- A block is bound to another history: it is left out, and so is all reasoning after it, which is
  bound to a history with that block.
- The latest message was modified, or reasoning is switched off, or not accepted at all: what the
  proxy injected is taken back.

Adjacent assistant messages count as one. If upstream names a message without reasoning, the next
one that has any is meant: it may count the messages as joined, or name the first of those.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from reasoning_replay.core.dialects.anthropic.heal.block_editor import (
    reasoning_in,
    without_blocks,
)
from reasoning_replay.core.dialects.anthropic.heal.diagnosis import Diagnosis, RefusalKind
from reasoning_replay.core.dialects.anthropic.items import MessagesItem
from reasoning_replay.core.dialects.anthropic.message_groups import rows_of
from reasoning_replay.core.dialects.anthropic.request import MessagesRequest, read_request
from reasoning_replay.core.dialects.base import Cure
from reasoning_replay.core.history.item_changes import item_changes
from reasoning_replay.core.history.sent_items import digests_of, sent_items
from reasoning_replay.core.history.turns import Turn
from reasoning_replay.core.wire import json_spans
from reasoning_replay.core.wire.json_spans import Edit

__all__ = ["Planned", "RefusedMessages", "cure"]

# Refusals that the client's own blocks may cause.
_OF_BLOCKS = frozenset(
    {RefusalKind.BLOB, RefusalKind.BINDING, RefusalKind.MODIFIED, RefusalKind.INPUT}
)
_Blocks = dict[int, list[MessagesItem]]


class Planned(NamedTuple):
    """
    The client's request with all reasoning that is known for it.

    Attributes:
        completed: Index of each message in which it replaces the client's -> the conversation.
    """

    body: bytes
    completed: Mapping[int, bytes]


@dataclass(frozen=True, slots=True)
class RefusedMessages:
    """
    All data that a cure can use.

    Attributes:
        sent: Request as it was refused.
        given: Request as the client sent it; the same object if nothing was edited.
        planned: Returns the request with all reasoning that is known for it.
        turns: Stored turns of its conversation.
    """

    sent: MessagesRequest
    given: MessagesRequest
    diagnosis: Diagnosis
    planned: Callable[[], Planned]
    turns: Sequence[Turn] = ()


def cure(case: RefusedMessages) -> Cure | None:
    """Return the request to send instead of a refused one; None if nothing can be done."""
    if case.diagnosis.kind is RefusalKind.LACKS_REASONING:
        planned = case.planned()
        if planned.body == case.sent.body:
            return None
        return _cure(case, planned.body, frozenset(), planned.completed)
    case, ours = replace(case, diagnosis=_placed(case)), _added(case, case.sent)
    completed: Mapping[int, bytes] = {}
    body = case.sent.body
    if case.diagnosis.kind in _OF_BLOCKS:
        body, completed = case.planned()
    if body == case.sent.body or not _is_concerned(case, completed):
        body, completed = _without(case, _gone(case, ours), ours), {}
    if body == case.sent.body:
        return None
    now = read_request(body, {})
    lost = _blobs(reasoning_in(case.sent)) - _blobs(reasoning_in(now))
    return _cure(case, body, _proven(case, ours, lost, completed), completed)


_Gone = Callable[[int, MessagesItem], bool]


def _placed(case: RefusedMessages) -> Diagnosis:
    """Return the diagnosis with the message that is meant; -1 stays."""
    said, held = case.diagnosis, reasoning_in(case.sent)
    if said.kind is RefusalKind.MODIFIED:
        return replace(said, message=max(held, default=-1))
    if said.message < 0:
        return said
    return replace(said, message=min((n for n in held if n >= said.message), default=said.message))


def _gone(case: RefusedMessages, ours: _Blocks) -> _Gone:
    """Return which reasoning blocks of the refused request must be left out."""
    kind, message, block = case.diagnosis.kind, case.diagnosis.message, case.diagnosis.block
    row = _row_of(case.sent, message)
    if kind is RefusalKind.BLOB and message >= 0 and block >= 0:
        if message in ours:
            return lambda index, _: index in row and index in ours
        known = _blobs_of_model(case)
        return lambda index, item: (
            index not in ours
            and (item.blob not in known or (index, item.number) == (message, block))
        )
    if kind is RefusalKind.BINDING and message >= 0 and block >= 0:
        return lambda index, item: (
            index > message
            or (index in row and index in ours)
            or (index == message and item.number >= block)
        )
    if kind is RefusalKind.MODIFIED:
        return lambda index, _: index in row and index in ours
    return lambda index, _: index in ours


def _is_concerned(case: RefusedMessages, completed: Collection[int]) -> bool:
    """Return whether a refusal is about one of the messages that can be completed."""
    kind, message = case.diagnosis.kind, case.diagnosis.message
    if message < 0 or kind is RefusalKind.BINDING:  # bound to what an older message lacks
        return any(message < 0 or index <= message for index in completed)
    return not _row_of(case.sent, message).isdisjoint(completed)


def _row_of(request: MessagesRequest, message: int) -> frozenset[int]:
    """Return the indices of the messages that the API joins with one of them, itself included."""
    index_of = {start: index for index, (start, _) in enumerate(request.messages)}
    rows = (frozenset(index_of[said.start] for _, said in row) for row in rows_of(request))
    return next((row for row in rows if message in row), frozenset())


def _proven(
    case: RefusedMessages, ours: _Blocks, lost: frozenset[bytes], completed: Collection[int]
) -> frozenset[bytes]:
    """Return which of the lost blobs upstream is known to refuse."""
    kind, message, block = case.diagnosis.kind, case.diagnosis.message, case.diagnosis.block
    if kind not in (RefusalKind.BLOB, RefusalKind.BINDING, RefusalKind.MODIFIED):
        return frozenset()
    if completed:  # they may be good: others lacked
        return frozenset()
    if kind is RefusalKind.BLOB and block >= 0 and message not in ours:
        items = reasoning_in(case.sent).get(message, [])
        return lost & {item.blob for item in items if item.number == block}
    return lost


def _blobs_of_model(case: RefusedMessages) -> frozenset[bytes]:
    """Return the blobs that are known to be of the model that the request names."""
    turns = (turn for turn in case.turns if case.sent.model in turn.models)
    return frozenset(
        blob for turn in turns for item in turn.items for part in item.run for blob in part.blobs
    )


def _without(case: RefusedMessages, gone: _Gone, ours: _Blocks) -> bytes:
    """Return the refused request without blocks; a message that loses ours is the client's own."""
    given, sent = case.given, case.sent
    restored = {index for index, items in ours.items() if gone(index, items[0])}
    body, _ = without_blocks(sent, lambda index, item: index not in restored and gone(index, item))
    if not restored:
        return body
    places = read_request(body, {}).messages
    own = given.messages
    edits = [
        Edit(*places[index], given.body[own[index][0] : own[index][1]])
        for index in sorted(restored)
    ]
    return json_spans.apply(body, edits)


def _added(case: RefusedMessages, request: MessagesRequest) -> _Blocks:
    """Return the reasoning that the client did not send, by the index of its message."""
    theirs = {
        index: {item.raw for item in items} for index, items in reasoning_in(case.given).items()
    }
    added = {
        index: [item for item in items if item.raw not in theirs.get(index, ())]
        for index, items in reasoning_in(request).items()
    }
    return {index: items for index, items in added.items() if items}


def _cure(
    case: RefusedMessages, body: bytes, lost: frozenset[bytes], completed: Mapping[int, bytes]
) -> Cure:
    cured = read_request(body, {})
    added = [item for items in _added(case, cured).values() for item in items]
    return Cure(
        body,
        injected=len(added),
        injected_bytes=sum(item.end - item.start for item in added),
        is_clients_own=body == case.given.body,
        lost=lost,
        completed=frozenset(completed.values()),
        withheld=tuple(
            turn for turn in case.turns if turn.without_reasoning(lost.__contains__) is not turn
        ),
        sent=sent_items(cured.head, cured.places)._replace(injected=digests_of(added)),
        changes=item_changes(_items(case.sent), _items(cured)),
    )


def _items(request: MessagesRequest) -> list[MessagesItem]:
    return [place.item for place in request.places]


def _blobs(blocks: _Blocks) -> frozenset[bytes]:
    return frozenset(item.blob for items in blocks.values() for item in items) - {b""}
