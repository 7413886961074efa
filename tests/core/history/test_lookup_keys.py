"""Lookup keys: a captured turn and a request that replays it share a key, and never by chance."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reasoning_replay.core.dialects.captures import Origin
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
    choose,
    count_led,
    id_keys_of_turn,
    key_of_response,
    key_of_turn,
    keys_of_name,
    keys_of_request,
    keys_of_turn,
    response_named_by,
)
from reasoning_replay.core.history.turns import Turn

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
from tests.fast_lane import examples

RESPONSE_ID = "resp_68c96c54970481958484dea31f07926d"
ASK, MORE, LAST = user("Weather?"), user("And tomorrow?"), user("Thanks.")
SYSTEM = {"role": "system", "content": "Be brief."}
R1, C1, SAID = reasoning("1"), call("1"), message("1", "It is sunny.")


def asking(items: list[Item], **more: Any) -> Request:
    """Read a request."""
    return read_request(body(items, **more), {})


def turn_of(sent: list[Item], items: list[Item], **more: Any) -> Turn:
    """Return the turn that answered a request."""
    request = asking(sent, **more)
    capture = ResponsesCapture(Origin(request.context(), request.model), 1 << 20)
    capture.read(answer(items, RESPONSE_ID))
    turn = capture.snapshot(1).turn
    assert turn is not None
    return turn


def captured(sent: list[Item], items: list[Item], **more: Any) -> list[Key]:
    """Return the keys of the turn that answered a request."""
    return [*keys_of_turn(turn_of(sent, items, **more))]


def met(kept: list[Key], request: Request) -> dict[int, tuple[int, int]]:
    """Return the place of each item that shares keys with a turn -> their number by strength."""
    found = {}
    for asked in keys_of_request(request):
        both = tuple(len(set(kept) & set(keys)) for keys in (asked.id_keys, asked.content_keys))
        if any(both):
            found[asked.place] = (both[0], both[1])
    return found


RENAMED = C1 | {"call_id": "call_0", "id": "fc_0"}

# (history before the turn, items it emitted, items replayed, place of each item that shares keys
# with the turn -> number of certain and of doubtful keys)
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
        id="cut-to-the-last-message",
    ),
    pytest.param([ASK], [SAID], [MORE, without_ids([SAID])[0]], {1: (0, 1)}, id="by-text-alone"),
    pytest.param([], [SAID], without_ids([SAID, MORE]), {0: (0, 3)}, id="empty-history"),
    pytest.param(
        [ASK], [SAID], [ASK, {"role": "assistant", "content": "No."}], {}, id="other-text"
    ),
    pytest.param(
        [ASK],
        [call("1", call_id="call_0", id="fc_1")],
        [ASK, call("2", call_id="call_0", id="fc_1", tool="get_time")],
        {},
        id="names-of-every-conversation",
    ),
    pytest.param([ASK], [R1, SAID], [ASK, R1], {}, id="reasoning-is-no-anchor"),
]


@pytest.mark.parametrize(("told", "emitted", "replayed", "want"), MEETINGS)
def test_a_turn_and_its_replay_share_keys(
    told: list[Item], emitted: list[Item], replayed: list[Item], want: dict[int, tuple[int, int]]
) -> None:
    """Keys come from upstream's names and from content after a history, never from common names."""
    assert met(captured(told, emitted), asking(replayed)) == want


@pytest.mark.parametrize(
    ("told", "replayed", "want"),
    [
        ([ASK], [ASK, SAID], (1, 1)),
        ([ASK], [ASK, *without_ids([SAID])], (1, 1)),
        ([ASK], [MORE, LAST, *without_ids([SAID]), MORE], (0, 1)),
        ([ASK], [ASK, {"role": "assistant", "content": "No."}], (0, 0)),
        ([], [], (0, 0)),
    ],
    ids=["by-its-id", "by-its-history", "by-its-text-alone", "another", "none"],
)
def test_the_items_that_lead_to_turns_are_counted(
    told: list[Item], replayed: list[Item], want: tuple[int, int]
) -> None:
    """A bare text counts less, because many conversations may have it."""
    turns = [turn_of(told, [SAID])] if told else []
    assert count_led(keys_of_request(asking(replayed)), turns) == want


@given(
    told=st.lists(st.sampled_from([ASK, MORE, LAST]), min_size=1, max_size=12), ids=st.booleans()
)
@examples(50)
def test_every_replay_of_a_history_shares_keys_with_its_turn(
    told: list[Item], *, ids: bool
) -> None:
    """The strongest keys match, however long the history is before and after the turn."""
    emitted = [R1, C1, SAID]
    replay = [*told, *(dropped(emitted) if ids else without_ids(dropped(emitted))), LAST]
    places = met(captured(told, emitted), asking(replay))

    assert places == {len(told): (2 if ids else 1, 4), len(told) + 1: (1 if ids else 0, 4)}


