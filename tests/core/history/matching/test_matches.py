"""Matching: decides by evidence which captured turn an item came from, or that it is unknown."""

import pytest
from msgspec import structs
from reasoning_replay.core.dialects.responses.request import read_request
from reasoning_replay.core.history.lookup_keys import LookupResult
from reasoning_replay.core.history.matching.matches import is_whole, match_items, match_refused
from reasoning_replay.core.history.plan import Outcome
from reasoning_replay.core.history.seen import seen_of

from tests.core.history.matching.notation import captured, injected, rows
from tests.core.world import (
    Item,
    World,
    body,
    call,
    drawn,
    message,
    nameless,
    output,
    reasoning,
    reasons,
    restored,
    search,
    user,
    without_ids,
)

ASK = user("What is the weather in Paris?")
MORE = user("And tomorrow?")
R1, C1 = reasoning("1"), call("1")
R2, A2 = reasoning("2"), message("2", "It is sunny in Paris today.")
RECURRING = "call_a8K2mPqZ7Lx93Qw5Rt61Vb4c"


@pytest.mark.parametrize(("turns", "sent", "want"), rows("matches.md"))
def test_an_item_gets_the_reasoning_of_its_turn_or_none(turns: str, sent: str, want: str) -> None:
    """Each row is one piece of evidence, or something that contradicts it."""
    assert injected(captured(turns), sent) == want


def test_what_is_unclear_is_counted() -> None:
    """Nothing is injected for an item that more than one turn could have emitted."""
    world = captured('x2 u1 => r# m#"Sunny."')
    decided = world.ask(body([ASK, *without_ids([message("1", "Sunny.")]), MORE]))[2]

    assert decided.outcomes == {Outcome.AMBIGUOUS: 1}
    assert decided.edits == ()


@pytest.mark.parametrize(
    ("heads", "is_refused", "want"),
    [
        pytest.param(([], []), False, [], id="not-refused"),
        pytest.param(([], []), True, [1], id="oldest"),
        pytest.param(([MORE], [user("Hello?")]), True, [], id="other-histories"),
    ],
)
def test_of_equal_turns_the_oldest_is_taken_after_a_refusal_only(
    heads: tuple[list[Item], list[Item]], want: list[int], *, is_refused: bool
) -> None:
    """Nothing visible tells them apart, so the oldest may be used if upstream demands one."""
    world, said = World(), nameless(A2)
    for n, head in enumerate(heads, 1):
        world.learn(body([*head, ASK]), [reasoning(f"{n}"), said])
    request = read_request(body([ASK, said, user("Thanks.")]), {})
    match = match_refused if is_refused else match_items
    found = match(request, world.recall(request))

    assert [match.turn.created_ms for match in found.matches.values()] == want
    assert found.ambiguous == ({1} if not want else set())


def test_a_history_without_its_head_is_matched_by_its_newest_items() -> None:
    """A history that a client truncated at the start is matched by the part that is left."""
    world = World()
    sent = [user("start")]
    for n in range(12):
        said = message(str(n), f"Answer number {n % 2}.")
        world.learn(body(sent), [reasoning(str(n)), said])
        sent = [*sent, *without_ids([said]), user(f"Please answer question {n}.")]

    for start in range(1, len(sent) - 2, 2):
        seen = world.seen(body(sent[start:], store=False))
        held = reasons(seen)
        assert held[-1] == "11"
        assert held == [f"{n}" for n in range(12 - len(held), 12)]


def test_a_history_edited_at_its_start_is_matched_by_its_newest_items() -> None:
    """Eight equal messages in a row identify the conversation, whatever older messages became."""
    world = World()
    sent = [user("start")]
    for n in range(12):
        said = message(str(n), "Done.")
        world.learn(body(sent), [reasoning(str(n)), said])
        sent = [*sent, *without_ids([said]), user(f"question {n}")]
    edited = [user("summary of the start"), *sent[1:]]

    seen = world.seen(body(edited, store=False))

    held = reasons(seen)
    # The first one stands directly before the second one, which is the child of its turn.
    assert held == [f"{n}" for n in range(12)]


def test_hosted_items_are_matched_by_their_neighbours() -> None:
    """A search with a rewritten query still matches next to the call that it was emitted with."""
    world = World()
    hosted = {**search("1"), "call_id": None, "type": "tool_search_call"}
    world.learn(body([ASK]), [R1, hosted, reasoning("2"), C1])
    rewritten = {key: value for key, value in hosted.items() if key not in ("id", "action")}

    seen = world.seen(body([ASK, {**rewritten, "arguments": "x"}, *without_ids([C1]), output(C1)]))

    assert [item["type"] for item in seen[1:]] == [
        "reasoning",
        "tool_search_call",
        "reasoning",
        "function_call",
        "function_call_output",
    ]


def test_many_equal_messages_in_one_conversation_are_ambiguous() -> None:
    """Content that fits too many turns decides nothing, so the work stays linear."""
    world = World()
    sent = [user("go")]
    for n in range(40):
        said = message(str(n), "Done.")
        world.learn(body(sent), [reasoning(str(n)), said])
        sent = [*sent, said, user("go")]

    _, recognised, _ = world.ask(body([user("x"), *without_ids(sent[-20:])]))

    assert recognised.matches == {}
    assert recognised.ambiguous


