"""
Cure of a refused request to the Messages API; see `cures`.

- A block is not accepted: all reasoning of its message is left out. If the client sends it, so are
  the blocks that are not known to be of this model: upstream names the first one only.
- A block is bound to another history: it is left out, and so is all reasoning after it, which is
  bound to a history with that block. Or the API is asked to do so.
- The latest message was modified, or reasoning is switched off, or not accepted at all: what the
  proxy injected is taken back.

Adjacent assistant messages count as one. If upstream names a message without reasoning, the next
one that has any is meant: it may count the messages as joined, or name the first of those.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace

import msgspec
from typing_extensions import override

from reasoning_replay.core.dialects.anthropic.heal.diagnosis import Diagnosis, RefusalKind
from reasoning_replay.core.dialects.anthropic.items import MessagesItem
from reasoning_replay.core.dialects.anthropic.message_groups import rows_of
from reasoning_replay.core.dialects.anthropic.request import MessagesRequest, read_request
from reasoning_replay.core.dialects.cures import RefusedRequest, SentReasoning, blobs_of_turns
from reasoning_replay.core.dialects.lenient import decoded
from reasoning_replay.core.history.items import Role
from reasoning_replay.core.wire import json_spans
from reasoning_replay.core.wire.json_spans import Edit

# Header of a request that asks the API to leave out what is bound to another history, and its
# value (platform.claude.com, prefix checks on thinking blocks).
BETA = (b"anthropic-beta", b"thinking-binding-controls-2026-08-01")
_MEMBER = b',"block_binding":{"prefix_mismatch_behavior":"drop_block"}'
# Whether a reasoning block must be left out, with all of its row, by the index of its message.
_IsGone = Callable[[int, MessagesItem], bool]


@dataclass(eq=False)
class RefusedMessages(RefusedRequest[MessagesRequest, Diagnosis]):
    """A refused request; `completed` is by the index of the message, and was not before."""

    read = read_request
    about_blobs = frozenset(
        {RefusalKind.BLOB, RefusalKind.BINDING, RefusalKind.MODIFIED, RefusalKind.FORM}
    )
    completable = about_blobs | {RefusalKind.INPUT}

    @override
    def __post_init__(self) -> None:
        super().__post_init__()
        blocks = _blocks_in(self.given).items()
        theirs = {index: {item.raw for item in items} for index, items in blocks}
        self._blocks = _blocks_in(self.sent)
        self._ours = {  # the messages with reasoning that the client did not send
            index
            for index, items in self._blocks.items()
            if any(item.raw not in theirs.get(index, ()) for item in items)
        }
        starts = _index_of(self.asked or self.given)
        completed = {starts[start]: of for start, of in self.completed.items()}
        self.completed = {n: of for n, of in completed.items() if n not in self._ours}
        message = self.diagnosis.message
        if self.diagnosis.kind is RefusalKind.MODIFIED:
            message = max(self._blocks, default=-1)
        elif message >= 0:
            message = min((n for n in self._blocks if n >= message), default=message)
        self.diagnosis = replace(self.diagnosis, message=message)
        index_of = _index_of(self.sent)
        rows = (frozenset(index_of[said.start] for _, said in row) for row in rows_of(self.sent))
        # The messages that the API joins with that one, itself included
        self._row = next((row for row in rows if message in row), frozenset[int]())

    @override
    def reasoning_in(self, request: MessagesRequest) -> Mapping[Hashable, SentReasoning]:
        return {
            (index, item.raw): SentReasoning((item.blob,), item.end - item.start)
            for index, items in _blocks_in(request).items()
            for item in items
        }

    @override
    def is_concerned(self) -> bool:
        kind, message = self.diagnosis.kind, self.diagnosis.message
        if message < 0 or kind is RefusalKind.BINDING:  # bound to what an older message lacks
            return any(message < 0 or index <= message for index in self.completed)
        return not self._row.isdisjoint(self.completed)

    @override
    def edited(self) -> bytes:
        gone = self._gone()
        restored = {n for n in self._ours if gone(n, self._blocks[n][0])}
        body, _ = without_blocks(
            self.sent, lambda index, item: index not in restored and gone(index, item)
        )
        if not restored:
            return body
        # A message that loses ours is the client's own.
        places, own = read_request(body, {}).messages, self.given.messages
        edits = [Edit(*places[n], self.given.body[own[n][0] : own[n][1]]) for n in sorted(restored)]
        return json_spans.apply(body, edits)

    @override
    def bare(self) -> bytes:
        return without_blocks(self.given, lambda *_: True)[0]

    @override
    def blamed(self, lost: frozenset[bytes]) -> frozenset[bytes]:
        kind, message, block = self.diagnosis.kind, self.diagnosis.message, self.diagnosis.block
        if kind is RefusalKind.BLOB and block >= 0 and message not in self._ours:
            items = self._blocks.get(message, [])
            return lost.intersection(item.blob for item in items if item.number == block)
        return lost

    def _gone(self) -> _IsGone:
        """Return which reasoning blocks of the refused request must be left out."""
        kind, message, block = self.diagnosis.kind, self.diagnosis.message, self.diagnosis.block
        row, ours, is_named = self._row, self._ours, message >= 0 and block >= 0
        if kind is RefusalKind.BLOB and is_named and message not in ours:
            known = blobs_of_turns(self.turns, self.sent.model)
            return lambda index, item: (
                index not in ours
                and (item.blob not in known or (index, item.number) == (message, block))
            )
        if kind is RefusalKind.FORM and not ours:
            known = blobs_of_turns(self.turns, self.sent.model)
            return lambda _, item: item.blob not in known
        if kind is RefusalKind.BINDING and is_named:
            return lambda index, item: (
                index > message
                or (index in row and index in ours)
                or (index == message and item.number >= block)
            )
        if kind is RefusalKind.MODIFIED or (kind is RefusalKind.BLOB and is_named):
            return lambda index, _: index in row and index in ours
        return lambda index, _: index in ours


def without_blocks(request: MessagesRequest, is_gone: _IsGone) -> tuple[bytes, int]:
    """
    Return the body of a request without some reasoning blocks, and their number.

    Adjacent assistant messages lose all their blocks or none: the API accepts no part of a turn. A
    message of which nothing would be left stays as it is: the API accepts no empty message.
    """
    blocks, index_of = _blocks_in(request), _index_of(request)
    edits: list[Edit] = []
    count = 0
    for row in rows_of(request):
        indexes = {index_of[message.start] for _, message in row}
        theirs = {index: blocks[index] for index in indexes if index in blocks}
        if not any(is_gone(index, item) for index, items in theirs.items() for item in items):
            continue
        for items in theirs.values():
            message = items[0].message
            if message is not None and len(items) < len(message.blocks):
                edits += json_spans.removals(message.blocks, {item.number for item in items})
                count += len(items)
    return json_spans.apply(request.body, edits), count


class _Thinking(msgspec.Struct):
    """The members of `thinking` that matter."""

    type: str
    block_binding: msgspec.Raw | None = None


_THINKING = msgspec.json.Decoder(_Thinking)


def asking_to_drop(request: MessagesRequest) -> bytes | None:
    """
    Return the body that asks the API to leave out the reasoning that it would refuse.

    None if thinking is not on, or the request says how. The clouds, whose bodies name an
    `anthropic_version`, have no such header.
    """
    thinking = decoded(_THINKING, request.raw("thinking"))
    if thinking is None or thinking.type == "disabled" or thinking.block_binding is not None:
        return None
    if request.raw("anthropic_version"):
        return None
    at = json_spans.place_of(request.values, request.body, "thinking").end - 1
    return json_spans.apply(request.body, [Edit(at, at, _MEMBER)])


def _index_of(request: MessagesRequest) -> dict[int, int]:
    return {start: index for index, (start, _) in enumerate(request.messages)}


def _blocks_in(request: MessagesRequest) -> dict[int, list[MessagesItem]]:
    """Return the reasoning blocks of a request, by the index of their message."""
    index_of = _index_of(request)
    found: dict[int, list[MessagesItem]] = {}
    for place in request.places:
        item = place.item
        if item.role is Role.REASONING and item.message is not None:
            found.setdefault(index_of[item.message.start], []).append(item)
    return found
