"""JSON spans: exact byte ranges in a document, and edits that change no other byte."""

import contextlib
import json
import re
import tracemalloc
from unittest import mock

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from reasoning_replay.core.wire import json_spans
from reasoning_replay.core.wire.json_spans import (
    Edit,
    TooMany,
    Unspliceable,
    apply,
    bound,
    elements,
    members,
    place_of,
    remove,
    text,
    unambiguous,
    without,
)

from tests.core.documents import Written, arrays, objects, spaces, values
from tests.fast_lane import examples

DEEP = 100_000


def dense(written: Written) -> bytes:
    """Return a document without its white space."""
    return msgspec.json.format(written.text, indent=-1)


# (object, spelling of each of its values)
OBJECTS = [
    pytest.param(b"{}", {}, id="empty"),
    pytest.param(b" { \n\t} \r\n", {}, id="empty-with-spaces"),
    pytest.param(b'{"a":1}', {"a": b"1"}, id="dense"),
    pytest.param(b' { "a"\t:\r\n 1 , "b" : 2 } ', {"a": b"1", "b": b"2"}, id="spaced"),
    pytest.param(b'{"a":1.50e+01,"b":-0}', {"a": b"1.50e+01", "b": b"-0"}, id="number-spelling"),
    pytest.param(b'{"a":1e999}', {"a": b"1e999"}, id="number-that-no-reader-holds"),
    pytest.param(b'{"\\u0061\\"":"\\u0062"}', {'a"': b'"\\u0062"'}, id="escapes"),
    pytest.param(b'{"":1,"\\\\":2}', {"": b"1", "\\": b"2"}, id="odd-keys"),
    pytest.param(b'{"a":"\\"},{","b":2}', {"a": b'"\\"},{"', "b": b"2"}, id="brackets-in-text"),
    pytest.param(b'{"a":{"a":{},"b":[ ]}}', {"a": b'{"a":{},"b":[ ]}'}, id="nested"),
    pytest.param('{"é😀":"ü"}'.encode(), {"é😀": '"ü"'.encode()}, id="beyond-ascii"),
    pytest.param(b'{"a":null,"b":true}', {"a": b"null", "b": b"true"}, id="words"),
    pytest.param(b'{"a":"\xff"}', {"a": b'"\xff"'}, id="value-that-is-not-utf-8"),
]


@pytest.mark.parametrize(("body", "want"), OBJECTS)
def test_finds_every_member(body: bytes, want: dict[str, bytes]) -> None:
    """Keys are decoded and values are not: a range holds a value exactly as it was spelled."""
    found = members(body)

    assert {key: body[at.start : at.end] for key, at in found.items()} == want
    assert list(found) == list(want)


@given(spaces, objects(values), spaces)
@examples(60)
def test_the_range_of_a_member_holds_its_value_in_any_spelling(
    before: bytes, written: Written, after: bytes
) -> None:
    """The values cut out by the ranges and decoded equal the decoded object."""
    body = before + written.text + after
    found = members(body)

    assert tuple(body[at.start : at.end] for at in found.values()) == written.parts
    assert {k: json.loads(body[m.start : m.end]) for k, m in found.items()} == written.value
    keys = [body[at.key_start : at.start].rstrip(b" \t\r\n:") for at in found.values()]
    assert [json.loads(key) for key in keys] == list(written.value)


@given(objects(values), st.binary(max_size=5), st.binary(max_size=5))
@examples(50)
def test_reads_an_object_inside_a_document(written: Written, ahead: bytes, behind: bytes) -> None:
    """Offsets count from the start of the document, and bytes around the object are not read."""
    for spelled in (written.text, dense(written)):
        body = ahead + spelled + behind
        found = members(body, len(ahead), len(ahead) + len(spelled))
        values_at = [body[at.start : at.end] for at in found.values()]
        assert values_at == [bytes(raw) for raw in unambiguous(spelled).values()]


