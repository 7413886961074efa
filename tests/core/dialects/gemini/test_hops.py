"""Hops: responses that upstream ends early (CONTINUATION), and that SDKs join into one content."""

import pytest

from tests.core.dialects.gemini.contents import (
    SIG,
    Client,
    Part,
    answer,
    body_of,
    call,
    model,
    output,
    said,
    user,
)

ASK = user("What is the weather?")
OTHER, THIRD = "EqwCCqkCAQw5", "EqwCCqkCAQx7"
SHOWN = said("Let me look it up.")
IDS = [("", "", ""), ("k3j4h5g6", "m3n4b5v6", "q2w3e4r5")]


def hops(ids: tuple[str, str, str]) -> list[list[Part]]:
    """Return the parts of three responses."""
    a, b, c = ids
    return [
        [SHOWN, call("Rome", call_id=a, thoughtSignature=SIG)],
        [call("Oslo", call_id=b, thoughtSignature=OTHER)],
        [call("Bonn", call_id=c, thoughtSignature=THIRD)],
    ]


def heard(answers: list[list[Part]]) -> Client:
    """Return a client that got these answers to one request, the last one complete."""
    client = Client()
    asked = client.decide(body_of([ASK]))
    for n, parts in enumerate(answers, 1):
        client.keep(asked, answer(*parts, reason="STOP" if n == len(answers) else "CONTINUATION"))
    return client


def lost(*parts: Part) -> list[Part]:
    """Return parts without their signatures."""
    return [{name: one[name] for name in one if name != "thoughtSignature"} for one in parts]


@pytest.mark.parametrize("ids", IDS)
@pytest.mark.parametrize("count", [1, 2, 3])
def test_joined_responses_get_all_of_their_signatures(
    ids: tuple[str, str, str], count: int
) -> None:
    """With ids and without, however many there are."""
    answers = hops(ids)[:count]
    parts = [part for one in answers for part in one]
    results = user(*(output(call_id=one)["parts"][0] for one in ids[:count]))
    assert heard(answers).send(ASK, model(*lost(*parts)), results)[1] == model(*parts)


def test_what_two_could_have_said_is_nobodys() -> None:
    """The same request was answered twice; in another order; with more than they said."""
    first, second, third = hops(IDS[0])
    twice = heard([first, second, second])
    for parts in ([*first, *second], [*second, *first], [*first, *second, *third]):
        sent = [ASK, model(*lost(*parts)), output()]
        client = twice if len(parts) == 3 and parts[0] is SHOWN else heard([first, second])
        assert client.send(*sent) == sent
