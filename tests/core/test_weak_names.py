"""Weak names: an id that recurs proves nothing; what agrees with a name makes it strong again."""

import pytest
from reasoning_replay.core.dialects.responses.request import read_request
from reasoning_replay.core.history.lookup_keys import LookupResult
from reasoning_replay.core.history.matching.matches import match_items

from tests.core.tenants import Tenant, injected
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
    restored,
    user,
)

RECURRING = "call_a8K2mPqZ7Lx93Qw5Rt61Vb4c"
ASK, ELSE, LATE = user("What is the weather in Rome?"), user("Clean up."), user("Is that all?")
TRIMMED = {"arguments": '{"city":"…"}'}


# --- names of many conversations ---


@pytest.mark.parametrize("others", [5, 6, 49])
def test_an_own_id_leads_whatever_else_has_the_same_call_id(others: int) -> None:
    """The conversation of the item's own id is loaded first."""
    world = World()
    mine = call("mine", call_id=RECURRING)
    world.learn(body([ASK]), [reasoning("mine"), mine])
    for n in range(others):
        theirs = call(f"{n}", call_id=RECURRING, arguments=f'{{"n":{n}}}')
        world.learn(body([user(f"Prompt {n}")]), [reasoning(f"{n}"), theirs])

    assert restored(world, [ASK, mine, output(mine)]) == ["mine@1"]


@pytest.mark.parametrize("keeps_ids", [True, False])
def test_a_crowded_name_decides_nothing(*, keeps_ids: bool) -> None:
    """Of many conversations with a name, only one happens to be there: a local copy."""
    world, theirs = World(), call("theirs", call_id=RECURRING)
    world.learn(body([ASK]), [reasoning("theirs"), theirs])
    sent = theirs if keeps_ids else nameless(theirs)
    request = read_request(body([ELSE, sent, output(sent)]), {})

    def matched(*crowded: int) -> set[int]:
        found = LookupResult(list(world.turns.values()), frozenset(crowded))
        return set(match_items(request, found).matches)

    assert matched() == {1}
    assert matched(1) == set()


def test_a_crowded_call_id_is_confirmed_by_a_memory() -> None:
    """What upstream has seen stays, though many conversations have the same call id since then."""
    world = World()
    mine = [call(f"mine{n}", call_id=RECURRING, arguments=f'{{"n":{n}}}') for n in range(3)]
    told = [ASK]
    for n, deed in enumerate(mine):
        world.learn(body(told), [reasoning(f"{n}"), deed])
        told += [nameless(deed), output(deed)]
    before = restored(world, told)
    for n in range(9):
        theirs = call(f"other {n}", call_id=RECURRING, arguments=f'{{"m":{n}}}')
        world.learn(body([user(f"Prompt {n}")]), [reasoning(f"other {n}"), theirs])

    assert before == ["0@1", "1@3", "2@5"]
    assert restored(world, told)[:2] == before[:2]


def test_a_name_of_two_items_is_no_proof_of_the_one_that_is_left() -> None:
    """One of the two is matched by its own id; the other item with the call id may be any."""
    world = World()
    mine, theirs = (call(name, call_id=RECURRING) for name in ("mine", "theirs"))
    world.learn(body([ASK]), [reasoning("mine"), mine])
    world.learn(body([user("Another prompt")]), [reasoning("theirs"), theirs])
    told = [ASK, mine, output(mine), ELSE, nameless(mine), output(mine)]

    assert restored(world, told) == ["mine@1"]


# --- names that something contradicts ---


def knows(*before: Item, **more: str) -> tuple[World, Item]:
    """Return a world that captured one call, and the call."""
    world, theirs = World(), call("theirs", call_id=RECURRING, **more)
    world.learn(body([*before, ASK]), [reasoning("theirs"), theirs])
    return world, theirs


OTHER_ID = call("mine")["id"]


