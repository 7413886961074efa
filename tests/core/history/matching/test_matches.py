"""Matching: decides by evidence which captured turn an item came from, or that it is unknown."""

from collections.abc import Callable

import pytest
from msgspec import structs
from reasoning_replay.core.dialects.responses.request import read_request
from reasoning_replay.core.history.matching.matches import is_whole, match_items
from reasoning_replay.core.history.plan import Outcome
from reasoning_replay.core.history.seen import seen_of

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
    restored,
    search,
    user,
    without_ids,
)

ASK = user("What is the weather in Paris?")
MORE = user("And tomorrow?")
R1, C1 = reasoning("1"), call("1")
R2, A2 = reasoning("2"), message("2", "It is sunny in Paris today.")


def one_round() -> World:
    """Return a world that captured a call and the answer that followed it."""
    world = World()
    world.learn(body([ASK]), [R1, C1])
    world.learn(body([ASK, C1, output(C1)]), [R2, A2])
    return world


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param([ASK, C1, output(C1)], id="as-emitted"),
        pytest.param([ASK, *without_ids([C1]), output(C1)], id="call-id-alone"),
        pytest.param([C1, output(C1)], id="head-cut"),
        pytest.param([user("edited"), *without_ids([C1]), output(C1)], id="history-edited"),
        pytest.param([ASK, {**C1, "call_id": "mine-1"}, output(C1)], id="own-id-alone"),
        pytest.param(
            [ASK, {**C1, "id": "fc_invented", "call_id": C1["id"]}, output(C1)], id="id-as-call-id"
        ),
        pytest.param(
            [
                ASK,
                *without_ids([{**C1, "call_id": "renumbered", "arguments": '{"city": "Paris"}'}]),
            ],
            id="place-and-content",
        ),
        pytest.param(
            [ASK, *without_ids([{**C1, "call_id": f"resp_{drawn(1)}:{C1['call_id']}"}])],
            id="response-id-in-call-id",
        ),
        pytest.param([ASK, {**C1, "type": "custom_tool_call", "id": ""}], id="another-type"),
        pytest.param([ASK, {"type": "item_reference", "id": C1["id"]}], id="by-reference"),
        pytest.param([ASK, {"id": C1["id"]}], id="by-bare-reference"),
    ],
)
def test_any_single_evidence_matches_a_call(sent: list[dict[str, object]]) -> None:
    """Each of id, call id, place with content, and reference leads to the turn on its own."""
    _, recognised, _ = one_round().ask(body(sent))

    assert [match.emitted.id for match in recognised.matches.values()] == [C1["id"]]


def test_each_item_keeps_its_own_turn_if_nothing_is_between_them() -> None:
    """A client that drops an output sends the items of two turns, and new ones, side by side."""
    _, recognised, _ = one_round().ask(body([ASK, C1, A2, call("9")]))

    assert [match.emitted.id for match in recognised.matches.values()] == [C1["id"], A2["id"]]


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param([ASK, {**C1, "name": "other_tool"}], id="another-tool"),
        pytest.param(
            [ASK, {**C1, "type": "custom_tool_call", "name": "other"}], id="another-type-and-tool"
        ),
        pytest.param([ASK, {**C1, "type": "custom_tool_call", "call_id": ""}], id="another-type"),
        pytest.param([ASK, {**C1, "type": "custom_tool_call", "name": ""}], id="without-a-name"),
        pytest.param([ASK, {**C1, "call_id": call("9")["call_id"], "id": "fc_x"}], id="new-call"),
        pytest.param([user("Hi"), *without_ids([A2])], id="text-after-something-else"),
        pytest.param([ASK, user("x"), *without_ids([A2])], id="longer-history"),
        pytest.param([5, None, "x", [], {"type": 5}], id="no-items"),
    ],
)
def test_contradictory_evidence_matches_nothing(sent: list[object]) -> None:
    """An item of another tool, type, call or history does not match a captured one."""
    _, recognised, _ = one_round().ask(body(sent))  # type: ignore[arg-type]

    assert recognised.matches == {}


