"""Weak texts: a text without certain ids is one piece of evidence, and needs a second one."""

import pytest

from tests.core.tenants import said
from tests.core.world import (
    Item,
    World,
    body,
    call,
    message,
    nameless,
    output,
    reasoning,
    restored,
    user,
)

REFUSAL = (
    "I'm sorry, but I can't help with that request. If there is anything else that you would like"
    " to know, please ask."
)
GREETING = "Hello! How can I help you with your taxes today?"
NOTE = {"role": "developer", "content": "Keep it short."}


def answered(world: World, told: list[Item], name: str, text: str, **more: object) -> list[str]:
    """Answer a history, add the answer to it, and return what was injected into the request."""
    found = restored(world, told, **more)
    world.learn(body(told, store=False, **more), [reasoning(name), message(name, text)])
    told.append(said(text))
    return found


# --- a text alone ---


@pytest.mark.parametrize("before", [0, 1], ids=["first-turn", "third-turn"])
def test_a_refusal_of_another_conversation_is_not_injected(before: int) -> None:
    """The own refusal was never seen, and the users asked for different things."""
    world, told = World(), [user("How do I set up wifi?")]
    answered(world, told, "other", REFUSAL)
    told = []
    for n in range(before):
        told.append(user("Tell me about bees, please."))
        answered(world, told, f"{n}", "Bees are insects, and everybody likes their honey.")
    told += [user("How do I break into a house?"), said(REFUSAL), user("Why not?")]
    own = [f"{n}@{1 + 2 * n}" for n in range(before)]

    assert answered(world, told, "late", "Because someone would be harmed by it.") == own
    at = len(told) - 1
    assert restored(world, [*told, user("I see.")]) == [*own, f"late@{at}"]


@pytest.mark.parametrize("name", ["", "mine"])
def test_an_earlier_refusal_does_not_explain_a_later_one(name: str) -> None:
    """The middle turn was lost; the captured refusal of the same conversation is another one."""
    world, told = World(), [user("How do I break into a house?")]
    more = {"prompt_cache_key": name} if name else {}
    answered(world, told, "1", REFUSAL, **more)
    told.append(user("Then tell me about bees."))
    answered(world, told, "2", "Bees are insects, and everybody likes their honey.", **more)
    told += [user("And into a bank?"), said(REFUSAL), user("Why?")]

    assert restored(world, told[-4:], **more) == (["2@0"] if name else [])
    assert "1@5" not in restored(world, told, **more)


def test_a_text_in_a_later_place_is_not_of_the_turn_that_has_its_own_place() -> None:
    """Both refusals answer "continue", and the second one was lost."""
    world, told = World(), [user("continue")]
    answered(world, told, "1", REFUSAL)
    told += [user("continue"), said(REFUSAL), user("continue")]

    assert restored(world, told) == ["1@1"]


@pytest.mark.parametrize("texts", [[REFUSAL] * 3, ["Done, as you asked me.", REFUSAL, REFUSAL]])
def test_old_calls_dropped_with_messages_kept_gives_each_message_its_own_or_none(
    texts: list[str],
) -> None:
    """The messages of several turns stand in a row, and some say the same."""
    world, told, kept = World(), [user("Do it.")], [user("Do it.")]
    for n, text in enumerate(texts):
        emitted = [reasoning(f"{n}"), message(f"{n}", text)]
        deed = call(f"{n}", call_id="call_0")
        is_last = n == len(texts) - 1
        world.learn(body(told, store=False), emitted if is_last else [*emitted, deed])
        told += [said(text), nameless(deed), output(deed)]
        kept.append(said(text))

    own = {f"{n}@{1 + n}" for n in range(len(texts))}
    assert set(restored(world, [*kept, user("Go on.")])) <= own


# --- a second one that agrees ---


def test_the_message_that_a_text_answers_agrees_with_it() -> None:
    """The rest of the history may be cut off or replaced."""
    world, told = World(), [user("Hello there.")]
    answered(world, told, "1", "Hi.")
    told.append(user("How do I break into a house?"))
    answered(world, told, "2", REFUSAL)

    assert restored(world, [user("Summary: none."), *told[2:], user("Why?")]) == ["2@2"]


