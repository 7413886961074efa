"""Requests that were sent before, through the running app: upstream sees the same input again."""

from typing import Any

from tests.core.world import call, message, nameless, output, reasoning, user
from tests.e2e.chats import Tenant, answered, injected, said

HELLO, DONE = "Hello, what may I do for you today?", "It is done, and all of the tests pass."
NOTE = {"role": "developer", "content": "Keep it short."}


async def test_a_later_twin_changes_nothing_that_upstream_saw(tenant: Tenant) -> None:
    """It catches up with the first conversation, which then goes on."""
    told, twin = [user("Hi")], [user("Hi")]
    await answered(tenant, told, "1", HELLO)
    told.append(user("Port it."))
    await answered(tenant, told, "2", DONE)
    seen = [user("Hi"), injected("1"), said(HELLO), user("Port it.")]

    await answered(tenant, twin, "3", HELLO)
    twin.append(user("Port it."))
    assert await answered(tenant, twin, "4", DONE) == seen
    assert (await tenant.ask([*told, user("Thanks.")]))[: len(seen)] == seen


async def test_a_request_under_another_clock_is_answered_as_before(tenant: Tenant) -> None:
    """A later turn of the conversation says the same as its first one."""
    told = [user("Hi")]
    await answered(tenant, told, "1", HELLO)
    told.append(user("Hi"))
    first = await tenant.ask(told, reasoning("2"), message("2", DONE), instructions="It is 9.")
    await tenant.ask(
        [*told, said(DONE), user("Hi")],
        reasoning("3"),
        message("3", HELLO),
        instructions="It is 10.",
    )

    again = await tenant.ask(told, reasoning("4"), message("4", "Hm."), instructions="It is 10.")
    assert again == first == [user("Hi"), injected("1"), said(HELLO), user("Hi")]


async def test_a_second_answer_to_the_same_request_leaves_the_first_as_it_was(
    tenant: Tenant,
) -> None:
    """The client sends a history that ends with an answer, and drops the text before a call."""
    told = [user("Hi")]
    await answered(tenant, told, "1", HELLO)
    deed = call("2", call_id="call_0")
    seen = await tenant.ask(told, reasoning("2"), message("2", DONE), deed)
    after = [*told, nameless(deed), output(deed, "ok")]

    assert (await tenant.ask(after))[: len(seen)] == seen


async def test_a_window_that_begins_like_another_conversation_is_ambiguous(
    tenant: Tenant,
) -> None:
    """The same question and answer stand in the middle of a third conversation."""
    ask: Any = user("Please deploy the service, and tell me when it is up.")
    await answered(tenant, [ask], "first", DONE)
    told = [user("Please port the package."), said(HELLO), ask]
    await answered(tenant, told, "middle", DONE)

    window = [ask, said(DONE), user("Thanks.")]
    assert await tenant.ask(window) == window


async def test_a_note_within_a_turn_does_not_part_it(tenant: Tenant) -> None:
    """The client rewrites the text before a call, and adds a note after it."""
    deed = call("1", call_id="call_Xk93bFq27LmZp0aD")
    await tenant.ask([user("Port it.")], reasoning("1"), message("1", DONE), deed)
    told = [user("Port it."), said("Done!"), NOTE, nameless(deed), output(deed, "ok")]

    assert await tenant.ask(told) == [told[0], injected("1"), *told[1:]]
