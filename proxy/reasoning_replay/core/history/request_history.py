"""Request history: the items of one request in order, each with digests of the items before it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from reasoning_replay.core.history.decided import (
    ANSWERED_ITEMS,
    NOTHING,
    Asked,
    Decided,
    Run,
    RunningDigest,
    enough,
)
from reasoning_replay.core.history.items import HistoryItem, Role
from reasoning_replay.core.history.turns import LINK_BYTES, TAIL_LINKS, Context, Turn
from reasoning_replay.core.wire.digest import DIGEST_BYTES, digest

_TAIL_BYTES = TAIL_LINKS * LINK_BYTES
_MODEL, _CLIENT, _FRAME = Role.MODEL, Role.CLIENT, Role.FRAME

ItemT = TypeVar("ItemT", bound=HistoryItem)
ItemT_co = TypeVar("ItemT_co", bound=HistoryItem, covariant=True)


class Place(msgspec.Struct, Generic[ItemT_co], gc=False, eq=False):
    """
    One item of a request, with the history before it.

    Attributes:
        depth: Number of links of the conversation's chain before it.
        frame: Digest of instructions, system and developer messages before it.
        before: The model's run of items before the current run.
        heard: Number of items of `RequestHistory.heard` before it.
    """

    item: ItemT_co
    depth: int
    frame: bytes
    before: Run
    heard: int

    @property
    def model_traces(self) -> bytes:
        """Traces of the model's previous run, as `Context.model_traces`."""
        return self.before.traces


@dataclass(slots=True)
class RequestHistory(Generic[ItemT_co]):
    """
    The content of a request that lookup and matching need: what is not decided already.

    Attributes:
        model: Model name in the request; "" when absent.
        hint: Digest of the conversation's name that the client sent; b"" without one.
        continues: Id of the previous response that the request names; "" when absent.
        is_stateful: Whether upstream itself holds the history, or the older part of it.
        decided: What is decided about the items before these.
        places: Every item, in order.
        anchors: Indices of the items by which a conversation can be looked up.
        has_reasoning: Whether there is reasoning, or a reference that may stand for it.
        said: A 16-byte digest of each item from the client's side (users and tools), in order.
        heard: Every item from the client's side and the model, in order, without reasoning,
            references and the frame.
        frame: Digest of instructions, system and developer messages; b"" without any.
        run: The model's last run of items.
        may_rename: Whether clients of the API replace the ids of calls by their own
            (`have_one_origin`).
        may_merge: Whether clients of the API merge messages of several responses.
        chain_at_end, whole_at_end: Digests of `said`, and of `heard`, with what is decided, if they
            are known.
    """

    model: str
    hint: bytes
    continues: str = ""
    is_stateful: bool = False
    decided: Decided = NOTHING
    places: list[Place[ItemT_co]] = field(default_factory=list)
    anchors: list[int] = field(default_factory=list)
    has_reasoning: bool = False
    said: list[bytes] = field(default_factory=list)
    heard: list[ItemT_co] = field(default_factory=list)
    frame: bytes = b""
    run: list[ItemT_co] = field(default_factory=list)
    may_rename: bool = False
    may_merge: bool = False
    chain_at_end: RunningDigest | None = None
    whole_at_end: RunningDigest | None = None
    _chains: list[bytes] | None = None
    _wholes: list[bytes] | None = None

    @property
    def depth(self) -> int:
        """Number of links of the conversation's chain."""
        return self.decided.said + len(self.said)

    def chain(self, depth: int) -> bytes:
        """Return the chain's digest before a link; what is decided has only its last one."""
        if self.chain_at_end is not None and depth == self.depth:  # most requests need no other
            return self.chain_at_end.digest()[:DIGEST_BYTES]
        if self._chains is None:
            self._chains = _digests(self.decided.chain, self.said)
        return self._chains[depth - self.decided.said]

    def link(self, at: int) -> bytes:
        """Return the first bytes of one of the links; b"" if it is not known or not there."""
        new = at - self.decided.said
        if new >= 0:
            return self.said[new][:LINK_BYTES] if new < len(self.said) else b""
        start = len(self.decided.tail) + new * LINK_BYTES
        return self.decided.tail[start : start + LINK_BYTES] if start >= 0 else b""

    def asked_before(self, at: int) -> Iterator[Asked]:
        """Yield the messages of the client's side before an item, newest first."""
        for n in range(at - 1, -1, -1):
            item = self.places[n].item
            if item.role is _CLIENT:
                yield Asked(item.said, item.chars)
        yield from self.decided.asked

    def context(self, place: Place[HistoryItem] | None = None) -> Context:
        """Return the context of an item; None is the end of the history."""
        depth = self.depth if place is None else place.depth
        links = _links(self.said[: depth - self.decided.said])
        return Context(
            chain=self.chain(depth),
            tail=(self.decided.tail + links)[-_TAIL_BYTES:],
            depth=depth,
            frame=self.frame if place is None else place.frame,
            model_traces=self._traces_at_end() if place is None else place.model_traces,
            hint=self.hint,
            whole=self.whole() if place is None else b"",  # not needed by a lookup
            is_known=not self.is_stateful,
        )

    def context_after(self, parent: Turn) -> Context:
        """Return the context of the end, if upstream has the history up to a turn, the turn too."""
        before = parent.context
        own = _links(self.said)
        answered = b"".join([item.trace for item in parent.items[-ANSWERED_ITEMS:]])
        return Context(
            tail=(before.tail + own)[-_TAIL_BYTES:],
            depth=before.depth + len(self.said),
            frame=self.frame or before.frame,
            model_traces=self._traces_at_end() or answered,
            hint=self.hint,
            is_known=before.is_known,
        )

    def whole(self, place: Place[HistoryItem] | None = None) -> bytes:
        """Return a digest of all messages before an item, from both sides."""
        if place is None and self.whole_at_end is not None:
            return self.whole_at_end.digest()[:DIGEST_BYTES]
        if self._wholes is None:
            said = [i.trace if i.role is _MODEL else i.said for i in self.heard]
            self._wholes = _digests(self.decided.whole, said)
        return self._wholes[len(self.heard) if place is None else place.heard - self.decided.heard]

    def _traces_at_end(self) -> bytes:
        return (Run(self.run) if self.run else self.decided.run).traces