def test_a_history_with_an_earlier_start_is_another_one() -> None:
    """A captured turn with a shorter history before it did not emit the item."""
    world = World()
    world.learn(body([ASK]), [R2, A2])

    _, recognised, _ = world.ask(body([user("Earlier."), ASK, *without_ids([A2]), MORE]))

    assert recognised.matches == {}


@pytest.mark.parametrize("strip", [dropped, without_ids])
def test_a_message_is_matched_by_its_history(
    strip: Callable[[list[Item]], list[Item]],
) -> None:
    """The same text after the same history is the same message, with or without its id."""
    sent = [ASK, *strip([C1]), output(C1), *strip([A2]), MORE]

    _, recognised, _ = one_round().ask(body(sent))

    assert [match.emitted.id for match in recognised.matches.values()] == [C1["id"], A2["id"]]


@pytest.mark.parametrize("likenesses", [2, 12])
def test_identical_conversations_are_ambiguous(likenesses: int) -> None:
    """If two turns are equally likely, or more than can be compared, nothing is injected."""
    world = World()
    for n in range(likenesses):
        world.learn(body([ASK]), [reasoning(str(n)), message(str(n), "Sunny.")])
    sent = [ASK, *without_ids([message("1", "Sunny.")]), MORE]

    _, recognised, decided = world.ask(body(sent))

    assert recognised.ambiguous == {1}
    assert decided.outcomes == {Outcome.AMBIGUOUS: 1}
    assert decided.edits == ()


@pytest.mark.parametrize("likenesses", [1, 12])
@pytest.mark.parametrize("field", ["instructions", "prompt_cache_key"])
def test_the_frame_or_the_hint_breaks_a_tie(field: str, likenesses: int) -> None:
    """Of many equal turns, the one with the same instructions or the same hint is matched."""
    world = World()
    world.learn(body([ASK], **{field: "ours"}), [reasoning("0"), message("0", "Sunny.")])
    for n in range(1, 1 + likenesses):
        theirs = {field: f"theirs {n}"}
        world.learn(body([ASK], **theirs), [reasoning(str(n)), message(str(n), "Sunny.")])
    sent = [ASK, *without_ids([message("0", "Sunny.")]), MORE]

    assert restored(world, sent, **{field: "ours"}) == ["0@1"]


@pytest.mark.parametrize(("asked", "matches"), [(ASK, 1), (user("Hi"), 0)])
def test_other_instructions_do_not_prevent_a_match(asked: Item, matches: int) -> None:
    """Instructions may contain the time; only a short history requires the same instructions."""
    world = World()
    world.learn(body([asked], instructions="A"), [R1, message("1", "Sunny.")])

    _, recognised, _ = world.ask(
        body([asked, *without_ids([message("1", "Sunny.")]), MORE], instructions="B")
    )

    assert len(recognised.matches) == matches


@pytest.mark.parametrize("later", [call("3"), message("3", "You are most welcome.")])
def test_lineage_resolves_an_ambiguous_item(later: Item) -> None:
    """If two turns match equally, the turn that follows, known by id or text, names its parent."""
    world = World()
    sunny = message("1", "Sunny.")
    world.learn(body([ASK]), [reasoning("1"), sunny])
    told = [ASK, *without_ids([sunny]), MORE]
    world.learn(body(told), [reasoning("3"), later])  # the other client asks only after this
    world.learn(body([ASK]), [reasoning("2"), message("2", "Sunny.")])

    seen = world.seen(body([*told, *without_ids([later]), user("Bye")], store=False))

    assert reasons(seen) == ["1", "3"]


