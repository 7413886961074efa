"""One rule: what reopens a decision, for every conversation that it used."""

from collections.abc import Callable

import pytest
from msgspec import structs
from reasoning_replay.core.dialects.base import Decision
from reasoning_replay.core.dialects.lessons import FORM, OLDER
from reasoning_replay.core.dialects.refusal_memory import BLOB, DOUBT, REMEMBERED_S
from reasoning_replay.core.dialects.states import Way
from reasoning_replay.core.history import prefix_cache
from reasoning_replay.core.history.item_index import IndexedTurns
from reasoning_replay.core.history.lookup_keys import key_of_turn
from reasoning_replay.core.history.plan import Outcome
from reasoning_replay.core.history.turns import Lesson, Turn

from tests.core.dialects.test_known_state import RESPONSES, Talk, told
from tests.core.engines import engine_of
from tests.core.world import answer, call, output, reasoning, user
from tests.core.worlds.two_ways import CALLER, Proxy, Told

OTHER = user("A question of another agent. " + "z" * prefix_cache.LEAST_BYTES)


def handed_over() -> tuple[Talk, bytes]:
    """Return a client that has taken in a turn of another conversation, and the id of that."""
    talk = Talk()
    talk.turn()
    talk.turn()
    proxy = talk.proxy
    first, theirs = ([reasoning(name), call(name)] for name in ("first", "theirs"))
    proxy.capture(proxy.decide(Told(told([OTHER]))), answer(first, "resp_first", store=False), 49)
    asked = told([OTHER, first[1], output(first[1])])
    turn = proxy.capture(proxy.decide(Told(asked)), answer(theirs, "resp_theirs", store=False), 50)
    assert turn is not None
    talk.items[3:3] = [theirs[1], output(theirs[1]), user("This is what the other one did.")]
    for _ in range(3):
        talk.turns += 60
        assert talk.turn().outcomes[Outcome.INJECTED] >= 2
    return talk, turn.conversation


def delete(talk: Talk, conversation: bytes) -> None:
    """Delete a conversation."""
    del talk.proxy.conversations[conversation]


def withhold(talk: Talk, conversation: bytes) -> None:
    """Withhold the reasoning of a conversation, as after a refusal at another replica."""
    turns = talk.proxy.conversations[conversation]
    talk.proxy.conversations[conversation] = IndexedTurns(
        [turn.without_reasoning(lambda _: True) for turn in turns]
    )


def refuse(talk: Talk, conversation: bytes) -> None:
    """Let upstream have refused the reasoning of a conversation, at this replica."""
    turn = talk.proxy.conversations[conversation][-1]
    for blob in turn.items[0].run[0].blobs:
        talk.proxy.engine._refusals.refuse(CALLER.scope, BLOB, blob)


def begin_again(talk: Talk, conversation: bytes) -> None:
    """Delete a conversation that then begins again."""
    turns = talk.proxy.conversations[conversation]
    talk.proxy.conversations[conversation] = IndexedTurns(list(turns))


@pytest.mark.parametrize("act", [delete, withhold, refuse, begin_again])
def test_each_conversation_that_was_used_is_watched(act: Callable[[Talk, bytes], None]) -> None:
    """Not only that of the newest turn."""
    decisions: list[Decision] = []
    for is_short in (True, False):
        talk, theirs = handed_over()
        before = talk.ask()
        assert before.way == Way.SHORT
        assert before.outcomes == {"injected": 5 + 1}
        act(talk, theirs)
        talk.proxy.is_short = is_short
        decisions.append(talk.ask())
    first, second = decisions

    assert first.way == (Way.REFUSED if act is refuse else Way.OTHER_TURNS)
    assert (first.body, first.outcomes) == (second.body, second.outcomes)
    assert first.outcomes[Outcome.INJECTED] == (6 if act is begin_again else 5)


def test_each_conversation_that_was_used_is_kept_alive() -> None:
    """A lookup renews what it finds, so each is looked up, though nothing new is of it."""
    talk, theirs = handed_over()
    question = talk.question()
    keys = {key for lookup in question.lookups for key in lookup.id_keys}

    assert question.begun.way == Way.SHORT
    assert len(question.lookups) == 1 + 2
    for turns in talk.proxy.conversations.values():
        assert not keys.isdisjoint(key_of_turn(turn.id) for turn in turns)
    assert theirs in talk.proxy.conversations


