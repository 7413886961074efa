"""Placement: a signature goes to the part that it was emitted on, and nowhere else."""

import json

import pytest
from reasoning_replay.core.dialects.gemini.dialect import GeminiDialect
from reasoning_replay.core.dialects.gemini.placement import plan_injection
from reasoning_replay.core.dialects.gemini.profiles import GENERIC
from reasoning_replay.core.dialects.gemini.request import read_request
from reasoning_replay.core.history.item_index import Match
from reasoning_replay.core.history.matching.matches import Matches

from tests.core.dialects.gemini.contents import (
    MODEL,
    SIG,
    Client,
    Content,
    Part,
    answer,
    body_of,
    call,
    chunk,
    model,
    output,
    path_of,
    said,
    stream,
    user,
)

ASK, GO = user("What is the weather in Paris?"), user("Go on")
SUNNY = "It is sunny in Paris, and warm."
OTHER = "EqwCCqkCAQw5"
BARE: Part = {"text": "", "thoughtSignature": SIG}
THOUGHT = said("Hm", thought=True, thoughtSignature=SIG)


def learned(*parts: Part) -> Client:
    """Return a client with one answer."""
    client = Client()
    client.learn([ASK], answer(*parts))
    return client


CALL, SIGNED = call(), call(thoughtSignature=SIG)
TEXT, SIGNED_TEXT = said(SUNNY), said(SUNNY, thoughtSignature=SIG)
HM = said("Hm", thought=True)

# (what was emitted, what the client sends of it, what upstream must receive)
CASES = [
    pytest.param([SIGNED], [CALL], [SIGNED], id="call"),
    pytest.param(
        [call(thought_signature=SIG)], [CALL], [call(thought_signature=SIG)], id="spelling"
    ),
    pytest.param([SIGNED], [call(thoughtSignature=None)], [SIGNED], id="null"),
    pytest.param(
        [SIGNED],
        [call(thought_signature="")],
        [call(thought_signature=SIG)],
        id="empty-in-the-other-spelling",
    ),
    pytest.param(
        [call("Paris", thoughtSignature=SIG), call("Rome")],
        [call("Paris"), call("Rome")],
        [call("Paris", thoughtSignature=SIG), call("Rome")],
        id="parallel",
    ),
    pytest.param([SIGNED_TEXT], [TEXT], [SIGNED_TEXT], id="text"),
    pytest.param([HM, SIGNED], [HM, CALL], [HM, SIGNED], id="thoughts-of-the-client-stay"),
    pytest.param([TEXT, BARE], [TEXT], [TEXT, BARE], id="bare"),
    pytest.param([CALL, BARE], [CALL], [CALL, BARE], id="bare-after-a-call"),
    pytest.param([TEXT, BARE], [TEXT, said("")], [TEXT, BARE], id="bare-kept-empty"),
    pytest.param(
        [TEXT, {"thoughtSignature": SIG}],
        [TEXT, said("")],
        [TEXT, {"thoughtSignature": SIG}, said("")],
        id="bare-of-another-form",
    ),
    pytest.param([BARE, CALL], [CALL], [BARE, CALL], id="bare-ahead"),
    pytest.param([THOUGHT, CALL], [CALL], [THOUGHT, CALL], id="signed-thought"),
    pytest.param([THOUGHT, CALL], [HM, CALL], [THOUGHT, CALL], id="signed-thought-kept-bare"),
    pytest.param(
        [CALL, THOUGHT, {"thoughtSignature": OTHER}],
        [CALL],
        [CALL, THOUGHT, {"thoughtSignature": OTHER}],
        id="two-bare-ones-in-order",
    ),
    pytest.param(
        [said(SUNNY, thoughtSignature=OTHER), BARE],
        [TEXT],
        [said(SUNNY, thoughtSignature=OTHER), BARE],
        id="on-the-part-and-after-it",
    ),
    pytest.param(
        [{"inlineData": {"mimeType": "image/png", "data": "aaaa"}, "thoughtSignature": SIG}],
        [{"inline_data": {"mime_type": "image/png", "data": "aaaa"}}],
        [{"inline_data": {"mime_type": "image/png", "data": "aaaa"}, "thoughtSignature": SIG}],
        id="image",
    ),
    pytest.param(
        [said("It is sunny "), said("in Paris, and warm.", thoughtSignature=SIG)],
        [TEXT],
        [SIGNED_TEXT],
        id="joined",
    ),
    pytest.param(
        [said("It is sunny "), said("in Paris, ", thoughtSignature=SIG), said("and warm.")],
        [said("It is sunny "), said("in Paris, "), said("and warm.")],
        [said("It is sunny "), said("in Paris, ", thoughtSignature=SIG), said("and warm.")],
        id="in-the-same-pieces",
    ),
    pytest.param(
        [said("It is sunny "), said("in Paris, and warm."), BARE],
        [TEXT],
        [TEXT, BARE],
        id="bare-after-the-joined-text",
    ),
    pytest.param(
        [BARE, said("It is sunny "), said("in Paris, and warm.")],
        [TEXT],
        [BARE, TEXT],
        id="bare-before-the-joined-text",
    ),
]


