"""A captured turn and a request that replays it meet by some key, and by none by chance."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reasoning_replay.core.dialects.base import Origin
from reasoning_replay.core.dialects.responses.capture import ResponsesCapture
from reasoning_replay.core.dialects.responses.items import read_item
from reasoning_replay.core.dialects.responses.request import Request, read_request
from reasoning_replay.core.history.lookup_keys import (
    CONVERSATIONS_LOADED,
    NEWEST_LOOKED_UP,
    RESPONSE,
    SPREAD_LOOKED_UP,
    ConversationChoice,
    Key,
    Lookup,
    certain_keys_of_turn,
    choose,
    key_of_response,
    key_of_turn,
    keys_of_name,
    keys_of_request,
    keys_of_turn,
    response_named_by,
)

from tests.core.world import (
    Item,
    answer,
    body,
    call,
    dropped,
    message,
    output,
    reasoning,
    user,
    without_ids,
)

RESPONSE_ID = "resp_68c96c54970481958484dea31f07926d"
ASK, MORE, LAST = user("Weather?"), user("And tomorrow?"), user("Thanks.")
SYSTEM = {"role": "system", "content": "Be brief."}
R1, C1, SAID = reasoning("1"), call("1"), message("1", "It is sunny.")


def asking(items: list[Item], **more: Any) -> Request:
    """Read a request."""
    return read_request(body(items, **more), {})


def captured(sent: list[Item], items: list[Item], **more: Any) -> list[Key]:
    """Return the keys of the turn that answered a request."""
    request = asking(sent, **more)
    capture = ResponsesCapture(Origin(request.context(), request.model), 1 << 20)
    capture.read(answer(items, RESPONSE_ID))
    turn = capture.snapshot(1).turn
    assert turn is not None
    return keys_of_turn(turn)


def met(kept: list[Key], request: Request) -> dict[int, tuple[int, int]]:
    """Return the place of each item that meets a turn -> how many keys of each strength do."""
    found = {}
    for asked in keys_of_request(request):
        both = tuple(len(set(kept) & set(keys)) for keys in (asked.certain, asked.doubtful))
        if any(both):
            found[asked.place] = (both[0], both[1])
    return found


RENAMED = C1 | {"call_id": "call_0", "id": "fc_0"}

# (what the turn had been told, what it emitted, what is replayed, which item meets it by how many
# certain keys and by how many doubtful ones)
MEETINGS = [
    pytest.param([ASK], [R1, C1], [ASK, C1, output(C1)], {1: (2, 4)}, id="by-everything"),
    pytest.param([ASK], [R1, C1], [C1 | {"arguments": "?"}], {0: (2, 0)}, id="by-its-names"),
    pytest.param([ASK], [C1], [{"id": C1["id"]}], {0: (1, 0)}, id="by-reference"),
    pytest.param(
        [ASK], [C1], [{**without_ids([C1])[0], "arguments": "?"}], {0: (1, 0)}, id="by-call-id"
    ),
    pytest.param(
        [ASK],
        [C1],
        [C1 | {"call_id": C1["id"], "id": "x", "arguments": "?"}],
        {0: (1, 0)},
        id="by-id-used-as-call-id",
    ),
    pytest.param([ASK], [C1], [ASK, RENAMED], {1: (0, 4)}, id="by-history"),
    pytest.param([ASK], [SAID], without_ids([ASK, SAID, MORE]), {1: (0, 4)}, id="message"),
    pytest.param([ASK], [SAID], [SYSTEM, ASK, without_ids([SAID])[0]], {2: (0, 3)}, id="reframed"),
    pytest.param(
        [LAST, ASK],
        [SAID],
        [ASK, without_ids([SAID])[0]],
        {1: (0, 2)},
        id="cut-up-to-the-last-word",
    ),
    pytest.param([ASK], [SAID], [MORE, without_ids([SAID])[0]], {1: (0, 1)}, id="by-text-alone"),
    pytest.param([], [SAID], without_ids([SAID, MORE]), {0: (0, 3)}, id="nothing-said-before"),
    pytest.param(
        [ASK], [SAID], [ASK, {"role": "assistant", "content": "No."}], {}, id="other-text"
    ),
    pytest.param(
        [ASK],
        [call("1", call_id="call_0", id="fc_1")],
        [ASK, call("2", call_id="call_0", id="fc_1", tool="get_time")],
        {},
        id="names-that-are-in-every-conversation",
    ),
    pytest.param([ASK], [R1, SAID], [ASK, R1], {}, id="reasoning-is-no-anchor"),
]


@pytest.mark.parametrize(("told", "emitted", "replayed", "want"), MEETINGS)
def test_a_turn_and_its_replay_meet(
    told: list[Item], emitted: list[Item], replayed: list[Item], want: dict[int, tuple[int, int]]
) -> None:
    """By what upstream named, or by what was said after what; never by what is in every one."""
    assert met(captured(told, emitted), asking(replayed)) == want


@given(
    told=st.lists(st.sampled_from([ASK, MORE, LAST]), min_size=1, max_size=12), ids=st.booleans()
)
@settings(max_examples=50, deadline=None)
def test_every_replay_of_a_history_meets_its_turn(told: list[Item], *, ids: bool) -> None:
    """By the strongest keys there are, however long the history is and goes on."""
    emitted = [R1, C1, SAID]
    replay = [*told, *(dropped(emitted) if ids else without_ids(dropped(emitted))), LAST]
    places = met(captured(told, emitted), asking(replay))

    assert places == {len(told): (2 if ids else 1, 4), len(told) + 1: (1 if ids else 0, 4)}


def test_a_history_that_lies_with_upstream_is_no_key() -> None:
    """What had been said is unknown there, so only names lead on."""
    stateful = {"previous_response_id": "resp_0"}

    assert met(captured([ASK], [C1], **stateful), asking([ASK, RENAMED])) == {}
    assert met(captured([ASK], [C1]), asking([ASK, C1], **stateful)) == {1: (2, 0)}


def test_another_name_of_the_conversation_is_a_weaker_key() -> None:
    """It breaks a tie, and hides nothing."""
    kept = captured([ASK], [SAID], prompt_cache_key="a")

    assert met(kept, asking([ASK, SAID], prompt_cache_key="a")) == {1: (1, 4)}
    assert met(kept, asking([ASK, SAID], prompt_cache_key="b")) == {1: (1, 3)}


def test_a_response_leads_to_its_conversation() -> None:
    """By `previous_response_id`, asked first; and where a client puts its id before a call's."""
    kept = captured([ASK], [call("1", call_id="call_0", id="fc_1")])
    named = call("x", call_id=f"{RESPONSE_ID}:call_0", id="fc_1", arguments="?")
    chained = keys_of_request(asking([LAST], previous_response_id=RESPONSE_ID))

    assert kept[0] == key_of_response(RESPONSE_ID)
    assert met(kept, asking([named])) == {0: (1, 0)}
    assert chained == [Lookup(RESPONSE, [key_of_response(RESPONSE_ID)])]
    assert chained[0].keys == [key_of_response(RESPONSE_ID)]
    both = keys_of_request(asking([C1, LAST], previous_response_id=RESPONSE_ID))
    assert [asked.place for asked in both] == [RESPONSE, 0]