@pytest.mark.parametrize("name", ["", "mine"])
def test_a_rewritten_question_needs_a_name_or_the_exchange_before_it(name: str) -> None:
    """The question of the newest turn contains passages that are gone in the next request."""
    more = {"prompt_cache_key": name} if name else {}
    world, asked, told = World(), list[Item](), list[Item]()
    for n in range(4):
        found = restored(world, [*told, user(f"<passage {n}> What about part {n}?")], **more)
        first = 0 if name else 1
        assert found == [f"{k}@{1 + 2 * k}" for k in range(first, n)]
        asked = [*told, user(f"<passage {n}> What about part {n}?")]
        text = f"Part {n} is about bees, and their honey."
        world.learn(body(asked, store=False, **more), [reasoning(f"{n}"), message(f"{n}", text)])
        told += [user(f"What about part {n}?"), said(text)]


def test_an_exchange_that_begins_two_conversations_agrees_with_neither() -> None:
    """Both began alike, and then the users asked for different things; one refusal was lost."""
    world, both = World(), list[list[Item]]()
    for name in ("other", "mine"):
        told = [user("Hi")]
        answered(world, told, name, GREETING)
        both.append(told)
    theirs, mine = both
    answered(world, [*theirs, user("How do I set up wifi?")], "wifi", REFUSAL)
    mine += [user("How do I break into a house?"), said(REFUSAL), user("Why not?")]

    assert restored(world, mine) == []


# --- turns that explain a block whole ---


@pytest.mark.parametrize("is_own_first", [True, False])
def test_a_turn_that_lacks_a_part_does_not_win_by_an_equal_history(*, is_own_first: bool) -> None:
    """The window begins like another conversation, whose turn said more."""
    world, done = World(), "The file is ported, and all of its tests pass."

    def other() -> None:
        both = [message("a", "I start now."), reasoning("b"), message("b", done)]
        world.learn(body([user("continue")], store=False), [reasoning("a"), *both])

    if not is_own_first:
        other()
    told = [user("Port the package.")]
    answered(world, told, "0", "I have begun.")
    told.append(user("continue"))
    answered(world, told, "own", done)
    if is_own_first:
        other()

    assert restored(world, [*told[2:], user("deploy")]) == ["own@1"]


def test_the_same_text_twice_in_one_answer_gets_each_reasoning_once() -> None:
    """A note of the developer follows each message."""
    world, told = World(), [user("Say it twice.")]
    text = "This is a long sentence that is in one and the same answer twice."
    world.learn(
        body(told, store=False),
        [reasoning("1"), message("1", text), reasoning("2"), message("2", text)],
    )
    noted = [*told, said(text), NOTE, said(text), NOTE, user("Thanks.")]

    assert restored(world, noted) == ["1@1", "2@3"]
    assert restored(world, [user("Another."), *noted[1:]]) == []


# --- texts that the application writes ---


@pytest.mark.parametrize("greeting", ["Hello!", GREETING, REFUSAL])
def test_a_greeting_of_the_application_gets_no_reasoning(greeting: str) -> None:
    """The model once said the same elsewhere, and was asked something else then."""
    world, theirs = World(), [user("Hi there.")]
    answered(world, theirs, "other", greeting)
    theirs.append(user("I have lost my key."))
    answered(world, theirs, "more", "Then call a locksmith, who will open the door for you.")
    told = [said(greeting), user("I need help with my taxes.")]

    assert answered(world, told, "own", "Taxes are due in May, and I can help.") == []
    assert restored(world, [*told, user("Thanks.")]) == ["own@2"]


@pytest.mark.parametrize("greeting", ["Hello!", GREETING, REFUSAL])
@pytest.mark.parametrize("name", ["", "theirs"])
def test_a_text_without_a_message_before_it_needs_one_that_agrees(name: str, greeting: str) -> None:
    """The last response of another conversation said the same, and nothing follows it there."""
    world, theirs = World(), [user("Hi there.")]
    answered(world, theirs, "other", greeting, **({"prompt_cache_key": name} if name else {}))
    told = [said(greeting), user("I need help with my taxes.")]

    assert restored(world, told) == []
    assert restored(world, told, prompt_cache_key="mine") == []


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("And of tea?", ["1@0", "2@2"]),
        ("And of cocoa?", []),
        ("What is the price of coffee?", []),
    ],
)
def test_a_text_at_a_cut_is_proved_by_what_followed_it(asked: str, found: list[str]) -> None:
    """The message that follows is the one that followed the turn, not an earlier one."""
    world, told = World(), [user("What is the price of coffee?")]
    answered(world, told, "1", "A cup of coffee costs two euros here.")
    told.append(user("And of tea?"))
    answered(world, told, "2", "A cup of tea costs one euro.")
    rest = told[3:] if found else [said("I do not know it.")]

    assert restored(world, [told[1], user(asked), *rest, user("Thanks.")]) == found


