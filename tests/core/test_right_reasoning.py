"""The right reasoning: the exact input that upstream receives."""

from functools import partial

import pytest

from tests.core.changes import window
from tests.core.tenants import Chat, Tenant, injected, said
from tests.core.world import (
    Item,
    call,
    dropped,
    message,
    nameless,
    output,
    reasoning,
    user,
)

GO_ON, HI, HELLO, DONE = user("continue"), user("Hi"), "Hello!", "Done."
WEATHER = user("Weather?")
LATE = user("Is that all?")

SESSIONS = pytest.mark.parametrize(
    ("mine", "other"), [("", ""), ("mine", "other")], ids=["no-sessions", "sessions"]
)


@pytest.fixture
def tenant() -> Tenant:
    """A tenant whose conversations share a store."""
    return Tenant()


# --- repeated words ---


@pytest.mark.parametrize("other_key", [False, True], ids=["past-the-proxy", "lost"])
def test_an_unknown_earlier_message_gets_no_reasoning_of_an_equal_later_one(
    tenant: Tenant, *, other_key: bool
) -> None:
    """
    If two messages are equal and only the later one is known, only that one gets reasoning.

    The earlier response went past the proxy, or its capture is lost.
    """
    if other_key:  # its capture cannot be found
        tenant.ask([GO_ON], reasoning("1"), message("1", DONE), key="sk-old")
    told = [GO_ON, said(DONE), GO_ON]
    assert tenant.ask(told, reasoning("2"), message("2", DONE)) == told

    seen = tenant.ask([*told, said(DONE), GO_ON], reasoning("3"), message("3", DONE))
    assert seen == [*told, injected("2"), said(DONE), GO_ON]
    again = tenant.ask([*told, said(DONE), GO_ON, said(DONE), LATE])
    assert again == [*seen, injected("3"), said(DONE), LATE]


@pytest.mark.parametrize("greeting", [HELLO, "Hello! How can I help you with your project today?"])
def test_a_greeting_of_the_client_gets_no_reasoning(tenant: Tenant, greeting: str) -> None:
    """A greeting that the client wrote gets no reasoning of a response with the same words."""
    told = [said(greeting), HI]
    assert tenant.ask(told, reasoning("1"), message("1", greeting)) == told

    seen = tenant.ask([*told, said(greeting), WEATHER], reasoning("2"), message("2", "Rain."))
    assert seen == [*told, injected("1"), said(greeting), WEATHER]
    again = tenant.ask([*told, said(greeting), WEATHER, said("Rain."), LATE])
    assert again == [*seen, injected("2"), said("Rain."), LATE]


# --- conversations that begin alike ---


def test_a_shared_first_message_gets_no_reasoning_of_a_later_turn(
    tenant: Tenant,
) -> None:
    """
    A first message that many conversations share gets no reasoning of a later turn.

    The call makes the later turn certain, but the first message may be of any of them.
    """
    for n in range(8):
        tenant.ask([HI], reasoning(f"x{n}"), message(f"x{n}", HELLO))
    told, deed = [HI, said(HELLO), HI], call("1")
    assert tenant.ask(told, reasoning("1"), message("1", HELLO), deed) == told

    rest = [said(HELLO), nameless(deed), output(deed)]
    seen = tenant.ask([*told, *rest], reasoning("2"), message("2", DONE))
    assert seen == [*told, injected("1"), *rest]
    again = tenant.ask([*told, *rest, said(DONE), LATE])
    assert again == [*seen, injected("2"), said(DONE), LATE]


# --- sliding windows ---


@SESSIONS
def test_a_truncated_history_with_a_call_matches_its_own_conversation(
    tenant: Tenant, mine: str, other: str
) -> None:
    """
    A truncated history matches its own conversation, not one that began with the words at the cut.

    A call in each window proves the conversation, and new turns are saved into it.
    """
    asks, says = "Go on with the next file.", "The next file is ported, and its tests pass."
    tenant.ask([user(asks)], reasoning("twin"), message("twin", says), session=other)
    chat = Chat(tenant)
    go_on = partial(chat.go_on, change=partial(window, kept=3), session=mine)
    for n in range(8):
        chat.add(user(asks if n else "Port the whole package."))
        if n % 2:
            deed = call(f"{n}")
            go_on(reasoning(f"{n}"), deed)
            chat.add(output(deed))
        go_on(reasoning(f"{n}+"), message(f"{n}+", says))
    chat.add(LATE)
    chat.go_on(session=mine)


