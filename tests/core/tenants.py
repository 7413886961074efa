"""Tenants: the clients of a key without ids and reasoning, through the core."""

from collections import defaultdict
from collections.abc import Callable
from typing import Any

from tests.core.world import Item, World, body, dropped, message, nameless, reasoning


class Tenant:
    """The clients of one key, or of several."""

    def __init__(self) -> None:
        self._worlds: dict[str, World] = defaultdict(World)

    def ask(
        self, sent: list[Item], *emitted: Item, key: str = "", session: str = "", **more: object
    ) -> list[Item]:
        """Send a history, answer it, and return the input that upstream received."""
        more |= {"prompt_cache_key": session} if session else {}
        data = body(sent, store=False, **more)
        seen = self._worlds[key].seen(data)
        self._worlds[key].learn(data, emitted)
        return seen


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

    def go_on(
        self,
        *emitted: Item,
        change: Callable[[list[Item]], list[Item]] = list,
        session: str = "",
        **more: Any,
    ) -> list[Item]:
        """
        Send the history, after `change`, and add the response to it.

        Asserts that upstream receives all reasoning.
        """
        seen = self._tenant.ask(change(self.told), *emitted, session=session, **more)
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


def answered(tenant: Tenant, told: list[Item], name: str, text: str) -> list[Item]:
    """Answer a history, add the answer to it, and return what upstream received."""
    seen = tenant.ask(told, reasoning(name), message(name, text))
    told.append(said(text))
    return seen
