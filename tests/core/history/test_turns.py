"""Turns: stored as records and read back unchanged, or not at all."""

import json
from collections.abc import Iterable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from reasoning_replay.core.dialects.responses.emitted import (
    RAW_MAX_BYTES,
    blob_digest,
    emitted_of,
    reasoning_of,
)
from reasoning_replay.core.dialects.responses.id_policy import without_id
from reasoning_replay.core.dialects.responses.items import read_item
from reasoning_replay.core.history.records import (
    FORMAT,
    is_head,
    records_of,
    records_of_part,
    turn_of_record,
    turns_of,
    withheld_records,
)
from reasoning_replay.core.history.seen import MatchedRun, Seen
from reasoning_replay.core.history.turns import Context, Emitted, Reasoning, Turn, TurnPart, turn_id
from reasoning_replay.core.wire.digest import digest

from tests.fast_lane import examples

R1 = Reasoning("rs_1", b'{"id":"rs_1","type":"reasoning"}', (b"b" * 16,), has_blob=True)
KNOWN = Context(b"c" * 16, b"t" * 16, 2, b"f" * 16, b"h" * 16, is_known=True)
CUT = Emitted("message", "msg_1", "", "", b"", withheld=True)


def test_a_turn_is_named_by_its_response_id() -> None:
    """The same response id gives the same turn id, whatever characters it has."""
    assert turn_id("resp_1") == turn_id("resp_1") != turn_id("resp_2")
    assert len(turn_id("\ud800")) == 16


ODD = (
    b'{ "type":"reasoning", "status":"completed" ,"id":"rs_1","summary":[ ],'
    b'"new":{"status":1.0e1}, "encrypted_content":"gAAAA","created_by":"me" }'
)
ODD_LEFT = (
    b'{ "type":"reasoning", "id":"rs_1","summary":[ ],"new":{"status":1.0e1},'
    b' "encrypted_content":"gAAAA" }'
)


def test_reasoning_is_stored_without_output_only_members() -> None:
    """`status` and `created_by` are output-only; every other byte is kept as upstream wrote it."""
    part = reasoning_of(read_item(ODD))

    assert part is not None
    assert (part.id, part.raw, part.has_blob) == ("rs_1", ODD_LEFT, True)
    assert without_id(part) == ODD_LEFT.replace(b'"id":"rs_1",', b"")


def test_reasoning_with_a_repeated_key_is_not_stored() -> None:
    """Readers would disagree on its meaning."""
    assert reasoning_of(read_item(b'{"type":"reasoning","id":"a","id":"b"}')) is None


def test_reasoning_with_invalid_utf_8_is_not_stored() -> None:
    """It would make the whole request invalid, and clients decode it differently."""
    for raw in (b"\xff", b"\xed\xa0\x80", b"\xc3"):
        item = read_item(b'{"type":"reasoning","id":"rs_1","summary":["' + raw + b'"]}')
        assert reasoning_of(item) is None
    whole = read_item('{"type":"reasoning","id":"rs_1","summary":["\u00e9"]}'.encode())
    assert reasoning_of(whole) is not None


@pytest.mark.parametrize("raw", [b'{"type":"reasoning"}', b'{"encrypted_content":null}'])
def test_reasoning_without_a_blob_has_no_digest(raw: bytes) -> None:
    """Null and absent blobs and empty digests are not counted as blobs."""
    part = reasoning_of(read_item(raw))

    assert part == Reasoning("", raw, (), has_blob=False)
    assert part is not None
    assert part.known_by([b"", b""]) == part


def test_every_blob_of_an_item_is_recorded_once() -> None:
    """Blobs of other events also identify the item, and they change nothing else in it."""
    item = read_item(ODD)
    part = reasoning_of(item)
    own = digest(b"blob", b"gAAAA")

    assert part is not None
    known = part.known_by([b"z" * 16, own, b"", b"z" * 16])
    assert (part.blobs, own) == ((blob_digest(item),), blob_digest(item))
    assert known == Reasoning(part.id, part.raw, tuple(sorted([own, b"z" * 16])), has_blob=True)


