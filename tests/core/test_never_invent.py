"""Regressions: wrong matches in ordinary use, by repeated words, twins, windows and counted ids."""

import pytest

from tests.core.world import (
    Item,
    World,
    body,
    call,
    message,
    nameless,
    output,
    reasoning,
    user,
)

GO_ON, HI = user("continue"), user("Hi")
WEATHER = user("Weather?")


def injected(world: World, items: list[Item], **more: object) -> list[str]:
    """Return each blob that upstream receives, with the index of the item that it stands before."""
    seen = world.seen(body(items, store=False, **more))
    assert [item for item in seen if item.get("type") != "reasoning"] == items
    told: list[str] = []
    at = 0
    for item in seen:
        if item.get("type") == "reasoning":
            told.append(f"{item['encrypted_content']} ahead of {at}")
        else:
            at += 1
    return told


def test_an_uncaptured_message_is_not_confused_with_a_later_equal_one() -> None:
    """The earlier message was never captured, so only the later one gets its reasoning."""
    world, done = World(), message("1", "Done.")
    told = [GO_ON, nameless(message("0", "Done.")), user("continue ")]
    world.learn(body(told), [reasoning("1"), done])

    assert injected(world, [*told, nameless(done), GO_ON]) == ["gAAAA1 ahead of 3"]


def test_a_repeated_greeting_is_matched_only_where_a_call_proves_it() -> None:
    """A call makes the later message certain; the first one may belong to any conversation."""
    world = World()
    for n in range(8):
        world.learn(body([HI]), [reasoning(f"x{n}"), message(f"x{n}", "Hello!")])
    told = [HI, nameless(message("x7", "Hello!")), user("Hi there")]
    hello, deed = message("1", "Hello!"), call("1")
    world.learn(body(told), [reasoning("1"), hello, deed])
    told += [nameless(hello), nameless(deed), output(deed)]

    assert injected(world, told) == ["gAAAA1 ahead of 3"]


@pytest.mark.parametrize("kept", [2, 4, 6])
def test_a_window_that_begins_like_another_conversation(kept: int) -> None:
    """The lineage that a later call proves has priority over the turn of the other conversation."""
    world, done = World(), message("t", "Done.")
    world.learn(body([GO_ON]), [reasoning("twin"), done])
    told = [user("Start the job.")]
    for n in range(4):
        said = message(f"{n}", "Done.")
        world.learn(body(told), [reasoning(f"{n}"), said])
        told += [nameless(said), user("continue")]
    deed = call("deed")
    world.learn(body(told), [reasoning("deed"), deed])
    window = [*told, nameless(deed), output(deed)][-2 - kept :]

    found = injected(world, window)

    assert found[-1] == f"gAAAAdeed ahead of {kept}"
    assert not any("twin" in each for each in found)


def test_a_message_before_a_call_belongs_to_its_response() -> None:
    """An equal message of another conversation is not matched."""
    world, mine = World(), call("mine")
    said = message("theirs", "Let me check.")
    world.learn(body([WEATHER]), [reasoning("theirs"), said, call("theirs")])
    ours = message("mine", "Let me check.")
    world.learn(body([WEATHER]), [reasoning("mine"), ours, mine])

    told = [WEATHER, nameless(ours), nameless(mine), output(mine)]
    assert injected(world, told) == ["gAAAAmine ahead of 1"]


@pytest.mark.parametrize("call_id", ["call_0", "call_00000001", "call_1700000000"])
@pytest.mark.parametrize("item_id", ["fc_0", "fc_0000000000000001", ""])
def test_counted_names_match_nothing_alone(call_id: str, item_id: str) -> None:
    """A counted id is no evidence if the arguments and the history differ."""
    world = World()
    named = {"id": item_id, "call_id": call_id}
    rome = call("1", arguments='{"city":"Rome"}') | named
    world.learn(body([user("Weather in Rome?")]), [reasoning("1"), rome])
    oslo = rome | {"arguments": '{"city":"Oslo"}'}

    assert injected(world, [user("Weather in Oslo?"), oslo, output(oslo)]) == []


def test_a_preamble_before_other_arguments_is_of_another_response() -> None:
    """A neighbour is compared by its content."""
    world, said = World(), message("1", "Let me see.")
    rome = call("1", call_id="call_0", arguments='{"city":"Rome"}')
    world.learn(body([WEATHER]), [reasoning("1"), said, rome])
    oslo = call("2", call_id="call_0", arguments='{"city":"Oslo"}')

    assert injected(world, [WEATHER, nameless(said), nameless(oslo), output(oslo)]) == []


@pytest.mark.parametrize("words", [None, "", "Something else."])
@pytest.mark.parametrize("has_clock", [True, False])
def test_a_call_stays_certain_if_its_surroundings_change(
    words: str | None, has_clock: bool
) -> None:
    """The instructions may contain the time; the message before the call may be rewritten."""
    world, told = World(), [user("Do it.")]
    for n in range(4):
        said, deed = message(f"{n}", f"Step {n}."), call(f"{n}", arguments="{}")
        more = {"instructions": f"It is {n} o'clock."} if has_clock else {}
        world.learn(body(told, **more), [reasoning(f"{n}"), said, deed])
        left = said if words is None else message(f"{n}", words)
        told += [nameless(left), nameless(deed), output(deed, "ok")]

    found = injected(world, told, instructions="It is late.")

    assert found == [f"gAAAA{n} ahead of {1 + 3 * n}" for n in range(4)]


