"""Byte ranges are exact however a document is written, and an edit touches nothing else."""

import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reasoning_replay.core.wire.json_spans import (
    _MEMBERS,
    Edit,
    TooMany,
    Unspliceable,
    _is_compact,
    _packed,
    _walk,
    apply,
    bound,
    elements,
    members,
    place_of,
    readable,
    remove,
    text,
    unambiguous,
    without,
)

from tests.core.documents import Written, arrays, objects, spaces, values

DEEP = 100_000

# (an object, the spelling of each of its values)
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
    """Keys are decoded, values are not: a range holds a value exactly as it was spelled."""
    found = members(body)

    assert {key: body[at.start : at.end] for key, at in found.items()} == want
    assert list(found) == list(want)


@given(spaces, objects(values), spaces)
@settings(max_examples=60, deadline=None)
def test_a_member_ranges_over_its_value_whatever_the_spelling(
    before: bytes, written: Written, after: bytes
) -> None:
    """Cut out and decoded, the ranges are the object."""
    body = before + written.text + after
    found = members(body)

    assert tuple(body[at.start : at.end] for at in found.values()) == written.parts
    assert {k: json.loads(body[m.start : m.end]) for k, m in found.items()} == written.value
    keys = [body[at.key_start : at.start].rstrip(b" \t\r\n:") for at in found.values()]
    assert [json.loads(key) for key in keys] == list(written.value)


@given(objects(values), st.binary(max_size=5), st.binary(max_size=5))
@settings(max_examples=50, deadline=None)
def test_reads_an_object_inside_a_document(written: Written, ahead: bytes, behind: bytes) -> None:
    """Offsets count from the start of the document; what stands around the object is not read."""
    body = ahead + written.text + behind
    found = members(body, len(ahead), len(ahead) + len(written.text))

    assert tuple(body[at.start : at.end] for at in found.values()) == written.parts


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
]


@pytest.mark.parametrize("body", UNSPLICEABLE)
def test_refuses_what_readers_could_disagree_on(body: bytes) -> None:
    """Not one object, not JSON, too deep, or a key twice: nothing is ever cut out of such bytes."""
    with pytest.raises(Unspliceable):
        members(body)


@given(objects(values).filter(lambda written: bool(written.parts)), st.data())
@settings(max_examples=50, deadline=None)
def test_refuses_a_key_that_occurs_again_anywhere(written: Written, data: st.DataObject) -> None:
    """Also behind other members, spelled by escapes, or with a value that equals the first."""
    key = data.draw(st.sampled_from(sorted(written.value)))
    value = data.draw(st.sampled_from(written.parts))
    again = json.dumps(key).encode() + b":" + value
    inner = written.text[1:-1]
    ahead = data.draw(st.booleans())

    with pytest.raises(Unspliceable):
        members(b"{" + (again + b"," + inner if ahead else inner + b"," + again) + b"}")


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
    """In order, each exactly as it was spelled, wherever the array stands."""
    body = b'{"input":' + array + b',"n":[]}'
    found = elements(body, 9, 9 + len(array))

    assert [body[start:end] for start, end in found] == want


@given(arrays(values), st.binary(max_size=5), st.binary(max_size=5))
@settings(max_examples=60, deadline=None)
def test_an_element_ranges_over_its_value_whatever_the_spelling(
    written: Written, ahead: bytes, behind: bytes
) -> None:
    """Cut out, the ranges are the elements."""
    body = ahead + written.text + behind
    found = elements(body, len(ahead), len(ahead) + len(written.text))

    assert tuple(body[start:end] for start, end in found) == written.parts


@pytest.mark.parametrize(
    "array", [b"", b"{}", b"[1,]", b"[1", b"[NaN]", b"[1]]", b"[" * DEEP + b"]" * DEEP]
)
def test_refuses_what_is_not_one_array(array: bytes) -> None:
    """Elements of anything else have no places."""
    with pytest.raises(Unspliceable):
        elements(array, 0, len(array))