def test_a_history_stored_at_upstream_gives_no_keys() -> None:
    """The earlier items are unknown, so only names are keys."""
    stateful = {"previous_response_id": "resp_0"}

    assert met(captured([ASK], [C1], **stateful), asking([ASK, RENAMED])) == {}
    assert met(captured([ASK], [C1]), asking([ASK, C1], **stateful)) == {1: (2, 0)}


def test_the_hint_gives_an_additional_key() -> None:
    """The key with the hint breaks a tie; the other keys match without it."""
    kept = captured([ASK], [SAID], prompt_cache_key="a")

    assert met(kept, asking([ASK, SAID], prompt_cache_key="a")) == {1: (1, 4)}
    assert met(kept, asking([ASK, SAID], prompt_cache_key="b")) == {1: (1, 3)}


def test_a_response_leads_to_its_conversation() -> None:
    """A `previous_response_id` is looked up first; a response id inside a call id counts too."""
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
def test_a_response_id_in_a_call_id_is_recognised(call_id: str, want: str) -> None:
    """It must look random, and the original call id must follow it."""
    fields = {"type": "function_call", "call_id": call_id, "name": "get_weather"}

    assert response_named_by(read_item(json.dumps(fields).encode())) == want


def test_keys_of_a_turn_are_unique() -> None:
    """Two items with the same content need only one entry."""
    keys = captured([ASK], [SAID, SAID | {"id": "msg_2"}])

    assert len(keys) == len(set(keys))


@pytest.mark.parametrize("anchors", [0, 1, 16, 17, 24, 32, 200])
def test_a_long_request_is_looked_up_by_some_of_its_items(anchors: int) -> None:
    """The lookup covers the newest items, newest first, and a few spread over the rest."""
    calls = [call(f"{n}") for n in range(anchors)]
    items = [item for one in calls for item in (one, output(one))]
    places = [asked.place for asked in keys_of_request(asking(items))]
    newest = list(range(0, 2 * anchors, 2))[-NEWEST_LOOKED_UP:]

    assert places == sorted(set(places), reverse=True)
    assert places[: len(newest)] == newest[::-1]
    assert len(places) <= NEWEST_LOOKED_UP + SPREAD_LOOKED_UP
    assert anchors == 0 or places[-1] == 0


def test_an_item_without_keys_is_not_looked_up() -> None:
    """The anchor has no certain name and no content, and nothing precedes it."""
    assert keys_of_request(asking([{"type": "web_search_call", "id": "ws_1"}, ASK, R1])) == []


A, B, C, D = b"a", b"b", b"c", b"d"


def chosen(asked: list[Lookup], index: dict[Key, list[bytes]]) -> ConversationChoice:
    """Choose conversations by an index."""
    return choose(asked, lambda key: index.get(key, []))


def many(count: int, prefix: str = "") -> list[bytes]:
    """Return the ids of `count` conversations."""
    return [f"{prefix}{n}".encode() for n in range(count)]


# (lookups, conversations of each key, chosen conversations, crowded places)
CHOICES = [
    pytest.param([], {}, [], set(), id="nothing-asked"),
    pytest.param([Lookup(0, [A], [B])], {}, [], set(), id="nothing-found"),
    pytest.param([Lookup(0, [A])], {A: [b"1"]}, [b"1"], set(), id="certain"),
    pytest.param(
        [Lookup(0, [A], [B])], {A: [b"1"], B: [b"2"]}, [b"1"], set(), id="certain-decides"
    ),
    pytest.param(
        [Lookup(0, [A, B])], {A: [b"1"], B: [b"2"]}, [b"1", b"2"], set(), id="both-certain"
    ),
    pytest.param(
        [Lookup(0, [A], [B, C])], {C: [b"3"]}, [b"3"], set(), id="first-key-with-a-result"
    ),
    pytest.param(
        [Lookup(0, [], [B, C])],
        {B: [b"2"], C: [b"3"]},
        [b"2", b"3"],
        set(),
        id="then-the-key-of-content",
    ),
    pytest.param([Lookup(0, [], [B])], {B: [b"1", b"2"]}, [b"2", b"1"], set(), id="newest-first"),
    pytest.param(
        [Lookup(2, [A]), Lookup(0, [B])],
        {A: [b"1"], B: [b"1"]},
        [b"1"],
        set(),
        id="same-conversation",
    ),
    pytest.param(
        [Lookup(0, [], [A])],
        {A: many(CONVERSATIONS_LOADED)},
        many(CONVERSATIONS_LOADED)[::-1],
        set(),
        id="exactly-the-limit",
    ),
    pytest.param(
        [Lookup(4, [], [A, B]), Lookup(2, [], [C]), Lookup(RESPONSE, [D])],
        {A: many(CONVERSATIONS_LOADED + 1), B: [b"2"], C: [b"3"], D: many(7, "d")},
        [b"3"],
        {4, RESPONSE},
        id="a-few-of-many-would-look-unambiguous",
    ),
    pytest.param(
        [Lookup(n, [], [key]) for n, key in enumerate([A, B, C, D])],
        {A: many(4), B: many(3, "b"), C: many(2, "c"), D: many(2)},
        [*many(4)[::-1], *many(2, "c")[::-1]],
        {1},
        id="newest-items-first-and-all-of-an-item-or-none",
    ),
    pytest.param(
        [Lookup(2, [], [A, B]), Lookup(0, [], [C])],
        {A: [b"mine"], B: many(6), C: [b"before"]},
        [b"mine", b"before"],
        set(),
        id="a-weaker-key-does-not-fit",
    ),
    pytest.param(
        [Lookup(2, [], [A, B]), Lookup(0, [], [C])],
        {A: [b"mine"], B: many(4), C: [b"before"]},
        [b"mine", b"before", *many(4)[::-1]],
        set(),
        id="a-weaker-key-fits",
    ),
    pytest.param(
        [Lookup(4, [], [A]), Lookup(2, [B]), Lookup(0, [C])],
        {A: many(CONVERSATIONS_LOADED), B: [b"mine"], C: [b"before"]},
        [b"mine", b"before"],
        {4},
        id="a-stock-phrase-after-certain-keys-of-older-items",
    ),
    pytest.param(
        [Lookup(4, [A, B]), Lookup(2, [C]), Lookup(0, [D])],
        {A: [b"mine"], B: many(7), C: many(6, "c"), D: [b"before"]},
        [b"mine", b"before"],
        {2},
        id="names-of-few-before-names-of-many",
    ),
    pytest.param(
        [Lookup(0, [A], [B])],
        {A: many(7), B: [b"mine"]},
        [b"mine"],
        {0},
        id="content-where-a-name-is-crowded",
    ),
]


