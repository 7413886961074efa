"""
Chats of one tenant through a running proxy.

The clients drop reasoning, and the upstream is scripted.
"""

import itertools
from typing import Any

from reasoning_replay.core.history.turns import turn_id

from tests.core.world import Item, drawn, injected, said
from tests.web.wire import events, stream
from tests.web.world import World

__all__ = ["Replicas", "Tenant", "injected", "said"]


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
