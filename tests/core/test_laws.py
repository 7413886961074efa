"""Laws of the core: the promises, as properties of whole conversations."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from reasoning_replay.core.dialects.responses.placement import plan_injection
from reasoning_replay.core.dialects.responses.profiles import GENERIC, PROFILES, Profile
from reasoning_replay.core.dialects.responses.request import read_request

from tests.core.world import (
    Item,
    World,
    body,
    call,
    dropped,
    emitted,
    input_of,
    output,
    reasoning,
    reasons,
    user,
    without_ids,
)
from tests.fast_lane import examples

TEXTS = ["Done.", "It is sunny in Paris today.", "OK"]
UPSTREAMS = st.sampled_from(list(PROFILES.values()))
SHAPES = ["R C", "R C C", "C", "R M", "M", "R M C", "R R C", "R W R C", "R C R C", "R W R M"]


@dataclass
class Conversation:
    """A conversation as the client holds it: all items, including reasoning."""

    number: int
    history: list[Item]
    turn: int = 0

    def emit(self, shape: str, text: str) -> list[Item]:
        """Return the next output of upstream."""
        return emitted(shape, f"{self.number}x{self.turn}", text)

    def go_on(self, items: Sequence[Item], saying: str) -> None:
        """Append a response and the items that the client adds after it."""
        calls = [item for item in items if item["type"] == "function_call"]
        self.history += [*items, *(output(item, saying) for item in calls)]
        if not calls:
            self.history.append(user(saying))
        self.turn += 1


Step = tuple[int, str, str, str]
# A tape: for each turn its conversation, the shape of the output, its text, the client's reply.
TAPES = st.lists(
    st.tuples(
        st.integers(0, 2), st.sampled_from(SHAPES), st.sampled_from(TEXTS), st.sampled_from("ab")
    ),
    max_size=10,
)


def nameless(items: list[Item]) -> list[Item]:
    """Return the items without reasoning and optional ids."""
    kept = dropped(items)
    return [*(i if "type" not in i else without_ids([i])[0] for i in kept)]


KEPT = st.sampled_from([dropped, nameless])


def requests(
    world: World,
    tape: list[Step],
    kept: Callable[[list[Item]], list[Item]] = dropped,
    openings: Sequence[str] = ("I am one",),
    **more: Any,
) -> Iterator[tuple[Conversation, bytes]]:
    """Yield each request of as many conversations as there are openings, and then answer it."""
    people = [Conversation(n, [user(text)]) for n, text in enumerate(openings)]
    for who, shape, text, saying in tape:
        person = people[who % len(people)]
        sent = body(kept(person.history), **more)
        yield person, sent
        person.go_on(world.learn(sent, person.emit(shape, text)), saying)


PEOPLE = [f"I am {n}" for n in range(3)]


@examples(250)
@given(TAPES, KEPT)
def test_capture_strip_inject_is_the_whole_history(tape: list[Step], kept: Any) -> None:
    """Of three clients at once: what is dropped comes back, with ids and without them."""
    world = World()
    for person, sent in requests(world, tape, kept, PEOPLE, store=False):
        seen = world.seen(sent)
        assert reasons(seen) == reasons(person.history)
        assert kept is not dropped or seen == person.history


@examples(100)
@given(TAPES, KEPT, UPSTREAMS)
def test_the_prefix_is_stable(tape: list[Step], kept: Any, profile: Profile) -> None:
    """The input that upstream receives for one turn is a prefix of the input for the next turn."""
    world = World(profile=profile)
    before: list[Item] = []
    for _, sent in requests(world, tape, kept, store=False):
        seen = world.seen(sent)
        assert seen[: len(before)] == before
        before = seen


@examples(100)
@given(TAPES, UPSTREAMS)
def test_injecting_twice_is_injecting_once(tape: list[Step], profile: Profile) -> None:
    """Injected reasoning is recognised as present."""
    world = World(profile=profile)
    for _, sent in requests(world, tape, nameless, store=False):
        once = world.ask(sent)[2].apply(sent)
        assert world.ask(once)[2].apply(once) == once


@examples(100)
@given(TAPES)
def test_removing_injected_reasoning_leaves_the_clients_bytes(tape: list[Step]) -> None:
    """Every client byte survives: spacing, escapes, number spelling, key order."""
    world = World()
    for _, sent in requests(world, tape):
        decided = world.ask(sent)[2]
        got = decided.apply(sent)
        for at, end, new in decided.edits:  # each is where the ones before it were removed
            assert at == end
            assert got.startswith(new, at)
            got = got[:at] + got[at + len(new) :]
        assert got == sent


@examples(50)
@given(TAPES)
def test_two_scopes_never_share_reasoning(tape: list[Step]) -> None:
    """Reasoning of one scope is never injected in another scope, even for identical requests."""
    ours, theirs = World(), World()
    for _, sent in requests(ours, tape):
        assert theirs.ask(sent)[2].apply(sent) is sent


@examples(200)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(
                st.sampled_from(["type", "id", "call_id", "role", "content", "text", "name", "x"]),
                inner
                | st.sampled_from(["message", "reasoning", "function_call", "assistant", "rs_1"]),
                max_size=5,
            )
        ),
        max_leaves=20,
    )
)
def test_any_input_is_read(given_input: object) -> None:
    """Any JSON value is accepted as an input, and nothing is injected into unknown items."""
    world = World()
    world.learn(body([user("Hi")]), [reasoning("1"), call("1")])
    sent = json.dumps({"model": "gpt-5.6-sol", "input": given_input}).encode()
    request = read_request(sent, {})

    _, recognised, _ = world.ask(sent)

    assert plan_injection(request, recognised, GENERIC).apply(sent) is sent
    assert input_of(sent) == given_input