@pytest.mark.parametrize(
    ("call_id", "want"),
    [
        (f"{RESPONSE_ID}:call_0", RESPONSE_ID),
        (f"a:{RESPONSE_ID}:call_0", f"a:{RESPONSE_ID}"),
        (f"{RESPONSE_ID}:", ""),
        (":call_0", ""),
        ("functions.get_weather:0", ""),
        (RESPONSE_ID, ""),
        ("", ""),
    ],
)
def test_a_response_id_is_told_from_a_name(call_id: str, want: str) -> None:
    """It looks drawn at random, and a call's own id stands behind it."""
    fields = {"type": "function_call", "call_id": call_id, "name": "get_weather"}

    assert response_named_by(read_item(json.dumps(fields).encode())) == want


def test_keys_of_a_turn_are_there_once() -> None:
    """Two items that say the same need one entry."""
    keys = captured([ASK], [SAID, SAID | {"id": "msg_2"}])

    assert len(keys) == len(set(keys))


@pytest.mark.parametrize("anchors", [0, 1, 16, 17, 24, 32, 200])
def test_a_long_request_is_looked_up_by_some_of_its_items(anchors: int) -> None:
    """The newest, newest first, and a few spread over the rest from its beginning on."""
    calls = [call(f"{n}") for n in range(anchors)]
    items = [item for one in calls for item in (one, output(one))]
    places = [asked.place for asked in keys_of_request(asking(items))]
    newest = list(range(0, 2 * anchors, 2))[-NEWEST_LOOKED_UP:]

    assert places == sorted(set(places), reverse=True)
    assert places[: len(newest)] == newest[::-1]
    assert len(places) <= NEWEST_LOOKED_UP + SPREAD_LOOKED_UP
    assert anchors == 0 or places[-1] == 0


