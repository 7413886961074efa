"""
Adapter interface: the wire format of one dialect, as far as the judge must know it.

A dialect is one module here that implements `Adapter`, and one line in `ADAPTERS` of `table`. It
shares no code with the proxy. Everything is pure.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum

from tests.recordings import rawjson
from tests.recordings.rawjson import Span

Leaf = tuple[str, str]


class Altered(Exception):
    """A message differs from the client's by more than added reasoning."""


class Role(StrEnum):
    """Who says a message."""

    MODEL = "model"
    CLIENT = "client"
    FRAME = "frame"  # the application: system and developer messages


@dataclass(frozen=True, slots=True)
class Atom:
    """
    One piece of reasoning in a message: a text, a signature or a ciphertext.

    Attributes:
        place: The part of the message that holds it; "" is the message itself.
        field: The member that holds it, with the members in which that one lies.
        is_text: Whether it is text, which clients re-space; all else is compared exactly.
    """

    place: str
    field: str
    value: str
    is_text: bool

    def equals(self, other: "Atom") -> bool:
        """Return whether two atoms have the same value, wherever they are."""
        if self.is_text and other.is_text:
            return folded(self.value) == folded(other.value)
        return self.value == other.value

    def is_part_of(self, other: "Atom") -> bool:
        """Return whether a client lost a part of a text: joining a stream, some lose its start."""
        mine, whole = folded(self.value), folded(other.value)
        return self.is_text and other.is_text and 2 * len(mine) > len(whole) and mine in whole

    def __str__(self) -> str:
        where = f"{self.place}." if self.place else ""
        return f"{where}{self.field} ({len(self.value)})"


@dataclass(frozen=True, slots=True)
class Said:
    """
    One message of a request, or the message of an answer.

    Attributes:
        role: See Role.
        visible: What it says without reasoning, in a form that survives the usual client edits:
            its text, then each of its calls.
        ids: The ids of its tool calls.
        atoms: Its reasoning in parts of its own, which a client can drop.
        held: Its reasoning that cannot be taken out: inside the visible text, or in a part without
            content.
        raw: Its JSON text; "" if it was assembled from a stream.
        leaves: Every name and value in it, so that a value not emitted can be named.
    """

    role: Role
    visible: tuple[str, ...]
    ids: tuple[str, ...]
    atoms: tuple[Atom, ...]
    held: tuple[Atom, ...]
    raw: str
    leaves: frozenset[Leaf]


@dataclass(frozen=True, slots=True)
class Addition:
    """
    One part that a received message has and the client's has not.

    Attributes:
        raw: The JSON text of its value, which upstream must have written so.
    """

    raw: str
    atoms: tuple[Atom, ...]
    leaves: frozenset[Leaf]


class Adapter(ABC):
    """
    The wire format of one dialect.

    Attributes:
        name: The folder of its recordings, and the value of `--dialect`.
        path: The path of a client's requests; hosts have it below different paths.
        key: The member of a request that holds its messages.
    """

    name: str
    path = ""
    key = "messages"

    def path_of(self, url: str) -> str:
        """Return the path of a client's request that was recorded with this URL, from `/` on."""
        return self.path

    def spans(self, request: str) -> Sequence[Span]:
        """Locate the messages of a request, of all roles."""
        at = rawjson.member(request, self.key)
        return rawjson.elements(request, at.start) if at is not None else []

    def binds(self, request: str) -> bool:
        """Return whether the model accepts reasoning only after the history that it had."""
        return False

    @abstractmethod
    def answer(self, body: bytes, *, is_stream: bool) -> Said | None:
        """Return the message that a successful response holds; None if it did not end well."""

    @abstractmethod
    def said(self, raw: str) -> Said:
        """Parse one message of a request."""

    @abstractmethod
    def without(self, raw: str, atoms: Collection[Atom]) -> str:
        """Remove the parts of a message that hold only these atoms; all other bytes stay."""

    @abstractmethod
    def additions(self, sent: str, got: str) -> Sequence[Addition]:
        """
        Return the parts that were added to the client's message.

        Raises:
            Altered: Without them, the message is not the client's, byte for byte.
        """


def folded(text: str) -> str:
    """Return a text with each run of white space as one space, and none at its ends."""
    return " ".join(text.split())


def leaves_of(value: object, name: str = "") -> set[Leaf]:
    """Return every name and value in parsed JSON that is not a container."""
    if isinstance(value, dict):
        return {leaf for key, inner in value.items() for leaf in leaves_of(inner, str(key))}
    if isinstance(value, list):
        return {leaf for inner in value for leaf in leaves_of(inner, name)}
    return {(name, str(value))}