@pytest.mark.parametrize("mine", [TRIMMED, {"id": OTHER_ID}, {"id": OTHER_ID, **TRIMMED}], ids=str)
def test_a_call_id_is_contradicted_by_its_call_and_its_history(mine: dict[str, str]) -> None:
    """Other arguments, or another id of upstream's, after another message."""
    world, theirs = knows()
    sent = theirs | mine if "id" in mine else nameless(theirs | mine)

    assert restored(world, [ELSE, sent, output(sent)]) == []
    assert restored(world, [ASK, sent, output(sent)]) == ["theirs@1"]


@pytest.mark.parametrize(
    ("told", "want"),
    [
        pytest.param([nameless(TRIMMED)], ["theirs@0"], id="head-cut"),
        pytest.param([{"id": OTHER_ID}], [], id="head-cut-and-another-id"),
        pytest.param([ELSE, {}], ["theirs@1"], id="history-edited"),
    ],
)
def test_what_is_not_there_contradicts_nothing(told: list[Item], want: list[str]) -> None:
    """One doubt is not enough: the arguments, or the history, or its own id must agree."""
    world, theirs = knows()
    sent = [item if item.get("role") else {**nameless(theirs), **item} for item in told]

    assert restored(world, [*sent, output(theirs), LATE]) == want


def test_the_own_id_of_an_item_needs_nothing_else() -> None:
    """The client has rewritten the message, and the message of the user before it."""
    world, told = World(), message("1", "It is sunny in Rome today.")
    world.learn(body([ASK]), [reasoning("1"), told])
    sent = [ELSE, told | {"content": "It is sunny."}, LATE]

    assert restored(world, sent) == ["1@1"]


@pytest.mark.parametrize("trimmed", [0, 1])
def test_a_neighbour_of_the_same_line_agrees(trimmed: int) -> None:
    """The message before a trimmed call has changed; the call of its parent or child is certain."""
    world, told = World(), [ASK]
    for n in range(2):
        deed = call(f"{n}")
        world.learn(body(told), [reasoning(f"{n}"), deed])
        told += [nameless(deed), output(deed)]
    told[1 + 2 * trimmed] |= TRIMMED
    told[2 * trimmed] = user("<environment>")
    doubted = told[2 * trimmed : 2 * trimmed + 2]

    assert restored(world, told) == ["0@1", "1@3"]
    assert restored(world, [*doubted, LATE]) == []


def test_an_unknown_history_contradicts_nothing() -> None:
    """Upstream has the history of a request that names a response."""
    world, theirs = knows()
    sent = nameless(theirs | TRIMMED)
    stateful = {"previous_response_id": f"resp_{drawn(0)}"}
    request = read_request(body([output(theirs), sent], **stateful), {})
    turns = list(world.turns.values())

    assert match_items(request, LookupResult(turns)).matches == {}
    by_reference = World()
    by_reference.learn(body([ASK], **stateful), [reasoning("1"), theirs])
    assert restored(by_reference, [ELSE, sent, output(sent)]) == ["1@1"]


def test_ids_that_recur_prove_nothing_without_their_history() -> None:
    """They follow from the content: two turns share one, so none of them is random."""
    world, told = World(), [ASK]
    for n, words in enumerate(("Done.", "Done.", "It is sunny in Rome today.")):
        made = message(words, words)
        world.learn(body(told), [reasoning(f"{n}"), made])
        told += [made, user(f"And {n}?")]
    mine = told[5]

    assert restored(world, [ELSE, mine, LATE]) == []
    assert restored(world, [*told[:5], mine, LATE])[-1] == "2@5"


# --- two answers running ---

LOOK = "Let me look."


@pytest.mark.parametrize("is_first_lost", [False, True])
def test_the_words_directly_before_a_call_are_of_its_turn(*, is_first_lost: bool) -> None:
    """Two answers running have the same words; no message of the client is between them."""
    world, deed = World(), call("2")
    if not is_first_lost:
        world.learn(body([ASK]), [reasoning("1"), message("1", LOOK)])
    told = [ASK, nameless(message("1", LOOK))]
    first = [] if is_first_lost else ["1@1"]
    assert restored(world, told) == first
    world.learn(body(told), [reasoning("2"), message("2", LOOK), deed])
    told += [nameless(message("2", LOOK)), nameless(deed), output(deed)]

    assert restored(world, told) == [*first, "2@2"]


