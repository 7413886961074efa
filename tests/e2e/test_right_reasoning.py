"""The right reasoning, through the running app: the exact input that upstream receives."""

from typing import Any

from tests.core.world import (
    Item,
    call,
    message,
    nameless,
    output,
    reasoning,
    user,
)
from tests.e2e.chats import Tenant, injected, said
from tests.web.world import world

HI, HELLO = user("Hi"), "Hello!"
WEATHER = user("Weather?")
LATE = user("Is that all?")


async def test_an_ambiguous_turn_stays_so_when_the_other_conversation_is_deleted(
    tenant: Tenant,
) -> None:
    """
    An ambiguous turn stays without reasoning when the other conversation is deleted.

    The next turn records that upstream received nothing there.
    """
    told = [HI, said(HELLO), WEATHER]
    await tenant.ask([HI], reasoning("1"), message("1", HELLO))
    await tenant.ask([HI], reasoning("x"), message("x", HELLO))
    assert await tenant.ask(told, reasoning("2"), message("2", "Rain.")) == told
    await tenant.forget(1)
    seen = await tenant.ask([*told, said("Rain."), LATE])
    assert seen == [*told, injected("2"), said("Rain."), LATE]


async def test_a_session_header_selects_the_conversation_of_a_truncated_history(
    tenant: Tenant,
) -> None:
    """
    A session header selects its conversation over one that began with the words at the cut.

    No call proves the conversation, so all candidates with the same words are compared.
    """
    asks, says = user("Go on with the next file."), "The next file is ported, and its tests pass."
    begun = "I have begun, and the first file is ported."
    await tenant.ask([asks], reasoning("twin"), message("twin", says), session="twin")
    told = [user("Port the whole package."), said(begun), asks, said(says), asks]
    await tenant.ask(told[:1], reasoning("0"), message("0", begun), session="mine")
    await tenant.ask(told[:3], reasoning("1"), message("1", says), session="mine")

    seen = await tenant.ask(told[2:], session="mine")
    assert seen == [asks, injected("1"), said(says), asks]


BOUND = 30


async def test_a_conversation_over_its_limit_is_trimmed_rarely(
    store: dict[str, Any],
) -> None:
    """
    A conversation over its limit is trimmed to nine tenths, so its prefix changes rarely.

    The oldest reasoning is removed, several turns at once.
    """
    moves, before = 0, list[Item]()
    async with world(**store, conversation_max_turns=BOUND) as proxy:
        tenant = Tenant(proxy)
        told, whole = [user("Do it.")], [user("Do it.")]
        for n in range(3 * BOUND):
            deed = call(f"{n}")
            seen = await tenant.ask(told, reasoning(f"{n}"), deed)
            oldest = [injected(f"{m}") for m in range(len(whole) - len(seen))]
            assert seen == [item for item in whole if item not in oldest]
            assert n - len(oldest) >= min(n, BOUND * 9 // 10)
            moves += seen[: len(before)] != before
            before = seen
            told += [nameless(deed), output(deed)]
            whole += [injected(f"{n}"), nameless(deed), output(deed)]
    assert 0 < moves <= 2 * BOUND // (BOUND // 10)
