"""
Client wire: what a request and an answer of one API look like to a client, as data.

`check --prove` and the demo are such clients. They keep all but the reasoning: items of other
types, the members that an SDK declares, and other blocks. Each dialect has its own in `client`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple
from urllib.parse import quote

Item = dict[str, Any]

MODEL: Final = "{model}"  # stands for the model in a path


class Reply(NamedTuple):
    """
    What a client reads of an answer.

    Attributes:
        said: The items or messages of the answer.
        kept: The same without the reasoning.
        calls: Ids of the calls of its tools, or what else a result must repeat of each.
        sealed: For each reasoning item, whether it is encrypted or signed.
    """

    said: list[Item]
    kept: list[Item]
    calls: list[str]
    sealed: list[bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """
    The wire format of one dialect.

    Attributes:
        path: Path of its requests, after the base URL; MODEL in it stands for the model.
        history: Member of a request that has the history.
        tool: Returns the entry of `tools` for a function.
        results: Returns the results of calls, all with one text.
        read: Reads a JSON answer; raises an error of lookup or type if it has another form.
        says: Returns a text of the user.
        demanded: Returns further members that each request for a model must have.
        stateless: Members of a request of which the API shall store nothing.
        headers: Headers of each request, which every client of the API sends.
    """

    path: str
    history: str
    tool: Callable[[Item], Item]
    results: Callable[[Sequence[str], str], list[Item]]
    read: Callable[[Item], Reply]
    says: Callable[[str], Item] = lambda text: {"role": "user", "content": text}
    demanded: Callable[[str], Mapping[str, Any]] = lambda _: {}
    stateless: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)

    def path_of(self, model: str) -> str:
        """Return the path of requests to a model."""
        return self.path.replace(MODEL, quote(model, safe=""))

    def request(self, model: str, history: list[Item], *functions: Item) -> Item:
        """Return the body of a request with a history; the model may call these functions."""
        named = {} if MODEL in self.path else {"model": model}
        tools = [self.tool(function) for function in functions]
        return {**named, self.history: history, "tools": tools, **self.demanded(model)}


def only(given: Item, names: Iterable[str]) -> Item:
    """Return the members that have one of these names."""
    return {name: given[name] for name in names if name in given}
