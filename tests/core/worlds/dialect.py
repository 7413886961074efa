"""Dialect of a random world: writes its requests and responses, and reads what is injected."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any, ClassVar

from reasoning_replay.core.dialects.captures import Capture, Origin
from reasoning_replay.core.history.items import HistoryItem
from reasoning_replay.core.history.matching.matches import Matches
from reasoning_replay.core.history.request_history import RequestHistory

from tests.core.worlds.habits import Habits
from tests.core.worlds.said import Said

CAPTURE_MAX_BYTES = 1 << 20
MODEL = "gpt-5.6"


class WorldDialect(ABC):
    """
    Wire format of one world; the defaults are those of an API that keeps no items.

    Attributes:
        name: As the option `--dialect` has it.
        shapes: Responses that a model with tools gives.
        styles: How clients spell what they send again.
        cannot: New habits that make no sense in this dialect.
        wants_followers: Whether an upstream may want each reasoning item before what it led to.
        style: How the clients of this world do.
        draw: Source of random ids.
        faults: What the dialect itself finds to be wrong.
    """

    name: ClassVar[str]
    shapes: ClassVar[tuple[str, ...]]
    styles: ClassVar[tuple[str, ...]] = ("plain",)
    cannot: ClassVar[frozenset[str]] = frozenset({"contradicts"})
    wants_followers: ClassVar[bool] = True

    def __init__(self, number: int, draw: Callable[[], str]) -> None:
        self.number, self.draw = number, draw
        self.style = Random(f"style {number}").choice(self.styles)  # noqa: S311 - the same each time
        self.faults: list[str] = []

    @abstractmethod
    def request_of(self, sent: Sequence[Said], more: dict[str, Any]) -> RequestHistory[HistoryItem]:
        """Return the parsed request that carries these items, and other fields of Responses."""

    @abstractmethod
    def injected(
        self, request: RequestHistory[HistoryItem], matched: Matches
    ) -> Mapping[int, list[str]]:
        """Return the reasoning that is injected before each item of the newest request."""

    @abstractmethod
    def response_of(self, said: Sequence[Said]) -> bytes:
        """Return the JSON response that emits these items."""

    @abstractmethod
    def capturing(self, origin: Origin) -> Capture:
        """Return the capture of a response."""

    def stores(self, request: RequestHistory[HistoryItem]) -> bool:
        """Return whether upstream stores the items."""
        return False

    def around(self, more: Mapping[str, Any]) -> str:
        """Return what is visible of a request apart from its items: without ids, only a name."""
        return str(more.get("prompt_cache_key"))

    # What a dialect adds to the habits of the clients and of their upstreams.

    def habits(self, habits: Habits) -> Habits:
        """Return the habits of a client: messages and blocks have no ids."""
        return replace(habits, ids="dropped")

    def zero_name(self, conversation: int, n: int) -> str:
        """Return the id of the n-th call of a response, where it recurs in every response."""
        return (f"call_{n}", f"functions.tool:{n}", "")[conversation % 3]  # some vendors' names

    def call_name(self, name: str) -> str:
        """Return the random id of a call in the form of an upstream."""
        return name

    def renamed(self, habits: Habits, items: list[Said]) -> list[Said]:
        """Return what a client sends with its own ids of calls."""
        return items

    def messages(self, sent: Sequence[Said], *, joins_outputs: bool = False) -> list[list[int]]:
        """Return the places of the items of each message; a `split` style has more messages."""
        made: list[list[int]] = []
        for n, said in enumerate(sent):
            before = sent[n - 1] if n else None
            if before is not None and self._is_joined(before, said, joins_outputs=joins_outputs):
                made[-1].append(n)
            else:
                made.append([n])
        return made

    def _is_joined(self, before: Said, said: Said, *, joins_outputs: bool) -> bool:
        if self.style == "split" and before.kind == "M":
            return False
        if said.kind in "MC":
            return before.kind in "MC" and before.response == said.response
        return joins_outputs and said.kind == before.kind == "O"


def text_of(said: Said) -> str:
    """Return the text of a message of the model."""
    (part,) = said.item["content"]
    text: str = part["text"]
    return text