def test_what_has_no_key_is_not_asked_for() -> None:
    """An anchor with no name that tells, and nothing said."""
    assert keys_of_request(asking([{"type": "web_search_call", "id": "ws_1"}, ASK, R1])) == []


A, B, C, D = b"a", b"b", b"c", b"d"


def chosen(asked: list[Lookup], index: dict[Key, list[bytes]]) -> ConversationChoice:
    """Choose by an index."""
    return choose(asked, lambda key: index.get(key, []))


def many(count: int, prefix: str = "") -> list[bytes]:
    """Return the ids of conversations."""
    return [f"{prefix}{n}".encode() for n in range(count)]


# (what is asked, what each key leads to, the conversations chosen)
CHOICES = [
    pytest.param([], {}, [], id="nothing-asked"),
    pytest.param([Lookup(0, [A], [B])], {}, [], id="nothing-found"),
    pytest.param([Lookup(0, [A])], {A: [b"1"]}, [b"1"], id="certain"),
    pytest.param([Lookup(0, [A], [B])], {A: [b"1"], B: [b"2"]}, [b"1"], id="certain-decides"),
    pytest.param([Lookup(0, [A, B])], {A: [b"1"], B: [b"2"]}, [b"1", b"2"], id="both-certain"),
    pytest.param([Lookup(0, [A], [B, C])], {C: [b"3"]}, [b"3"], id="first-that-leads-anywhere"),
    pytest.param(
        [Lookup(0, [], [B, C])], {B: [b"2"], C: [b"3"]}, [b"2", b"3"], id="then-who-says-the-same"
    ),
    pytest.param([Lookup(0, [], [B])], {B: [b"1", b"2"]}, [b"2", b"1"], id="newest-first"),
    pytest.param(
        [Lookup(2, [A]), Lookup(0, [B])], {A: [b"1"], B: [b"1"]}, [b"1"], id="the-same-one"
    ),
    pytest.param(
        [Lookup(0, [], [A])],
        {A: many(CONVERSATIONS_LOADED)},
        many(CONVERSATIONS_LOADED)[::-1],
        id="just-as-many-as-can-be-compared",
    ),
]


@pytest.mark.parametrize(("asked", "index", "want"), CHOICES)
def test_the_strongest_key_decides(
    asked: list[Lookup], index: dict[Key, list[bytes]], want: list[bytes]
) -> None:
    """All of an item's certain keys, or else its first doubtful one that leads anywhere."""
    assert chosen(asked, index) == ConversationChoice(want, set())


def test_a_crowded_key_decides_nothing() -> None:
    """It is named, and the next item is asked: some of many would look like a clear answer."""
    asked = [Lookup(4, [], [A, B]), Lookup(2, [], [C]), Lookup(RESPONSE, [D])]
    index = {A: many(CONVERSATIONS_LOADED + 1), B: [b"2"], C: [b"3"], D: many(7, "d")}

    assert chosen(asked, index) == ConversationChoice([b"3"], {4, RESPONSE})


def test_no_more_conversations_are_loaded_than_can_be_compared() -> None:
    """The newest items come first; what no longer fits is named, what is loaded already fits."""
    index = {A: many(4), B: many(3, "b"), C: many(2, "c"), D: many(2)}
    asked = [Lookup(n, [], [key]) for n, key in enumerate([A, B, C, D])]

    assert chosen(asked, index) == ConversationChoice([*many(4)[::-1], *many(2, "c")[::-1]], {1})


def test_who_says_the_same_after_another_history_takes_what_room_is_left() -> None:
    """All that the strongest keys lead to goes first; of the others, all or none of an item."""
    asked = [Lookup(2, [], [A, B]), Lookup(0, [], [C])]
    index = {A: [b"mine"], B: many(6), C: [b"before"]}

    assert chosen(asked, index) == ConversationChoice([b"mine", b"before"], set())
    assert len(chosen(asked, index | {B: many(4)}).conversations) == CONVERSATIONS_LOADED