@pytest.mark.parametrize(("emitted", "sent", "want"), CASES)
@pytest.mark.parametrize("is_stream", [False, True])
def test_a_dropped_signature_goes_back(
    emitted: list[Part], sent: list[Part], want: list[Part], *, is_stream: bool
) -> None:
    """It goes to the same part, and no other byte changes."""
    client = Client()
    chunks = [chunk(part) for part in emitted]
    whole = answer(*emitted)
    client.learn([ASK], stream(*chunks, chunk(reason="STOP")) if is_stream else whole)
    body = body_of([ASK, model(*sent), GO])
    decided = client.decide(body)

    assert json.loads(decided.body)["contents"] == [ASK, model(*want), GO]
    assert decided.injected_bytes > 0
    assert set(decided.outcomes) == {"injected"}


GUARDED = [
    pytest.param(
        [said("It is sunny "), said("in Paris, ", thoughtSignature=SIG), said("and warm.")],
        [said("It is "), said("sunny in Paris, and warm.")],
        id="other-pieces",
    ),
    pytest.param(
        [said("It is sunny "), BARE, said("in Paris, and warm.")],
        [said(SUNNY)],
        id="bare-inside-the-joined-text",
    ),
]


@pytest.mark.parametrize(("emitted", "sent"), GUARDED)
def test_a_place_that_is_not_certain_gets_nothing(emitted: list[Part], sent: list[Part]) -> None:
    """It is counted."""
    client = learned(*emitted)
    contents = [ASK, model(*sent), GO]
    assert client.send(*contents) == contents
    assert client.outcomes(*contents) == {"guarded_form": 1}


def test_one_part_gets_one_signature() -> None:
    """A joined text cannot have two."""
    client = learned(
        said("It is sunny ", thoughtSignature=OTHER), said("today", thoughtSignature=SIG)
    )
    outcomes = client.outcomes(ASK, model(said("It is sunny today")), GO)
    assert outcomes == {"injected": 1, "guarded_form": 1}


PRESENT: list[list[Part]] = [
    [call(thoughtSignature=SIG)],
    [call(thoughtSignature=SIG.replace("+", "-").replace("/", "_").rstrip("="))],
    [call(thoughtSignature=OTHER)],
    [said("Hm", thought=True, thoughtSignature=SIG), call()],
]


@pytest.mark.parametrize("sent", PRESENT)
def test_what_the_client_sends_itself_is_left_alone(sent: list[Part]) -> None:
    """Its signature, in any spelling and on any part, and another one."""
    client = learned(call(thoughtSignature=SIG))
    body = body_of([ASK, model(*sent), output()])
    assert client.decide(body).body is body
    assert client.decide(body).outcomes == {"present": 1}


def test_a_part_that_repeats_a_member_gets_nothing() -> None:
    """Readers disagree on it."""
    client = learned(call(thoughtSignature=SIG))
    body = body_of([ASK, model(call()), output()])
    twice = body.replace(
        b'"functionCall"', b'"thought" : false , "thought" : false , "functionCall"'
    )
    decided = client.decide(twice)
    assert (decided.body, decided.outcomes) == (twice, {"guarded_form": 1})


def test_another_model_gets_nothing() -> None:
    """A signature is of the family that made it."""
    client = learned(call(thoughtSignature=SIG))
    contents = [ASK, model(call()), output()]
    assert client.outcomes(*contents, name="gemini-2.5-pro") == {"guarded_model": 1}
    assert client.outcomes(*contents, name=f"{MODEL}-latest") == {"injected": 1}


