"""Sent again: clients with the same words take turns, and each keeps a stable input."""

from dataclasses import dataclass, field
from itertools import permutations
from typing import Any

import pytest

from tests.core.tenants import Tenant, answered, injected, said
from tests.core.world import (
    Item,
    World,
    body,
    call,
    drawn,
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


def test_a_call_id_that_recurs_with_other_arguments_proves_nothing() -> None:
    """The ids follow from the place of the call; the client drops the ids of items."""
    world, place = World(), f"call_{drawn('place')}"
    deeds = [call(name, call_id=place, arguments=f'{{"q":"{name}"}}') for name in "ab"]
    told = [[user("Hi"), nameless(deed), output(deed, "ok")] for deed in deeds]
    for name, deed in zip("ab", deeds, strict=True):
        world.learn(body([user("Hi")]), [reasoning(name), deed])

    assert [reasons(world.seen(body(one))) for one in told] == [["a"], ["b"]]
    never = call("c", call_id=place, arguments='{"q":"c"}')
    assert reasons(world.seen(body([user("Hi"), nameless(never), output(never, "ok")]))) == []


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


def test_a_branch_with_the_ids_of_another_one_keeps_its_own_reasoning() -> None:
    """Ids of calls follow from the place, and the second calls have the same content."""
    world, hi = World(), user("ok")
    told = [hi, nameless(message("", "ok")), hi]
    world.learn(body([hi]), [reasoning("0"), message("0", "ok")])
    for name, arguments in (("1", "{}"), ("4", '{"q":"ok"}')):
        first = call(name, call_id=f"call_{drawn('first')}", arguments=arguments)
        world.learn(body(told), [reasoning(name), first])
        after = [*told, nameless(first), output(first, "ok")]
        second = call(f"{name}+", call_id=f"call_{drawn('second')}", arguments="{}")
        world.learn(body(after), [reasoning(f"{name}+"), second])
        end = [*after, nameless(second), output(second, "ok")]

    assert reasons(world.seen(body(end))) == ["0", "4", "4+"]
    lost = nameless(call("5", call_id=f"call_{drawn('first')}", arguments='{"q":"no"}'))
    third = [*told, lost, output(lost, "ok"), *end[len(after) :]]
    assert reasons(world.seen(body(third))) == ["0"]


def test_the_frame_does_not_decide_between_a_beginning_and_a_window() -> None:
    """The client edited its second message after the instructions had changed."""
    world, ask, done = World(), user(LONG[0]), nameless(message("", LONG[1]))
    world.learn(body([ask], instructions="Mon"), [reasoning("1"), message("1", LONG[1])])
    told = [ask, done, ask]
    world.learn(body(told, instructions="Tue"), [reasoning("2"), message("2", LONG[1])])

    sent = body([ask, done, user("Now deploy it.")], instructions="Tue")
    assert reasons(world.seen(sent)) == []


def test_a_window_that_goes_on_keeps_its_own_answer() -> None:
    """An answer to the whole history, which the client dropped, said the same."""
    world, ask = World(), user("It is done, I think, so go on please.")
    words, deed = nameless(message("", LONG[0])), call("3", arguments="{}")
    world.learn(body([ask]), [reasoning("1"), message("1", LONG[1])])
    whole = [ask, nameless(message("", LONG[1])), ask]
    world.learn(body(whole), [reasoning("3"), message("3", LONG[0]), deed])
    window = [ask, words, nameless(deed), output(deed, "ok")]
    world.learn(body([*whole, *window[1:]]), [reasoning("4"), message("4", LONG[0])])
    world.learn(body(window), [reasoning("5"), message("5", LONG[0])])

    assert reasons(world.seen(body([*window, words, ask]))) in (["3"], ["3", "5"])


# --- one tenant, without ids ---

HELLO, DONE = "Hello, what may I do for you today?", "It is done, and all of the tests pass."
NOTE = {"role": "developer", "content": "Keep it short."}


def test_a_request_under_another_clock_is_answered_as_before() -> None:
    """A later turn of the conversation says the same as its first one."""
    tenant = Tenant()
    told = [user("Hi")]
    answered(tenant, told, "1", HELLO)
    told.append(user("Hi"))
    first = tenant.ask(told, reasoning("2"), message("2", DONE), instructions="It is 9.")
    tenant.ask(
        [*told, said(DONE), user("Hi")],
        reasoning("3"),
        message("3", HELLO),
        instructions="It is 10.",
    )

    again = tenant.ask(told, reasoning("4"), message("4", "Hm."), instructions="It is 10.")
    assert again == first == [user("Hi"), injected("1"), said(HELLO), user("Hi")]


def test_a_second_answer_to_the_same_request_leaves_the_first_as_it_was() -> None:
    """The client sends a history that ends with an answer, and drops the text before a call."""
    tenant = Tenant()
    told = [user("Hi")]
    answered(tenant, told, "1", HELLO)
    deed = call("2", call_id="call_0")
    seen = tenant.ask(told, reasoning("2"), message("2", DONE), deed)
    after = [*told, nameless(deed), output(deed, "ok")]

    assert (tenant.ask(after))[: len(seen)] == seen


def test_a_window_that_begins_like_another_conversation_is_ambiguous() -> None:
    """The same question and answer stand in the middle of a third conversation."""
    tenant = Tenant()
    ask: Any = user("Please deploy the service, and tell me when it is up.")
    answered(tenant, [ask], "first", DONE)
    told = [user("Please port the package."), said(HELLO), ask]
    answered(tenant, told, "middle", DONE)

    window = [ask, said(DONE), user("Thanks.")]
    assert tenant.ask(window) == window


def test_a_note_within_a_turn_does_not_part_it() -> None:
    """The client writes its own text before a call, and adds a note after it."""
    tenant = Tenant()
    deed = call("1", call_id="call_Xk93bFq27LmZp0aD")
    tenant.ask([user("Port it.")], reasoning("1"), message("1", DONE), deed)
    told = [user("Port it."), said("Done!"), NOTE, nameless(deed), output(deed, "ok")]

    assert tenant.ask(told) == [*told[:3], injected("1"), *told[3:]]