def test_an_emitted_item_is_stored_by_its_names_and_digest() -> None:
    """The turn has the ids and the name of the item, and a digest of its content."""
    fields = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "f"}
    item = read_item(json.dumps(fields | {"arguments": "{}"}).encode())
    kept = emitted_of(item)

    names = "function_call", "fc_1", "call_1", "f"
    assert kept == Emitted(*names, item.content, raw=item.raw, spelling=b"")
    assert (kept.run, kept.withheld) == ((), False)
    assert kept.after((R1,), withheld=False).run == (R1,)
    assert kept.after((), withheld=True).withheld


def test_a_refused_run_is_withheld() -> None:
    """A refused blob withholds its whole run, because half a run is not what upstream emitted."""
    ours = Emitted("function_call", "fc_2", "call_2", "f", b"d", (R1,))
    other = Reasoning("rs_2", b"{}", (b"o" * 16,), has_blob=True)
    mixed = Emitted("message", "msg_2", "", "", b"d", (R1, other), raw=b"{}")
    turn = Turn(b"i", b"c", b"p", (), True, 1, KNOWN, (ours, mixed, CUT))

    less = turn.without_reasoning({b"o" * 16}.__contains__)

    assert less.items == (ours, mixed.without_run(), CUT)
    assert [item.lacks for item in less.items] == [0, 2, 1]
    assert turn.without_reasoning(set().__contains__) is turn


# (item as upstream emitted it, bytes of it that are stored)
RAW = [
    pytest.param(b'{"type":"message","n":1.0e0}', b'{"type":"message","n":1.0e0}', id="whole"),
    pytest.param(b'{"created_by":"x","type":"m"}', b'{"type":"m"}', id="output-only"),
    pytest.param(b'{"type":"m","type":"n"}', b"", id="a-key-twice"),
    pytest.param(b'{"type":"m","a":"\xff"}', b"", id="no-utf-8"),
    pytest.param(b'{"x":"%s"}' % (b"x" * RAW_MAX_BYTES), b"", id="too-long"),
]


@pytest.mark.parametrize(("raw", "want"), RAW)
def test_an_emitted_item_is_stored_as_input_accepts_it(raw: bytes, want: bytes) -> None:
    """Output-only members are left out; a long or ambiguous item is stored without its bytes."""
    assert emitted_of(read_item(raw)).raw == want


ID, CONVERSATION = b"i" * 16, b"c" * 16
R2 = Reasoning("rs_2", b'{"id":"rs_2"}', (b"d" * 16, b"e" * 16), has_blob=True)
WHOLE = Turn(
    ID,
    CONVERSATION,
    b"p" * 16,
    ("gpt-5", "gpt-5.6"),
    True,
    7,
    KNOWN,
    (
        Emitted("function_call", "fc_1", "call_1", "f", b"1" * 16, (R1, R2), raw=b"{}"),
        Emitted("message", "msg_1", "", "", b"2" * 16),
        Emitted("function_call", "fc_2", "call_2", "f", b"3" * 16, (R2,)),
        CUT,
    ),
)
RECORDS = records_of(WHOLE)
NEXT = structs.replace(WHOLE, id=b"j" * 16, created_ms=8, parent=ID, items=WHOLE.items[:1])


def parts(records: Iterable[bytes]) -> list[bytes]:
    """Return the types of the records."""
    return sorted(name[24:25] for name in records)


def test_a_turn_is_kept_as_one_record_for_each_item() -> None:
    """The records are one head, one per item and one per run for its blobs, all with a version."""
    assert parts(RECORDS) == [b"b", b"b", b"h", b"i", b"i", b"i", b"i"]
    assert sum(map(is_head, RECORDS)) == 1
    assert {value[:1] for value in RECORDS.values()} == {FORMAT}
    assert {turn_of_record(name) for name in RECORDS} == {(7).to_bytes(8) + ID}
    assert turns_of(CONVERSATION, RECORDS) == [WHOLE]