@SESSIONS
@pytest.mark.parametrize("kept", [2, 3])
def test_a_truncated_history_matches_no_conversation_that_began_with_its_first_words(
    tenant: Tenant, kept: int, mine: str, other: str
) -> None:
    """
    A truncated history does not match a conversation that began with the short words at the cut.

    The call gets its reasoning; the short messages before it get their own or none.
    """
    tenant.ask([GO_ON], reasoning("twin"), message("twin", DONE), session=other)
    chat = Chat(tenant, user("Start the job."))
    for n in range(4):
        chat.go_on(reasoning(f"{n}"), message(f"{n}", DONE), session=mine)
        chat.add(GO_ON)
    deed = call("deed")
    chat.go_on(reasoning("deed"), deed, session=mine)
    chat.add(output(deed))

    seen = tenant.ask(window(chat.told, kept), session=mine)
    want = window(chat.whole, kept)
    assert seen == [item for item in want if item in seen]
    assert dropped(seen) == dropped(want)
    assert seen[-3:] == want[-3:]


# --- a message directly before a call ---


@pytest.mark.parametrize("is_mine_first", [True, False])
@pytest.mark.parametrize("words", ["Let me check.", "Let me check…"])
def test_a_message_before_a_call_belongs_to_the_turn_of_the_call(
    tenant: Tenant, words: str, *, is_mine_first: bool
) -> None:
    """
    A message directly before a call gets the reasoning of the call's turn.

    Another turn may have the same text, even after the client has rewritten it. Then it is not what
    the reasoning led to, and the call gets it.
    """
    mine, twin = call("mine"), call("twin")
    told = {
        "mine": [reasoning("mine"), message("mine", words), mine],
        "twin": [reasoning("twin"), message("twin", "Let me check."), twin],
    }
    for name in ("mine", "twin") if is_mine_first else ("twin", "mine"):
        tenant.ask([WEATHER], *told[name])
    rest = [said("Let me check."), nameless(mine), output(mine)]
    seen = tenant.ask([WEATHER, *rest], reasoning("2"), message("2", "Sunny."))
    at = 0 if words == "Let me check." else 1
    assert seen == [WEATHER, *rest[:at], injected("mine"), *rest[at:]]
    again = tenant.ask([WEATHER, *rest, said("Sunny."), LATE])
    assert again == [*seen, injected("2"), said("Sunny."), LATE]


# --- counted ids ---

COUNTED = [
    ("call_00000001", "fc_0000000000000001"),
    ("call_1700000000", "fc_1700000000"),
    ("call_0", "fc_0"),
]


@pytest.mark.parametrize("keeps_ids", [True, False])
@pytest.mark.parametrize(("call_id", "item_id"), COUNTED)
@pytest.mark.parametrize(("asks", "arguments"), [("Weather?", '{"in":"Oslo"}'), ("Files?", "{}")])
def test_a_counted_call_id_is_not_another_conversations_call(
    tenant: Tenant, asks: str, arguments: str, call_id: str, item_id: str, *, keeps_ids: bool
) -> None:
    """
    A counted `call_id` matches no other conversation with different arguments or history.

    A call that is known in its own conversation gets its reasoning.
    """
    theirs = call("1", call_id=call_id, id=item_id, arguments="{}")
    tenant.ask([WEATHER], reasoning("1"), theirs)
    mine = theirs | {"arguments": arguments}
    rest = [mine if keeps_ids else nameless(mine), output(mine)]
    told = [user(asks), *rest]
    assert tenant.ask(told) == told

    tenant.ask(told[:1], reasoning("2"), mine)
    own = reasoning("2") if keeps_ids else injected("2")
    assert tenant.ask(told) == [*told[:1], own, *rest]


@pytest.mark.parametrize("item_id", ["msg_0000000000000001", "msg_1700000000"])
def test_a_counted_message_id_is_not_another_conversations_message(
    tenant: Tenant, item_id: str
) -> None:
    """
    A counted message id matches no other conversation with a different text or history.

    A message that is known in its own conversation gets its reasoning.
    """
    rome, oslo = user("Weather in Rome?"), user("Weather in Oslo?")
    tenant.ask([rome], reasoning("1"), message("1", "It is sunny in Rome.", id=item_id))
    mine = message("2", "It rains in Oslo, and it will do so tomorrow.", id=item_id)
    assert tenant.ask([oslo, mine, LATE]) == [oslo, mine, LATE]

    tenant.ask([oslo], reasoning("2"), mine)
    assert tenant.ask([oslo, mine, LATE]) == [oslo, reasoning("2"), mine, LATE]


# --- `call_0` in every response ---


@pytest.mark.parametrize("is_cut", [False, True], ids=["own-turn-unknown", "head-cut"])
@pytest.mark.parametrize("keeps_ids", [True, False])
def test_call_0_after_the_same_preamble_is_not_another_conversations_call(
    tenant: Tenant, *, is_cut: bool, keeps_ids: bool
) -> None:
    """A `call_0` after the same preamble matches no other conversation with different arguments."""
    rome = call("1", call_id="call_0", arguments='{"city":"Rome"}')
    oslo = call("2", call_id="call_0", arguments='{"city":"Oslo"}')
    tenant.ask([WEATHER], reasoning("1"), message("1", "Let me see."), rome)
    told = [message("2", "Let me see."), oslo]
    told = [*(told if keeps_ids else map(nameless, told)), output(oslo)]
    told = told if is_cut else [WEATHER, *told]
    assert tenant.ask(told) == told


