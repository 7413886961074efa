"""Request history: the items of one request in order, each with digests of the items before it."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import msgspec

from reasoning_replay.core.history.items import HistoryItem, Role
from reasoning_replay.core.history.turns import LINK_BYTES, TAIL_LINKS, Context, Turn
from reasoning_replay.core.wire.digest import DIGEST_BYTES, digest

_START = digest(b"chain")
# Number of items of a run that are kept in a turn's context: enough to distinguish runs.
ANSWERED_ITEMS = 8
_MODEL, _CLIENT, _FRAME = Role.MODEL, Role.CLIENT, Role.FRAME

ItemT = TypeVar("ItemT", bound=HistoryItem)
ItemT_co = TypeVar("ItemT_co", bound=HistoryItem, covariant=True)


class RunningDigest(Protocol):
    """A digest of what was read so far, which can go on."""

    def copy(self) -> "RunningDigest":
        """Return one that goes on from here."""

    def digest(self) -> bytes:
        """Return the digest so far."""

    def update(self, data: bytes, /) -> None:
        """Go on with these bytes."""


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
    before: list[ItemT_co]
    heard: int

    @property
    def model_traces(self) -> bytes:
        """Traces of the model's previous run, as `Context.model_traces`."""
        return _traces(self.before)


@dataclass(slots=True)
class RequestHistory(Generic[ItemT_co]):
    """
    The content of a request that lookup and matching need.

    Attributes:
        model: Model name in the request; "" when absent.
        hint: Digest of the conversation's name that the client sent; b"" without one.
        continues: Id of the previous response that the request names; "" when absent.
        is_stateful: Whether upstream itself holds the history, or the older part of it.
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
        chain_at_end, whole_at_end: Digests of `said`, and of `heard`, if they are known.
        before: The end of the history before the items; None: they are all of it.
    """

    model: str
    hint: bytes
    continues: str = ""
    is_stateful: bool = False
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
    before: "HistoryEnd | None" = None
    _chains: list[bytes] | None = None
    _wholes: list[bytes] | None = None

    @property
    def chains(self) -> list[bytes]:
        """The chain's digest before each of `said`, and after the last one."""
        if self._chains is None:
            state = sha256(_START)
            self._chains = [state.digest()[:DIGEST_BYTES]]
            for said in self.said:
                state.update(said)
                self._chains.append(state.copy().digest()[:DIGEST_BYTES])
        return self._chains

    def context(self, place: Place[HistoryItem] | None = None) -> Context:
        """Return the context of an item; None is the end of the history."""
        if place is None and self.before is not None:
            return self._context_of_end(self.before)
        end = len(self.said) if place is None else place.depth
        return Context(
            chain=self._chain() if place is None else self.chains[end],
            tail=_links(self.said[:end]),
            depth=end,
            frame=self.frame if place is None else place.frame,
            model_traces=_traces(self.run) if place is None else place.model_traces,
            hint=self.hint,
            whole=self.whole() if place is None else b"",  # not needed by a lookup
            is_known=not self.is_stateful,
        )

    def _context_of_end(self, before: "HistoryEnd") -> Context:
        """Return the context of the end of a history of which only the last items are here."""
        return Context(
            chain=self._chain(),
            tail=(before.tail + _links(self.said))[-TAIL_LINKS * LINK_BYTES :],
            depth=before.said + len(self.said),
            frame=self.frame,
            model_traces=_traces(self.run) if self.run else before.model_traces,
            hint=self.hint,
            whole=self.whole(),
            is_known=not self.is_stateful,
        )

    def context_after(self, parent: Turn) -> Context:
        """Return the context of the end, if upstream has the history up to a turn, the turn too."""
        before = parent.context
        own = _links(self.said)
        answered = b"".join([item.trace for item in parent.items[-ANSWERED_ITEMS:]])
        return Context(
            tail=(before.tail + own)[-TAIL_LINKS * LINK_BYTES :],
            depth=before.depth + len(self.said),
            frame=self.frame or before.frame,
            model_traces=_traces(self.run) or answered,
            hint=self.hint,
            is_known=before.is_known,
        )

    def whole(self, place: Place[HistoryItem] | None = None) -> bytes:
        """Return a digest of all messages before an item, from both sides."""
        if place is None and self.whole_at_end is not None:
            return self.whole_at_end.digest()[:DIGEST_BYTES]
        if self._wholes is None:
            said = [i.trace if i.role is _MODEL else i.said for i in self.heard]
            state = sha256()
            self._wholes = [state.digest()[:DIGEST_BYTES]]
            for each in said:
                state.update(each)
                self._wholes.append(state.copy().digest()[:DIGEST_BYTES])
        return self._wholes[len(self.heard) if place is None else place.heard]

    def _chain(self) -> bytes:
        """Return the last of `chains`; most requests need no other."""
        if self.chain_at_end is not None:
            return self.chain_at_end.digest()[:DIGEST_BYTES]
        return self.chains[-1]