class HistoryPrefix(NamedTuple, Generic[ItemT]):
    """
    The history up to one of its items. It is never changed: `extend` returns a longer one.

    Attributes:
        decided: What is decided about the items before these.
        frame: Digest of the frame at the end.
        before: The model's run before the current one.
        anchors, has_reasoning: As in `RequestHistory`.
        is_over: Whether an item from the client's side ended the current run.
        chain, whole: Digests of `said`, and of `heard`, with what is decided.
    """

    decided: Decided
    places: list[Place[ItemT]]
    anchors: list[int]
    has_reasoning: bool
    said: list[bytes]
    heard: list[ItemT]
    frame: bytes
    before: Run
    run: list[ItemT]
    is_over: bool
    chain: RunningDigest
    whole: RunningDigest


def empty_history(decided: Decided, frame: bytes) -> HistoryPrefix[ItemT]:
    """Return a history without items that goes on from what is decided, with a frame."""
    return HistoryPrefix(
        decided=decided,
        places=[],
        anchors=[],
        has_reasoning=False,
        said=[],
        heard=[],
        frame=frame,
        before=decided.run,
        run=[],
        is_over=decided.is_over,
        chain=decided.chain,
        whole=decided.whole,
    )


def end_of(request: RequestHistory[Any], history: HistoryPrefix[Any]) -> Decided:
    """Return the end of the history of a request; nothing is decided yet about its items."""
    decided = history.decided
    return Decided(
        items=decided.items + len(history.places),
        said=decided.said + len(history.said),
        heard=decided.heard + len(history.heard),
        first=decided.first or (history.said[0] if history.said else b""),
        tail=(decided.tail + _links(history.said))[-_TAIL_BYTES:],
        asked=tuple(enough(request.asked_before(len(history.places)))),
        run=Run(history.run).kept() if history.run else decided.run,
        frame=history.frame,
        is_over=history.is_over,
        chain=history.chain,
        whole=history.whole,
    )


def extend(prefix: HistoryPrefix[ItemT], items: Iterable[ItemT]) -> HistoryPrefix[ItemT]:
    """Return the history with further items appended."""
    (
        decided, places, anchors, has_reasoning, said, heard, frame, before, run, is_over,
        chain, whole,
    ) = prefix  # fmt: skip
    chain, whole = chain.copy(), whole.copy()
    places, anchors, said, heard, run = [*places], [*anchors], [*said], [*heard], [*run]
    depth, told = decided.said + len(said), decided.heard + len(heard)
    for item in items:
        role = item.role
        if item.is_anchor:
            anchors.append(len(places))
        if role is _MODEL:
            if is_over and run:
                before, run = Run(run), []
            is_over = False
            run.append(item)
            whole.update(item.trace)
        elif role is _CLIENT:
            is_over = True
            whole.update(item.said)
        elif role is not _FRAME:
            has_reasoning = True
        places.append(Place(item, depth, frame, before, told))
        if role is _MODEL or role is _CLIENT:
            heard.append(item)
            told += 1
        if role is _CLIENT:
            said.append(item.said)
            chain.update(item.said)
            depth += 1
        elif role is _FRAME:
            frame = digest(frame, item.said)
    return HistoryPrefix(
        decided, places, anchors, has_reasoning, said, heard, frame, before, run, is_over,
        chain, whole,
    )  # fmt: skip


def _digests(state: RunningDigest, said: Iterable[bytes]) -> list[bytes]:
    """Return a digest as it is, and after each of these."""
    state = state.copy()
    digests = [state.digest()[:DIGEST_BYTES]]
    for each in said:
        state.update(each)
        digests.append(state.digest()[:DIGEST_BYTES])
    return digests


def _links(said: list[bytes]) -> bytes:
    """Return the last links of a chain, as `Context.tail`."""
    return b"".join([one[:LINK_BYTES] for one in said[-TAIL_LINKS:]])