# --- decisions that stay ---


def test_injected_reasoning_stays_when_other_conversations_begin_alike(
    tenant: Tenant,
) -> None:
    """
    Injected reasoning stays when other conversations begin alike, or repeat the same words.

    Upstream sees each input begin with the last one.
    """
    chat = Chat(tenant, HI)
    chat.go_on(reasoning("1"), message("1", HELLO))
    chat.add(WEATHER)
    seen = chat.go_on(reasoning("2"), message("2", "Rain."))
    for n in range(9):
        tenant.ask([HI], reasoning(f"x{n}"), message(f"x{n}", HELLO))
        chat.add(user(f"And in {n} days?"))
        later = chat.go_on(reasoning(f"3{n}"), message(f"3{n}", "Snow."))
        assert later[: len(seen)] == seen
        seen = later
        alike = [HI, said(HELLO), WEATHER]
        tenant.ask(alike, reasoning(f"y{n}"), message(f"y{n}", "Rain."))


def test_an_ambiguous_turn_stays_without_reasoning(tenant: Tenant) -> None:
    """
    An ambiguous turn stays without reasoning.

    That holds when a conversation that began alike has continued in other words.
    """
    for name in ("1", "x"):
        tenant.ask([HI], reasoning(name), message(name, HELLO))
    told = [HI, said(HELLO), WEATHER]
    assert tenant.ask(told, reasoning("2"), message("2", "Rain.")) == told
    other = [HI, said(HELLO), user("Bye")]
    tenant.ask(other, reasoning("x2"), message("x2", "See you."))
    tenant.ask([*other, said("See you."), LATE], reasoning("x3"), message("x3", "Yes."))

    told += [said("Rain."), HI]
    seen = tenant.ask(told, reasoning("3"), message("3", HELLO))
    assert seen == [*told[:3], injected("2"), *told[3:]]
    again = tenant.ask([*told, said(HELLO), LATE])
    assert again == [*seen, injected("3"), said(HELLO), LATE]


def test_a_session_header_selects_the_conversation_of_a_truncated_history(
    tenant: Tenant,
) -> None:
    """
    A session header selects its conversation over one that began with the words at the cut.

    No call proves the conversation, so all candidates with the same words are compared.
    """
    asks, says = user("Go on with the next file."), "The next file is ported, and its tests pass."
    tenant.ask([asks], reasoning("twin"), message("twin", says), session="twin")
    chat = Chat(tenant, user("Port the whole package."))
    go_on = partial(chat.go_on, session="mine", change=partial(window, kept=2))
    go_on(reasoning("0"), message("0", "I have begun, and the first file is ported."))
    chat.add(asks)
    go_on(reasoning("1"), message("1", says))
    chat.add(asks)
    go_on()


@pytest.mark.parametrize("words", ["Sunny.", "Sunny"], ids=["verbatim", "rewritten"])
def test_an_answer_after_a_rewritten_preamble_keeps_its_reasoning(
    tenant: Tenant, words: str
) -> None:
    """The clock moves on, and the call before the answer is certain."""
    deed = call("1")
    long = "It was sunny in all of the places that you asked me about."

    def sent(*items: Item, now: str) -> list[Item]:
        return [user(f"<now>{now}</now>"), GO_ON, *items]

    tenant.ask(sent(now="1"), reasoning("1"), message("1", "Sunny."), deed)
    rest = [said(words), nameless(deed), output(deed)]
    tenant.ask(sent(*rest, now="2"), reasoning("2"), message("2", long))
    told = [*rest, said(long), HI]

    seen = tenant.ask([GO_ON, *told], instructions="It is 3.")
    at = 0 if words == "Sunny." else 1
    first = [*rest[:at], injected("1"), *rest[at:]]
    assert seen == [GO_ON, *first, injected("2"), said(long), HI]


def test_of_two_answers_to_one_call_neither_is_taken_after_an_edit(tenant: Tenant) -> None:
    """Both follow the same certain call with the same words, and the start has changed."""
    deed = call("1")
    rest = [nameless(deed), output(deed)]
    tenant.ask([WEATHER], reasoning("1"), deed)
    for name in "ab":
        tenant.ask([WEATHER, *rest], reasoning(name), message(name, DONE))

    told = [user("Summary: none."), *rest, said(DONE), LATE]
    assert tenant.ask(told) == [told[0], injected("1"), *told[1:]]