SURROGATES = [
    pytest.param(rb'"\ud83d"', rb'"\ufffd"', id="high-alone"),
    pytest.param(rb'"\uDE00 "', rb'"\ufffd "', id="low-alone"),
    pytest.param(rb'"\ud83d\ude00"', rb'"\ud83d\ude00"', id="pair"),
    pytest.param(rb'"\uD83D\uDE00"', rb'"\uD83D\uDE00"', id="pair-in-capitals"),
    pytest.param(rb'"\ud83d\ud83d\ude00"', rb'"\ufffd\ud83d\ude00"', id="high-ahead-of-a-pair"),
    pytest.param(rb'"\ude00\ud83d"', rb'"\ufffd\ufffd"', id="wrong-order"),
    pytest.param(rb'"\ud83dx\ude00"', rb'"\ufffdx\ufffd"', id="apart"),
    pytest.param(rb'"\ud83d\n"', rb'"\ufffd\n"', id="ahead-of-an-escape"),
    pytest.param(rb'"\\ud83d"', rb'"\\ud83d"', id="escaped-backslash"),
    pytest.param(rb'"\\\ud83d"', rb'"\\\ufffd"', id="behind-an-escaped-backslash"),
    pytest.param(rb'"\u0041\ud7ff\ue000"', rb'"\u0041\ud7ff\ue000"', id="no-surrogates"),
]


@pytest.mark.parametrize(("document", "want"), SURROGATES)
def test_halves_of_characters_are_made_readable(document: bytes, want: bytes) -> None:
    """A lone surrogate becomes the replacement character; nothing else moves or changes."""
    assert readable(document) == want
    assert text(want) is not None


@given(values)
@settings(max_examples=50, deadline=None)
def test_what_is_readable_stays_as_it_is(written: Written) -> None:
    """Whatever is Unicode is not touched."""
    assert readable(written.text) == written.text


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
def test_text_is_what_a_string_means(raw: bytes, want: str | None) -> None:
    """Whatever is not a readable string is no text at all."""
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
def test_a_member_goes_with_one_comma(body: bytes, want: bytes) -> None:
    """What is left is valid JSON, and all of it stays as it was spelled."""
    assert apply(body, [remove(body, members(body), "k")]) == want
    assert without(body, ("k",)) == want


def test_removing_what_is_not_there_is_an_error() -> None:
    """A caller asks only for what it has seen."""
    with pytest.raises(KeyError):
        remove(b"{}", {}, "k")


@given(objects(values).filter(lambda written: bool(written.parts)), st.data())
@settings(max_examples=60, deadline=None)
def test_removing_is_parsing_less_the_key(written: Written, data: st.DataObject) -> None:
    """The rest keeps its meaning, its order and its spelling."""
    keys = data.draw(st.lists(st.sampled_from(list(written.value)), max_size=3))
    left = without(written.text, keys)
    want = {k: p for k, p in zip(written.value, written.parts, strict=True) if k not in keys}

    assert json.loads(left) == {key: written.value[key] for key in want}
    assert {k: left[m.start : m.end] for k, m in members(left).items()} == want
    assert list(members(left)) == list(want)


def test_an_object_without_such_keys_is_itself() -> None:
    """Nothing to take out costs no copy."""
    body = b'{"a":{"k":1}}'

    assert without(body, ("k", "j")) is body
    assert without(body, ()) is body


def test_nothing_is_taken_out_of_what_is_unspliceable() -> None:
    """A key that occurs twice cannot be half removed."""
    with pytest.raises(Unspliceable):
        without(b'{"k":1,"k":2}', ("k",))


def test_no_edits_cost_no_copy() -> None:
    """The very same object, not an equal one."""
    body = b'{"a":1}'

    assert apply(body, []) is body
    assert apply(body, iter(())) is body


def test_edits_at_one_place_keep_their_order() -> None:
    """And edits at other places may be given in any."""
    edits = [
        Edit(3, 4, b"-"),
        Edit(1, 1, b"x"),
        Edit(1, 1, b"y"),
        Edit(5, 5, b"!"),
        Edit(0, 1, b""),
    ]

    assert apply(b"abcde", edits) == b"xybc-e!"


@given(st.binary(max_size=20), st.data())
@settings(max_examples=60, deadline=None)
def test_taking_insertions_out_again_gives_the_document(body: bytes, data: st.DataObject) -> None:
    """Every byte that no edit names leaves as it came, and in the same order."""
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
        pytest.param(b'["' + b'\\",' * 11 + b'"]', False, id="behind-escapes"),
        pytest.param(b'{"a":"' + b"," * 11 + b'","b":[' + b"{}," * 11 + b"0]}", True, id="both"),
        pytest.param(b"[" + b"0," * 9 + b"0]", False, id="few"),
    ],
)
def test_what_has_very_many_values_is_told_before_they_are_made(
    document: bytes, *, is_too_many: bool
) -> None:
    """By commas that are not in strings."""
    if is_too_many:
        with pytest.raises(TooMany):
            bound(document, 10)
    else:
        bound(document, 10)