UNSPLICEABLE = [
    pytest.param(b"", id="nothing"),
    pytest.param(b"null", id="null"),
    pytest.param(b"[]", id="array"),
    pytest.param(b'"{}"', id="string"),
    pytest.param(b"{}{}", id="two-objects"),
    pytest.param(b'{"a":1', id="cut"),
    pytest.param(b'{"a":1,}', id="trailing-comma"),
    pytest.param(b'{"a":[1,]}', id="trailing-comma-within"),
    pytest.param(b'{,"a":1}', id="leading-comma"),
    pytest.param(b"{'a':1}", id="single-quotes"),
    pytest.param(b'{"a":1}//', id="comment"),
    pytest.param(b'{"a":NaN}', id="nan"),
    pytest.param(b'{"a":Infinity}', id="infinity"),
    pytest.param(b'{"a":01}', id="leading-zero"),
    pytest.param(b'{"a":"\n"}', id="bare-control-character"),
    pytest.param(b"\xef\xbb\xbf{}", id="byte-order-mark"),
    pytest.param(b'{"\xff":1}', id="key-that-is-not-utf-8"),
    pytest.param(b'{"a":"\\ud800"}', id="half-a-surrogate-pair"),
    pytest.param(b'{"a":' + b"[" * DEEP + b"]" * DEEP + b"}", id="deep-array"),
    pytest.param(b'{"a":' * DEEP + b"1" + b"}" * DEEP, id="deep-object"),
    pytest.param(b'{"a":1,"a":1}', id="key-twice-equal-values"),
    pytest.param(b'{"a":1,"a":2}', id="key-twice"),
    pytest.param(b'{"a":1,"a":12}', id="key-twice-first-is-a-prefix"),
    pytest.param(b'{"a":12,"a":1}', id="key-twice-last-is-a-prefix"),
    pytest.param(b'{"a":1,"b":2,"a":1}', id="key-twice-apart"),
    pytest.param(b'{"a":1,"b":1,"a":1,"b":1}', id="two-keys-twice"),
    pytest.param(b'{"a":{},"a":{}}', id="key-twice-empty-objects"),
    pytest.param(b'{"a":1,"\\u0061":1}', id="key-twice-by-an-escape"),
    pytest.param(b'{"\\u0061":1,"b":2,"a":1}', id="key-twice-by-an-escape-apart"),
    pytest.param(b'{"":0,"":0}', id="empty-key-twice"),
    # As long as if no key occurred twice: bytes that are missing in one place are in another.
    pytest.param(b'{"a":1,"b":"","a":""}', id="key-twice-of-another-length"),
]


@pytest.mark.parametrize("body", UNSPLICEABLE)
def test_ambiguous_bytes_raise(body: bytes) -> None:
    """Bytes must be one JSON object, not nested too deep, without a repeated key."""
    with pytest.raises(Unspliceable):
        members(body)


ARRAYS = [
    pytest.param(b"[]", [], id="empty"),
    pytest.param(b"[ \n]", [], id="empty-with-spaces"),
    pytest.param(b"[1]", [b"1"], id="one"),
    pytest.param(b"[1 , 1,1\n]", [b"1", b"1", b"1"], id="equal-ones"),
    pytest.param(b'[ "[,]" , "" ]', [b'"[,]"', b'""'], id="brackets-in-text"),
    pytest.param(b'[{"a":[1]},\t{ }]', [b'{"a":[1]}', b"{ }"], id="objects"),
    pytest.param(b"[[1],[2]]", [b"[1]", b"[2]"], id="arrays"),
    pytest.param(b"[ [ ] , [[ ]] ]", [b"[ ]", b"[[ ]]"], id="arrays-with-spaces"),
]


@pytest.mark.parametrize(("array", "want"), ARRAYS)
def test_finds_every_element(array: bytes, want: list[bytes]) -> None:
    """Elements are found in order, each exactly as it was spelled, at any place of the array."""
    body = b'{"input":' + array + b',"n":[]}'
    found = elements(body, 9, 9 + len(array))

    assert [body[start:end] for start, end in found] == want


@given(arrays(values), st.binary(max_size=5), st.binary(max_size=5))
@examples(60)
def test_the_range_of_an_element_holds_its_value_in_any_spelling(
    written: Written, ahead: bytes, behind: bytes
) -> None:
    """The bytes cut out by the ranges are the elements, with and without white space."""
    for spelled in (written.text, dense(written)):
        body = ahead + spelled + behind
        found = elements(body, len(ahead), len(ahead) + len(spelled))
        assert [json.loads(body[start:end]) for start, end in found] == written.value


@pytest.mark.parametrize(
    "array", [b"", b"{}", b"[1,]", b"[1", b"[NaN]", b"[1]]", b"[" * DEEP + b"]" * DEEP]
)
def test_a_value_that_is_not_one_array_raises(array: bytes) -> None:
    """Other values have no elements."""
    with pytest.raises(Unspliceable):
        elements(array, 0, len(array))


