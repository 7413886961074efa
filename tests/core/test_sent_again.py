"""Sent again: clients with the same words take turns, and each keeps a stable input."""

from dataclasses import dataclass, field
from itertools import permutations
from typing import Any

import pytest

from tests.core.world import (
    Item,
    World,
    body,
    call,
    dropped,
    message,
    nameless,
    output,
    reasoning,
    reasons,
    user,
)

SHORT = ("Hi", "ok", "Done.")
LONG = (
    "Please port the whole package, and do not forget its tests.",
    "It is done, and all of the tests pass on both machines.",
    "The service is up, and its first requests were answered.",
)
ORDERS = sorted(set(permutations("aabbcc")))[::2]


@dataclass
class Client:
    """
    A client that drops reasoning.

    Attributes:
        keeps: Whether it keeps the ids of items.
        call_id: What its upstream names each call; each has its own if empty.
        top: What it sends in addition to the history.
    """

    label: str
    words: tuple[str, ...]
    keeps: bool = False
    call_id: str = ""
    top: dict[str, Any] = field(default_factory=dict)
    told: list[Item] = field(default_factory=list)
    last: list[Item] = field(default_factory=list)
    steps: int = 0

    def go_on(self, world: World, answers: dict[bytes, list[Item]]) -> list[str]:
        """Ask once more, and return the reasoning that upstream receives."""
        if not self.told:
            self.told.append(user(self.words[0]))
        sent = body(self.told, **self.top)
        seen = world.seen(sent)
        assert answers.setdefault(sent, seen) == seen
        assert seen[: len(self.last)] == self.last
        self.last = seen

        self.steps += 1
        name = f"{self.label}{self.steps}"
        said = message(name, self.words[self.steps % 2 + 1])
        deed = call(name, call_id=self.call_id)
        emitted = [reasoning(name), *([said, deed] if self.call_id else [said])]
        world.learn(sent, emitted)
        self.told += [item if self.keeps else nameless(item) for item in dropped(emitted)]
        self.told.append(output(deed, "ok") if self.call_id else user(self.words[0]))
        return reasons(seen)


@pytest.mark.parametrize("words", [SHORT, LONG], ids=["short", "long"])
@pytest.mark.parametrize("call_id", ["", "call_0"], ids=["chat", "call_0"])
@pytest.mark.parametrize("order", ORDERS, ids="".join)
def test_three_twins_in_any_order_see_a_stable_input(
    words: tuple[str, ...], call_id: str, order: tuple[str, ...]
) -> None:
    """Each appends; a request that was answered before is decided as before for all of them."""
    world = World()
    answers: dict[bytes, list[Item]] = {}
    clients = {label: Client(label, words, call_id=call_id) for label in "abc"}
    for label in [*order, *"abcabc"]:
        clients[label].go_on(world, answers)


@pytest.mark.parametrize("order", ORDERS[::3], ids="".join)
@pytest.mark.parametrize(
    ("keeps", "named", "framed"),
    [(True, False, False), (False, True, False), (False, False, True)],
    ids=["ids", "names", "instructions"],
)
def test_what_tells_twins_apart_gives_each_its_own(
    order: tuple[str, ...], *, keeps: bool, named: bool, framed: bool
) -> None:
    """Own ids, an own name or own instructions keep the reasoning of the twins out."""
    world = World()
    clients = {
        label: Client(
            label,
            SHORT,
            keeps=keeps,
            top={"prompt_cache_key": label} if named else {"instructions": label} if framed else {},
        )
        for label in "abc"
    }
    for label in [*order, *"abc"]:
        answers: dict[bytes, list[Item]] = {}
        seen = clients[label].go_on(world, answers)

        assert seen == [f"{label}{n}" for n in range(1, clients[label].steps)]


def test_a_twin_that_parts_and_comes_back_changes_nothing() -> None:
    """It edits its second message, goes on, and takes the edit back."""
    world, answers = World(), dict[bytes, list[Item]]()
    first, twin = Client("a", SHORT), Client("b", SHORT)
    for client in (first, first, twin):
        client.go_on(world, answers)
    told, last, steps = twin.told, twin.last, twin.steps
    twin.told = [*told[:-1], user("Stop.")]
    twin.go_on(world, answers)
    twin.told, twin.last, twin.steps = [*told], last, steps
    for client in (twin, first, twin, first):
        client.go_on(world, answers)


@pytest.mark.parametrize("edit", ["Stop.", LONG[0]])
def test_an_edit_that_is_taken_back_is_decided_as_before(edit: str) -> None:
    """Both branches go on afterwards, in turns."""
    world, answers = World(), dict[bytes, list[Item]]()
    client = Client("a", SHORT)
    client.go_on(world, answers)
    other = Client("b", SHORT, told=[*client.told[:-1], user(edit)], steps=1)
    for one in (client, other, client, other, client):
        seen = one.go_on(world, answers)

    assert seen == ["a1", "a2", "a3"]
    assert other.go_on(world, answers) == ["a1", "b2", "b3"]


def test_a_failed_lookup_does_not_move_the_input_of_later_requests() -> None:
    """Its turn is found from then on, and each request after it begins like the one before."""
    world, client = World(), Client("a", LONG)
    client.go_on(world, {})
    lost = message("lost", LONG[1])
    world.learn(body(client.told), [reasoning("lost"), lost], has_failed=True)
    client.told += [nameless(lost), user(LONG[0])]
    client.last, client.steps = [], 2
    for _ in range(3):
        seen = client.go_on(world, {})

    assert seen == ["a1", "lost", "a3", "a4"]


def test_others_that_begin_alike_later_change_nothing() -> None:
    """They become a crowd: what was injected before stays."""
    world = World()
    client = Client("a", SHORT)
    for _ in range(3):
        client.go_on(world, {})
    for n in range(9):
        other = Client(f"x{n}", SHORT)
        other.go_on(world, {})
        other.go_on(world, {})
        assert client.go_on(world, {})[:2] == ["a1", "a2"]
