"""What is kept of a response comes back from a store as it went in, or not at all."""

import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reasoning_replay.core.dialects.responses.emitted import (
    RAW_MAX_BYTES,
    blob_digest,
    emitted_of,
    reasoning_of,
)
from reasoning_replay.core.dialects.responses.id_policy import without_id
from reasoning_replay.core.dialects.responses.items import read_item
from reasoning_replay.core.history.turns import (
    FORMAT,
    Context,
    Emitted,
    Reasoning,
    Turn,
    decode_turn,
    encode_turn,
    turn_id,
)
from reasoning_replay.core.wire.digest import digest

R1 = Reasoning("rs_1", b'{"id":"rs_1","type":"reasoning"}', (b"b" * 16,), has_blob=True)
KNOWN = Context(b"c" * 16, b"t" * 16, 2, b"f" * 16, b"h" * 16, is_known=True)
CALL = Emitted("function_call", "fc_1", "call_1", "f", b"d" * 16, (R1, R1))
CUT = Emitted("message", "msg_1", "", "", b"", withheld=True)
TURN = Turn(b"i" * 16, b"c" * 16, b"p" * 16, ("gpt-5", "gpt-5.6"), True, 1, KNOWN, (CALL, CUT))
BEGUN = Turn(b"i" * 16, b"c" * 16, b"", (), False, 0, Context(), ())


@pytest.mark.parametrize("turn", [pytest.param(TURN, id="full"), pytest.param(BEGUN, id="empty")])
def test_a_turn_comes_back_as_it_went_in(turn: Turn) -> None:
    """Behind one byte of format version."""
    kept = encode_turn(turn)

    assert kept[:1] == FORMAT
    assert decode_turn(kept) == turn


texts, digests = st.text(max_size=4), st.binary(max_size=16)
reasonings = st.builds(
    Reasoning, id=texts, raw=digests, blobs=st.lists(digests, max_size=2).map(tuple)
)
emitted = st.builds(
    Emitted,
    type=texts,
    id=texts,
    call_id=texts,
    name=texts,
    content=digests,
    run=st.lists(reasonings, max_size=2).map(tuple),
    withheld=st.booleans(),
)
turns = st.builds(
    Turn,
    models=st.lists(texts, max_size=2).map(tuple),
    created_ms=st.integers(0, 1 << 50),
    context=st.builds(Context, depth=st.integers(0, 1 << 30)),
    items=st.lists(emitted, max_size=3).map(tuple),
)


@given(turns)
@settings(max_examples=50, deadline=None)
def test_any_turn_comes_back(turn: Turn) -> None:
    """Decoding is the inverse of encoding."""
    assert decode_turn(encode_turn(turn)) == turn


KEPT = encode_turn(TURN)


@pytest.mark.parametrize(
    "kept",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(FORMAT, id="format-alone"),
        pytest.param(b"\x01" + KEPT[1:], id="other-format"),
        pytest.param(KEPT[:-1], id="cut"),
        pytest.param(KEPT + b"\x00", id="more-behind"),
        pytest.param(FORMAT + msgspec.msgpack.encode([1] * 8), id="wrong-types"),
        pytest.param(KEPT.replace(b"gpt-5.6", b"gpt-5.\xff"), id="not-utf-8"),
        pytest.param(
            FORMAT + b"\x99" + KEPT[2:] + b"\x91" * 100_000 + b"\xc0", id="deep-in-a-field-to-come"
        ),
    ],
)
def test_what_cannot_be_read_is_not_there(kept: bytes) -> None:
    """Damaged bytes and formats of other versions are no turn, and no error."""
    assert decode_turn(kept) is None


def test_a_turn_of_a_later_release_is_read() -> None:
    """Fields that are added behind the known ones need no new format."""
    assert decode_turn(FORMAT + b"\x99" + KEPT[2:] + b"\xc0") == TURN


@given(st.integers(0, len(KEPT) - 1), st.integers(0, 255))
@settings(max_examples=150, deadline=None)
def test_no_damage_raises(at: int, byte: int) -> None:
    """One byte that changed in a store costs a turn at most."""
    damaged = decode_turn(KEPT[:at] + bytes([byte]) + KEPT[at + 1 :])

    assert damaged is None or isinstance(damaged, Turn)


def test_a_context_that_is_not_told_is_unknown() -> None:
    """Nothing was said before, as far as it goes."""
    assert Context() == Context(b"", b"", 0, b"", b"", is_known=False)