def test_a_string_that_never_ends_is_looked_at_once() -> None:
    """Whatever could begin another in it; to look for each to its end is not linear."""
    for end in (b"", b"\\"):
        with pytest.raises(TooMany):
            bound(b"[" + b"0," * 11 + b'"' + b'\\",' * 500_000 + end, 10)


def dense(written: Written) -> bytes:
    """Return a document less the white space that it is written with."""
    return _packed(written.text)


@given(objects(values))
@settings(max_examples=100, deadline=None)
def test_what_stands_in_a_row_is_found_where_a_walk_finds_it(written: Written) -> None:
    """To count bytes and to look at each of them is the same, wherever bytes may be counted."""
    for body in (written.text, dense(written)):
        decoded = _MEMBERS.decode(body)
        assert members(body) == _walk(decoded, body, 0, len(body))
        shifted = b" , " + body + b" "
        found = members(shifted, 3, 3 + len(body))
        assert {key: shifted[at.start : at.end] for key, at in found.items()} == {
            key: bytes(raw) for key, raw in decoded.items()
        }


@given(arrays(values))
@settings(max_examples=60, deadline=None)
def test_elements_in_a_row_are_found_where_they_are(written: Written) -> None:
    """With white space between them and without, in the middle of a document too."""
    for body in (written.text, dense(written)):
        shifted = b"[" + body + b"]"
        found = elements(shifted, 1, 1 + len(body))
        assert [json.loads(shifted[start:end]) for start, end in found] == written.value


# As a row of members seems to be one: bytes that are missing here are there.
@pytest.mark.parametrize(
    "body",
    [
        b'{"a":1,"a":1}',
        b'{"a":1, "b":2}',
        b'{"\\u0061":1}',
        b'{"a":1,"b":"","a":""}',
        b'{"":0,"":0}',
        b'{"a" :1}',
        b'{"a":1} ',
    ],
)
def test_what_is_longer_than_its_members_does_not_stand_in_a_row(body: bytes) -> None:
    """One byte too many is a space, an escape, or a key that occurs twice."""
    assert not _is_compact(_MEMBERS.decode(body), len(body))


@given(objects(values), st.sampled_from(["a", "b", "c"]))
@settings(max_examples=60, deadline=None)
def test_nothing_to_leave_out_is_the_same_object_unless_it_is_ambiguous(
    written: Written, key: str
) -> None:
    """White space and escapes are nobody's fault; a key that occurs twice is."""
    if key not in written.value:
        assert without(written.text, (key,)) is written.text
    for first in written.parts[:1]:
        twice = b'{ "x":' + first + b',"x" :' + first + b"}"
        with pytest.raises(Unspliceable):
            without(twice, (key,))


def test_what_cannot_be_packed_is_not_cut() -> None:
    """Too deep is too deep for every reader."""
    with pytest.raises(Unspliceable):
        _packed(b"[" * DEEP + b"]" * DEEP)


@given(objects(values))
@settings(max_examples=100, deadline=None)
def test_one_member_is_found_where_all_are(written: Written) -> None:
    """However the document is written; and its values are what stands there."""
    for body in (written.text, dense(written)):
        found = unambiguous(body)
        assert {key: place_of(found, body, key) for key in found} == members(body)
        assert list(found) == list(members(body))
        with pytest.raises(KeyError):
            place_of(found, body, "nowhere")


@given(objects(values), st.data())
@settings(max_examples=100, deadline=None)
def test_a_key_that_occurs_twice_is_told(written: Written, data: st.DataObject) -> None:
    """Wherever it stands, however it is spelled, whatever white space there is to make up for."""
    twice = data.draw(st.sampled_from([b'"a"', b'"\\u0061"', b' "a"\n']))
    value = data.draw(st.sampled_from([b"1", b'""', b'"a, b"', b"[1, 2]"]))
    inner = written.text.strip()[1:-1].strip()
    body = b'{"a": ' + value + b"," + inner + (b"," if inner else b"") + twice + b":" + value + b"}"
    with pytest.raises(Unspliceable):
        unambiguous(body)
    with pytest.raises(Unspliceable):
        members(body)


def test_no_key_is_written_anew_with_more_bytes_than_it_can_be_written_with() -> None:
    """What would be longer could make up for a key that occurs twice."""
    for key in map(chr, [*range(0x300), 0x2028, 0x2029, 0xFEFF, 0x1F600]):
        spelled = [json.dumps(key, ensure_ascii=escapes).encode() for escapes in (True, False)]
        assert len(msgspec.json.encode({key: 0})) == min(map(len, spelled)) + len(b"{:0}")