# --- renumbered counters ---


def test_a_renumbered_call_is_known_by_its_history() -> None:
    """GitHub Copilot makes repeated ids unique: `functions.f:0` becomes `functions.f:1`."""
    world, told = World(), [ASK]
    for n in range(3):
        deed = call(f"{n}", call_id="functions.get_weather:0")
        world.learn(body(told), [reasoning(f"{n}"), deed])
        unique = nameless(deed | {"call_id": f"functions.get_weather:{n}"})
        told += [unique, output(unique)]

    assert restored(world, told) == ["0@1", "1@3", "2@5"]
    assert restored(world, [ELSE, *told[3:]]) == []


# --- the content and the history of one tenant ---

CLEAN = user("Clean up the disk.")
THEIRS = call("theirs", call_id=RECURRING, arguments='{"path":"/tmp/of/another/client"}')


def test_of_names_that_recur_another_content_is_another_call() -> None:
    """The last output before it is the same short one, and the own call is unknown."""
    tenant = Tenant()
    one, two = call("1", call_id=RECURRING), call("2", call_id="call_Xk93bFq27LmZp0aD")
    for start, name in ((ASK, "a"), (CLEAN, "b")):
        first = call(f"{name}1", call_id=RECURRING, arguments=f'{{"of":"{name}"}}')
        tenant.ask([start], reasoning(f"{name}1"), first)
        if name == "a":
            told = [start, nameless(first), output(first, "ok")]
            tenant.ask(told, reasoning("a2"), two | {"arguments": '{"of":"a"}'})
    mine = nameless(two | {"arguments": '{"of":"b, which is another one"}'})
    told = [CLEAN, nameless(one), output(one, "ok"), mine, output(mine, "ok")]

    assert injected("a2") not in tenant.ask(told)


ARGUMENTS = '{"path":"/tmp/of/another/client","force":null}'


@pytest.mark.parametrize("keeps_ids", [True, False], ids=["id-rotates", "ids-dropped"])
def test_an_own_call_is_matched_whatever_its_arguments(*, keeps_ids: bool) -> None:
    """A client completes arguments, and GitHub Copilot changes item ids; its history agrees."""
    tenant = Tenant()
    tenant.ask([ASK], reasoning("1"), THEIRS)
    mine = call("mine", call_id=RECURRING, arguments=ARGUMENTS)
    mine = mine if keeps_ids else nameless(mine)

    seen = tenant.ask([ASK, mine, output(mine)])
    assert dropped(seen) == [ASK, mine, output(mine)]
    assert [item.get("encrypted_content") for item in seen] == [None, "gAAAA1", None, None]


# --- counted ids of equal calls ---


@pytest.mark.parametrize(
    ("kept", "want"),
    [
        pytest.param([0, 1], ["1@1", "2@2"], id="whole"),
        pytest.param([1, 0], [], id="reversed"),
        pytest.param([1], [], id="first-dropped"),
        pytest.param([0], ["1@1"], id="last-dropped"),
    ],
)
def test_the_number_of_an_equal_call_is_not_that_of_its_neighbour(
    kept: list[int], want: list[str]
) -> None:
    """
    One response has two calls with equal arguments, each with its own reasoning.

    The second one alone may be the first one, by a client that counts anew.
    """
    world = World()
    calls = [call(f"{n + 1}", call_id=f"call_{n}") for n in range(2)]
    world.learn(body([ASK], store=False), [reasoning("1"), calls[0], reasoning("2"), calls[1]])
    sent = [nameless(calls[n]) for n in kept]

    assert restored(world, [ASK, *sent, *map(output, sent)]) == want
