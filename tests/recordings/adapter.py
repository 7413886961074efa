"""
Adapter interface: the wire format of one dialect, as far as the judge must know it.

A dialect is one module here that implements `Adapter`, and one line in `ADAPTERS` of `table`. It
shares no code with the proxy. Everything is pure.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from urllib.parse import urlsplit

from tests.recordings import rawjson
from tests.recordings.rawjson import Edit, Span

Leaf = tuple[str, str]
# A message that was emitted: the exchange of the recording, and its number among those of it.
Key = tuple[int, int]
# Sign of the upstream in a recorded host -> its profile; no sign: `generic`.
_PROFILES = {
    "api.cerebras.ai": "cerebras",
    "api.deepseek.com": "deepseek",
    "generativelanguage.googleapis.com": "gemini",
    "api.groq.com": "groq",
    "localhost": "llamacpp",
    "llamacpp.local": "llamacpp",
    "aiplatform.googleapis.com": "vertex",
    "api.minimax.io": "minimax",
    "api.mistral.ai": "mistral",
    "api.moonshot.ai": "moonshot",
    "127.0.0.1": "ollama",
    "ollama.com": "ollama",
    "OLLAMA_API_BASE": "ollama",
    "openrouter.ai": "openrouter",
    "ai-gateway.vercel.sh": "vercel",
    "crusoecloud.com": "vllm",
    "api.x.ai": "xai",
    "api.z.ai": "zai",
    "azure.com": "azure",
    "api.anthropic.com": "anthropic",
    "bedrock-": "bedrock",
}


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
        name: The value of `--dialect`.
        folder: The folder of its recordings.
        path: The path of a client's requests; hosts have it below different paths.
        key: The member of a request that holds its messages.
        completes: Whether reasoning that the client sends in part may be completed.
        is_owed: Whether a client that dropped reasoning by itself must get all of it.
        made_up: The request of a recording that has only the response.
    """

    name: str
    folder: str
    path = ""
    key = "messages"
    completes = True
    is_owed = False
    made_up = b"{}"

    def path_of(self, meta: Mapping[str, Any]) -> str:
        """Return the path of the client's request, given the notes of a recorded exchange."""
        url = urlsplit(str(meta["url"]))
        return f"{self.path or url.path}?{url.query}" if url.query else self.path or url.path

    def profile_of(self, name: str, hosts: Sequence[str]) -> str:
        """Return the profile of the upstream of a recording."""
        place = " ".join(hosts)
        return next((profile for sign, profile in _PROFILES.items() if sign in place), "generic")

    def under(self, profile: str) -> "Adapter":
        """Return the adapter that knows what is right at an upstream with this profile."""
        return self

    def spans(self, request: str) -> Sequence[Span]:
        """Locate the messages of a request, of all roles."""
        at = rawjson.member(request, self.key)
        return rawjson.elements(request, at.start) if at is not None else []

    def binds(self, request: str) -> bool:
        """Return whether the model accepts reasoning only after the history that it had."""
        return False

    def answers(self, body: bytes, *, is_stream: bool) -> Mapping[int, Said]:
        """Return the messages that a successful response holds, by number."""
        said = self.answer(body, is_stream=is_stream)
        return {} if said is None else {0: said}

    def answer(self, body: bytes, *, is_stream: bool) -> Said | None:
        """Return the one message that a response holds; None if it did not end well."""
        raise NotImplementedError

    def origins(self, request: str, meta: Mapping[str, Any]) -> Mapping[int, Key] | None:
        """Return which message replays which, as far as the recording itself notes it."""
        return None

    @abstractmethod
    def said(self, raw: str) -> Said:
        """Parse one message of a request."""

    @abstractmethod
    def without(self, raw: str, atoms: Collection[Atom]) -> str:
        """Remove the parts of a message that hold only these atoms; all other bytes stay."""

    def without_ids(self, raw: str) -> str:
        """Remove the ids of a message that the API does not demand."""
        return raw

    def replayed(self, said: Said, emitted: Sequence[Atom]) -> list[Atom]:
        """Return the atoms of a client's message that replay emitted ones."""
        return [atom for atom in said.atoms if emitted_as(atom, emitted)]

    def is_usable(self, atom: Atom) -> bool:
        """Return whether reasoning was emitted in a form that can be sent back."""
        return True

    @abstractmethod
    def additions(
        self, sent: str, got: str, emitted: Said | None, request: str
    ) -> Sequence[Addition]:
        """
        Return the parts that were added to the client's message.

        Args:
            sent: The message that the client sent.
            got: The one that upstream received.
            emitted: The message as upstream emitted it, if it did.
            request: The whole request that the client sent.

        Raises:
            Altered: Without them, the message is not the client's, byte for byte.
        """

    def frame(self, sent: str, got: str) -> tuple[list[Edit], list[str]]:
        """Return the edits that undo allowed changes outside of the messages, and all faults."""
        return [], []


def emitted_as(atom: Atom, emitted: Sequence[Atom]) -> list[Atom]:
    """Return the emitted atoms that a client's atom replays, in any field, whole or in part."""
    equal = [one for one in emitted if atom.equals(one)]
    return equal or [one for one in emitted if atom.is_part_of(one)]


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
