"""
Parts: what the parts of a content are, and which of their members are signatures.

Gemini signs parts of its responses. A request must have each signature on the same part. JSON of
Google's APIs may spell a member in either of two ways, so both are read: `thoughtSignature` and
`thought_signature`. Nothing here raises: a value of an unexpected type counts as absent.
"""

import re
from typing import NamedTuple

from msgspec import Raw

from reasoning_replay.core.dialects.lenient import members_of
from reasoning_replay.core.history.turns import Reasoning
from reasoning_replay.core.wire import json_spans
from reasoning_replay.core.wire.digest import digest, utf8
from reasoning_replay.core.wire.json_spans import NONE

TEXT = "text"
SIGNATURES = ("thoughtSignature", "thought_signature")
# Members that say nothing by themselves.
_ABOUT = frozenset(
    {TEXT, "thought", "thoughtSignature", "partMetadata", "videoMetadata", "mediaResolution"}
)
_SNAKE = re.compile(r"_([a-z])")
# The same bytes, in the alphabet for URLs and in the usual one, with padding or without.
_URL_SAFE = str.maketrans("-_", "+/")
# Documented by Google for a history that its models did not make; clients also encode them.
_SENTINELS = frozenset(
    {
        "skip_thought_signature_validator",
        "context_engineering_is_the_way_to_go",
        "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I",
        "Y29udGV4dF9lbmdpbmVlcmluZ19pc190aGVfd2F5X3RvX2dv",
    }
)


class Part(NamedTuple):
    """
    One part of a content.

    Attributes:
        kind: Name of its data; "" if it has none but a signature.
        value: Its data.
        is_thought: Whether it is a summary of thoughts.
        signed: Name of the member with its signature; "" if it has none, or an empty one.
        signature: Its signature, as JSON.
    """

    kind: str
    value: Raw
    is_thought: bool
    signed: str
    signature: bytes

    @property
    def member(self) -> bytes:
        """JSON of the member with its signature."""
        return b'"%b":%b' % (self.signed.encode(), self.signature)

    @property
    def is_silent(self) -> bool:
        """Whether it is no item: a thought, or nothing but a signature or white space."""
        if self.is_thought or not self.kind:
            return True
        said = json_spans.text(self.value) if self.kind == TEXT else None
        return said is not None and not said.strip()


def read_part(raw: bytes | Raw) -> Part:
    """Return what a part is."""
    members = members_of(raw)
    kind, value = "", NONE
    for name, each in members.items():
        if (plain := _camel(name)) not in _ABOUT and bytes(each) != b"null":
            kind, value = plain, each
    if not kind and TEXT in members:
        kind, value = TEXT, members[TEXT]
    signed = next((name for name in SIGNATURES if json_spans.text(members.get(name, NONE))), "")
    is_thought = bytes(members.get("thought", NONE)) == b"true"
    return Part(kind, value, is_thought, signed, bytes(members.get(signed, NONE)))


def plain_members(value: Raw) -> dict[str, Raw]:
    """Return the members of an object by their names in camel case, without null ones."""
    return {_camel(name): raw for name, raw in members_of(value).items() if bytes(raw) != b"null"}


def _camel(name: str) -> str:
    return _SNAKE.sub(lambda found: found[1].upper(), name) if "_" in name else name


def blob_of(signature: bytes) -> bytes:
    """Return the digest of a signature, given as JSON; it is equal for all of its spellings."""
    said = json_spans.text(signature) or ""
    return digest(b"blob", utf8(said.translate(_URL_SAFE).rstrip("=")))


def is_sentinel(signature: bytes) -> bool:
    """Return whether a signature, given as JSON, only asks the API not to check it."""
    return (json_spans.text(signature) or "").rstrip("=") in _SENTINELS


class Place(NamedTuple):
    """
    Where a signature was emitted.

    Attributes:
        number: Number of its part among those of its item, from 1; of a whole part, the number of
            the part that it follows, and 0 before the item.
        total: How many parts the item had: a text may come in several.
        is_whole: Whether it is a part of its own.
    """

    number: int
    total: int
    is_whole: bool


_OWN = "part"


def reasoning_of(part: Part, number: int, total: int, whole: bytes = b"") -> Reasoning:
    """Return the signature of a part, as a member; if the part is no item, as the `whole` part."""
    name = f"{_OWN if whole else part.signed} {number}/{total}"
    return Reasoning(name, whole or part.member, (blob_of(part.signature),), has_blob=True)


def place_of(reasoning: Reasoning) -> Place:
    """Return where reasoning was emitted."""
    name, _, place = reasoning.id.partition(" ")
    number, _, total = place.partition("/")
    return Place(int(number), int(total), name == _OWN)