@pytest.mark.parametrize(("asked", "index", "want", "crowded"), CHOICES)
def test_the_strongest_key_decides(
    asked: list[Lookup], index: dict[Key, list[bytes]], want: list[bytes], crowded: set[int]
) -> None:
    """All certain keys of an item count; if none has a result, its first doubtful key does."""
    assert chosen(asked, index) == ConversationChoice(want, crowded)


keys = st.sampled_from([A, B, C, D])
asks = st.builds(Lookup, st.integers(-1, 9), st.lists(keys, max_size=2), st.lists(keys, max_size=3))
indices = st.dictionaries(keys, st.lists(st.sampled_from(many(9)), max_size=9, unique=True))


@given(st.lists(asks, max_size=5, unique_by=lambda one: one.place), indices)
@examples(100)
def test_an_item_is_compared_with_all_conversations_or_is_crowded(
    asked: list[Lookup], index: dict[Key, list[bytes]]
) -> None:
    """
    If only some conversations of an item's deciding key are loaded, the item is crowded.

    Of names, the one of the fewest conversations decides.
    """
    # As in a store: content leads to every conversation that content after a history leads to.
    for item in asked * len(asked):
        if any(index.get(key) for key in item.content_keys) and not index.get(
            item.content_keys[-1]
        ):
            index[item.content_keys[-1]] = many(1)
    choice = chosen(asked, index)

    assert len(choice.conversations) == len(set(choice.conversations)) <= CONVERSATIONS_LOADED
    for item in asked:
        led = [index[key] for key in item.id_keys if index.get(key)]
        certain = min(led, key=len) if led else []
        doubtful = next((found for key in item.content_keys if (found := index.get(key))), [])
        if item.place not in choice.crowded:
            assert set(certain or doubtful) <= set(choice.conversations)


def test_id_keys_come_from_names_and_the_turn() -> None:
    """Keys from content are not among them, because other conversations may share the content."""
    turn = turn_of([user("hi")], [R1, C1])
    certain = id_keys_of_turn(turn)
    names = [key for name in (R1["id"], C1["id"], C1["call_id"]) for key in keys_of_name(name)]

    assert sorted(certain) == sorted([key_of_turn(turn.id), *names])
    assert len(names) == 3
    assert key_of_turn(turn.id) == key_of_response(RESPONSE_ID)
    assert set(certain) < set(keys_of_turn(turn))
    assert [keys_of_name(name) for name in ("", "call_0", "...")] == [[], [], []]


def test_an_id_without_content_is_looked_up() -> None:
    """Upstream may not find the stored item that a bare reasoning id refers to."""
    hollow = {key: value for key, value in R1.items() if key != "encrypted_content"}

    assert [one.place for one in keys_of_request(read_request(body([ASK, hollow]), {}))] == [1]
    assert keys_of_request(read_request(body([ASK, R1]), {})) == []


def test_doubtful_keys_behave_like_a_sequence() -> None:
    """They are computed only when they are read."""
    (asked,) = keys_of_request(asking([ASK, C1]))

    assert asked.content_keys
    assert asked.content_keys[:] == [*asked.content_keys]
    assert asked.content_keys[-1] == [*asked.content_keys][-1]
    assert asked.content_keys[0] == asked.keys[len(asked.id_keys)]
    assert len(asked.content_keys) == len(asked.keys) - len(asked.id_keys)