def test_changing_instructions_do_not_prevent_injection() -> None:
    """Long messages are enough evidence."""
    world, told = World(), [user("Tell me about bees, please.")]
    for n in range(4):
        said = message(
            f"{n}", f"Bees are insects, and fact number {n} is that everybody likes them."
        )
        world.learn(body(told, instructions=f"It is {n} o'clock."), [reasoning(f"{n}"), said])
        told += [nameless(said), user(f"More, please: {n}.")]

    found = injected(world, told, instructions="It is late.")

    assert found == [f"gAAAA{n} ahead of {1 + 2 * n}" for n in range(4)]


def test_a_counted_id_on_another_call_is_no_evidence() -> None:
    """Two conversations count alike; only the other one is captured, and one call is equal."""
    world = World()
    one = {"id": "fc_0000000000000003", "call_id": "call_00000002"}
    two = {"id": "fc_0000000000000005", "call_id": "call_00000004"}
    same = call("2", **two)
    world.learn(body([HI]), [reasoning("other"), call("1", **one), same])
    mine = call("1", arguments='{"city":"Rome"}', **one)

    assert injected(world, [HI, mine, same, output(mine), output(same)]) == []


def test_a_later_equal_message_does_not_replace_an_unknown_one() -> None:
    """The later turn has the same text, and no other child of the turn before is captured."""
    world, long = World(), message("1", "This is a long answer that nobody else has given yet.")
    told = [HI, nameless(long), HI]
    done = nameless(message("", "Done."))
    world.learn(body(told[:1]), [reasoning("1"), long])
    world.learn(body([*told, done, HI]), [reasoning("3"), message("3", "Done.")])

    assert injected(world, [*told, done, HI]) == ["gAAAA1 ahead of 1"]


def test_repeated_words_after_a_cut_get_their_own_reasoning_or_none() -> None:
    """The history was cut at its start, so the place of an equal message is shifted."""
    world, first = World(), message("0", "This is a long answer that nobody else has given yet.")
    told = [HI]
    world.learn(body(told), [reasoning("0"), first])
    told += [nameless(first), HI]
    for n in range(1, 4):
        world.learn(body(told), [reasoning(f"{n}"), message(f"{n}", "Sunny.")])
        told += [nameless(message("", "Sunny.")), HI]

    assert set(injected(world, told[1:])) <= {
        "gAAAA0 ahead of 0",
        "gAAAA1 ahead of 2",
        "gAAAA2 ahead of 4",
        "gAAAA3 ahead of 6",
    }


def test_a_moving_message_does_not_shift_calls() -> None:
    """Equal `call_0` ids, arguments and message counts do not match a call to another turn."""
    world = World()
    said: list[Item] = [HI]

    def sent() -> list[Item]:
        at = max(n for n, item in enumerate(said) if item.get("role") == "user")
        return [*said[:at], user(f"<now>{len(said)}</now>"), *said[at:]]

    for name, arguments in (("1", f'{{"q":"{"x" * 70}"}}'), ("2", "{}"), ("3", "{}")):
        deed = call(name, call_id="call_0", arguments=arguments)
        world.learn(body(sent()), [reasoning(name), deed])
        said += [nameless(deed), output(deed, "ok")]
    world.learn(body(sent()), [reasoning("4"), message("4", "y" * 70)])
    said += [nameless(message("4", "y" * 70)), user("yes")]
    deed = call("5", call_id="call_0", arguments=f'{{"q":"{"z" * 70}"}}')
    world.learn(body(sent()), [reasoning("5"), deed])
    said += [nameless(deed), output(deed, "ok")]

    places = {"1": 1, "2": 3, "3": 5, "4": 7, "5": 10}
    assert set(injected(world, sent())) <= {f"gAAAA{n} ahead of {at}" for n, at in places.items()}


def test_identical_conversations_with_clocks_stay_ambiguous() -> None:
    """Of two conversations that say the same, each with a clock, no turn is injected."""
    world, says = World(), [f"This is the long answer number {n} of two twins." for n in range(3)]
    for name in ("a", "b"):
        told: list[Item] = []
        for n, text in enumerate(says):
            now = user(f"<now>{name}{n}</now>")
            told.append(user(f"Question {n}?"))
            world.learn(body([now, *told]), [reasoning(f"{name}{n}"), message(f"{name}{n}", text)])
            told.append(nameless(message("", text)))

    assert injected(world, [user("<now>late</now>"), *told, HI]) == []


def test_of_many_equal_turns_the_one_with_the_same_history_is_matched() -> None:
    """A client returns to the start of a long chat with the same words."""
    world, told = World(), [GO_ON]
    for n in range(40):
        world.learn(body(told), [reasoning(f"{n}"), message(f"{n}", "Done.")])
        told += [nameless(message("", "Done.")), GO_ON]

    assert injected(world, told[:3]) == ["gAAAA0 ahead of 1"]
