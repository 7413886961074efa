"""Weak texts, through the running app: a text without certain ids needs a second evidence."""

import pytest

from tests.core.world import Item, call, message, nameless, output, reasoning, user
from tests.e2e.chats import Tenant, answered, injected, said

REFUSAL = (
    "I'm sorry, but I can't help with that request. If there is anything else that you would like"
    " to know, please ask."
)
NOTE = {"role": "developer", "content": "Keep it short."}


async def test_a_refusal_of_another_conversation_is_not_injected(tenant: Tenant) -> None:
    """The own refusal went past the proxy, and the users asked for different things."""
    await answered(tenant, [user("How do I set up wifi?")], "other", REFUSAL)
    told = [user("How do I break into a house?"), said(REFUSAL), user("Why not?")]

    assert await answered(tenant, told, "1", "Someone would be harmed by it.") == told[:3]
    seen = await tenant.ask([*told, user("I see.")])
    assert seen == [*told[:3], injected("1"), told[3], user("I see.")]


async def test_an_earlier_refusal_does_not_explain_a_later_one(tenant: Tenant) -> None:
    """The later one is lost; both answer "continue"."""
    told = [user("continue")]
    await answered(tenant, told, "1", REFUSAL)
    told += [user("continue"), said(REFUSAL), user("continue")]

    assert await tenant.ask(told) == [told[0], injected("1"), *told[1:]]


async def test_a_turn_that_lacks_a_part_does_not_win_by_an_equal_history(tenant: Tenant) -> None:
    """The window begins like another conversation, whose turn said more."""
    done = "The file is ported, and all of its tests pass."
    both = [message("a", "I start now."), reasoning("b"), message("b", done)]
    await tenant.ask([user("continue")], reasoning("a"), *both)
    told = [user("Port the package.")]
    await answered(tenant, told, "0", "I have begun.")
    told.append(user("continue"))
    await answered(tenant, told, "own", done)

    seen = await tenant.ask([*told[2:], user("deploy")])
    assert seen == [user("continue"), injected("own"), said(done), user("deploy")]


async def test_the_same_text_twice_in_one_answer_gets_each_reasoning_once(tenant: Tenant) -> None:
    """A note of the developer follows each message."""
    told, text = [user("Say it twice.")], "This is a long sentence that is in one answer twice."
    both = [message("1", text), reasoning("2"), message("2", text)]
    await tenant.ask(told, reasoning("1"), *both)

    seen = await tenant.ask([*told, said(text), NOTE, said(text), NOTE, user("Thanks.")])
    rest = [injected("2"), said(text), NOTE, user("Thanks.")]
    assert seen == [*told, injected("1"), said(text), NOTE, *rest]


@pytest.mark.parametrize("greeting", ["Hello!", REFUSAL])
async def test_a_greeting_of_the_application_gets_no_reasoning(
    tenant: Tenant, greeting: str
) -> None:
    """The model once said the same elsewhere, and was asked something else then."""
    theirs = [user("Hi there.")]
    await answered(tenant, theirs, "other", greeting)
    theirs.append(user("I have lost my key."))
    await answered(tenant, theirs, "more", "Then call a locksmith, who will open the door.")
    told = [said(greeting), user("I need help with my taxes.")]

    assert await answered(tenant, told, "own", "Taxes are due in May.") == told[:2]
    seen = await tenant.ask([*told, user("Thanks.")])
    assert seen == [*told[:2], injected("own"), told[2], user("Thanks.")]


async def test_a_chat_that_keeps_final_texts_only_gets_the_reasoning_of_each(
    tenant: Tenant,
) -> None:
    """The rounds with calls are dropped; each final text answers the message of its round."""
    kept, whole = list[Item](), list[Item]()
    for n, text in enumerate(("It is sunny.", REFUSAL, REFUSAL)):
        asked = user(f"How is the weather in city number {n}?")
        deed = call(f"deed{n}", call_id="call_0")
        assert await tenant.ask([*kept, asked], reasoning(f"d{n}"), deed) == [*whole, asked]
        loop = [nameless(deed), output(deed)]
        final = reasoning(f"{n}"), message(f"{n}", text)
        seen = await tenant.ask([*kept, asked, *loop], *final)
        assert seen == [*whole, asked, injected(f"d{n}"), *loop]
        kept += [asked, said(text)]
        whole += [asked, injected(f"{n}"), said(text)]

    late = user("Thanks.")
    assert await tenant.ask([*kept, late]) == [*whole, late]