@pytest.mark.parametrize(
    ("raw", "want"),
    [
        pytest.param(b'"a"', "a", id="string"),
        pytest.param(b'"\\u0061\\n"', "a\n", id="escapes"),
        pytest.param(b'""', "", id="empty"),
        pytest.param(b"", None, id="absent"),
        pytest.param(b"null", None, id="null"),
        pytest.param(b"5", None, id="number"),
        pytest.param(b'["a"]', None, id="array"),
        pytest.param(b'"a', None, id="cut"),
        pytest.param(b'"\xff"', None, id="not-utf-8"),
        pytest.param(b'"\\ud800"', None, id="half-a-surrogate-pair"),
    ],
)
def test_text_decodes_a_string(raw: bytes, want: str | None) -> None:
    """A value that is not a readable string gives None."""
    assert text(raw) == want


REMOVALS = [
    pytest.param(b'{"k":1}', b"{}", id="the-only-one"),
    pytest.param(b'{ "k" : 1 }', b"{  }", id="the-only-one-with-spaces"),
    pytest.param(b'{"k":1,"b":2}', b'{"b":2}', id="first"),
    pytest.param(b'{"k":1 , "b":2}', b'{"b":2}', id="first-with-spaces"),
    pytest.param(b'{"a":1,"k":[1,{"k":2}],"b":2}', b'{"a":1,"b":2}', id="between"),
    pytest.param(b'{"a":1,"k":2}', b'{"a":1}', id="last"),
    pytest.param(b'{ "a":1 ,\n "k":2 }', b'{ "a":1  }', id="last-with-spaces"),
    pytest.param(b'{"a":"k","\\u006b":2}', b'{"a":"k"}', id="spelled-by-an-escape"),
]


@pytest.mark.parametrize(("body", "want"), REMOVALS)
def test_a_member_is_removed_with_one_comma(body: bytes, want: bytes) -> None:
    """The rest is valid JSON and keeps its spelling."""
    assert apply(body, [remove(body, members(body), "k")]) == want
    assert without(body, ("k",)) == want


@given(objects(values).filter(lambda written: bool(written.parts)), st.data())
@examples(60)
def test_removing_keys_keeps_all_other_members(written: Written, data: st.DataObject) -> None:
    """The rest keeps its meaning, its order and its spelling."""
    keys = data.draw(st.lists(st.sampled_from(list(written.value)), max_size=3))
    left = without(written.text, keys)
    want = {k: p for k, p in zip(written.value, written.parts, strict=True) if k not in keys}

    assert json.loads(left) == {key: written.value[key] for key in want}
    assert {k: left[m.start : m.end] for k, m in members(left).items()} == want
    assert list(members(left)) == list(want)


def test_without_edits_the_same_object_is_returned() -> None:
    """The body is not copied."""
    body = b'{"a":1}'

    assert apply(body, []) is body
    assert apply(body, iter(())) is body


def test_edits_at_one_place_keep_their_order() -> None:
    """Edits at other places may be given in any order."""
    edits = [
        Edit(3, 4, b"-"),
        Edit(1, 1, b"x"),
        Edit(1, 1, b"y"),
        Edit(5, 5, b"!"),
        Edit(0, 1, b""),
    ]

    assert apply(b"abcde", edits) == b"xybc-e!"


@given(st.binary(max_size=20), st.data())
@examples(60)
def test_removing_the_insertions_restores_the_document(body: bytes, data: st.DataObject) -> None:
    """Every byte outside the edits is kept, in the same order."""
    at = st.integers(0, len(body))
    inserted = sorted(data.draw(st.dictionaries(at, st.binary(max_size=4), max_size=4)).items())
    edited = apply(body, [Edit(start, start, new) for start, new in inserted])
    undo, shift = [], 0
    for start, new in inserted:
        undo.append(Edit(start + shift, start + shift + len(new), b""))
        shift += len(new)

    assert len(edited) == len(body) + shift
    assert apply(edited, undo) == body


@pytest.mark.parametrize(
    ("document", "is_too_many"),
    [
        pytest.param(b"[" + b"0," * 11 + b"0]", True, id="numbers"),
        pytest.param(b'["' + b"a, " * 11 + b'"]', False, id="in-a-string"),
        pytest.param(b'["' + b'\\",' * 11 + b'"]', False, id="after-escapes"),
        pytest.param(b'{"a":"' + b"," * 11 + b'","b":[' + b"{}," * 11 + b"0]}", True, id="both"),
        pytest.param(b"[" + b"0," * 9 + b"0]", False, id="few"),
    ],
)
def test_too_many_values_raise_before_they_are_decoded(
    document: bytes, *, is_too_many: bool
) -> None:
    """The number of values is estimated by the commas outside strings."""
    if is_too_many:
        with pytest.raises(TooMany):
            bound(document, 10)
    else:
        bound(document, 10)