def test_what_is_certain_of_an_older_item_is_not_crowded_out() -> None:
    """The newest item's stock phrase takes only what room the names of all items leave."""
    asked = [Lookup(4, [], [A]), Lookup(2, [B]), Lookup(0, [C])]
    index = {A: many(CONVERSATIONS_LOADED), B: [b"mine"], C: [b"before"]}

    assert chosen(asked, index) == ConversationChoice([b"mine", b"before"], {4})


keys = st.sampled_from([A, B, C, D])
asks = st.builds(Lookup, st.integers(-1, 9), st.lists(keys, max_size=2), st.lists(keys, max_size=3))
indices = st.dictionaries(keys, st.lists(st.sampled_from(many(9)), max_size=9, unique=True))


@given(st.lists(asks, max_size=5), indices)
@settings(max_examples=100, deadline=None)
def test_an_item_is_compared_with_all_or_named(
    asked: list[Lookup], index: dict[Key, list[bytes]]
) -> None:
    """Never are some of the conversations loaded that its deciding key leads to."""
    # As a store has it: a saying leads wherever it leads after a history.
    for item in asked * len(asked):
        if any(index.get(key) for key in item.doubtful) and not index.get(item.doubtful[-1]):
            index[item.doubtful[-1]] = many(1)
    choice = chosen(asked, index)

    assert len(choice.conversations) == len(set(choice.conversations)) <= CONVERSATIONS_LOADED
    for item in asked:
        certain = [c for key in item.certain for c in index.get(key, [])]
        doubtful = next((found for key in item.doubtful if (found := index.get(key))), [])
        if item.place not in choice.crowded:
            assert set(certain or doubtful) <= set(choice.conversations)


def test_a_name_leads_to_the_conversation_of_its_item() -> None:
    """Upstream names an item by id, and a call by `call_id`; both are keys of its turn."""
    asked = read_request(body([ASK]), {})
    capture = ResponsesCapture(Origin(asked.context(), asked.model), 1 << 20)
    capture.read(answer([R1, C1], RESPONSE_ID))
    turn = capture.snapshot(1).turn
    assert turn is not None
    keys = keys_of_turn(turn)

    for name in (R1["id"], C1["id"], C1["call_id"]):
        assert set(keys_of_name(name)) <= set(keys)
        assert keys_of_name(name)
    for name in ("", "call_0", "..."):
        assert keys_of_name(name) == []


def test_certain_keys_are_those_of_names_and_of_the_turn() -> None:
    """None of what is said, which others may say too; each of them leads to the turn as well."""
    asked = asking([user("hi")])
    capture = ResponsesCapture(Origin(asked.context(), asked.model), 1 << 20)
    capture.read(answer([R1, C1], RESPONSE_ID))
    turn = capture.snapshot(1).turn
    assert turn is not None
    certain = certain_keys_of_turn(turn)
    names = [key for name in (R1["id"], C1["id"], C1["call_id"]) for key in keys_of_name(name)]
    assert sorted(certain) == sorted([key_of_turn(turn.id), *names])
    assert key_of_turn(turn.id) == key_of_response(RESPONSE_ID)
    assert set(certain) < set(keys_of_turn(turn))


def test_an_id_without_content_is_looked_up() -> None:
    """Reasoning that stands for a stored item is what upstream may not find."""
    hollow = {key: value for key, value in R1.items() if key != "encrypted_content"}

    assert [one.place for one in keys_of_request(read_request(body([ASK, hollow]), {}))] == [1]
    assert keys_of_request(read_request(body([ASK, R1]), {})) == []


def test_doubtful_keys_are_a_sequence_like_any_other() -> None:
    """Though they are made only when somebody looks at them."""
    (asked,) = keys_of_request(asking([ASK, C1]))

    assert asked.doubtful
    assert asked.doubtful[:] == [*asked.doubtful]
    assert asked.doubtful[-1] == [*asked.doubtful][-1]
    assert asked.doubtful[0] == asked.keys[len(asked.certain)]
    assert len(asked.doubtful) == len(asked.keys) - len(asked.certain)
