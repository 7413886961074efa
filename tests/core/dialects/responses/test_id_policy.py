"""Ids of ambiguous items: an item in which a key occurs twice is never edited."""

import json

from reasoning_replay.core.history.plan import Outcome

from tests.core.world import World, body, call, input_of, output, reasoning, user

ASK, R1, C1 = user("What is the weather in Paris?"), reasoning("1"), call("1")
AGAIN = '"name" : "get_weather" , "name" : "get_weather"'


def odd(sent: bytes) -> bytes:
    """Return a body in which the call has one key twice."""
    return sent.replace(b'"name" : "get_weather"', AGAIN.encode())


def test_an_id_that_cannot_be_removed_stays() -> None:
    """Reasoning of another model is not injected, and the item is not degraded either."""
    world = World()
    world.learn(body([ASK], model="o4-mini"), [R1, C1], model="o4-mini")
    sent = odd(body([ASK, C1, output(C1)]))

    decided = world.ask(sent)[2]

    assert decided.apply(sent) is sent
    assert decided.outcomes == {Outcome.GUARDED_MODEL: 1}


def test_an_id_that_cannot_be_added_is_left_out() -> None:
    """The reasoning is then injected by value, without its id."""
    world = World()
    world.learn(body([ASK]), [R1, C1])
    bare = {key: value for key, value in C1.items() if key != "id"}
    sent = odd(body([ASK, bare, output(C1)]))

    got = world.ask(sent)[2].apply(sent)

    thought = {key: value for key, value in R1.items() if key != "id"}
    assert input_of(got) == [ASK, thought, bare, output(C1)]
    assert got == sent.replace(
        b'{"type" : "function_call" ',
        json.dumps(thought).encode() + b',{"type" : "function_call" ',
        1,
    )
