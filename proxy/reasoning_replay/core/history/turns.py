"""
Turns: the captured content of responses, and the records that a store keeps of them.

A turn is stored as records, each with a name and a value. A record is written once and never
changes, so writing it again is harmless, and replicas never overwrite the data of each other:

    name = created_ms (8 bytes, big-endian), turn id (16), part
    part = "h" digest            head: parent, context, models, whether upstream keeps the items,
                                 and the decisions about the turns before
           "i" position          item, with the run of reasoning before it
           "b" position digest   digests of the blobs that were seen for that run
           "w" position          tombstone: the run is withheld from now on

A part that a later snapshot of the same response may change has a digest of its value in its name;
readers merge all versions. Names sort by the age of the turn, so a store can trim by names alone.
A value is one byte of format version and one MessagePack value. Readers ignore records of other
versions and damaged ones. They also ignore items after a missing one. The remaining items are a
state that the response once had, so no item follows another that it did not follow upstream.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

import msgspec
from msgspec import structs

from reasoning_replay.core.history.seen import Seen
from reasoning_replay.core.wire.digest import digest

__all__ = [
    "Context",
    "Emitted",
    "Reasoning",
    "Turn",
    "TurnPart",
    "is_head",
    "prefix_of_records",
    "records_of",
    "records_of_part",
    "turn_id",
    "turn_id_of_record",
    "turn_of_record",
    "turns_of",
    "withheld_records",
]

FORMAT = b"\x03"
TIME_BYTES = 8
ID_BYTES = 16
POSITION_BYTES = 4
VERSION_BYTES = 8  # length of the digest in a name
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
    """

    type: str
    id: str
    call_id: str
    name: str
    content: bytes
    run: tuple[Reasoning, ...] = ()
    withheld: bool = False
    raw: bytes = b""

    def after(self, run: tuple[Reasoning, ...], *, withheld: bool) -> "Emitted":
        """Return the same item with another run of reasoning before it."""
        if run == self.run and withheld == self.withheld:
            return self
        return structs.replace(self, run=run, withheld=withheld)


