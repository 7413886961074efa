"""Acts: what clients, the upstream, the store and its operators do on a stage."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from tests.web.line import line_to
from tests.web.pipeline.stage import (
    CLIENTS_MAX,
    OTHER_MODEL,
    RESPONSES,
    Item,
    Stage,
    calls_of,
    thought_of,
    user,
)


@dataclass(frozen=True)
class Act:
    """A step of a story, with a readable repr."""

    name: str
    args: tuple[Any, ...] = ()

    async def __call__(self, stage: Stage) -> None:
        """Do it."""
        done = ACTS[self.name](stage, *self.args)
        if asyncio.iscoroutine(done):
            await done

    def __repr__(self) -> str:
        return f"act({', '.join(map(repr, (self.name, *self.args)))})"


def act(name: str, *args: Any) -> Act:
    """Return a step."""
    return Act(name, args)


async def ask(s: Stage, who: int, replica: int = 0, kind: str = "call") -> None:
    """Send the history; keep the response, and say something if it was a text."""
    client = s.client(who)
    turn = await s.exchange(client, replica, kind)
    if turn is not None:
        client.history.append(turn)
        if not calls_of(turn):
            client.history.append(user(f"Go on after {len(client.history)}, please."))


async def lose(s: Stage, who: int, replica: int = 0, kind: str = "call") -> None:
    """Send the history; the response is lost."""
    await s.exchange(s.client(who), replica, kind)


async def count(s: Stage, who: int, replica: int = 0) -> None:
    """Count the tokens of the same body."""
    await s.exchange(s.client(who), replica, "text", RESPONSES + "/input_tokens")


async def stranger(s: Stage, who: int, replica: int = 0) -> None:
    """Let another tenant send the same body."""
    await s.exchange(replace(s.client(who), tenant="b"), replica)


def fork(s: Stage, who: int, tenant: str = "") -> None:
    """Go on as two clients, the second one perhaps of another tenant."""
    client = s.client(who).fork()
    client.tenant = tenant or client.tenant
    if len(s.clients) < CLIENTS_MAX:
        s.clients.append(client)


def have(s: Stage, who: int, name: str, value: Any) -> None:
    """Set an attribute of a client."""
    setattr(s.client(who), name, value)


def say(s: Stage, who: int, name: str, value: Any) -> None:
    """Set a member of the body; None: remove it."""
    client = s.client(who)
    client.more.pop(name, None)
    value = OTHER_MODEL if value == "other" else value
    if value is not None:
        client.more[name] = value


def head(s: Stage, who: int, name: str, value: str) -> None:
    """Set a header."""
    s.client(who).headers[name] = value


def add(s: Stage, who: int, at: int, entry: Item | str) -> None:
    """Insert an entry; -1: at the end."""
    history = s.client(who).history
    history.insert(len(history) if at == -1 else at % (len(history) + 1), entry)


def remove(s: Stage, who: int, at: int) -> None:
    """Remove one entry, if another stays."""
    history = s.client(who).history
    if len(history) > 1:
        del history[at % len(history)]


def cut(s: Stage, who: int, size: int) -> None:
    """Cut the start off, as a window does."""
    history = s.client(who).history
    del history[: min(size, len(history) - 1)]


def back(s: Stage, who: int, size: int) -> None:
    """Go back, as an edit of an older message does."""
    history = s.client(who).history
    del history[max(1, len(history) - size) :]


def swap(s: Stage, who: int, at: int) -> None:
    """Swap two entries."""
    history = s.client(who).history
    if len(history) > 1:
        at %= len(history) - 1
        history[at], history[at + 1] = history[at + 1], history[at]


def double(s: Stage, who: int, at: int) -> None:
    """Send an entry twice."""
    history = s.client(who).history
    history.append(history[at % len(history)])


def steal(s: Stage, who: int, whose: int) -> None:
    """Continue with the newest turn of another client."""
    s.client(who).history += s.client(whose).turns[-1:]


def take(s: Stage, who: int, whose: int) -> None:
    """Take in turns of another client, as an orchestrator takes in those of an agent."""
    s.client(who).history += s.client(whose).turns


def fail(s: Stage, how: str) -> None:
    """Let the next exchange fail this way."""
    s.fault = how


def refuse(s: Stage, who: int, at: int) -> None:
    """Let the upstream refuse the reasoning of a turn from now on."""
    turns = s.client(who).turns
    if turns:
        s.refused.add(thought_of(turns[at % len(turns)]))


def accept(s: Stage) -> None:
    """Let the upstream accept everything again."""
    s.refused.clear()


async def delete(s: Stage, replica: int, which: int | None) -> None:
    """Delete one conversation, or all, by the admin port."""
    app = s.apps[replica % len(s.apps)]
    page = await app.store.survey(None, "", 1000)
    found = sorted(page.conversations, key=lambda one: (one.scope, one.turns, one.turn_bytes))
    if which is not None:
        found = found[which % len(found) :][:1] if found else []
    for one in found:
        target = f"/conversations/{one.scope.hex()}:{one.conversation.hex()}"
        async with line_to(app.admin_url) as line:
            got = await line.ask(f"DELETE {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            assert got.status == 200


async def restart(s: Stage, replica: int) -> None:
    """Restart a replica of a store that outlives it."""
    if len(s.apps) > 1:
        await s.start(replica % len(s.apps))


ACTS: Final[dict[str, Callable[..., Any]]] = {
    one.__name__: one
    for one in (
        *(ask, lose, count, stranger, fork, have, say, head, add, remove, cut, back, swap),
        *(double, steal, take, fail, refuse, accept, delete, restart),
    )
}