def test_a_child_of_another_parent_resolves_nothing() -> None:
    """The item stays ambiguous if the turn that follows has a parent with other content."""
    world = one_round()
    later = call("5")
    told = [ASK, C1, output(C1), A2, MORE]
    world.learn(body(told), [reasoning("5"), later])
    for n in ("6", "7"):
        world.learn(body([user("Rome?")]), [reasoning(n), message(n, "Sunny.")])
    mixed = [user("Rome?"), *without_ids([message("6", "Sunny.")]), later]

    _, recognised, _ = world.ask(body(mixed))

    assert recognised.ambiguous == {1}
    assert list(recognised.matches) == [2]


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


def test_a_window_of_short_messages_is_no_evidence() -> None:
    """The turn stood deeper in its conversation, and "yes" may stand anywhere."""
    world = World()
    sent = [user("start"), *without_ids([message("a", "A first answer.")]), user("yes")]
    said = message("b", "I have looked into this, and all is well.")
    world.learn(body(sent), [reasoning("b"), said])

    assert reasons(world.seen(body([*sent[2:], *without_ids([said]), user("Thanks.")]))) == ["b"]
    deep = [user("one"), user("two"), *sent]
    world.learn(body(deep), [reasoning("c"), message("c", "It is another long answer to all.")])
    window = [user("yes"), *without_ids([message("c", "It is another long answer to all.")])]
    assert reasons(world.seen(body([*window, user("Thanks.")]))) == []


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


def test_a_neighbour_with_another_known_id_is_not_matched_by_place() -> None:
    """An id that upstream emitted in another turn is stronger evidence than the place."""
    world = World()
    world.learn(body([ASK]), [R1, search("1"), C1])
    world.learn(body([user("Rome?")]), [R2, search("2")])

    _, recognised, _ = world.ask(body([ASK, search("2"), C1, output(C1)]))

    assert recognised.matches[1].emitted.id == f"ws_{drawn(2)}" or 1 not in recognised.matches


ANOTHER_CALL = call("9z")


@pytest.mark.parametrize(
    ("behind", "injected"),
    [
        pytest.param([ANOTHER_CALL, output(ANOTHER_CALL)], [], id="a-call-of-another-response"),
        pytest.param([reasoning("9"), ANOTHER_CALL], ["9"], id="with-reasoning-before-it"),
        pytest.param([C1, output(C1)], ["1"], id="its-own-call"),
        pytest.param([call("4", call_id="call_0")], [], id="a-call-with-a-counted-id"),
        pytest.param([search("9")], [], id="no-call"),
        pytest.param([MORE, ANOTHER_CALL], ["1"], id="a-call-later"),
        pytest.param([reasoning("9")], ["1", "9"], id="nothing"),
        pytest.param([], ["1"], id="the-end"),
    ],
)
def test_text_before_an_unknown_call_is_from_another_response(
    behind: list[Item], injected: list[str]
) -> None:
    """Two responses began alike, and the client continues with the one that was not captured."""
    world = World()
    first = message("1", "Let me look.")
    world.learn(body([ASK]), [R1, first, C1])

    seen = world.seen(body([ASK, *without_ids([first]), *behind], store=False))

    assert reasons(seen) == injected


def test_a_known_call_does_not_contradict_the_text_before_it() -> None:
    """A client that prunes its history may have dropped the items between the two."""
    world = World()
    first, later = message("1", "Let me look."), call("3")
    world.learn(body([ASK]), [R1, first, C1])
    world.learn(body([ASK, first, C1, output(C1)]), [reasoning("3"), later])

    pruned = [ASK, *without_ids([first, later]), output(later)]

    assert reasons(world.seen(body(pruned, store=False))) == ["1", "3"]


def test_forks_share_the_reasoning_of_their_common_turns() -> None:
    """Two continuations of one turn each get its reasoning and, in addition, only their own."""
    world = World()
    world.learn(body([ASK]), [R1, C1])
    told = [ASK, *without_ids([C1]), output(C1)]
    left, right = message("2", "Sunny."), message("3", "Sunny, they say.")
    world.learn(body(told), [reasoning("2"), left])
    world.learn(body(told), [reasoning("3"), right])

    for said, own in ((left, "2"), (right, "3")):
        seen = world.seen(body([*told, *without_ids([said]), MORE], store=False))
        assert reasons(seen) == ["1", own]


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