def test_a_turn_is_kept_under_its_responses_id() -> None:
    """The same id is the same turn, whatever characters are in it."""
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


def test_reasoning_goes_back_less_what_input_refuses() -> None:
    """`status` and `created_by` are output-only; every other byte is upstream's own."""
    part = reasoning_of(read_item(ODD))

    assert part is not None
    assert (part.id, part.raw, part.has_blob) == ("rs_1", ODD_LEFT, True)
    assert without_id(part) == ODD_LEFT.replace(b'"id":"rs_1",', b"")


def test_reasoning_that_cannot_be_cut_does_not_go_back() -> None:
    """Readers would disagree on what it says."""
    assert reasoning_of(read_item(b'{"type":"reasoning","id":"a","id":"b"}')) is None


def test_what_is_no_utf_8_does_not_go_back() -> None:
    """It would spoil the whole request that it is put into; clients read something else in it."""
    for raw in (b"\xff", b"\xed\xa0\x80", b"\xc3"):
        item = read_item(b'{"type":"reasoning","id":"rs_1","summary":["' + raw + b'"]}')
        assert reasoning_of(item) is None
    whole = read_item('{"type":"reasoning","id":"rs_1","summary":["\u00e9"]}'.encode())
    assert reasoning_of(whole) is not None


@pytest.mark.parametrize("raw", [b'{"type":"reasoning"}', b'{"encrypted_content":null}'])
def test_reasoning_without_a_blob_has_none(raw: bytes) -> None:
    """Null, absent and empty digests are no blobs."""
    part = reasoning_of(read_item(raw))

    assert part == Reasoning("", raw, (), has_blob=False)
    assert part is not None
    assert part.known_by([b"", b""]) == part


def test_every_blob_seen_is_remembered_once() -> None:
    """Those of other events name the item as well as its own does, and change nothing else."""
    item = read_item(ODD)
    part = reasoning_of(item)
    own = digest(b"blob", b"gAAAA")

    assert part is not None
    known = part.known_by([b"z" * 16, own, b"", b"z" * 16])
    assert (part.blobs, own) == ((blob_digest(item),), blob_digest(item))
    assert known == Reasoning(part.id, part.raw, tuple(sorted([own, b"z" * 16])), has_blob=True)


def test_what_is_emitted_is_kept_by_what_tells_it_from_others() -> None:
    """Its ids, its name, and a digest of what it says; not the item itself."""
    fields = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "f"}
    item = read_item(json.dumps(fields | {"arguments": "{}"}).encode())
    kept = emitted_of(item)

    assert kept == Emitted("function_call", "fc_1", "call_1", "f", item.content, raw=item.raw)
    assert (kept.run, kept.withheld) == ((), False)
    assert kept.after((R1,), withheld=False).run == (R1,)
    assert kept.after((), withheld=True).withheld


def test_what_was_refused_is_withheld_from_then_on() -> None:
    """The whole run of a refused blob: half a run is not what upstream emitted."""
    ours = Emitted("function_call", "fc_2", "call_2", "f", b"d", (R1,))
    other = Reasoning("rs_2", b"{}", (b"o" * 16,), has_blob=True)
    mixed = Emitted("message", "msg_2", "", "", b"d", (R1, other), raw=b"{}")
    turn = Turn(b"i", b"c", b"p", (), True, 1, KNOWN, (ours, mixed, CUT))

    less = turn.without_reasoning({b"o" * 16}.__contains__)

    assert less.items == (ours, mixed.after((), withheld=True), CUT)
    assert turn.without_reasoning(set().__contains__) is turn


# (an item as upstream emitted it, what is kept of its bytes)
RAW = [
    pytest.param(b'{"type":"message","n":1.0e0}', b'{"type":"message","n":1.0e0}', id="whole"),
    pytest.param(b'{"created_by":"x","type":"m"}', b'{"type":"m"}', id="output-only"),
    pytest.param(b'{"type":"m","type":"n"}', b"", id="a-key-twice"),
    pytest.param(b'{"type":"m","a":"\xff"}', b"", id="no-utf-8"),
    pytest.param(b'{"x":"%s"}' % (b"x" * RAW_MAX_BYTES), b"", id="too-long"),
]


@pytest.mark.parametrize(("raw", "want"), RAW)
def test_an_emitted_item_is_kept_as_it_may_go_back(raw: bytes, want: bytes) -> None:
    """Less what input refuses; nothing of one that is too long, or cannot be cut."""
    assert emitted_of(read_item(raw)).raw == want
