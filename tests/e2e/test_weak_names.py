"""Weak names, through the running app: ids that recur are no proof, in one proxy and in two."""

import contextlib
from collections.abc import AsyncIterator
from itertools import cycle
from typing import Any

import pytest
from reasoning_replay.settings.model import Settings
from reasoning_replay.web.app import running

from tests.core.world import Item, call, dropped, message, nameless, output, reasoning, user
from tests.e2e.chats import Tenant, injected, said
from tests.web.line import Answer
from tests.web.world import World, world

RECURRING = "call_a8K2mPqZ7Lx93Qw5Rt61Vb4c"
LATE = user("Is that all?")
LOOK = "Let me look."
SECRET = "one for all replicas"


class Replicas(World):
    """Two proxies on one store that take turns."""

    def __init__(self, one: World, *others: World) -> None:
        super().__init__(one.app, one.upstream)
        self._apps = cycle([each.app for each in (one, *others)])

    async def ask(self, data: bytes) -> Answer:
        """Send bytes to the proxy whose turn it is."""
        self.app = next(self._apps)
        return await super().ask(data)


@pytest.fixture
async def tenant(store: dict[str, Any]) -> AsyncIterator[Tenant]:
    """A tenant of one proxy in memory, or of two on Redis."""
    async with contextlib.AsyncExitStack() as stack:
        one = await stack.enter_async_context(world(**store, scope_secret=SECRET))
        others = []
        if store["store_url"] != "memory://":
            given = store | {"scope_secret": SECRET, "upstream_url": one.upstream.url + "/v1"}
            ports = dict.fromkeys(("listen", "admin_listen"), "127.0.0.1:0")
            more = Settings(**given, **ports, store_budget_ms=5000)
            others.append(World(await stack.enter_async_context(running(more)), one.upstream))
        yield Tenant(Replicas(one, *others))


class Talk:
    """A conversation of a client that drops reasoning, and all ids of items if it does not keep."""

    def __init__(self, tenant: Tenant, name: str, *, keeps_ids: bool) -> None:
        self._tenant, self._name, self._keeps_ids = tenant, name, keeps_ids
        self._whole = [user(f"What is the weather in the city {name}?")]
        self._turns = self.restored = self.due = 0

    async def go_on(self) -> None:
        """Send the history; all that upstream gets is at its place. Add a response and a reply."""
        told = dropped(self._whole)
        name, calls = f"{self._name}.{self._turns}", not self._turns
        arguments = f'{{"city":"{self._name}"}}'
        deed = call(name, call_id=RECURRING, arguments=arguments) if calls else message(name, LOOK)
        seen = await self._tenant.ask(told, reasoning(name), deed)

        assert seen == [item for item in self._whole if item in seen]
        assert dropped(seen) == told
        self.restored += len(seen) - len(told)
        self.due += len(self._whole) - len(told)
        self._turns += 1
        kept = [reasoning(name), deed] if self._keeps_ids else [injected(name), nameless(deed)]
        self._whole += [*kept, output(deed) if calls else user("And now?")]


@pytest.mark.parametrize("keeps_ids", [True, False], ids=["ids-kept", "ids-dropped"])
@pytest.mark.parametrize("number", [7, 10, 50])
async def test_a_call_id_of_many_conversations(
    tenant: Tenant, number: int, *, keeps_ids: bool
) -> None:
    """
    Conversations with a common `call_id` get their own reasoning, and all of it if ids are kept.

    The ids of the other items are random. One conversation begins a request earlier than the
    others, so a proxy may hold a copy of it alone.
    """
    talks = [Talk(tenant, f"{n}", keeps_ids=keeps_ids) for n in range(number)]
    await talks[0].go_on()
    for _ in range(3):
        for talk in talks:
            await talk.go_on()

    assert not keeps_ids or [talk.restored for talk in talks] == [talk.due for talk in talks]


ROME, CLEAN = user("What is the weather in Rome?"), user("Clean up the disk.")
THEIRS = call("theirs", call_id=RECURRING, arguments='{"path":"/tmp/of/another/client"}')
ELSE = {"arguments": '{"path":"/"}'}
UNKNOWN = {
    "other-arguments": nameless(THEIRS | ELSE),
    "other-arguments-and-id": call("mine", call_id=RECURRING, **ELSE),
    "another-id": THEIRS | {"id": call("mine")["id"]},
}