def test_short_content_requires_the_same_hint() -> None:
    """Short content is no evidence if the client names the conversation differently."""
    world = World()
    sunny = message("1", "Sunny.")
    world.learn(body([user("Hi")], prompt_cache_key="theirs"), [R1, sunny])
    sent = [user("Hi"), *without_ids([sunny]), MORE]

    assert reasons(world.seen(body(sent, prompt_cache_key="ours", store=False))) == []
    assert reasons(world.seen(body(sent, prompt_cache_key="theirs", store=False))) == ["1"]


def test_a_turn_of_another_lineage_is_not_matched() -> None:
    """The turn has a parent, and that parent is not the one in this history."""
    world = one_round()
    other = call("7")
    world.learn(body([ASK]), [reasoning("7"), other])
    sent = [ASK, *without_ids([other]), output(other), *without_ids([A2]), MORE]

    assert reasons(world.seen(body(sent, store=False))) == ["7"]


def test_a_turn_with_an_unknown_history_is_matched_by_names_only() -> None:
    """If upstream stored a history that is not known, the place of the turn in it is not either."""
    world = World()
    sunny = message("1", "Sunny.")
    world.learn(body([ASK]), [R1, sunny])
    world.learn(body([MORE], previous_response_id="resp_of_another"), [reasoning("2"), call("2")])
    sent = [user("Hi"), *without_ids([sunny]), MORE, *without_ids([call("2")])]

    assert reasons(world.seen(body(sent, store=False))) == ["2"]


def test_calls_between_outputs_belong_to_the_same_turn() -> None:
    """Parallel calls may be sent one by one, each with its output, and under other call ids."""
    world = World()
    one, two, three = call("1"), call("2"), call("3", arguments='{"city":"Rome"}')
    parts = [reasoning("1"), one, reasoning("2"), two, reasoning("3"), three]
    world.learn(body([ASK]), parts)
    renamed = [
        {**without_ids([each])[0], "call_id": f"mine_{n}"} for n, each in enumerate([one, three])
    ]
    sent = [ASK, renamed[0], output(renamed[0]), two, output(two), renamed[1], output(renamed[1])]

    assert reasons(world.seen(body(sent, store=False))) == ["1", "2", "3"]


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


def test_a_conversation_that_begins_with_the_model_is_matched_by_its_frame() -> None:
    """Without an earlier item of the client, only the same instructions make a match."""
    world = World()
    hello = message("1", "Hello!")
    world.learn(body([], instructions="Greet."), [R1, hello])

    _, same, _ = world.ask(body([*without_ids([hello]), ASK], instructions="Greet."))
    _, other, _ = world.ask(body([*without_ids([hello]), ASK], instructions="Scold."))

    assert len(same.matches) == 1
    assert other.matches == {}


def test_of_a_crowd_that_was_not_loaded_only_relatives_are_matched() -> None:
    """An equal turn is no match merely because its conversation happens to be loaded."""
    world = World()
    hello, welcome = message("1", "Hello!"), message("2", "You are welcome.")
    told = [ASK, *without_ids([hello]), user("thanks")]
    world.learn(body([ASK]), [reasoning("A1"), hello])
    world.learn(body(told), [reasoning("A2"), welcome])
    for n in range(8):
        world.learn(body([ASK]), [reasoning(f"B{n}"), message(f"B{n}", "Hello!")])

    own = world.seen(body([*told, *without_ids([welcome]), MORE], store=False))
    other = [ASK, *without_ids([hello]), user("Rome?"), *without_ids([welcome]), MORE]

    assert reasons(own) == ["A1", "A2"]
    assert reasons(world.seen(body(other, store=False))) == []