def test_equal_messages_are_distinguished_by_the_whole_history() -> None:
    """Any number of turns may have the same content, because each has another history."""
    world = World()
    sent = [user("go")]
    for n in range(40):
        said = message(str(n), "Done.")
        world.learn(body(sent), [reasoning(str(n)), said])
        sent = [*sent, *without_ids([said]), user("go")]

    assert reasons(world.seen(body(sent, store=False))) == [f"{n}" for n in range(40)]
    assert restored(world, sent[:3]) == ["0@1"]  # the client returns to the start


def test_a_long_lineage_that_was_dropped_costs_little() -> None:
    """Only the certain item is matched, and the search for its ancestors is bounded."""
    world = World()
    sent = [user("start")]
    for n in range(40):
        said = message(str(n), f"Answer {n}.")
        world.learn(body(sent), [reasoning(str(n)), said])
        sent = [*sent, said, user(f"question {n}")]
    last = call("last")
    world.learn(body(sent), [reasoning("last"), last])
    other = [user("Hi"), *without_ids([message("x", "Hello.")]), user("Go on."), last, output(last)]

    assert reasons(world.seen(body(other, store=False))) == ["last"]


@pytest.mark.parametrize(
    ("sent", "lost", "want"),
    [
        pytest.param([ASK, C1, output(C1)], 0, True, id="whole-conversation"),
        pytest.param([ASK, C1, output(C1), A2, MORE], 0, True, id="two-turns"),
        pytest.param([ASK, C1, output(C1), A2, MORE, call("9")], 0, False, id="unknown-end"),
        pytest.param([ASK, C1, output(C1), A2, MORE], 1, False, id="unknown-parent"),
        pytest.param([ASK, message("9", "Few-shot."), ASK, C1], 0, True, id="unknown-head"),
        pytest.param([ASK, call("9")], 0, False, id="nothing-known"),
    ],
)
def test_a_cached_conversation_is_whole_if_no_ancestor_is_missing(
    sent: list[Item], lost: int, *, want: bool
) -> None:
    """Without the store, one part of a conversation cannot be distinguished from another part."""
    world = captured('u1 => r1 c1 / .. o1 => r2 m2"It is sunny in Paris today."')
    request = read_request(body(sent), {})
    found = world.recall(request)
    found = found._replace(turns=found.turns[lost:])

    assert is_whole(request, match_items(request, found), found) is want


@pytest.mark.parametrize(("was_found", "want"), [(True, True), (False, False)])
def test_a_cached_conversation_that_began_after_a_failed_lookup_is_not_whole(
    *, was_found: bool, want: bool
) -> None:
    """That lookup missed the turns before it, which another conversation has."""
    world, head = World(), message("9", "Hello.")
    world.learn(body([ASK, head, MORE]), [R1, C1])
    request = read_request(body([ASK, head, MORE, C1, output(C1)]), {})
    found = world.recall(request)
    (turn,) = found.turns
    decided = seen_of(turn.id, 1, [(1, turn.id, 0)]) if was_found else None
    found = found._replace(turns=[structs.replace(turn, seen=decided)])

    assert is_whole(request, match_items(request, found), found) is want


@pytest.mark.parametrize(("is_lost", "want"), [(False, ["1@1", "2@3"]), (True, ["1@1"])])
def test_a_turn_that_lost_its_parent_may_be_the_child_as_well(
    want: list[str], *, is_lost: bool
) -> None:
    """A client asks again and takes that answer, but the lookup of its request had failed."""
    world, said = World(), nameless(message("", "Sunny."))
    told = [ASK, nameless(C1), output(C1)]
    world.learn(body([ASK]), [R1, C1])
    world.learn(body(told), [R2, message("2", "Sunny.")])
    if is_lost:
        world.learn(body(told), [reasoning("3"), message("3", "Sunny.")], has_failed=True)

    assert restored(world, [user("Edited."), *told[1:], said, MORE]) == want


@pytest.mark.parametrize("keeps_ids", [True, False])
def test_a_crowded_name_decides_nothing(*, keeps_ids: bool) -> None:
    """Of many conversations with a name, only one happens to be there: a local copy."""
    world, theirs = World(), call("theirs", call_id=RECURRING)
    world.learn(body([ASK]), [reasoning("theirs"), theirs])
    sent = theirs if keeps_ids else nameless(theirs)
    request = read_request(body([MORE, sent, output(sent)]), {})

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


def test_an_unknown_history_contradicts_nothing() -> None:
    """Upstream has the history of a request that names a response."""
    theirs = call("1", call_id=RECURRING)
    sent = nameless(theirs | {"arguments": "{}"})
    stateful = {"previous_response_id": f"resp_{drawn(0)}"}
    request = read_request(body([output(theirs), sent], **stateful), {})
    turns = list(captured("u1 => r1 c1:rec").turns.values())

    assert match_items(request, LookupResult(turns)).matches == {}