def test_an_unfinished_answer_gives_nothing() -> None:
    """Unless the client replays what it has."""
    client = Client()
    cut = answer(said("It is sunny in Par", thoughtSignature=SIG), reason="MAX_TOKENS")
    client.learn([ASK], cut)
    sent = said("It is sunny in Par")
    assert client.outcomes(ASK, model(sent), GO) == {"guarded_unfinished": 1}
    assert client.outcomes(ASK, model({**sent, "thoughtSignature": OTHER}), GO) == {"present": 1}


def test_an_answer_without_signatures_is_no_loss() -> None:
    """Nothing is due."""
    assert learned(said(SUNNY)).outcomes(ASK, model(said(SUNNY)), GO) == {}


def test_what_a_library_puts_into_a_content_of_its_own_is_not_sent_twice() -> None:
    """It keeps each chunk of a stream as a content."""
    client = learned(said(SUNNY), BARE)
    body = body_of([ASK, model(said(SUNNY)), model(BARE), GO])
    assert client.decide(body).body is body
    assert client.decide(body).outcomes == {"present": 1}
    pieces = [model(said("It is sunny ")), model(said("today")), model(BARE)]
    assert client.outcomes(ASK, *pieces, GO) == {"present": 1}


def test_unknown_contents_are_counted_once_in_a_row() -> None:
    """A run of them is one loss; a content with a signature is none."""
    client = Client()
    lost = [model(call("Oslo")), model(call("Rome"))]
    assert client.outcomes(ASK, *lost, output(), model(call("Bonn")), output()) == {"missed": 2}
    assert client.outcomes(ASK, model(call(thoughtSignature=SIG)), output()) == {"present": 1}
    assert client.outcomes(ASK, model(said("", thoughtSignature=SIG)), GO) == {}
    assert client.outcomes(ASK, model(said("")), GO) == {}
    assert client.outcomes(ASK) == {}


def test_two_turns_that_may_be_meant_are_ambiguous() -> None:
    """Neither is injected."""
    client = Client()
    for signature in (SIG, OTHER):
        client.learn([user("Hi")], answer(said("Yes", thoughtSignature=signature)))
    contents: list[Content] = [user("Hi"), model(said("Yes")), GO]
    assert client.send(*contents) == contents
    assert client.outcomes(*contents) == {"ambiguous": 1}


def test_a_text_of_the_client_gets_nothing() -> None:
    """Although the call next to it shows which turn it is of; a call may have other arguments."""
    client = learned(
        said(SUNNY, thoughtSignature=OTHER), call(call_id="k3f9x2ab", thoughtSignature=SIG)
    )
    sent = [said("Let me see."), call("Rome", call_id="k3f9x2ab")]
    body = body_of([ASK, model(*sent), output(call_id="k3f9x2ab")])
    request = read_request(body, {}, path=path_of())
    (turn,) = client.store.turns.values()
    plan = plan_injection(request, Matches({1: Match(turn, 0), 2: Match(turn, 1)}))
    assert plan.outcomes == {"injected": 1, "guarded_form": 1}


def test_the_same_is_injected_in_every_later_request() -> None:
    """The prefix that upstream sees grows, and never changes."""
    client = learned(call(thoughtSignature=SIG))
    contents = [ASK, model(call()), output()]
    first = client.send(*contents)
    client.learn(contents, answer(said(SUNNY), BARE))
    later = client.send(*contents, model(said(SUNNY)), GO)
    assert later == [*first, model(said(SUNNY), BARE), GO]


@pytest.mark.parametrize(
    "sentinel",
    ["skip_thought_signature_validator", "Y29udGV4dF9lbmdpbmVlcmluZ19pc190aGVfd2F5X3RvX2dv"],
)
def test_a_value_that_asks_not_to_check_counts_apart(sentinel: str) -> None:
    """It hides a loss; by setting, the signature that is stored for its part takes its place."""
    signed, other = call("Rome", thoughtSignature=SIG), call("Oslo")
    sent = [
        ASK,
        model(call("Rome", thoughtSignature=sentinel), call("Oslo", thoughtSignature=sentinel)),
        GO,
    ]
    client = learned(signed, other)
    assert client.send(*sent) == sent
    assert client.outcomes(*sent) == {"unchecked": 2}

    client = Client(GeminiDialect(GENERIC, replaces_sentinels=True), client.store)
    assert client.send(*sent)[1] == model(signed, call("Oslo", thoughtSignature=sentinel))
    assert client.outcomes(*sent) == {"injected": 1, "unchecked": 1}
