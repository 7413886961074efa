"""
Chats of one tenant through a running proxy.

The clients drop reasoning, and the upstream is scripted.
"""

import itertools
from collections.abc import Callable
from typing import Any

from reasoning_replay.core.history.turns import turn_id

from tests.core.world import Item, drawn, dropped, message, nameless, reasoning
from tests.web.wire import events, stream
from tests.web.world import World

__all__ = ["Chat", "Replicas", "Tenant", "answered", "injected", "said"]


class Tenant:
    """The clients of one key, and an upstream with scripted responses."""

    def __init__(self, proxy: World) -> None:
        self._proxy = proxy
        self._responses = 0

    async def ask(
        self, sent: list[Item], *emitted: Item, key: str = "sk-a", session: str = "", **more: object
    ) -> list[Item]:
        """Send a history, answer it, and return the input that upstream received."""
        self._responses += 1
        response_id = f"resp_{drawn(self._responses)}"
        self._proxy.upstream.answers(stream(events(*emitted, rid=response_id)))
        headers = [f"Authorization: Bearer {key}", "Content-Type: application/json"]
        if session:
            headers.append(f"session-id: {session}")
        top = {"model": "gpt-5.4", "input": sent, "store": False, "stream": True}
        assert (await self._proxy.post(top | more, *headers)).status == 200
        seen: list[Item] = self._proxy.sent()["input"]
        return seen

    async def forget(self, number: int) -> None:
        """Delete a conversation by its number, in the order of their starts."""
        store = self._proxy.app.store
        page = await store.survey(None, "", 100)
        begun = [(one.scope, one.conversation) for one in page.conversations]
        ids = [turn_id(f"resp_{drawn(n)}") for n in range(1, self._responses + 1)]
        begun.sort(key=lambda one: ids.index(one[1]))
        assert await store.forget(*begun[number])


class Replicas(Tenant):
    """The clients of one key, whose requests go to each proxy in turn."""

    def __init__(self, *proxies: World) -> None:
        super().__init__(proxies[0])
        self._turn = itertools.cycle(proxies)

    async def ask(self, sent: list[Item], *emitted: Item, **more: Any) -> list[Item]:
        """Send a history to the next proxy, and return the input that upstream received."""
        self._proxy = next(self._turn)
        return await super().ask(sent, *emitted, **more)


class Chat:
    """
    A conversation of a client that drops reasoning and ids.

    Attributes:
        told: The history as the client keeps it.
        whole: The same history with all reasoning that was emitted.
    """

    def __init__(self, tenant: Tenant, *opening: Item) -> None:
        self._tenant = tenant
        self.told = [*opening]
        self.whole = [*opening]

    def add(self, *items: Item) -> None:
        """Add items of the client."""
        self.told += items
        self.whole += items

    async def go_on(
        self, *emitted: Item, change: Callable[[list[Item]], list[Item]] = list, **more: Any
    ) -> list[Item]:
        """
        Send the history, after `change`, and add the response to it.

        Asserts that upstream receives all reasoning.
        """
        seen = await self._tenant.ask(change(self.told), *emitted, **more)
        assert seen == change(self.whole)
        kept = list(map(nameless, emitted))
        self.told += dropped(kept)
        self.whole += kept
        return seen


def injected(name: str) -> Item:
    """Return reasoning as upstream receives it before an item without an id."""
    return nameless(reasoning(name))


def said(text: str) -> Item:
    """Return a message of the model as a client without ids sends it."""
    return nameless(message("", text))


async def answered(tenant: Tenant, told: list[Item], name: str, text: str) -> list[Item]:
    """Answer a history, add the answer to it, and return what upstream received."""
    seen = await tenant.ask(told, reasoning(name), message(name, text))
    told.append(said(text))
    return seen