@pytest.mark.parametrize("mine", UNKNOWN.values(), ids=list(UNKNOWN))
async def test_a_call_id_that_something_contradicts_is_no_proof(tenant: Tenant, mine: Item) -> None:
    """After another message, other arguments or another id of upstream's mean another call."""
    await tenant.ask([ROME], reasoning("theirs"), THEIRS)
    told = [CLEAN, mine, output(mine)]

    assert await tenant.ask(told, reasoning("1"), message("1", LOOK)) == told
    again = [*told, message("1", LOOK), LATE]
    assert await tenant.ask(again) == [*told, reasoning("1"), *again[3:]]


@pytest.mark.parametrize(
    "call_id", ["call_20261123T031903Z", "call_websearch1", "call_step12ab", "step_run1763867983"]
)
async def test_counters_and_times_with_letters_are_no_proof(tenant: Tenant, call_id: str) -> None:
    """They recur, so the same arguments after another message are of another call."""
    theirs = call("theirs", call_id=call_id)
    await tenant.ask([ROME], reasoning("theirs"), theirs)
    told = [CLEAN, nameless(theirs), output(theirs)]

    assert await tenant.ask(told) == told


async def test_ids_that_follow_from_the_content_are_no_proof(tenant: Tenant) -> None:
    """One that two turns share shows it, so an id that only one turn has is no proof either."""
    told = [ROME]
    for name, words in (("1", "Done."), ("2", "Done."), ("3", "Sunny.")):
        made = message(words, words)
        await tenant.ask(told, reasoning(name), made)
        told += [made, user(f"And {name}?")]
    mine = [CLEAN, message("Sunny.", "Sunny."), LATE]

    assert await tenant.ask(mine) == mine


async def test_of_names_that_recur_another_content_is_another_call(tenant: Tenant) -> None:
    """The last output before it is the same short one, and the own call is unknown."""
    one, two = call("1", call_id=RECURRING), call("2", call_id="call_Xk93bFq27LmZp0aD")
    for start, name in ((ROME, "a"), (CLEAN, "b")):
        first = call(f"{name}1", call_id=RECURRING, arguments=f'{{"of":"{name}"}}')
        await tenant.ask([start], reasoning(f"{name}1"), first)
        if name == "a":
            told = [start, nameless(first), output(first, "ok")]
            await tenant.ask(told, reasoning("a2"), two | {"arguments": '{"of":"a"}'})
    mine = nameless(two | {"arguments": '{"of":"b, which is another one"}'})
    told = [CLEAN, nameless(one), output(one, "ok"), mine, output(mine, "ok")]

    assert injected("a2") not in await tenant.ask(told)


ARGUMENTS = '{"path":"/tmp/of/another/client","force":null}'


@pytest.mark.parametrize("keeps_ids", [True, False], ids=["id-rotates", "ids-dropped"])
async def test_an_own_call_is_matched_whatever_its_arguments(
    tenant: Tenant, *, keeps_ids: bool
) -> None:
    """A client completes arguments, and GitHub Copilot changes item ids; its history agrees."""
    await tenant.ask([ROME], reasoning("1"), THEIRS)
    mine = call("mine", call_id=RECURRING, arguments=ARGUMENTS)
    mine = mine if keeps_ids else nameless(mine)

    seen = await tenant.ask([ROME, mine, output(mine)])
    assert dropped(seen) == [ROME, mine, output(mine)]
    assert [item.get("encrypted_content") for item in seen] == [None, "gAAAA1", None, None]


@pytest.mark.parametrize("is_first_lost", [False, True], ids=["both-known", "first-lost"])
@pytest.mark.parametrize("words", [LOOK, "Let me look at all of the files of this project first."])
async def test_two_answers_running_with_the_same_words(
    tenant: Tenant, words: str, *, is_first_lost: bool
) -> None:
    """The message directly before a call is of its turn, and the other one of the turn before."""
    key = "sk-old" if is_first_lost else "sk-a"
    deed = call("2")
    await tenant.ask([ROME], reasoning("1"), message("1", words), key=key)
    first = [ROME, *([] if is_first_lost else [injected("1")]), said(words)]
    told = [ROME, said(words)]
    assert await tenant.ask(told, reasoning("2"), message("2", words), deed) == first

    told += [said(words), nameless(deed), output(deed)]
    whole = [*first, injected("2"), *told[2:]]
    assert await tenant.ask(told, reasoning("3"), message("3", "Done.")) == whole
    again = [*told, said("Done."), LATE]
    assert await tenant.ask(again) == [*whole, injected("3"), *again[5:]]
