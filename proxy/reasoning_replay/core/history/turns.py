"""
Turns: what is kept of one response, and the records that a store keeps of it.

A turn is kept as records, each with a name and a value. A record is written once and never
changes, so writing it again is harmless, and replicas never overwrite what others have found:

    name = created_ms (8 bytes, big-endian), turn id (16), part
    part = "h" digest            head: parent, context, models, whether upstream keeps the items,
                                 and what upstream saw of the turns before
           "i" position          item, with the run of reasoning ahead of it
           "b" position digest   digests of the blobs that were seen for that run
           "w" position          tombstone: the run is withheld from now on

A part that a later snapshot of the same answer may know better carries a digest of its value;
readers merge all of them. Names sort by the age of the turn, so a store trims by names alone.
A value is one byte of format version and one MessagePack value. Readers ignore records of other
versions and damaged ones. Items behind one that is missing are ignored, too: what is left is a
state that the answer once had, and no item seems to follow another that it did not follow.
"""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence

import msgspec
from msgspec import structs

from reasoning_replay.core.history.seen import Seen
from reasoning_replay.core.wire.digest import digest

__all__ = [
    "Context",
    "Emitted",
    "Reasoning",
    "Turn",
    "is_head",
    "prefix_of_records",
    "records_of",
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
VERSION_BYTES = 8  # of the digest in a name
LINK_BYTES = 8
TAIL_LINKS = 8


class Reasoning(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """
    One reasoning item as it may be injected.

    Attributes:
        id: Its `rs_…`; "" where the upstream gives none.
        raw: Its JSON as upstream wrote it, less what input refuses.
        blobs: Digests of every `encrypted_content` seen for it: in `output_item.added`,
            `output_item.done` and `response.completed` they are different strings.
        has_blob: Whether `raw` carries one.
    """

    id: str
    raw: bytes
    blobs: tuple[bytes, ...]
    has_blob: bool

    def known_by(self, blobs: Iterable[bytes]) -> "Reasoning":
        """Return the same item with these digests of blobs added."""
        seen = {*self.blobs, *blobs} - {b""}
        return Reasoning(self.id, self.raw, tuple(sorted(seen)), self.has_blob)


class Emitted(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """
    One item that is not reasoning, and the run of reasoning that stood directly ahead of it.

    Attributes:
        content: As `Item.content`.
        run: The reasoning ahead of it; () when there was none, or when `withheld`.
        withheld: There was reasoning, but it may not be injected: the item never finished, or
            upstream has refused the reasoning since.
        raw: Its JSON as upstream wrote it, less what input refuses; b"" when over RAW_MAX_BYTES.
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
        """Return the same item behind a run of reasoning."""
        if run == self.run and withheld == self.withheld:
            return self
        return structs.replace(self, run=run, withheld=withheld)


class Context(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """
    What had been said before a turn, by users and tools alone.

    What the model said is left out: clients reshape it, and it is matched item by item anyway.

    Attributes:
        chain: Digest of all of it from the head on.
        tail: The last links of the chain, 8 bytes each, newest last, at most 8 of them.
        depth: How many links there were.
        frame: Digest of instructions, system and developer messages; b"" when there were none.
        hint: Digest of the conversation's name as the client gave it; b"" when it gave none.
        answered: Traces of what the model had said or done last before it, 8 bytes each.
        whole: Digest of all that anybody had said before it; b"" in a lookup, which needs none.
        is_known: False when the history lies with upstream (`previous_response_id`, a GET).
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
    What one response emitted, in output order.

    Attributes:
        id: 16 bytes, from the response's id.
        conversation: 16 bytes; turns of one conversation are kept and expire together.
        parent: The newest turn in the history that led to this one; b"" when none was matched.
        models: Families of the model that was asked for and the one that answered.
        is_stored: Whether upstream keeps the items, so that a bare id means something to it.
        created_ms: When it was captured, since the epoch; orders the turns of a conversation.
        seen: What upstream saw of the turns before it; None: the next request decides anew.
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

    @property
    def lacks_parent(self) -> bool:
        """Whether its parent is unknown, although a model had spoken before it."""
        return not self.parent and bool(self.context.answered)

    def without_reasoning(self, is_refused: Callable[[bytes], bool]) -> "Turn":
        """Return the same turn less every run of which upstream has refused a blob."""
        items = tuple(
            item.after((), withheld=True)
            if any(is_refused(blob) for part in item.run for blob in part.blobs)
            else item
            for item in self.items
        )
        return self if items == self.items else structs.replace(self, items=items)


class _HeadRecord(msgspec.Struct, frozen=True, array_like=True, gc=False):
    parent: bytes
    models: tuple[str, ...]
    is_stored: bool
    context: Context
    seen: Seen | None = None


_ENCODER = msgspec.msgpack.Encoder()
_HEAD_DECODER = msgspec.msgpack.Decoder(_HeadRecord)
_ITEM_DECODER = msgspec.msgpack.Decoder(Emitted)
_Blobs = tuple[tuple[bytes, ...], ...]
_BLOBS_DECODER = msgspec.msgpack.Decoder(_Blobs)
_HEAD, _ITEM, _BLOBS, _WITHHELD = b"h", b"i", b"b", b"w"
_PART = TIME_BYTES + ID_BYTES  # where it begins in the name of a record
_DAMAGED = (msgspec.MsgspecError, RecursionError, UnicodeDecodeError)


def turn_id(response_id: str) -> bytes:
    """Return the id under which a response's turn is kept."""
    return digest(b"turn", response_id.encode("utf-8", "surrogatepass"))


def prefix_of_records(turn: Turn) -> bytes:
    """Return what the names of all records of a turn begin with; it sorts by the turn's age."""
    return turn.created_ms.to_bytes(TIME_BYTES) + turn.id


def records_of(turn: Turn, known: Container[bytes] = frozenset()) -> dict[bytes, bytes]:
    """
    Return the records of a turn as far as it is known, by name.

    Args:
        turn: Any snapshot of it. Its id has 16 bytes.
        known: Names of records that are kept already; they are not made again.
    """
    prefix = prefix_of_records(turn)
    records: dict[bytes, bytes] = {}

    def add(part: bytes, content: object, *, versioned: bool = False) -> None:
        name = prefix + part
        if not versioned and name in known:
            return
        value = FORMAT + _ENCODER.encode(content)
        if versioned:
            name += digest(b"record", value)[:VERSION_BYTES]
        if name not in known:
            records[name] = value

    head = _HeadRecord(turn.parent, turn.models, turn.is_stored, turn.context, turn.seen)
    add(_HEAD, head, versioned=True)
    for n, item in enumerate(turn.items):
        position = n.to_bytes(POSITION_BYTES)
        # Blobs become known bit by bit, also after the item was written.
        run = tuple(structs.replace(part, blobs=()) for part in item.run)
        add(_ITEM + position, structs.replace(item, run=run))
        if any(part.blobs for part in item.run):
            add(_BLOBS + position, [part.blobs for part in item.run], versioned=True)
    return records


def withheld_records(turn: Turn, is_refused: Callable[[bytes], bool]) -> dict[bytes, bytes]:
    """
    Return tombstones for every run of a turn of which upstream has refused a blob.

    Args:
        turn: As it is kept.
        is_refused: Tells whether upstream refused the blob with this digest.
    """
    prefix = prefix_of_records(turn)
    return {
        prefix + _WITHHELD + n.to_bytes(POSITION_BYTES): FORMAT
        for n, item in enumerate(turn.items)
        if any(is_refused(blob) for part in item.run for blob in part.blobs)
    }


def turns_of(conversation: bytes, records: Mapping[bytes, bytes]) -> list[Turn]:
    """
    Return the turns that a conversation's records tell of, oldest first.

    Records may come from several snapshots of a turn, and some may be missing or damaged. Where
    two answers had the same id, as some upstreams count theirs, the later one is the turn.

    Args:
        conversation: Its id.
        records: By name, in any order.
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
    """Return the part of a record's name that all records of its turn share, and no others."""
    return name[:_PART]


def turn_id_of_record(name: bytes) -> bytes:
    """Return the id of the turn that a record of this name, or the beginning of it, tells of."""
    return name[TIME_BYTES:_PART]


def is_head(name: bytes) -> bool:
    """Tell whether a record of this name begins a turn."""
    return name[_PART : _PART + 1] == _HEAD


def _read_turn(
    conversation: bytes, this: bytes, names: Sequence[bytes], records: Mapping[bytes, bytes]
) -> Turn | None:
    """
    Return a turn as its records have it; None without a head.

    Args:
        conversation: As in `turns_of`.
        this: As `turn_of_record` gives it.
        names: Of its records, in their order: those of one part follow one another.
        records: By name.
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
    )


def _merged(heads: Sequence[_HeadRecord]) -> _HeadRecord:
    """Return what several snapshots of a turn tell of it."""
    first = heads[0]
    models = sorted({model for head in heads for model in head.models})
    # A bare id that upstream may not know is never injected.
    is_stored = all(head.is_stored for head in heads)
    return _HeadRecord(first.parent, tuple(models), is_stored, first.context, first.seen)


def _in_a_row(
    items: Mapping[bytes, Emitted], blobs: Mapping[bytes, Sequence[_Blobs]], withheld: set[bytes]
) -> Iterable[Emitted]:
    """Yield the items up to the first that is missing."""
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