@pytest.mark.parametrize("times", [1, 2])
def test_a_response_that_upstream_gives_again(times: int) -> None:
    """A cache of upstream answers with the response of an earlier conversation, with its ids."""
    bodies = []
    for is_short in (True, False):
        talk = Talk()
        talk.proxy.is_short = is_short
        earlier = Talk()
        earlier.proxy = talk.proxy
        earlier.items = [OTHER]
        for _ in range(times):
            earlier.turn()
        talk.turns = 10
        for _ in range(2):
            talk.turn()
        decision = talk.ask()
        again = [reasoning("1"), call("1")]
        talk.proxy.capture(decision, answer(again, "resp_1", store=False), 99)
        talk.items += [call("1"), output(call("1"))]
        bodies += [talk.turn() for _ in range(3)]
    for one, two in zip(bodies[:3], bodies[3:], strict=True):
        assert (one.body, one.outcomes) == (two.body, two.outcomes)


def test_a_response_that_is_sent_in_two_parts() -> None:
    """Its second part comes after what is known, so the request is decided as a whole."""
    talk = Talk()
    talk.turn()
    decision = talk.ask()
    made = [reasoning("a"), call("a"), call("b")]
    talk.proxy.capture(decision, answer(made, "resp_ab", store=False), 7)
    talk.items += [call("a"), output(call("a"))]
    assert talk.ask().outcomes == {"injected": 2}
    talk.items += [call("b"), output(call("b"))]
    second = talk.ask()
    assert (second.way, second.outcomes) == (Way.OTHER_ITEMS, {"injected": 2})
    assert talk.ask().way == Way.SHORT


def test_many_responses_may_be_new_at_once() -> None:
    """Another replica answered in between: what it decided is followed."""
    talk, other = Talk(), Proxy(engine_of(RESPONSES))
    talk.turn()
    talk.turn()
    other.conversations, other.index = talk.proxy.conversations, talk.proxy.index
    mine, talk.proxy = talk.proxy, other
    for _ in range(3):
        talk.turn()
    talk.proxy = mine
    decision = talk.ask()
    assert (decision.way, decision.outcomes) == (Way.SHORT, {"injected": 5})


def test_a_refusal_reopens_what_is_decided_once() -> None:
    """Then it holds again, for the hour; and is reopened when the hour is over."""
    clock = [0.0]
    talk = Talk()
    talk.proxy.engine = engine_of(RESPONSES, clock=lambda: clock[0])
    for _ in range(4):
        talk.turn()
    [conversation] = talk.proxy.conversations
    refuse(talk, conversation)
    refused = talk.turn()
    assert (refused.way, refused.outcomes[Outcome.REFUSED]) == (Way.REFUSED, 1)
    assert refused.outcomes[Outcome.INJECTED] == 3
    for _ in range(3):
        later = talk.turn()
        assert (later.way, later.outcomes[Outcome.REFUSED]) == (Way.SHORT, 1)
    talk.proxy.engine._refusals.refuse(b"another", BLOB, b"blob")
    assert talk.ask().way == Way.SHORT

    clock[0] = REMEMBERED_S
    assert talk.ask().way == Way.REFUSED  # upstream may take it again
    assert talk.turn().way == Way.SHORT


@pytest.mark.parametrize("lesson", [Lesson(DOUBT), Lesson(FORM, OLDER)])
def test_a_lesson_reopens_what_is_decided_once(lesson: Lesson) -> None:
    """The same lesson leads to the same decisions, so what was decided with it holds."""
    bodies = []
    for is_short in (True, False):
        talk = Talk()
        talk.proxy.is_short = is_short
        for _ in range(3):
            talk.turn()
        [conversation] = talk.proxy.conversations
        teach(talk.proxy, conversation, lesson)
        ways = []
        for _ in range(4):
            decision = talk.turn()
            ways.append(decision.way)
            bodies.append((decision.body, decision.outcomes))
        if is_short:
            assert ways[1:] == [Way.SHORT] * 3
            assert decision.outcomes[Outcome.INJECTED] > 0
            assert len(decision.outcomes) > 1  # what is older is left out
    assert bodies[:4] == bodies[4:]


def teach(proxy: Proxy, conversation: bytes, lesson: Lesson) -> None:
    """Let the newest turn of a conversation be that of a request that was cured."""
    *older, newest = proxy.conversations[conversation]
    taught: Turn = structs.replace(newest, lessons=(lesson,))
    before = IndexedTurns(older)
    before.line = proxy.conversations[conversation].line
    proxy.conversations[conversation] = IndexedTurns([*older, taught], before)
