"""Where some member of a document is not of the type that it should be: the rest still counts."""

from typing import Any

import msgspec
from msgspec import Raw

__all__ = ["NONE", "LenientDecoder"]

NONE = Raw(b"")


class LenientDecoder:
    """Reads the members of a struct, each raw, whatever it is."""

    def __init__(self, strict: type[msgspec.Struct]) -> None:
        """Read what that struct has."""
        self._names = strict.__struct_fields__
        members = [(name, Raw, NONE) for name in self._names]
        struct = msgspec.defstruct("_" + strict.__name__, members, gc=False)
        self._decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(struct)

    def decode(self, document: bytes | Raw) -> dict[str, Raw]:
        """
        Return every member by its name; an absent one is NONE.

        Raises:
            MsgspecError, RecursionError, UnicodeDecodeError: It is no object of JSON.
        """
        found = self._decoder.decode(document)
        return {name: getattr(found, name) for name in self._names}
