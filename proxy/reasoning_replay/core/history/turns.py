"""
Turns: what is kept of one response, and the records that a store keeps of it.

A turn is kept as records, each with a name and a value. A record is written once and never
changes, so writing it again is harmless, and replicas never overwrite what others have found:

    name = created_ms (8 bytes, big-endian), turn id (16), part
    part = "h" digest            head: parent, context, models, whether upstream keeps the items
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
from typing import TypeVar

import msgspec
from msgspec import structs

from reasoning_replay.core.wire.digest import digest

__all__ = [
    "Context",
    "Emitted",
    "Reasoning",
    "Turn",
    "is_head",
    "records_of",
    "turn_id",
    "turn_of_record",
    "turns_of",
    "withheld_records",
]

_Record = TypeVar("_Record")

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
        return structs.replace(self, blobs=tuple(sorted(seen)))


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
        is_known: False when the history lies with upstream (`previous_response_id`, a GET).
    """

    chain: bytes = b""
    tail: bytes = b""
    depth: int = 0
    frame: bytes = b""
    hint: bytes = b""
    is_known: bool = False
    answered: bytes = b""


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
    """

    id: bytes
    conversation: bytes
    parent: bytes
    models: tuple[str, ...]
    is_stored: bool
    created_ms: int
    context: Context
    items: tuple[Emitted, ...]

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


_ENCODER = msgspec.msgpack.Encoder()
_HEAD_DECODER = msgspec.msgpack.Decoder(_HeadRecord)
_ITEM_DECODER = msgspec.msgpack.Decoder(Emitted)
_BLOBS_DECODER = msgspec.msgpack.Decoder(tuple[tuple[bytes, ...], ...])
_HEAD, _ITEM, _BLOBS, _WITHHELD = b"h", b"i", b"b", b"w"


def turn_id(response_id: str) -> bytes:
    """Return the id under which a response's turn is kept."""
    return digest(b"turn", response_id.encode("utf-8", "surrogatepass"))


def records_of(turn: Turn, known: Container[bytes] = frozenset()) -> dict[bytes, bytes]:
    """
    Return the records of a turn as far as it is known, by name.

    Args:
        turn: Any snapshot of it. Its id has 16 bytes.
        known: Names of records that are kept already; they are not made again.
    """
    prefix = turn.created_ms.to_bytes(TIME_BYTES) + turn.id
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

    add(_HEAD, _HeadRecord(turn.parent, turn.models, turn.is_stored, turn.context), versioned=True)
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
    prefix = turn.created_ms.to_bytes(TIME_BYTES) + turn.id
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
        if this[TIME_BYTES:] in newest_first:
            continue
        read = _TurnRecords(this)
        for name in names:
            read.add(name, records[name])
        turn = read.turn(conversation)
        if turn is not None:
            newest_first[turn.id] = turn
    return list(reversed(newest_first.values()))


def turn_of_record(name: bytes) -> bytes:
    """Return the part of a record's name that all records of its turn share, and no others."""
    return name[: TIME_BYTES + ID_BYTES]


def is_head(name: bytes) -> bool:
    """Tell whether a record of this name begins a turn."""
    return name[TIME_BYTES + ID_BYTES :][:1] == _HEAD


class _TurnRecords:
    """The records of one turn, as they are read in the order of their names."""

    def __init__(self, this: bytes) -> None:
        """Begin a turn; `this` as `turn_of_record` gives it."""
        self._created_ms = int.from_bytes(this[:TIME_BYTES])
        self._id = this[TIME_BYTES:]
        self._heads: list[_HeadRecord] = []
        self._items: dict[bytes, Emitted] = {}
        self._blobs: dict[bytes, list[Sequence[Sequence[bytes]]]] = {}
        self._withheld: set[bytes] = set()

    def add(self, name: bytes, value: bytes) -> None:
        """Read one record; one that cannot be read changes nothing."""
        at = TIME_BYTES + ID_BYTES
        kind, position = name[at : at + 1], name[at + 1 : at + 1 + POSITION_BYTES]
        if value[:1] != FORMAT:
            return
        if kind == _WITHHELD:
            self._withheld.add(position)
        elif kind == _HEAD and (head := _read(_HEAD_DECODER, value)):
            self._heads.append(head)
        elif kind == _ITEM and (item := _read(_ITEM_DECODER, value)):
            self._items.setdefault(position, item)
        elif kind == _BLOBS and (blobs := _read(_BLOBS_DECODER, value)):
            self._blobs.setdefault(position, []).append(blobs)

    def turn(self, conversation: bytes) -> Turn | None:
        """Return the turn; None without a head."""
        if not self._heads:
            return None
        first = self._heads[0]
        return Turn(
            id=self._id,
            conversation=conversation,
            parent=first.parent,
            models=tuple(sorted({model for head in self._heads for model in head.models})),
            # A bare id that upstream may not know is never injected.
            is_stored=all(head.is_stored for head in self._heads),
            created_ms=self._created_ms,
            context=first.context,
            items=tuple(self._in_a_row()),
        )

    def _in_a_row(self) -> Iterable[Emitted]:
        """Yield the items up to the first that is missing."""
        for n in range(len(self._items)):
            position = n.to_bytes(POSITION_BYTES)
            item = self._items.get(position)
            if item is None:
                return
            if position in self._withheld:
                yield item.after((), withheld=True)
                continue
            for blobs in self._blobs.get(position, ()):
                if len(blobs) == len(item.run):
                    pairs = zip(item.run, blobs, strict=True)
                    run = tuple(part.known_by(seen) for part, seen in pairs)
                    item = item.after(run, withheld=item.withheld)
            yield item


def _read(decoder: msgspec.msgpack.Decoder[_Record], value: bytes) -> _Record | None:
    """Return what a value holds; None when it is damaged."""
    try:
        return decoder.decode(memoryview(value)[1:])
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return None