def test_the_name_of_the_conversation_agrees_with_a_text_at_a_cut() -> None:
    """The newest turn was not continued yet, so nothing that follows it can agree."""
    world, told, name = World(), [user("What is it?")], {"prompt_cache_key": "mine"}
    answered(world, told, "1", "It is a bee, which collects honey.", **name)

    assert restored(world, [told[1], user("Why?")], **name) == ["1@0"]
    assert restored(world, [told[1], user("Why?")]) == []


def test_a_history_cut_right_up_to_a_message_keeps_what_its_next_turn_proves() -> None:
    """The short message stands directly before a call that continues from its turn."""
    world, told = World(), [user("Go on.")]
    for n in range(3):
        answered(world, told, f"{n}", "Done.")
        told.append(user(f"Go on with {n}."))
    deed = call("deed")
    world.learn(body(told, store=False), [reasoning("deed"), deed])
    told += [nameless(deed), output(deed)]

    assert restored(world, told[5:]) == ["2@0", "deed@2"]


@pytest.mark.parametrize(
    ("instructions", "found"), [("Be brief.", ["deed@0"]), ("", ["deed@0"]), ("Be rude.", [])]
)
def test_a_history_cut_right_up_to_a_short_call_keeps_it(
    instructions: str, found: list[str]
) -> None:
    """Unless the application is another one: its model calls the same tools in the same words."""
    world, deed = World(), call("deed", call_id="call_0", arguments="{}")
    asked = body([user("Go on.")], store=False, instructions="Be brief.")
    world.learn(asked, [reasoning("deed"), deed])

    told = [nameless(deed), output(deed), user("Thanks.")]
    assert restored(world, told, instructions=instructions) == found


# --- spellings ---

CODE = "def price(tea):\n    if tea:\n        return 1\n    return <b>2</b>\n"


@pytest.mark.parametrize(
    ("spelled", "found"),
    [
        pytest.param(CODE, ["1@1"], id="the same"),
        pytest.param(CODE.strip(), ["1@1"], id="without white space around it"),
        pytest.param(
            CODE.replace("\n    return", "\n        return"), [], id="another indentation"
        ),
        pytest.param(CODE.replace("<", "&lt;"), [], id="escaped"),
        pytest.param(" ".join(CODE.split()), [], id="white space collapsed"),
    ],
)
def test_a_text_in_another_spelling_counts_as_short(spelled: str, found: list[str]) -> None:
    """Two responses may differ in their spelling alone; then everything around must be the same."""
    world, told = World(), [user("Show it.")]
    answered(world, told, "1", CODE, instructions="It is 1.")
    again = [told[0], said(spelled), user("Thanks.")]

    assert restored(world, again, instructions="It is 2.") == found
    assert restored(world, again, instructions="It is 1.") == ["1@1"]


# --- final texts only ---


@pytest.mark.parametrize(
    "texts", [["Sunny.", "Rain.", "Snow."], [REFUSAL] * 3], ids=["short", "stock"]
)
def test_a_chat_that_keeps_final_texts_only_gets_the_reasoning_of_each(texts: list[str]) -> None:
    """The rounds with calls are dropped; each final text answers the message of its round."""
    world, kept = World(), list[Item]()
    finals = [f"{n}@{1 + 2 * n}" for n in range(3)]
    for n, text in enumerate(texts):
        kept.append(user(f"How is the weather in city number {n}?"))
        deed = call(f"deed{n}", call_id="call_0")
        assert restored(world, kept) == finals[:n]
        world.learn(body(kept, store=False), [reasoning(f"deed{n}"), deed])
        loop = [*kept, nameless(deed), output(deed)]
        assert restored(world, loop) == [*finals[:n], f"deed{n}@{len(kept)}"]
        world.learn(body(loop, store=False), [reasoning(f"{n}"), message(f"{n}", text)])
        kept.append(said(text))

    assert restored(world, [*kept, user("Thanks.")]) == finals