class HistoryPrefix(NamedTuple, Generic[ItemT]):
    """
    The history up to one of its items. It is never changed: `extend` returns a longer one.

    Attributes:
        frame: Digest of the frame at the end.
        before: The model's run before the current one.
        anchors, has_reasoning: As in `RequestHistory`.
        is_over: Whether an item from the client's side ended the current run.
        chain, whole: Digests of `said`, and of `heard`.
    """

    places: list[Place[ItemT]]
    anchors: list[int]
    has_reasoning: bool
    said: list[bytes]
    heard: list[ItemT]
    frame: bytes
    before: list[ItemT]
    run: list[ItemT]
    is_over: bool
    chain: RunningDigest
    whole: RunningDigest


class HistoryEnd(msgspec.Struct, frozen=True, gc=False):
    """
    The end of a history: all that later items depend on, without the items.

    Attributes:
        items: Number of items.
        said, heard: Number of items of `RequestHistory.said`, and of `heard`.
        tail, model_traces: As in the `Context` of the end.
        frame, is_over, chain, whole: As in `HistoryPrefix`.
    """

    items: int
    said: int
    heard: int
    tail: bytes
    model_traces: bytes
    frame: bytes
    is_over: bool
    chain: RunningDigest
    whole: RunningDigest

    def begun(self) -> HistoryPrefix[Any]:
        """Return a history without items that goes on from here."""
        nothing: HistoryPrefix[Any] = empty_prefix(self.frame)
        return nothing._replace(is_over=self.is_over, chain=self.chain, whole=self.whole)


def end_of(history: HistoryPrefix[Any], before: HistoryEnd | None = None) -> HistoryEnd:
    """Return the end of a history; `before` is that of what precedes its items."""
    items, said, heard = len(history.places), len(history.said), len(history.heard)
    tail, traces = _links(history.said), _traces(history.run)
    if before is not None:
        items, said, heard = before.items + items, before.said + said, before.heard + heard
        tail = (before.tail + tail)[-TAIL_LINKS * LINK_BYTES :]
        traces = traces or before.model_traces
    frame, is_over, chain, whole = history.frame, history.is_over, history.chain, history.whole
    return HistoryEnd(items, said, heard, tail, traces, frame, is_over, chain, whole)


def empty_prefix(began: bytes) -> HistoryPrefix[ItemT]:
    """Return a history without items; `began` is the digest of the frame before the first one."""
    return HistoryPrefix(
        places=[],
        anchors=[],
        has_reasoning=False,
        said=[],
        heard=[],
        frame=began,
        before=[],
        run=[],
        is_over=False,
        chain=sha256(_START),
        whole=sha256(),
    )


def extend(prefix: HistoryPrefix[ItemT], items: Iterable[ItemT]) -> HistoryPrefix[ItemT]:
    """Return the history with further items appended."""
    places, anchors, has_reasoning, said, heard, frame, before, run, is_over, chain, whole = prefix
    chain, whole = chain.copy(), whole.copy()
    places, anchors, said, heard, run = [*places], [*anchors], [*said], [*heard], [*run]
    for item in items:
        role = item.role
        if item.is_anchor:
            anchors.append(len(places))
        if role is _MODEL:
            if is_over and run:
                before, run = run, []
            is_over = False
            run.append(item)
            whole.update(item.trace)
        elif role is _CLIENT:
            is_over = True
            whole.update(item.said)
        elif role is not _FRAME:
            has_reasoning = True
        places.append(Place(item, len(said), frame, before, len(heard)))
        if role is _MODEL or role is _CLIENT:
            heard.append(item)
        if role is _CLIENT:
            said.append(item.said)
            chain.update(item.said)
        elif role is _FRAME:
            frame = digest(frame, item.said)
    return HistoryPrefix(
        places, anchors, has_reasoning, said, heard, frame, before, run, is_over, chain, whole
    )


def _links(said: list[bytes]) -> bytes:
    """Return the last links of a chain, as `Context.tail`."""
    return b"".join([one[:LINK_BYTES] for one in said[-TAIL_LINKS:]])


def _traces(run: list[ItemT]) -> bytes:
    """Return the traces of the last items of a run."""
    return b"".join([item.trace for item in run[-ANSWERED_ITEMS:]]) if run else b""