def test_records_sort_by_the_age_of_their_turns() -> None:
    """The oldest turns are found by record names alone, and turns are read oldest first."""
    both = records_of(NEXT) | RECORDS

    assert sorted(both)[: len(RECORDS)] == sorted(RECORDS)
    assert turns_of(CONVERSATION, both) == [WHOLE, NEXT]


def test_the_records_of_its_parts_are_those_of_the_turn() -> None:
    """A part has the records of its items, of its grown runs, and of the head if it is new."""
    begun, rest = (
        structs.replace(WHOLE, items=items) for items in (WHOLE.items[:2], WHOLE.items[2:])
    )
    first, second = TurnPart(begun), TurnPart(rest, 2, has_head=False)
    late = TurnPart(structs.replace(WHOLE, items=()), runs={0: WHOLE.items[0].run}, has_head=False)

    assert parts(records_of_part(second)) == [b"b", b"i", b"i"]
    assert records_of_part(first) | records_of_part(second) == RECORDS
    assert parts(records_of_part(late)) == [b"b"]
    assert records_of_part(late).items() <= RECORDS.items()
    assert [*late.reasoning, *second.reasoning] == [
        *WHOLE.items[0].run,
        *(part for item in rest.items for part in item.run),
    ]


def test_later_knowledge_is_added_as_new_records() -> None:
    """Blobs, the model and `store` that become known later do not rewrite a record."""
    later = structs.replace(
        WHOLE,
        models=("gpt-5.6", "gpt-6"),
        is_stored=False,
        items=(
            WHOLE.items[0].after((R1.known_by([b"z" * 16]), R2), withheld=False),
            *WHOLE.items[1:],
        ),
    )
    new = {name: value for name, value in records_of(later).items() if name not in RECORDS}
    merged = structs.replace(later, models=("gpt-5", "gpt-5.6", "gpt-6"))

    assert parts(new) == [b"b", b"h"]
    assert turns_of(CONVERSATION, RECORDS | new) == [merged]
    assert turns_of(CONVERSATION, dict(reversed((RECORDS | new).items()))) == [merged]


def test_a_refused_run_is_withheld_by_a_separate_record() -> None:
    """A refused blob withholds its whole run, because half a run is not what upstream emitted."""
    tombstones = withheld_records(WHOLE, {b"b" * 16}.__contains__)
    first, *others = WHOLE.items
    less = structs.replace(WHOLE, items=(first.without_run(), *others))

    assert parts(tombstones) == [b"w"]
    assert turns_of(CONVERSATION, RECORDS | tombstones) == [less]
    assert withheld_records(less, {b"b" * 16}.__contains__) == {}


def test_responses_with_one_id_are_never_mixed() -> None:
    """The turn is the later response, as it was written last."""
    other = Emitted("message", "msg_9", "", "", b"9" * 16)
    later = structs.replace(WHOLE, created_ms=9, items=(other,))

    assert turns_of(CONVERSATION, RECORDS | records_of(later)) == [later]
    assert turns_of(CONVERSATION, RECORDS | records_of(later) | records_of(NEXT)) == [NEXT, later]


def name_of(part: bytes) -> bytes:
    """Return the name of the first record of a type and position."""
    return next(name for name in sorted(RECORDS) if name[24:].startswith(part))


