"""Turns: the captured content of responses."""

from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec
from msgspec import structs

from reasoning_replay.core.history.fingerprints import is_distinctive, trace_of
from reasoning_replay.core.history.seen import Seen
from reasoning_replay.core.wire.digest import digest, utf8

LINK_BYTES = 8
TAIL_LINKS = 8


class Reasoning(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """
    One reasoning item in the form that may be injected.

    Attributes:
        id: Its id (`rs_…`); "" if upstream assigns none.
        raw: Its JSON as upstream wrote it, without members that requests may not carry.
        blobs: Digests of every `encrypted_content` seen for it: the strings in
            `output_item.added`, `output_item.done` and `response.completed` differ.
        has_blob: Whether `raw` carries a blob.
    """

    id: str
    raw: bytes
    blobs: tuple[bytes, ...]
    has_blob: bool

    def known_by(self, blobs: Iterable[bytes]) -> "Reasoning":
        """Return the same item with further digests of blobs."""
        seen = {*self.blobs, *blobs} - {b""}
        return Reasoning(self.id, self.raw, tuple(sorted(seen)), self.has_blob)


class Emitted(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """
    One item that is not reasoning, and the run of reasoning directly before it.

    Attributes:
        content: As `HistoryItem.content`.
        run: The reasoning before it; () without any, or if `withheld`.
        withheld: Whether there was reasoning that may not be injected: the item never finished, or
            upstream has refused the reasoning since.
        raw: Its JSON as upstream wrote it, without members that requests may not carry; b"" if it
            is longer than RAW_MAX_BYTES.
        refused: The run that upstream has refused since; never stored so.
        spelling: As `HistoryItem.spelling`; None if it was captured before that was kept.
    """

    type: str
    id: str
    call_id: str
    name: str
    content: bytes
    run: tuple[Reasoning, ...] = ()
    withheld: bool = False
    raw: bytes = b""
    refused: tuple[Reasoning, ...] = ()
    spelling: bytes | None = None

    @property
    def trace(self) -> bytes:
        """As `HistoryItem.trace`, where a `call_id` alone names a call."""
        is_named = is_distinctive(self.call_id, self.name)
        return trace_of((utf8(self.call_id),) if is_named else (), self.content, self.type)

    @property
    def lacks(self) -> int:
        """Number of reasoning items that are withheld; one, if their number is not known."""
        return len(self.refused) or int(self.withheld)

    def after(self, run: tuple[Reasoning, ...], *, withheld: bool) -> "Emitted":
        """Return the same item with another run of reasoning before it."""
        if run == self.run and withheld == self.withheld:
            return self
        return structs.replace(self, run=run, withheld=withheld)

    def without_run(self) -> "Emitted":
        """Return the same item with its run withheld, because upstream has refused it."""
        return structs.replace(self, run=(), withheld=True, refused=self.run)


class Context(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """
    Digests of the history before a turn.

    The chain holds only items from the client's side (users and tools). The model's items are left
    out: clients reshape them, and they are matched one by one anyway.

    Attributes:
        chain: Digest of all links from the head on; b"" if upstream has the older ones.
        tail: The last links of the chain, 8 bytes each, newest last, at most 8 of them.
        depth: Number of links.
        frame: Digest of instructions, system and developer messages; b"" without any.
        hint: Digest of the conversation's name that the client sent; b"" without one.
        model_traces: Traces of the last items of the model before the turn, 8 bytes each.
        whole: Digest of all items before the turn, from both sides; b"" in a lookup, which does
            not need it, and if upstream has the older ones.
        is_known: False if only upstream has the history, and no turn tells what it ends with.
    """

    chain: bytes = b""
    tail: bytes = b""
    depth: int = 0
    frame: bytes = b""
    hint: bytes = b""
    is_known: bool = False
    model_traces: bytes = b""
    whole: bytes = b""


class Lesson(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """
    What an accepted cure taught about its conversation; it holds for an hour after its turn.

    Attributes:
        kind: Kind of the refusal, or another of `refusal_memory`.
        what: What is refused or done, such as a form, a member or a model; never one item.
    """

    kind: str
    what: str = ""


class Turn(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """
    The items that one response emitted, in output order.

    Attributes:
        id: 16-byte digest of the response's id.
        conversation: 16-byte id; the turns of a conversation are stored and expire together.
        parent: Id of the newest turn that was matched in its request; b"" without one.
        models: Families of the requested model and of the model named in the response.
        is_stored: Whether upstream keeps the items, so that it can resolve a bare id.
        created_ms: Time of capture in ms since the epoch; orders the turns of a conversation.
        seen: Decisions about the items before it; None: the next request decides again.
        switched_off: Whether its request had switched reasoning off; upstream may ignore that.
        binding: Digests, in the dialect's own form, of the history that its reasoning is bound to;
            b"" if it is not bound.
        cache_key: Key by which upstream finds its prompt cache; b"" if the proxy chose none.
        lessons: What the cure of its request taught; () if that was not refused.
        response_id: Id of the response, if the next request may name it; else "".
    """

    id: bytes
    conversation: bytes
    parent: bytes
    models: tuple[str, ...]
    is_stored: bool
    created_ms: int
    context: Context
    items: tuple[Emitted, ...]
    seen: Seen | None = None
    switched_off: bool = False
    binding: bytes = b""
    cache_key: bytes = b""
    lessons: tuple[Lesson, ...] = ()
    response_id: str = ""

    @property
    def lacks_parent(self) -> bool:
        """Whether its parent is unknown, although its request held items of a model."""
        return not self.parent and bool(self.context.model_traces)

    def without_reasoning(self, is_refused: Callable[[bytes], bool]) -> "Turn":
        """Return the same turn without the runs that hold a blob that upstream refused."""
        items = tuple(
            item.without_run()
            if any(is_refused(blob) for part in item.run for blob in part.blobs)
            else item
            for item in self.items
        )
        return self if items == self.items else structs.replace(self, items=items)


class TurnPart(msgspec.Struct, frozen=True, gc=False):
    """
    News of a turn while its response is captured; all parts together are the turn.

    Attributes:
        turn: The turn, with its new items only.
        first: Position of the first of these items.
        runs: Runs of earlier items for which further blobs became known, by position.
        has_head: Whether the head is new or has changed.
    """

    turn: Turn
    first: int = 0
    runs: Mapping[int, tuple[Reasoning, ...]] = {}
    has_head: bool = True

    @property
    def reasoning(self) -> Iterator[Reasoning]:
        """All reasoning that is new, or has further blobs."""
        for item in self.turn.items:
            yield from item.run
        for run in self.runs.values():
            yield from run


def turn_id(response_id: str) -> bytes:
    """Return the id of a response's turn."""
    return digest(b"turn", response_id.encode("utf-8", "surrogatepass"))
