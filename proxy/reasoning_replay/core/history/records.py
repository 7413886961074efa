"""
Records: how a store keeps turns.

A turn is stored as records, each with a name and a value. A record is written once and never
changes, so writing it again is harmless, and replicas never overwrite the data of each other:

    name = created_ms (8 bytes, big-endian), turn id (16), part
    part = "h" digest            head: parent, context, models, whether upstream keeps the items,
                                 the decisions about the turns before, the lessons and, if it
                                 may be named, the id of the response
           "i" position          item, with the run of reasoning before it
           "b" position digest   digests of the blobs that were seen for that run
           "w" position          tombstone: the run is withheld from now on

A part that a later snapshot of the same response may change has a digest of its value in its name;
readers merge all versions. Names sort by the age of the turn, so a store can trim by names alone.
A value is one byte of format version and one MessagePack value. Readers ignore records of other
versions and damaged ones. They also ignore items after a missing one. The remaining items are a
state that the response once had, so no item follows another that it did not follow upstream.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec
from msgspec import structs

from reasoning_replay.core.history.seen import Seen
from reasoning_replay.core.history.turns import Context, Emitted, Lesson, Turn, TurnPart
from reasoning_replay.core.wire.digest import digest

FORMAT = b"\x03"
TIME_BYTES = 8
ID_BYTES = 16
POSITION_BYTES = 4
VERSION_BYTES = 8  # length of the digest in a name


class _HeadRecord(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The members of a turn that are neither its items nor in the names of its records."""

    parent: bytes
    models: tuple[str, ...]
    is_stored: bool
    context: Context
    seen: Seen | None = None
    switched_off: bool = False
    binding: bytes = b""
    cache_key: bytes = b""
    lessons: tuple[Lesson, ...] = ()
    response_id: str = ""


_ENCODER = msgspec.msgpack.Encoder()
_HEAD_DECODER = msgspec.msgpack.Decoder(_HeadRecord)
_ITEM_DECODER = msgspec.msgpack.Decoder(Emitted)
_Blobs = tuple[tuple[bytes, ...], ...]
_BLOBS_DECODER = msgspec.msgpack.Decoder(_Blobs)
_HEAD, _ITEM, _BLOBS, _WITHHELD = b"h", b"i", b"b", b"w"
_PART = TIME_BYTES + ID_BYTES  # offset of the part in the name of a record
_DAMAGED = (msgspec.MsgspecError, RecursionError, UnicodeDecodeError)


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
        head = {name: getattr(turn, name) for name in _HeadRecord.__struct_fields__}
        add(_HEAD, _HeadRecord(**head), versioned=True)
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
    """Return a tombstone for each run of a turn that has the digest of a refused blob."""
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
    """Return a turn (`turn_of_record`) from its records of these sorted names; None: no head."""
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
        created_ms=int.from_bytes(this[:TIME_BYTES]),
        items=tuple(_in_a_row(items, blobs, withheld)),
        **structs.asdict(head),
    )


def _merged(heads: Sequence[_HeadRecord]) -> _HeadRecord:
    """Return one head from those of several snapshots of a turn."""
    models = sorted({model for head in heads for model in head.models})
    # False if in doubt: a bare id that upstream may not know must never be injected.
    is_stored = all(head.is_stored for head in heads)
    lessons = tuple(dict.fromkeys(lesson for head in heads for lesson in head.lessons))
    return structs.replace(heads[0], models=tuple(models), is_stored=is_stored, lessons=lessons)


def _in_a_row(
    items: Mapping[bytes, Emitted], blobs: Mapping[bytes, Sequence[_Blobs]], withheld: set[bytes]
) -> Iterable[Emitted]:
    """Yield the items before the first missing one."""
    for n, (position, item) in enumerate(items.items()):
        if position != n.to_bytes(POSITION_BYTES):
            return
        run = item.run
        for seen in blobs.get(position, ()):
            if len(seen) == len(run):
                run = tuple([part.known_by(of) for part, of in zip(run, seen, strict=True)])
        item = item.after(run, withheld=item.withheld)  # noqa: PLW2901 (with its blobs)
        yield item.without_run() if position in withheld else item