def test_an_unterminated_string_is_scanned_once() -> None:
    """Scanning to the end again from each later quote would not be linear."""
    for end in (b"", b"\\"):
        with pytest.raises(TooMany):
            bound(b"[" + b"0," * 11 + b'"' + b'\\",' * 500_000 + end, 10)


@given(st.lists(st.sampled_from([b'"', b",", b"x", b"[", b'",', b'"\\\\', b'"\\"'])))
@examples(300)
def test_commas_are_counted_wherever_a_segment_ends(parts: list[bytes]) -> None:
    """A segment may end inside a string, or inside an escape."""
    document = b"".join(parts) + b" " * 50  # long enough to be looked at
    outside = re.sub(rb'"(?:[^"\\]|\\.)*("|\\?\Z)', b"", document)
    assume(b"\\" not in outside)  # not JSON: neither is an escape there
    for size in (1, 2, 3, 7):
        with mock.patch.object(json_spans, "_SEGMENT_BYTES", size):
            if outside.count(b","):
                with pytest.raises(TooMany):
                    bound(document, outside.count(b",") - 1)
            bound(document, outside.count(b","))


def test_a_segment_without_a_comma_is_passed_over() -> None:
    """As in base64; the commas before and after it still count."""
    image = b'"' + b"A" * (3 << 16) + b'"'
    bound(b"[0," + image + b",0]", 2)
    with pytest.raises(TooMany):
        bound(b"[0," + image + b",0,0]", 2)


def test_counting_values_takes_little_memory() -> None:
    """Less than the document itself, in whatever pieces its strings divide it."""
    keys = b"{" + b",".join(b'"k%06d":1' % key for key in range(300_000)) + b"}"
    for document in (keys, b'{"":' + b'",' * 1_500_000, b'["' + b"," * 3_000_000 + b'"]'):
        tracemalloc.start()
        with contextlib.suppress(TooMany):
            bound(document, 200_000)
        _, peak_bytes = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak_bytes < len(document)


@given(objects(values), st.sampled_from(["a", "b", "c"]))
@examples(60)
def test_an_object_without_the_key_is_the_same_object_unless_ambiguous(
    written: Written, key: str
) -> None:
    """White space and escapes are accepted; a key that occurs twice raises."""
    if key not in written.value:
        assert without(written.text, (key,)) is written.text
    for first in written.parts[:1]:
        twice = b'{ "x":' + first + b',"x" :' + first + b"}"
        with pytest.raises(Unspliceable):
            without(twice, (key,))
        with pytest.raises(Unspliceable):
            without(twice, ("x",))


@given(objects(values))
@examples(100)
def test_a_single_member_is_found_at_the_same_place(written: Written) -> None:
    """This holds for every spelling of the document."""
    for body in (written.text, dense(written)):
        found = unambiguous(body)
        assert {key: place_of(found, body, key) for key in found} == members(body)
        assert list(found) == list(members(body))


def test_a_key_that_is_not_there_has_no_place() -> None:
    """It raises, as in a dictionary."""
    body = b'{"a":1}'
    with pytest.raises(KeyError):
        place_of(unambiguous(body), body, "b")


@given(objects(values), st.data())
@examples(100)
def test_a_repeated_key_is_detected(written: Written, data: st.DataObject) -> None:
    """Its place and spelling do not matter, nor does white space that makes up for its length."""
    twice = data.draw(st.sampled_from([b'"a"', b'"\\u0061"', b' "a"\n']))
    value = data.draw(st.sampled_from([b"1", b'""', b'"a, b"', b"[1, 2]"]))
    inner = written.text.strip()[1:-1].strip()
    body = b'{"a": ' + value + b"," + inner + (b"," if inner else b"") + twice + b":" + value + b"}"
    with pytest.raises(Unspliceable):
        unambiguous(body)
    with pytest.raises(Unspliceable):
        members(body)


def test_an_encoded_key_is_never_longer_than_its_shortest_spelling() -> None:
    """A longer encoding could hide a key that occurs twice."""
    for key in map(chr, [*range(0x300), 0x2028, 0x2029, 0xFEFF, 0x1F600]):
        spelled = [json.dumps(key, ensure_ascii=escapes).encode() for escapes in (True, False)]
        assert len(msgspec.json.encode({key: 0})) == min(map(len, spelled)) + len(b"{:0}")
