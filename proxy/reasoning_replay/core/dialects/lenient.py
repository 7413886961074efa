"""
Lenient decoder: reads JSON of a peer in which any value may have an unexpected type.

Nothing here raises: what cannot be read counts as null, or as empty. Values that are kept raw
can be put together again, undecoded.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Generic, TypeVar, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Raw, json

from reasoning_replay.core.wire.json_spans import NONE

# What decoding, and encoding again, may raise for some JSON: a number may be too long for Python.
UNREADABLE = (msgspec.MsgspecError, RecursionError, ValueError, OverflowError)

ValueT = TypeVar("ValueT")
StructT = TypeVar("StructT", bound=msgspec.Struct)

_VALUE = json.Decoder(object)
_MEMBERS = json.Decoder(dict[str, Raw])
_ELEMENTS = json.Decoder(list[Raw])
_NUMBER = json.Decoder(int)


def decoded(decoder: json.Decoder[ValueT], raw: bytes | str | Raw) -> ValueT | None:
    """Return what a decoder makes of a value; None if the value does not fit."""
    try:
        return decoder.decode(raw)
    except UNREADABLE:
        return None


def value_of(raw: bytes | str | Raw) -> object:
    """Return a decoded value; None if it cannot be decoded."""
    return decoded(_VALUE, raw)


def members_of(raw: bytes | Raw) -> dict[str, Raw]:
    """Return the raw members of an object; {} for another value."""
    return decoded(_MEMBERS, raw) or {}


def elements_of(raw: bytes | Raw) -> list[Raw]:
    """Return the raw elements of an array; [] for another value."""
    return decoded(_ELEMENTS, raw) or []


def number_of(raw: bytes | Raw) -> int | None:
    """Return a whole number; None for another value."""
    return decoded(_NUMBER, raw)


class LenientDecoder(Generic[StructT]):
    """
    Decoder of a struct from an object whose values may have other types than its fields.

    Such a value counts as null. A struct inside is read as leniently, and so is each element of a
    list of structs; one that is no object is a struct without values.
    Cost: linear; one C pass if all values fit.
    """

    def __init__(
        self, form: type[StructT], repaired: Callable[[bytes], bytes] | None = None
    ) -> None:
        """
        Prepare a decoder.

        Args:
            form: The struct. Each field is raw JSON, or may be null.
            repaired: Change of a document that does not fit as it is, before it is read again.
        """
        self._form = form
        self._repaired = repaired
        self._strict = json.Decoder(form)
        types = get_type_hints(form)
        self._readers = {name: _reader_of(types[name]) for name in form.__struct_fields__}
        members = [(name, Raw, NONE) for name in self._readers]
        written = dict(zip(self._readers, form.__struct_encode_fields__, strict=True))
        raw_form = msgspec.defstruct("_" + form.__name__, members, gc=False, rename=written)
        self._members = json.Decoder(raw_form)

    def decode(self, document: bytes | Raw) -> StructT | None:
        """Return the struct; None if the document is not a JSON object."""
        try:
            return self._strict.decode(document)
        except UNREADABLE:
            pass
        if self._repaired is not None:
            document = self._repaired(bytes(document))
        found = decoded(self._members, document)
        if found is None:
            return None
        values = {name: getattr(found, name) for name in self._readers}
        return self._form(
            **{name: self._readers[name](raw) for name, raw in values.items() if raw is not NONE}
        )


def _reader_of(form: Any) -> Callable[[Raw], Any]:  # noqa: ANN401 (any type of a field)
    """Return a function that reads a value of this type, and returns None if it does not fit."""
    for kind in get_args(form):
        is_list = get_origin(kind) is list
        inner = get_args(kind)[0] if is_list else kind
        if isinstance(inner, type) and issubclass(inner, msgspec.Struct):
            one = LenientDecoder(inner)
            return partial(_structs, one, inner()) if is_list else one.decode
    return partial(decoded, json.Decoder(form))


def _structs(decoder: LenientDecoder[StructT], empty: StructT, raw: Raw) -> list[StructT] | None:
    elements = decoded(_ELEMENTS, raw)
    return None if elements is None else [decoder.decode(one) or empty for one in elements]


def body_of(value: bytes) -> bytes:
    """Return the body of a string, as it is written; b"" for another value."""
    return value[1:-1] if value[:1] == b'"' else b""


def string_of(body: bytes | bytearray) -> bytes:
    """Return the string with this body."""
    return b'"' + body + b'"'


def array_of(values: Iterable[bytes]) -> bytes:
    """Return the array of these values."""
    return b"[" + b",".join(values) + b"]"


def object_of(members: Mapping[str, bytes]) -> bytes:
    """Return the object with these members."""
    return b"{" + b",".join([json.encode(name) + b":" + members[name] for name in members]) + b"}"