class Context(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """
    Digests of the history before a turn.

    The chain holds only items from the client's side (users and tools). The model's items are left
    out: clients reshape them, and they are matched one by one anyway.

    Attributes:
        chain: Digest of all links from the head on.
        tail: The last links of the chain, 8 bytes each, newest last, at most 8 of them.
        depth: Number of links.
        frame: Digest of instructions, system and developer messages; b"" without any.
        hint: Digest of the conversation's name that the client sent; b"" without one.
        answered: Traces of the last items of the model before the turn, 8 bytes each.
        whole: Digest of all items before the turn, from both sides; b"" in a lookup, which does
            not need it.
        is_known: False if only upstream has the history (`previous_response_id`, a GET).
    """

    chain: bytes = b""
    tail: bytes = b""
    depth: int = 0
    frame: bytes = b""
    hint: bytes = b""
    is_known: bool = False
    answered: bytes = b""
    whole: bytes = b""


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

    @property
    def lacks_parent(self) -> bool:
        """Whether its parent is unknown, although its request held items of a model."""
        return not self.parent and bool(self.context.answered)

    def without_reasoning(self, is_refused: Callable[[bytes], bool]) -> "Turn":
        """Return the same turn without the runs that hold a blob that upstream refused."""
        items = tuple(
            item.after((), withheld=True)
            if any(is_refused(blob) for part in item.run for blob in part.blobs)
            else item
            for item in self.items
        )
        return self if items == self.items else structs.replace(self, items=items)


_NO_RUNS: Mapping[int, tuple[Reasoning, ...]] = MappingProxyType({})


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
    runs: Mapping[int, tuple[Reasoning, ...]] = _NO_RUNS
    has_head: bool = True

    @property
    def reasoning(self) -> Iterator[Reasoning]:
        """All reasoning that is new, or has further blobs."""
        for item in self.turn.items:
            yield from item.run
        for run in self.runs.values():
            yield from run


class _HeadRecord(msgspec.Struct, frozen=True, array_like=True, gc=False):
    parent: bytes
    models: tuple[str, ...]
    is_stored: bool
    context: Context
    seen: Seen | None = None
    switched_off: bool = False
    binding: bytes = b""


_ENCODER = msgspec.msgpack.Encoder()
_HEAD_DECODER = msgspec.msgpack.Decoder(_HeadRecord)
_ITEM_DECODER = msgspec.msgpack.Decoder(Emitted)
_Blobs = tuple[tuple[bytes, ...], ...]
_BLOBS_DECODER = msgspec.msgpack.Decoder(_Blobs)
_HEAD, _ITEM, _BLOBS, _WITHHELD = b"h", b"i", b"b", b"w"
_PART = TIME_BYTES + ID_BYTES  # offset of the part in the name of a record
_DAMAGED = (msgspec.MsgspecError, RecursionError, UnicodeDecodeError)


def turn_id(response_id: str) -> bytes:
    """Return the id of a response's turn."""
    return digest(b"turn", response_id.encode("utf-8", "surrogatepass"))


def prefix_of_records(turn: Turn) -> bytes:
    """Return the common prefix of the names of a turn's records; it sorts by the turn's age."""
    return turn.created_ms.to_bytes(TIME_BYTES) + turn.id


def records_of(turn: Turn) -> dict[bytes, bytes]:
    """Return the records of a whole turn by name."""
    return records_of_part(TurnPart(turn))


def records_of_part(part: TurnPart) -> dict[bytes, bytes]:
    """
    Return the records of a part of a turn by name.

    Cost: linear in the part, whatever came before it.
    """
    turn = part.turn
    prefix = prefix_of_records(turn)
    records: dict[bytes, bytes] = {}

    def add(kind: bytes, content: object, *, versioned: bool = False) -> None:
        value = FORMAT + _ENCODER.encode(content)
        version = digest(b"record", value)[:VERSION_BYTES] if versioned else b""
        records[prefix + kind + version] = value

    if part.has_head:
        head = _HeadRecord(
            turn.parent,
            turn.models,
            turn.is_stored,
            turn.context,
            turn.seen,
            turn.switched_off,
            turn.binding,
        )
        add(_HEAD, head, versioned=True)
    runs = dict(part.runs)
    for n, item in enumerate(turn.items, part.first):
        # Further blobs may become known after the item was written, so they are records of their
        # own.
        bare = tuple([structs.replace(one, blobs=()) for one in item.run])
        add(_ITEM + n.to_bytes(POSITION_BYTES), structs.replace(item, run=bare))
        runs[n] = item.run
    for n, run in runs.items():
        if any(one.blobs for one in run):
            add(_BLOBS + n.to_bytes(POSITION_BYTES), [one.blobs for one in run], versioned=True)
    return records


def withheld_records(turn: Turn, is_refused: Callable[[bytes], bool]) -> dict[bytes, bytes]:
    """
    Return a tombstone for each run of a turn that holds a blob that upstream refused.

    Args:
        turn: The stored turn.
        is_refused: Returns whether upstream refused the blob with this digest.
    """
    prefix = prefix_of_records(turn)
    return {
        prefix + _WITHHELD + n.to_bytes(POSITION_BYTES): FORMAT
        for n, item in enumerate(turn.items)
        if any(is_refused(blob) for part in item.run for blob in part.blobs)
    }


def turns_of(conversation: bytes, records: Mapping[bytes, bytes]) -> list[Turn]:
    """
    Return the turns of a conversation from its records, oldest first.

    Records may come from several snapshots of a turn, and some may be missing or damaged. If two
    responses have the same id (some upstreams use counters), only the later one is returned.

    Args:
        conversation: Id of the conversation.
        records: Values by name, in any order.
    """
    of_turns: dict[bytes, list[bytes]] = {}
    for name in sorted(records):
        of_turns.setdefault(turn_of_record(name), []).append(name)
    newest_first: dict[bytes, Turn] = {}
    for this, names in reversed(of_turns.items()):
        if turn_id_of_record(this) not in newest_first:
            turn = _read_turn(conversation, this, names, records)
            if turn is not None:
                newest_first[turn.id] = turn
    return list(reversed(newest_first.values()))


def turn_of_record(name: bytes) -> bytes:
    """Return the prefix of a record's name that exactly the records of its turn share."""
    return name[:_PART]


def turn_id_of_record(name: bytes) -> bytes:
    """Return the turn's id from a record's name, or from the result of `turn_of_record`."""
    return name[TIME_BYTES:_PART]


def is_head(name: bytes) -> bool:
    """Return whether a record of this name is the head of a turn."""
    return name[_PART : _PART + 1] == _HEAD


def _read_turn(
    conversation: bytes, this: bytes, names: Sequence[bytes], records: Mapping[bytes, bytes]
) -> Turn | None:
    """
    Return a turn from its records; None without a head.

    Args:
        conversation: As for `turns_of`.
        this: Result of `turn_of_record`.
        names: Sorted names of its records.
        records: Values by name.
    """
    heads: list[_HeadRecord] = []
    items: dict[bytes, Emitted] = {}
    blobs: dict[bytes, list[_Blobs]] = {}
    withheld: set[bytes] = set()
    for name in names:
        value = records[name]
        if value[:1] != FORMAT:
            continue
        kind, position = name[_PART : _PART + 1], name[_PART + 1 : _PART + 1 + POSITION_BYTES]
        try:
            if kind == _ITEM:
                items.setdefault(position, _ITEM_DECODER.decode(value[1:]))
            elif kind == _BLOBS:
                blobs.setdefault(position, []).append(_BLOBS_DECODER.decode(value[1:]))
            elif kind == _HEAD:
                heads.append(_HEAD_DECODER.decode(value[1:]))
            elif kind == _WITHHELD:
                withheld.add(position)
        except _DAMAGED:
            continue
    if not heads:
        return None
    head = heads[0] if len(heads) == 1 else _merged(heads)
    return Turn(
        id=turn_id_of_record(this),
        conversation=conversation,
        parent=head.parent,
        models=head.models,
        is_stored=head.is_stored,
        created_ms=int.from_bytes(this[:TIME_BYTES]),
        context=head.context,
        items=tuple(_in_a_row(items, blobs, withheld)),
        seen=head.seen,
        switched_off=head.switched_off,
        binding=head.binding,
    )


def _merged(heads: Sequence[_HeadRecord]) -> _HeadRecord:
    """Return one head from those of several snapshots of a turn."""
    first = heads[0]
    models = sorted({model for head in heads for model in head.models})
    # False if in doubt: a bare id that upstream may not know must never be injected.
    is_stored = all(head.is_stored for head in heads)
    return structs.replace(first, models=tuple(models), is_stored=is_stored)


def _in_a_row(
    items: Mapping[bytes, Emitted], blobs: Mapping[bytes, Sequence[_Blobs]], withheld: set[bytes]
) -> Iterable[Emitted]:
    """Yield the items before the first missing one."""
    for n, (position, item) in enumerate(items.items()):
        if position != n.to_bytes(POSITION_BYTES):
            return
        if position in withheld:
            yield item.after((), withheld=True)
        elif position not in blobs:
            yield item
        else:
            run = item.run
            for seen in blobs[position]:
                if len(seen) == len(run):
                    run = tuple([part.known_by(of) for part, of in zip(run, seen, strict=True)])
            yield item.after(run, withheld=item.withheld)