def test_earlier_items_of_the_model_distinguish_twins() -> None:
    """The same client items after another call belong to another conversation."""
    world = World()
    ours, theirs = call("1"), call("9z", arguments='{"city":"Rome"}')
    world.learn(body([ASK]), [reasoning("1"), ours])
    world.learn(body([ASK, ours, output(ours)]), [reasoning("2"), message("2", "Sunny.")])
    sent = [ASK, *without_ids([theirs]), output(theirs), *without_ids([message("2", "Sunny.")])]

    assert reasons(world.seen(body([*sent, MORE], store=False))) == []


def test_a_neighbour_with_a_call_id_of_its_own_is_another() -> None:
    """A call that replaced a parallel one gets neither its id nor its reasoning."""
    world = World()
    first, second, new = call("1"), call("2"), call("9z")
    world.learn(body([ASK]), [reasoning("1"), first, reasoning("2"), second])

    seen = world.seen(body([ASK, *without_ids([first, new]), output(first), output(new)]))

    assert reasons(seen) == ["1"]
    assert seen[3] == without_ids([new])[0]


def test_a_developer_message_does_not_affect_earlier_items() -> None:
    """An appended developer message does not change the frame of the items before it."""
    world = World()
    system = {"role": "system", "content": "S"}
    said = message("1", "It is sunny.")
    world.learn(body([system, ASK]), [reasoning("1"), said])
    note = {"role": "developer", "content": "mode: plan"}

    seen = world.seen(body([system, ASK, *without_ids([said]), note, MORE], store=False))

    assert reasons(seen) == ["1"]


@pytest.mark.parametrize(
    "heard",
    [
        pytest.param([ASK, message("3", "Hm."), MORE], id="after-another-response"),
        pytest.param([MORE], id="after-no-response"),
    ],
)
def test_a_turn_that_follows_neither_twin_resolves_nothing(heard: list[Item]) -> None:
    """The item stays ambiguous if the next turn continued neither of the two candidates."""
    world = World()
    for name in ("1", "2"):
        world.learn(body([ASK]), [reasoning(name), message(name, "Done.")])
    world.learn(body([ASK]), [message("3", "Hm.")])
    last = call("4")
    world.learn(body(heard), [reasoning("4"), last])
    rewritten = without_ids([message("9", "Done.")])

    _, recognised, _ = world.ask(body([ASK, *rewritten, MORE, last, output(last)]))

    assert recognised.ambiguous == {1}


def after(named: str) -> dict[str, str]:
    """Return the fields that name the previous response."""
    return {"previous_response_id": f"resp_{drawn(named)}"}


def test_turns_after_the_named_response_are_matched() -> None:
    """Upstream stores that response and its history; later calls are sent by value."""
    world, one, two = World(), call("3"), call("4")
    world.learn(body([ASK]), [R1, A2])
    world.learn(body([MORE], **after("1")), [reasoning("3"), one])
    world.learn(body([MORE, one, output(one)], **after("1")), [reasoning("4"), two])
    sent = [MORE, one, output(one), two, output(two)]

    assert reasons(world.seen(body(sent, **after("1")))) == ["3", "4"]
    assert reasons(world.seen(body(sent, **after("2")))) == ["4"]
    assert reasons(world.seen(body(sent, **after("9")))) == []
    assert reasons(world.seen(body(sent, conversation="conv_1"))) == []


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
    world = one_round()
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


def test_reordered_items_of_a_turn_are_matched_only_by_their_ids() -> None:
    """The client moved them, so an item between two of them is not matched by its place."""
    world = World()
    first, second = call("1"), call("2")
    world.learn(body([ASK]), [R1, first, A2, second])
    sent = [ASK, second, *without_ids([A2]), first, output(first), output(second)]
    request = read_request(body(sent), {})
    found = match_items(request, world.recall(request))

    assert {n: match.k for n, match in found.matches.items()} == {1: 2, 3: 0}


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
    found = match_items(request, world.recall(request), anew=is_refused)

    assert [match.turn.created_ms for match in found.matches.values()] == want
    assert found.ambiguous == ({1} if not want else set())
