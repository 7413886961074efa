"""Lenient decoder: a value of an unexpected type counts as null, and the others are read."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, Raw, UnsetType
from reasoning_replay.core.dialects.lenient import (
    LenientDecoder,
    elements_of,
    members_of,
    number_of,
    value_of,
)
from reasoning_replay.core.wire.json_spans import NONE

from tests.core.documents import values
from tests.fast_lane import examples


class Inner(msgspec.Struct):
    """An element of a list."""

    n: int | None = None
    more: dict[str, Raw] | None = None


class Form(msgspec.Struct):
    """A struct with a field of each kind."""

    word: str | None = None
    flag: bool | None = None
    raw: Raw = NONE
    many: list[Raw] | UnsetType | None = UNSET
    inner: list[Inner] | None = None
    single: Inner | None = None
    broken: str | None = None


DECODER = LenientDecoder(Form)
ODD = [b"null", b'"x"', b'"\xff"', b"true", b"[1,null]", b'[{"n":1},{"n":"1"},{"more":{"a":[]}}]']


@pytest.mark.parametrize(
    ("document", "want"),
    [
        (b"{}", Form()),
        (b'{"word":"a","x":1}', Form(word="a")),
        (b'{"word":1,"flag":true}', Form(flag=True)),
        (b'{"word":1,"word":"a","flag":0}', Form(word="a")),
        (b'{"word":"a","word":1}', Form()),
        (b'{"many":{}}', Form(many=None)),
        (b'{"word":1,"many":[1]}', Form(many=[Raw(b"1")])),
        (b'{"inner":[{"n":"1"},{"n":2},7]}', Form(inner=[Inner(), Inner(2), Inner()])),
        (b'{"inner":{}}', Form()),
        (b'{"single":{"n":"1","more":{}}}', Form(single=Inner(more={}))),
        (b'{"single":[]}', Form()),
        (b'{"word":1,"raw": [ 1 ] }', Form(raw=Raw(b"[ 1 ]"))),
    ],
)
def test_what_does_not_fit_counts_as_null(document: bytes, want: Form) -> None:
    """The other values are read; of a repeated key, the last one counts."""
    assert DECODER.decode(document) == DECODER.decode(Raw(document)) == want


class Renamed(msgspec.Struct, rename="camel"):
    """A struct whose fields have other names in JSON."""

    first_name: str | None = None
    last_name: str | None = None


def test_a_field_may_have_another_name_in_json() -> None:
    """Also where a value has an unexpected type."""
    read = LenientDecoder(Renamed).decode
    assert read(b'{"firstName":"a","lastName":5}') == Renamed("a")


@pytest.mark.parametrize(
    "document", [b"", b"[]", b"null", b"{", b'{"a":1}x', b"[" * 9999, rb'{"word":"\ud800"}']
)
def test_only_an_object_is_a_struct(document: bytes) -> None:
    """Nothing is known of another document, and nothing is raised."""
    assert DECODER.decode(document) is None


def test_a_document_may_be_repaired_before_it_is_read_again() -> None:
    """One that fits is read as it is."""
    decoder = LenientDecoder(Form, lambda raw: raw.replace(b"a", b"b"))
    assert decoder.decode(b'{"word":"a"}') == Form(word="a")
    assert decoder.decode(b'{"word":"a","flag":1}') == Form(word="b")


fields = st.dictionaries(
    st.sampled_from(Form.__struct_fields__[:-1]),
    values.map(lambda written: written.text) | st.sampled_from(ODD),
)


@given(fields)
@examples(80)
def test_one_value_never_changes_how_another_is_read(given: dict[str, bytes]) -> None:
    """Reading all fields at once and reading them one by one give the same result."""
    members = [b'"%b":%b' % (name.encode(), raw) for name, raw in given.items()]
    whole = DECODER.decode(b"{%b}" % b",".join(members))
    apart = DECODER.decode(b"{%b}" % b",".join([*members, b'"broken":1']))
    alone = [DECODER.decode(b'{%b,"broken":1}' % member) for member in members]
    assert whole == apart
    for name, one in zip(given, alone, strict=True):
        assert getattr(whole, name) == getattr(one, name)


@given(values.map(lambda written: written.text) | st.binary(max_size=9))
def test_any_bytes_have_members_elements_a_number_and_a_value(raw: bytes) -> None:
    """What is not of the type, or no JSON, is nothing."""
    value = value_of(raw)
    assert set(members_of(raw)) >= (set(value) if isinstance(value, dict) else set())
    assert len(elements_of(raw)) >= (len(value) if isinstance(value, list) else 0)
    is_number = isinstance(value, int) and not isinstance(value, bool)
    assert not is_number or number_of(raw) == value