HEAD, FIRST, SECOND = name_of(b"h"), name_of(b"i"), name_of(b"i\0\0\0\1")
# (name of a damaged record, its value, number of items that are read)
DAMAGED = [
    pytest.param(HEAD, b"", None, id="an-empty-head"),
    pytest.param(HEAD, b"\x01" + RECORDS[HEAD][1:], None, id="a-head-of-another-format"),
    pytest.param(HEAD, RECORDS[HEAD][:-1], None, id="a-head-cut"),
    pytest.param(FIRST, RECORDS[FIRST][:-1], 0, id="the-first-item-cut"),
    pytest.param(SECOND, RECORDS[SECOND] + b"\0", 1, id="more-after-the-second-item"),
    pytest.param(SECOND, FORMAT + b"\x91" * 100_000 + b"\xc0", 1, id="deep"),
    pytest.param(SECOND, RECORDS[SECOND].replace(b"msg_1", b"msg_\xff"), 1, id="not-utf-8"),
    pytest.param(name_of(b"b"), FORMAT + b"\x91\x91\xc4\x01z", 4, id="blobs-of-another-run"),
    pytest.param(HEAD[:24], b"x", 4, id="no-part"),
    pytest.param(HEAD[:24] + b"?", FORMAT, 4, id="an-unknown-part"),
    pytest.param(b"v", b"1", 4, id="a-field-of-the-store"),
]


@pytest.mark.parametrize(("name", "value", "left"), DAMAGED)
def test_damaged_records_are_ignored(name: bytes, value: bytes, left: int | None) -> None:
    """Later items are ignored too, as no item may appear to follow one that it did not follow."""
    found = turns_of(CONVERSATION, RECORDS | {name: value})

    assert [len(turn.items) for turn in found] == ([] if left is None else [left])


def test_a_later_release_may_add_fields() -> None:
    """Fields after the known ones need no new format."""
    item = RECORDS[SECOND]
    longer = FORMAT + bytes([item[1] + 1]) + item[2:] + b"\xc0"

    assert turns_of(CONVERSATION, RECORDS | {SECOND: longer}) == [WHOLE]


texts, digests = st.text(max_size=4), st.binary(max_size=16)
places = st.binary(min_size=16, max_size=16)
blobs = st.lists(places, max_size=2, unique=True).map(sorted).map(tuple)
full = st.builds(
    Turn,
    id=places,
    models=st.lists(texts, max_size=2, unique=True).map(sorted).map(tuple),
    created_ms=st.integers(0, 1 << 50),
    context=st.builds(Context, depth=st.integers(0, 1 << 30)),
    items=st.lists(
        st.builds(
            Emitted,
            type=texts,
            id=texts,
            content=digests,
            run=st.lists(st.builds(Reasoning, raw=digests, blobs=blobs), max_size=2).map(tuple),
            withheld=st.booleans(),
        ),
        max_size=4,
    ).map(tuple),
    switched_off=st.booleans(),
    binding=digests,
    seen=st.none()
    | st.builds(Seen, st.just(b"basis"), st.just(1), st.just((MatchedRun(1, ID, 0, 2),))),
)


@given(st.lists(full, max_size=3, unique_by=lambda turn: turn.id), st.randoms())
@examples(100)
def test_any_conversation_is_read_back(turns: list[Turn], random: Random) -> None:
    """The order of the records does not matter."""
    conversation = [structs.replace(turn, conversation=CONVERSATION) for turn in turns]
    records = [record for turn in conversation for record in records_of(turn).items()]
    random.shuffle(records)

    found = turns_of(CONVERSATION, dict(records))

    assert found == sorted(conversation, key=lambda turn: (turn.created_ms, turn.id))


@given(full, st.data())
@examples(200)
def test_a_lost_record_never_moves_an_item(turn: Turn, data: st.DataObject) -> None:
    """The items that are read are the first ones, each with its own run."""
    records = records_of(turn)
    names = st.sets(st.sampled_from(sorted(records)))
    kept, cut = data.draw(names), data.draw(names)
    left = {name: records[name][: -1 if name in cut else None] for name in kept}

    found = turns_of(turn.conversation, left)

    for one in found:
        for item, emitted in zip(one.items, turn.items, strict=False):
            assert (item.type, item.id, item.content) == (emitted.type, emitted.id, emitted.content)
            assert [part.raw for part in item.run] == [part.raw for part in emitted.run]
