"""Regressions: wrong matches in ordinary use, by repeated words, twins, windows and counted ids."""

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

GO_ON, HI = user("continue"), user("Hi")


def test_a_counted_id_on_another_call_is_no_evidence() -> None:
    """Two conversations count alike; only the other one is captured, and one call is equal."""
    world = World()
    one = {"id": "fc_0000000000000003", "call_id": "call_00000002"}
    two = {"id": "fc_0000000000000005", "call_id": "call_00000004"}
    same = call("2", **two)
    world.learn(body([HI]), [reasoning("other"), call("1", **one), same])
    mine = call("1", arguments='{"city":"Rome"}', **one)

    assert restored(world, [HI, mine, same, output(mine), output(same)]) == []


def test_a_later_equal_message_does_not_replace_an_unknown_one() -> None:
    """The later turn has the same text, and no other child of the turn before is captured."""
    world, long = World(), message("1", "This is a long answer that nobody else has given yet.")
    told = [HI, nameless(long), HI]
    done = nameless(message("", "Done."))
    world.learn(body(told[:1]), [reasoning("1"), long])
    world.learn(body([*told, done, HI]), [reasoning("3"), message("3", "Done.")])

    assert restored(world, [*told, done, HI]) == ["1@1"]


def test_repeated_words_after_a_cut_get_their_own_reasoning_or_none() -> None:
    """The history was cut at its start, so the place of an equal message is shifted."""
    world, first = World(), message("0", "This is a long answer that nobody else has given yet.")
    told = [HI]
    world.learn(body(told), [reasoning("0"), first])
    told += [nameless(first), HI]
    for n in range(1, 4):
        world.learn(body(told), [reasoning(f"{n}"), message(f"{n}", "Sunny.")])
        told += [nameless(message("", "Sunny.")), HI]

    assert set(restored(world, told[1:])) <= {
        "0@0",
        "1@2",
        "2@4",
        "3@6",
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
    assert set(restored(world, sent())) <= {f"{n}@{at}" for n, at in places.items()}


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

    assert restored(world, [user("<now>late</now>"), *told, HI]) == []
