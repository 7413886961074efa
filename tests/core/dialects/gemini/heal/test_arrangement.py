"""Arrangement: after a refusal, the parts of a response stand as they were emitted."""

import pytest
from reasoning_replay.core.dialects.gemini.heal.arrangement import arranged
from reasoning_replay.core.dialects.gemini.request import read_request
from reasoning_replay.core.history.matching.matches import match_items

from tests.core.dialects.gemini.contents import (
    SIG,
    Client,
    Content,
    Part,
    answer,
    body_of,
    call,
    model,
    output,
    said,
    user,
)
from tests.core.dialects.gemini.heal.test_cure import MISSING, contents_in

ASK, GO = user("What is the weather?"), user("Go on")
UNKNOWN = "Element 3 of the history is not acceptable."
OTHER = "EqwCCqkCAQw5"
THOUGHT = said("Hm", thought=True)


def parts_of(city: str, call_id: str, **more: str) -> tuple[Part, Part, Part]:
    """Return a call, the same as it was emitted, and its result."""
    plain = call(city, call_id=call_id)
    (result,) = output(f"rain in {city}", call_id=call_id)["parts"]
    return plain, plain | more, result


def forms(first_id: str, second_id: str) -> dict[str, list[Content]]:
    """Return what clients make of two calls; the right form is the one named so."""
    a, signed, of_a = parts_of("Rome", first_id, thoughtSignature=SIG)
    b, _, of_b = parts_of("Oslo", second_id)
    moved = b | {"thoughtSignature": SIG}
    bare = {"text": "", "thoughtSignature": SIG}
    both = user(of_a, of_b)
    return {
        "right": [ASK, model(signed, b), both],
        "pairs": [ASK, model(signed), user(of_a), model(b), user(of_b)],
        "pairs-dropped": [ASK, model(a), user(of_a), model(b), user(of_b)],
        "pairs-reversed": [ASK, model(b), user(of_b), model(signed), user(of_a)],
        "apart": [ASK, model(signed), model(b), both],
        "moved": [ASK, model(a, moved), both],
        "moved-to-a-part-of-its-own": [ASK, model(a, b, bare), both],
        "reversed": [ASK, model(b, signed), both],
        "results-reversed": [ASK, model(b, a), user(of_b, of_a)],
    }


IDS = [("k3j4h5g6", "m3n4b5v6"), ("a1", "b2"), ("", "")]


@pytest.mark.parametrize("ids", IDS)
@pytest.mark.parametrize("name", [name for name in forms("", "") if name != "right"])
@pytest.mark.parametrize("message", [MISSING, UNKNOWN])
def test_the_emitted_form_comes_back(ids: tuple[str, str], name: str, message: str) -> None:
    """Whatever the ids are; and the next request of the conversation needs no refusal."""
    given = forms(*ids)
    right = given["right"]
    if name == "reversed" and not ids[0]:  # without ids, a result belongs to the call in its place
        first, second = right[2]["parts"]
        right = [*right[:2], user(second, first)]
    client = Client()
    client.learn([ASK], answer(*right[1]["parts"]))
    cure = client.cure(given[name], message, sent=body_of(given[name]))

    assert contents_in(cure) == right
    assert cure.lost == frozenset()
    client.keep(client.decide(body_of(given[name])), answer(said("It rains.")), cured=cure)
    assert client.send(*given[name], model(said("It rains.")), GO)[:-2] == right


def test_what_stands_with_a_part_moves_with_it() -> None:
    """Thoughts, and what the user says after the results."""
    client = Client()
    a, signed, of_a = parts_of("Rome", "k3j4h5g6", thoughtSignature=SIG)
    b, _, of_b = parts_of("Oslo", "m3n4b5v6")
    client.learn([ASK], answer(THOUGHT, signed, b))
    given = [ASK, model(THOUGHT, a), user(of_a), model(b), user(of_b, said("Go on"))]

    assert contents_in(client.cure(given, MISSING)) == [
        ASK,
        model(THOUGHT, signed, b),
        user(of_a, of_b, said("Go on")),
    ]


