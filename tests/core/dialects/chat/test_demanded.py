"""Demanded reasoning: after a refusal, the calls of a message decide of which turn it is."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from msgspec import structs
from reasoning_replay.core.dialects.base import Bodies
from reasoning_replay.core.dialects.chat.dialect import DEMANDED, ChatDialect
from reasoning_replay.core.dialects.chat.heal.diagnosis import Demand, diagnose
from reasoning_replay.core.dialects.chat.profiles import GENERIC
from reasoning_replay.core.dialects.chat.request import read_request
from reasoning_replay.core.dialects.refusal_memory import RefusalMemory
from reasoning_replay.core.history.decided import NOTHING, Reopened
from reasoning_replay.core.history.lookup_keys import LookupResult

from tests.core.dialects.chat.chats import Chats, Message, assistant, body_of, tool, user
from tests.core.dialects.chat.streams import answer, call

K1 = "The `reasoning_content` in the thinking mode must be passed back to the API."
K3 = "thinking is enabled but reasoning_content is missing in assistant tool call message at index"
EVERY = (
    "preserved thinking (thinking.keep=all) requires reasoning_content on every assistant message"
)
O1 = "Gemini models require OpenRouter reasoning details to be preserved in each request."
ASK, MORE = user("Rain?"), user("And then?")
FINAL = assistant("No rain.")


def asked(*cities: str, text: str | None = None, **more: Any) -> Message:
    """Return a message with a call for each city; the ids begin anew in each message."""
    calls = [
        call("rain", json.dumps({"city": city}), None, f"functions.rain:{n}")
        for n, city in enumerate(cities)
    ]
    return assistant(text, tool_calls=calls, **more)


def result(text: str = "7", n: int = 0) -> Message:
    """Return the result of the n-th call."""
    return tool(text, f"functions.rain:{n}")


def told(chats: Chats, *messages: Message) -> list[Message]:
    """Answer each message of the model in a history, with reasoning of its place; return it."""
    for n, message in enumerate(messages):
        if message["role"] == "assistant":
            chats.learn([*messages[:n]], {**message, "reasoning_content": f"Think {n}"})
    return [*messages]


def healed(
    chats: Chats, messages: list[Message], said: str = K3, then: Message | None = None
) -> list[Message] | None:
    """Refuse a request; return what is sent instead; `then` is what that is answered with."""
    body = body_of(messages)
    decided = chats.decide(body)
    bodies = Bodies(body, decided.body)
    refusal = diagnose(400, json.dumps({"error": {"message": said}}).encode())
    cured = chats.cure_of(bodies, refusal)
    if cured is None:
        return None
    if then is not None:
        chats.keep(decided, answer(then), cured=cured)
    received: list[Message] = json.loads(cured.body)["messages"]
    return received


def thoughts(messages: list[Message] | None) -> list[str | None]:
    """Return the reasoning of each message of the model."""
    models = (one for one in messages or () if one["role"] == "assistant")
    return [one.get("reasoning_content") for one in models]


LOOP = (ASK, asked("A"), result("7"), asked("B", "C"), result("8"), result("9", 1))
ENDED = (*LOOP, FINAL, MORE)


SPOKEN = asked("B", "C", text="Let me see.")


def overwritten() -> list[Message]:
    """Return the loop with the result of a later call in place of an older one."""
    return [*LOOP[:2], result("8"), *LOOP[3:]]


def added(*names: str) -> list[Message]:
    """Return the loop with arguments of the client."""
    history: list[Message] = json.loads(json.dumps(LOOP))
    for one in history:
        for each in one.get("tool_calls", ()):
            given = json.loads(each["function"]["arguments"]) | dict.fromkeys(names, "rain")
            each["function"]["arguments"] = json.dumps(given)
    return history


def moved() -> list[Message]:
    """Return a round whose last text stands before its calls."""
    return [ASK, FINAL, *LOOP[1:], MORE]


def merged() -> list[Message]:
    """Return a round whose last text is in the message with the next call."""
    return [*LOOP, MORE, {**asked("D"), "content": "No rain."}, result()]


def turned() -> list[Message]:
    """Return the loop with its parallel calls in another order."""
    calls = [*reversed(LOOP[3]["tool_calls"])]
    return [*LOOP[:3], {**LOOP[3], "tool_calls": calls}, *LOOP[4:]]


@pytest.mark.parametrize(
    ("known", "sent", "want"),
    [
        pytest.param(LOOP, overwritten, ["Think 1", "Think 3"], id="result"),
        pytest.param(LOOP, lambda: added("a"), ["Think 1", "Think 3"], id="argument"),
        pytest.param(LOOP, lambda: added("a", "b"), ["Think 1", "Think 3"], id="two-arguments"),
        pytest.param(LOOP, lambda: added("a", "b", "c"), [], id="three-arguments"),
        pytest.param(LOOP, lambda: added(*map(str, range(9))), [], id="many-arguments"),
        pytest.param(ENDED, moved, ["Think 6", "Think 1", "Think 3"], id="moved-text"),
        pytest.param(
            (*ENDED, asked("D")), merged, ["Think 1", "Think 3", "Think 8"], id="merged-text"
        ),
        pytest.param(LOOP, turned, ["Think 1", "Think 3"], id="order"),
        pytest.param(
            (*LOOP[:3], SPOKEN, *LOOP[4:]),
            lambda: [*overwritten()[:3], SPOKEN, *LOOP[4:], assistant("Unknown."), MORE],
            ["Think 1", "Think 3", None],
            id="result-and-own-text",
        ),
        pytest.param(
            (*LOOP[:3], SPOKEN, *LOOP[4:]),
            lambda: [*LOOP[:3], {**SPOKEN, "content": "Other words."}, *LOOP[4:]],
            ["Think 1", "Think 3"],
            id="changed-text",
        ),
    ],
)
def test_calls_decide_after_a_refusal_and_then_at_once(
    known: tuple[Message, ...], sent: Callable[[], list[Message]], want: list[str]
) -> None:
    """The lesson is kept with the turn; a lookup by other arguments is made after a refusal."""
    chats = Chats()
    told(chats, *known)
    then = asked("E", reasoning_content="Think of E")

    assert thoughts(healed(chats, sent(), then=then)) == want
    if want:
        after = [*sent(), asked("E"), result()]
        assert thoughts(chats.send(after)) == [*want, "Think of E"]


@pytest.mark.parametrize(
    ("known", "sent"),
    [
        pytest.param(LOOP, [*LOOP[2:3], asked("B", "D"), *LOOP[4:]], id="other-calls"),
        pytest.param(LOOP, [*LOOP[2:3], asked("B"), result()], id="fewer-calls"),
        pytest.param(LOOP[2:], [*LOOP[2:3], asked("B", "C"), *LOOP[4:]], id="unknown-before"),
    ],
)
def test_other_calls_are_not_decided(known: tuple[Message, ...], sent: list[Message]) -> None:
    """Nor is anything after a message that is not known."""
    chats = Chats()
    told(chats, *known)

    assert thoughts(healed(chats, [user("Hm?"), asked("X"), *sent])) == []


def test_a_part_of_the_calls_is_left_to_matching() -> None:
    """The client dropped one of two calls after exactly the same history."""
    chats = Chats()
    told(chats, *LOOP)
    sent = [*LOOP[:3], asked("B"), result("8")]

    assert thoughts(chats.send(sent)) == ["Think 1", "Think 3"]
    assert healed(chats, sent) is None


CERTAIN = assistant("Let me see.", tool_calls=[call("rain", "{}", None, "call_Zk3mQ9xT7bLw2RsV")])
ANSWER = tool("7", "call_Zk3mQ9xT7bLw2RsV")


@pytest.mark.parametrize(
    ("known", "sent"),
    [
        pytest.param(ENDED, [*ENDED], id="all"),
        pytest.param(
            (ASK, CERTAIN), [ASK, {**CERTAIN, "content": "Other words."}, ANSWER], id="other-words"
        ),
    ],
)
def test_what_matching_knows_is_not_changed(
    known: tuple[Message, ...], sent: list[Message]
) -> None:
    """If the first attempt had all that is known, there is no cure."""
    chats = Chats()
    told(chats, *known)

    assert None not in thoughts(chats.send(sent))
    assert healed(chats, sent) is None


def test_two_turns_that_follow_the_same_one_leave_it_open() -> None:
    """The same calls after another result are of another turn, and here the result is changed."""
    chats = Chats()
    told(chats, *LOOP[:4])
    chats.learn([*LOOP[:2], result("6")], {**asked("B", "C"), "reasoning_content": "Hm"})
    first = chats.send(overwritten())

    assert thoughts(healed(chats, overwritten())) == []
    assert thoughts(first) == ["Think 1", None]


def test_a_turn_without_known_history_begins_nothing() -> None:
    """Its request had items of the model that were not captured."""
    chats = Chats()
    chats.learn([ASK, asked("X"), result()], {**asked("B"), "reasoning_content": "Hm"})
    chats.learn([ASK, asked("X"), result(), asked("B"), result()], {**FINAL})

    assert healed(chats, [ASK, asked("B"), result(), user("Oh")]) is None


def test_too_many_followers_are_not_compared() -> None:
    """The work is bounded."""
    chats = Chats()
    told(chats, *LOOP[:2])
    for n in range(33):
        told_so_far = [*LOOP[:2], result(f"{n}")]
        chats.learn(told_so_far, {**asked(f"B{n}"), "reasoning_content": "Hm"})

    assert healed(chats, [*LOOP[:2], result("x"), asked("B1"), result()]) is None


def equal(chats: Chats, count: int, *history: Message) -> None:
    """Let upstream answer the same request in the same words, but other thoughts."""
    for n in range(count):
        *asking, said = history
        chats.learn([*asking], {**said, "reasoning_content": f"Think {n}"})


@pytest.mark.parametrize(
    ("said", "sent", "want"),
    [
        pytest.param(K3, [*LOOP[:3]], ["Think 0"], id="oldest"),
        pytest.param(K1, [*LOOP[:3]], ["Think 0"], id="current-round"),
        pytest.param(K1, [*LOOP[:3], MORE], [], id="older-round"),
        pytest.param(K3, [*LOOP[:3], MORE], ["Think 0"], id="calls-of-an-older-round"),
        pytest.param(K3, [*LOOP[:3], asked("X"), result()], [], id="not-saved"),
        pytest.param(
            K1, [ASK, asked("A"), result(), MORE, asked("X"), result()], [], id="not-saved-now"
        ),
    ],
)
def test_a_choice_between_equal_turns_is_made_where_it_saves(
    said: str, sent: list[Message], want: list[str]
) -> None:
    """It is the oldest one, at every replica, and stays."""
    chats = Chats()
    equal(chats, 3, *LOOP[:2])

    assert thoughts(healed(chats, sent, said)) == want


@pytest.mark.parametrize(("said", "want"), [(K3, []), (EVERY, ["Think 0", "Think 3"])])
def test_texts_are_chosen_where_every_message_needs_reasoning(
    said: str, want: list[str | None]
) -> None:
    """A message without calls in an older round needs none of Moonshot otherwise."""
    chats = Chats()
    equal(chats, 2, ASK, FINAL)
    chats.learn([ASK, FINAL, MORE], {**asked("A"), "reasoning_content": "Think 3"})

    assert thoughts(healed(chats, [ASK, FINAL, MORE, asked("A"), result("8")], said)) == want


def test_a_choice_is_remembered_by_all_that_follows() -> None:
    """Each of two equal conversations goes on; what upstream saw once, it sees again."""
    chats = Chats()
    equal(chats, 2, *LOOP[:2])
    then = {**LOOP[3], "reasoning_content": "Think of B"}

    assert thoughts(healed(chats, [*LOOP[:3]], then=then)) == ["Think 0"]
    chats.learn([*LOOP[:3]], {**then, "reasoning_content": "Think of B again"})
    assert thoughts(chats.send([*LOOP])) == ["Think 0", "Think of B"]
    chats.store.turns = dict(reversed(chats.store.turns.items()))
    assert thoughts(chats.send([*LOOP])) == ["Think 0", "Think of B"]


def test_another_refusal_keeps_what_the_calls_decided() -> None:
    """What was learnt holds for the cure of other refusals."""
    chats = Chats()
    told(chats, *LOOP)
    assert healed(chats, overwritten(), then=asked("E", reasoning_content="Think of E"))
    unsupported = "messages.6.reasoning_details: Extra inputs are not permitted"
    sent = [*overwritten(), asked("E", reasoning_details=encrypted("x")), result()]

    assert thoughts(healed(chats, sent, unsupported)) == ["Think 1", "Think 3", "Think of E"]


# Ids that reasoning names.

THEIRS = ("tool_rain_a8K2mPqZ7Lx93Qw5Rt61", "tool_rain_Yt72Lm4Nz81cK3pXw95H")
OWN = "call_000000000000000000000000"


def named(*ids: str, **more: Any) -> Message:
    """Return a message with calls of these ids."""
    calls = [call("rain", json.dumps({"city": f"{n}"}), None, i) for n, i in enumerate(ids)]
    return assistant(tool_calls=calls, **more)


def encrypted(call_id: str) -> list[dict[str, Any]]:
    """Return details that name a call."""
    return [{"type": "reasoning.encrypted", "data": "EvcDCvQD", "id": call_id, "index": 0}]


RENAMED = [ASK, named(OWN, OWN), tool("7", OWN), tool("8", OWN)]


def test_calls_and_results_get_back_the_ids_that_reasoning_names() -> None:
    """After the refusal, and then at once; without it, the ids are the client's."""
    chats = Chats()
    details = encrypted(THEIRS[0])
    chats.learn([ASK], named(*THEIRS, reasoning_details=details))
    want = [
        ASK,
        named(*THEIRS, reasoning_details=details),
        tool("7", THEIRS[0]),
        tool("8", THEIRS[1]),
    ]
    more = named(THEIRS[0].replace("a8", "b9"), reasoning_details=encrypted(THEIRS[0]))

    assert chats.send(RENAMED) == RENAMED
    assert healed(chats, RENAMED, O1, then=more) == want
    assert chats.send([*RENAMED, MORE]) == [*want, MORE]


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param([*RENAMED[:3], MORE], id="no-result"),
        pytest.param(
            [ASK, assistant(function_call={"name": "rain", "arguments": '{"city": "0"}'})],
            id="old-form",
        ),
    ],
)
def test_ids_are_not_given_back_in_part(sent: list[Message]) -> None:
    """A call whose result is not there keeps its id, and so do the others."""
    chats = Chats()
    count = 2 if "tool_calls" in sent[1] else 1
    chats.learn([ASK], named(*THEIRS[:count], reasoning_details=encrypted(THEIRS[0])))

    assert healed(chats, sent, O1) is None


def test_calls_decide_about_the_whole_history() -> None:
    """What is decided already is decided again: a call has its place among all others."""
    taught = RefusalMemory(lambda: 0.0).known_to(b"scope")
    taught = taught._replace(lessons=frozenset({(DEMANDED, str(Demand.CALLS))}))
    request = read_request(body_of(list(LOOP)), {})
    request.decided = structs.replace(NOTHING, items=1)

    with pytest.raises(Reopened):
        ChatDialect(GENERIC).match(request, LookupResult(), taught)
