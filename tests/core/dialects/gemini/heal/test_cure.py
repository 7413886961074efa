"""Cure: the request that is sent instead of a refused one."""

import json

import pytest
from reasoning_replay.core.dialects.base import Cure

from tests.core.dialects.gemini.contents import (
    SIG,
    Client,
    Content,
    answer,
    body_of,
    call,
    model,
    output,
    said,
    user,
)

ASK, GO = user("What is the weather in Paris?"), user("Go on")
SUNNY = "It is sunny in Paris, and warm."
OTHER = "EqwCCqkCAQw5"
MISSING = "Function call is missing a thought_signature in functionCall parts."
CORRUPTED = "Corrupted thought signature."
SKIP = "skip_thought_signature_validator"


def invalid(content: int, part: int, start: str = "") -> str:
    """Return the refusal of a signature that is not base64."""
    place = f"'contents[{content}].parts[{part}].thought_signature' (TYPE_BYTES)"
    return f'Invalid value at {place}, Base64 decoding failed for "{start}"'


def learned() -> Client:
    """Return a client with one answer."""
    client = Client()
    client.learn([ASK], answer(call(thoughtSignature=SIG)))
    return client


def contents_in(cure: Cure) -> list[Content]:
    """Return the contents of a cure."""
    contents: list[Content] = json.loads(cure.body)["contents"]
    return contents


def test_a_missing_signature_is_injected_although_it_was_missed_before() -> None:
    """Then the prefix moves: the API takes the request with it only."""
    client = learned()
    contents = [ASK, model(call()), output()]
    cure = client.cure(contents, MISSING, sent=body_of(contents))

    assert contents_in(cure) == [ASK, model(call(thoughtSignature=SIG)), output()]
    assert (cure.injected, cure.injected_bytes, cure.is_clients_own) == (1, len(SIG) + 2, False)
    assert (cure.lost, cure.completed, cure.withheld) == (frozenset(), frozenset(), ())


def test_nothing_is_made_up_for_a_signature_that_is_not_known() -> None:
    """No documented value goes in its place: the refusal is forwarded."""
    assert Client().maybe_cure([ASK, model(call()), output()], MISSING) is None


def test_a_damaged_signature_of_a_known_call_is_completed_from_then_on() -> None:
    """The client's value is not the emitted one; the next request needs no retry."""
    client = learned()
    contents = [ASK, model(call(thoughtSignature=SIG[:-5])), output()]
    cure = client.cure(contents, CORRUPTED)

    assert contents_in(cure) == [ASK, model(call(thoughtSignature=SIG)), output()]
    assert (len(cure.completed), cure.lost) == (1, frozenset())
    assert client.send(*contents) == [ASK, model(call(thoughtSignature=SIG)), output()]


def test_a_value_that_asks_not_to_check_is_never_replaced() -> None:
    """Neither is it taken out."""
    contents = [ASK, model(call(thoughtSignature=SKIP)), output()]
    assert learned().maybe_cure(contents, CORRUPTED) is None
    assert Client().maybe_cure(contents, invalid(1, 0, SKIP)) is None


def test_what_the_proxy_injected_is_taken_back() -> None:
    """If the refusal names none, it may be any."""
    client = learned()
    contents = [ASK, model(call()), output()]
    cure = client.cure(contents, CORRUPTED)

    assert contents_in(cure) == contents
    assert (cure.is_clients_own, len(cure.lost), cure.withheld) == (True, 1, ())
    assert client.send(*contents) == contents  # it would be refused again


@pytest.mark.parametrize("message", [invalid(1, 0), invalid(7, 7, SIG[:6])])
def test_a_signature_that_the_refusal_names_is_taken_out_for_good(message: str) -> None:
    """By its place, or by its beginning; all others stay."""
    client = learned()
    contents = [ASK, model(call()), output()]
    client.learn(contents, answer(said(SUNNY, thoughtSignature=OTHER)))
    later = [*contents, model(said(SUNNY)), GO]
    cure = client.cure(later, message)

    assert contents_in(cure) == [
        *contents,
        model(said(SUNNY, thoughtSignature=OTHER)),
        GO,
    ]
    assert (len(cure.lost), len(cure.withheld)) == (1, 1)


def test_a_bare_part_that_the_refusal_names_goes_as_a_whole() -> None:
    """Without its signature it would say nothing."""
    bare = {"text": "", "thoughtSignature": OTHER}
    cure = Client().cure([ASK, model(said(SUNNY), bare), GO], invalid(1, 1))
    assert contents_in(cure) == [ASK, model(said(SUNNY)), GO]
    assert Client().maybe_cure([ASK, model(said(SUNNY)), model(bare), GO], invalid(2, 0)) is None
    thought = said("Hm", thought=True, thoughtSignature=OTHER)
    cure = Client().cure([ASK, model(thought, said(SUNNY)), GO], invalid(1, 0))
    assert contents_in(cure) == [ASK, model(said("Hm", thought=True), said(SUNNY)), GO]


def test_a_damaged_signature_is_left_alone_if_another_one_is_named() -> None:
    """The refusal is about that one."""
    client = learned()
    theirs = model(call(thoughtSignature=SIG[:-5]))
    contents = [ASK, theirs, output(), model(call("Oslo", thoughtSignature=OTHER)), output()]
    want = [ASK, theirs, output(), model(call("Oslo")), output()]
    assert contents_in(client.cure(contents, invalid(3, 0))) == want


def test_foreign_signatures_of_the_client_are_taken_out() -> None:
    """If none is named, those that are known to be of the model stay."""
    client = learned()
    foreign = model(call("Rome", thoughtSignature=OTHER), call("Oslo", thoughtSignature=SKIP))
    contents = [ASK, model(call(thoughtSignature=SIG)), output(), foreign, output()]
    cure = client.cure(contents, CORRUPTED)

    bare = model(call("Rome"), call("Oslo", thoughtSignature=SKIP))
    assert contents_in(cure) == [ASK, model(call(thoughtSignature=SIG)), output(), bare, output()]
    assert (cure.injected, cure.present, len(cure.lost)) == (0, -1, 1)
    again = client.decide(body_of(contents))  # without a retry
    assert (again.repairs, json.loads(again.body)["contents"]) == (
        {"foreign": 1},
        contents_in(cure),
    )
    assert again.outcomes == {"present": 1, "unchecked": 1}
    assert client.decide(body_of(contents[:2])).repairs == {}


@pytest.mark.parametrize(
    "message",
    ["Invalid JSON payload received. Unknown name \"thoughtSignature\" at 'contents[1]'"],
)
def test_an_upstream_that_knows_no_signatures_gets_none_for_an_hour(message: str) -> None:
    """The client's own request is sent."""
    client = learned()
    contents = [ASK, model(call()), output()]
    assert contents_in(client.cure(contents, message)) == contents
    assert client.send(*contents) == contents
    assert client.outcomes(*contents) == {}


def test_any_other_error_about_signatures_takes_back_what_was_injected() -> None:
    """Only this time: nothing was learned."""
    client = learned()
    contents = [ASK, model(call()), output()]
    assert contents_in(client.cure(contents, "Bad thought signature.")) == contents
    assert client.send(*contents) != contents
    assert client.maybe_cure(contents, "Bad thought signature.", sent=body_of(contents)) is None