def test_each_response_is_arranged() -> None:
    """Two of them in one history."""
    client = Client()
    a, signed, of_a = parts_of("Rome", "k3j4h5g6", thoughtSignature=SIG)
    b, _, of_b = parts_of("Oslo", "m3n4b5v6")
    c, again, of_c = parts_of("Bonn", "q2w3e4r5", thoughtSignature=OTHER)
    d, _, of_d = parts_of("Bern", "t2z3u4i5")
    first = [ASK, model(signed, b), user(of_a, of_b)]
    client.learn([ASK], answer(signed, b))
    client.learn(first, answer(again, d))
    given = [
        ASK,
        *(
            one
            for call, of in ((a, of_a), (b, of_b), (d, of_d), (c, of_c))
            for one in (model(call), user(of))
        ),
    ]

    assert contents_in(client.cure(given, MISSING)) == [
        *first,
        model(again, d),
        user(of_c, of_d),
    ]


def certain() -> tuple[Client, list[Part]]:
    """Return a client that knows two calls; and the first, the second, and their results."""
    client = Client()
    _, signed, of_a = parts_of("Rome", "k3j4h5g6", thoughtSignature=SIG)
    b, _, of_b = parts_of("Oslo", "m3n4b5v6")
    client.learn([ASK], answer(signed, b))
    return client, [signed, b, of_a, of_b]


def test_what_is_not_certain_stays() -> None:
    """Another id; the user between; a result that is missing, or too many; another response."""
    client, (a, b, of_a, of_b) = certain()
    renamed = call("Oslo", call_id="z9z8z7z6")
    result = user(output("rain", call_id="z9z8z7z6")["parts"][0])
    uncertain = [
        [ASK, model(a), user(of_a), model(renamed), result],
        [ASK, model(a), user(of_a), user("Go on"), model(b), user(of_b)],
        [ASK, model(a), user(of_a), model(b)],
        [ASK, model(a), user(of_a), model(b), user("Go on")],
        [ASK, model(a), user(of_a, of_a), model(b), user(of_b)],
        [ASK, model(a), user(of_a), model(b), result],
        [ASK, model(a), user(of_a), model(call("Bonn")), user(of_b)],
        [ASK, model(a, b), user(of_a, of_b)],
    ]
    cures = [client.maybe_cure(given, MISSING, sent=body_of(given)) for given in uncertain]
    assert cures == [None] * len(uncertain)


def test_a_result_that_is_missing_does_not_keep_a_signature_away() -> None:
    """The calls are put right; an unknown signature stays."""
    client, (a, b, of_a, _) = certain()
    unknown = b | {"thoughtSignature": OTHER}
    plain = {name: a[name] for name in a if name != "thoughtSignature"}
    cure = client.cure([ASK, model(unknown, plain), user(of_a)], MISSING)
    assert contents_in(cure) == [ASK, model(a, unknown), user(of_a)]


def test_a_part_that_repeats_a_member_is_left_alone() -> None:
    """Readers disagree on which of the two counts."""
    client, (a, b, of_a, of_b) = certain()
    plain = {name: a[name] for name in a if name != "thoughtSignature"}
    given = body_of([ASK, model(plain, b | {"thoughtSignature": SIG}), user(of_a, of_b)])
    twice = given.replace(b'"thoughtSignature"', b'"thoughtSignature" : "x" , "thoughtSignature"')
    request = read_request(twice, {})
    question, found = client.asked(twice)
    matched = match_items(request, found)
    assert arranged(request, matched, found.turns) is twice
    assert question.request.body == twice


def test_nothing_is_arranged_before_a_refusal() -> None:
    """The client's form may be one that upstream accepts."""
    client, (a, b, of_a, of_b) = certain()
    given = [ASK, model(a), user(of_a), model(b), user(of_b)]
    assert client.send(*given) == given
