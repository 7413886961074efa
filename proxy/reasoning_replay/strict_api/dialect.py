"""
Dialect of the strict API: what one vendor's API reads, refuses and answers.

A new dialect is one module with a subclass of Dialect, and one entry of `DIALECTS`.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from http import HTTPStatus
from typing import Any, ClassVar, Final, NamedTuple

from yarl import URL

from reasoning_replay.strict_api.ledger import Judgement, Ledger, Part
from reasoning_replay.strict_api.scenarios import Script

Item = dict[str, Any]


class Refused(Exception):
    """A refused request: the message of the API, the rest of its error, and the rule's source."""

    def __init__(
        self,
        message: str,
        status: int = HTTPStatus.BAD_REQUEST,
        code: str | None = None,
        param: str | None = None,
        source: str = "",
    ) -> None:
        super().__init__(message)
        self.message, self.status, self.code, self.param = message, status, code, param
        self.source = source


class Rule(NamedTuple):
    """
    A rule of a vendor, with the words in which it refuses.

    Attributes:
        words: The message; its braces stand for names.
        source: Where users report it in public.
        date: The month of that report.
    """

    words: str
    source: str
    date: str
    status: int = HTTPStatus.BAD_REQUEST
    code: str | None = None
    param: str | None = None

    def __call__(self, *names: object) -> Refused:
        """Return the refusal, with these names in its message."""
        source, param = f"{self.source}, {self.date}", self.param and self.param.format(*names)
        return Refused(self.words.format(*names), self.status, self.code, param, source)


# The only rule that no vendor has: what `strict` adds.
LOST: Final = Rule(
    "Reasoning of turn {} is {} at {}. The vendor's API accepts this, and its model goes on"
    " without the reasoning.",
    "the strict API's own rule",
    "--strict",
    code="reasoning_lost",
)


class Reading(NamedTuple):
    """
    A request as the API reads it.

    Attributes:
        frame: What stands before the history: instructions and tools.
        items: The items or messages of the history.
        parts: The same, part by part.
    """

    frame: str
    items: list[Item]
    parts: list[Part]


class Exchange(NamedTuple):
    """
    One request, and what became of it.

    Attributes:
        dialect: The name of the dialect.
        client: The header `User-Agent` of the request.
        judgement: The state of its reasoning; None if the history could not be read.
        refused: The refusal, if any.
        emitted: The number of reasoning items in the answer.
    """

    dialect: str
    client: str
    judgement: Judgement | None
    refused: Refused | None
    emitted: int = 0


class Dialect(ABC):
    """
    One vendor's API, with what it has emitted.

    Attributes:
        name: The name of the dialect.
        path: Path of its requests, after the base URL.
        history: Member of a request that has the history, a list of objects.
    """

    name: ClassVar[str]
    path: ClassVar[str]
    history: ClassVar[str]

    def __init__(self, script: Script, *, is_strict: bool = False) -> None:
        """
        Start with nothing emitted.

        Args:
            script: What the model does next.
            is_strict: Whether a loss that the vendor accepts in silence is refused as well.
        """
        self.script = script
        self.ledger = Ledger()
        self._is_strict = is_strict

    def serve(self, body: Item, client: str) -> tuple[Exchange, Item]:
        """Judge a request; return the exchange and, unless it is refused, the answer."""
        judgement = None
        try:
            reading = self.read(body)
            judgement = self.ledger.judge(reading.frame, reading.parts)
            for refused in self.refusals(body, reading, judgement):
                raise refused
            for refused in self.losses(body, reading, judgement):
                raise refused
        except Refused as refused:
            return Exchange(self.name, client, judgement, refused), {}
        answer, said = self.answer(body, reading, judgement)
        self.ledger.record(reading.frame, reading.parts, said)
        emitted = sum(part.kind == "reasoning" for part in said)
        return Exchange(self.name, client, judgement, None, emitted), answer

    def losses(self, _body: Item, _reading: Reading, judgement: Judgement) -> Iterator[Refused]:
        """Yield the losses that the vendor accepts in silence, and this API refuses."""
        for one in judgement.lost if self._is_strict else ():
            yield LOST(one.turn, one.state, one.path)

    def members_of(self, url: URL) -> Item | None:
        """Return the members of a request that its URL has; None if it is another API's."""
        return {} if url.path == f"/v1{self.path}" else None

    @abstractmethod
    def read(self, body: Item) -> Reading:
        """
        Read a request.

        Raises:
            Refused: It refers to something that the API does not have.
        """

    @abstractmethod
    def refusals(self, body: Item, reading: Reading, judgement: Judgement) -> Iterator[Refused]:
        """Yield what the vendor refuses in a request; the first one counts."""

    @abstractmethod
    def answer(self, body: Item, reading: Reading, judgement: Judgement) -> tuple[Item, list[Part]]:
        """Return the answer to a request, and the parts that it emits."""

    @abstractmethod
    def events(self, answer: Item) -> Iterator[bytes]:
        """Yield the events of an answer, as a stream has them."""

    @abstractmethod
    def error(self, refused: Refused) -> Item | list[Item]:
        """Return the body of a refusal."""


def sse(data: Item) -> bytes:
    """Return an event of a stream; its name, if it has one, is its type."""
    name = f"event: {data['type']}\n" if "type" in data else ""
    return f"{name}data: {json.dumps(data)}\n\n".encode()


def canonical(value: object) -> str:
    """Return JSON in one spelling; a string that is JSON itself is read, as arguments are."""
    if isinstance(value, str):
        try:
            return json.dumps(json.loads(value), sort_keys=True)
        except ValueError:
            return value
    return json.dumps(value, sort_keys=True)


def text_of(message: Item) -> str:
    """Return the text of a message, in any of its forms."""
    content = message.get("content")
    if isinstance(content, list):
        return "".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    return str(content or "")


def joined(
    messages: Sequence[Item], role: str, member: str, members: Callable[[Item], list[Item]]
) -> list[Item]:
    """Return messages with adjacent ones of a role as one."""
    made: list[Item] = []
    for message in messages:
        if made and made[-1].get("role") == message.get("role") == role:
            made[-1] = {**message, member: members(made[-1]) + members(message)}
        else:
            made.append(message)
    return made


def asked_at(items: Sequence[Item], is_question: Callable[[Item], bool]) -> int:
    """Return the index of the last question of the user, -1 if there is none."""
    return max((at for at, item in enumerate(items) if is_question(item)), default=-1)
