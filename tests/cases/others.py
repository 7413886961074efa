"""
Cases of the other dialects than Responses: what upstream emits, and what a client makes of it.

Their files are in the folder `others`, each named after its dialect. Every dialect has a test file
of its own, which reads its cases and says what is right.
"""

import contextlib
import json
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

import aiohttp
from reasoning_replay.strict_api import DIALECTS, Item, Script, StrictApi
from reasoning_replay.strict_api.binding import is_reasoning
from reasoning_replay.strict_api.dialect import Dialect, Reading
from reasoning_replay.strict_api.ledger import Judgement, Part
from reasoning_replay.wires import WIRES

from tests.cases.reading import root
from tests.e2e.proxies import proxied
from tests.strict_api.scripted import MODELS, TOOL

__all__ = ["Case", "Played", "Session", "Way", "read", "read_all", "session"]

Way = Literal["straight", "proxied", "replicas"]
KEY: Final = {"Authorization": "Bearer sk-cases"}
_PROFILE: Final = re.compile(r"\bProfile (\w+)\.")
# How the model's message becomes the content of an answer.
_ANSWERED: Final[Mapping[str, Callable[[Item, Item], Item]]] = {
    "chat": lambda answer, said: {"choices": [{**answer["choices"][0], "message": said}]},
    "messages": lambda _, said: {"content": said["content"]},
    "gemini": lambda answer, said: {"candidates": [{**answer["candidates"][0], "content": said}]},
}


class Case(NamedTuple):
    """
    One case.

    Attributes:
        name: Its file, without the folder and the ending.
        dialect: The dialect that it is in.
        profile: The profile of the proxy.
        file: The members of its file.
    """

    name: str
    dialect: str
    profile: str
    file: Item


class Played(NamedTuple):
    """
    What a client got for one request.

    Attributes:
        status: The HTTP status.
        mark: The proxy's response header; "" without the proxy.
        received: The histories that upstream received for it.
    """

    status: int
    mark: str
    received: list[list[Item]]


class Session(NamedTuple):
    """One client, and what it talks to: the upstream itself, or one or two proxies in turn."""

    dialect: str
    upstream: StrictApi
    urls: list[str]

    async def ask(self, *history: Item, **more: Any) -> Played:
        """Send a history, with more members or others."""
        wire, model = WIRES[self.dialect], more.pop("model", MODELS[self.dialect])
        body = {**wire.request(model, list(history), TOOL), **more}
        before = len(self.upstream.received)
        url = self.urls[len(self.upstream.exchanges) % len(self.urls)] + wire.path_of(model)
        async with (
            aiohttp.ClientSession(headers={**KEY, **wire.headers}) as client,
            client.post(url, json=body) as response,
        ):
            await response.read()
            mark = response.headers.get("x-reasoning-replay", "")
        return Played(response.status, mark, list(self.upstream.received)[before:])


def read_all(dialect: str) -> list[str]:
    """Return the names of the cases of a dialect; none if there is no folder of cases."""
    folder = root("others")
    return sorted(one.stem for one in folder.glob(f"{dialect}_*.json")) if folder else []


def read(name: str) -> Case:
    """Read a case."""
    folder = root("others")
    assert folder is not None
    file = json.loads((folder / f"{name}.json").read_text())
    found = _PROFILE.search(file["about"])
    return Case(name, name.partition("_")[0], found[1] if found else "generic", file)


@contextlib.asynccontextmanager
async def session(
    case: Case, emitted: Sequence[Item], way: Way, redis_url: str = "memory://", **settings: Any
) -> AsyncIterator[Session]:
    """
    Run the strict API of a case and, unless the way is straight, what is in front of it.

    Args:
        case: The case.
        emitted: The messages of the model, in order; after them, it answers from its script.
        way: The way to upstream.
        redis_url: The store of two replicas.
        settings: More settings of the proxies.
    """
    more = {"upstream_profile": case.profile, **settings}
    async with contextlib.AsyncExitStack() as stack:
        upstream = await stack.enter_async_context(StrictApi(_emitting(case.dialect, emitted)))
        urls = [upstream.base_url]
        if way != "straight":
            count, store = (2, redis_url) if way == "replicas" else (1, "memory://")
            proxies = [proxied(upstream, store, **more) for _ in range(count)]
            urls = [await stack.enter_async_context(one) for one in proxies]
        yield Session(case.dialect, upstream, urls)


def _emitting(dialect: str, emitted: Sequence[Item]) -> Dialect:
    """Return the strict API of a dialect, whose first answers have these messages."""
    left = list(emitted)
    base: Any = DIALECTS[dialect]

    class Emitting(base):  # type: ignore[misc] # one of several classes
        def answer(
            self, body: Item, reading: Reading, judgement: Judgement
        ) -> tuple[Item, list[Part]]:
            answer, said = super().answer(body, reading, judgement)
            if not left:
                return answer, said
            message = left.pop(0)
            if dialect == "messages":  # its own blocks, as those that it makes itself
                content = message["content"]
                for at, block in enumerate(content, 1):
                    if is_reasoning(block):
                        self.bindings.keep(block["signature"], body, content[:at])
            parts = self.read({self.history: [message]}).parts
            return {**answer, **_ANSWERED[dialect](answer, message)}, parts

    made: Dialect = Emitting(Script(is_marked=True))
    return made
