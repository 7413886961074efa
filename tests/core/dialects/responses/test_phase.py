"""Phase: a message that was emitted with one and comes back without gets it back, as emitted."""

from dataclasses import replace
from typing import Any

import pytest
from reasoning_replay.core.dialects.base import Bodies
from reasoning_replay.core.dialects.responses.heal.diagnosis import Diagnosis, RefusalKind
from reasoning_replay.core.dialects.responses.placement import plan_injection
from reasoning_replay.core.dialects.responses.profiles import GENERIC
from reasoning_replay.core.dialects.responses.request import read_request
from reasoning_replay.core.history.lookup_keys import LookupResult
from reasoning_replay.core.history.matching.matches import match_items
from reasoning_replay.core.history.plan import ItemForm, Outcome

from tests.core.dialects.responses.exchanges import SCOPE, decided, engine
from tests.core.dialects.responses.heal.played import cure_of
from tests.core.world import (
    Item,
    World,
    answer,
    body,
    input_of,
    message,
    reasoning,
    user,
)

ASK, MORE = user("What is the weather in Paris?"), user("And tomorrow?")
R1, R2 = reasoning("1"), reasoning("2")
FIRST = message("1", "I will look at the weather in Paris first.", phase="commentary")
LAST = message("2", "It is sunny in Paris today.", phase="final_answer")


def bare(item: Item) -> Item:
    """Return an item without its phase."""
    return {name: value for name, value in item.items() if name != "phase"}


def world_of(*items: Item) -> World:
    """Return a world that captured one response."""
    world = World()
    world.learn(body([ASK], store=False), list(items), store=False)
    return world


def test_a_profile_may_refuse_phases() -> None:
    """Then the message stays as the client sent it."""
    raw = body([ASK, bare(LAST), MORE], store=False)
    request = read_request(raw, {})
    matched = match_items(request, world_of(LAST).recall(request))
    assert plan_injection(request, matched, replace(GENERIC, takes_phase=False)).edits == ()


@pytest.mark.parametrize(
    "said",
    [
        "Unknown parameter: 'input[2].phase'.",
        "Additional properties are not allowed ('phase' was unexpected)",
        'unknown field "phase"',
    ],
)
def test_a_refused_phase_is_taken_out_and_remembered(said: str) -> None:
    """The reasoning stays; the next request of that model has no phase, another scope's has."""
    one = engine()
    capture = one.capture(decided(one, body([ASK], store=False), LookupResult()).origin)
    capture.read(answer([R1, LAST], "resp_1", store=False))
    turn = capture.snapshot(1).turn
    assert turn is not None
    held = LookupResult([turn])
    given = body([ASK, bare(LAST), MORE], store=False)
    sent = decided(one, given, held)
    assert input_of(sent.body) == [ASK, R1, LAST, MORE]
    assert (sent.outcomes, sent.forms) == ({Outcome.INJECTED: 1}, {ItemForm.PHASE: 1})

    bodies = Bodies(given, sent.body)
    refusal = one.readers.diagnose(400, b'{"error":{"message":%s}}' % _json(said))
    assert (refusal.kind, refusal.member) == (RefusalKind.FIELD, "phase")
    cured = one.cure(SCOPE, bodies, one.ask_for_cure(bodies, refusal), refusal, held)
    assert cured is not None
    assert input_of(cured.body) == [ASK, R1, bare(LAST), MORE]
    assert (cured.injected, cured.phases) == (1, 0)

    one.learn(SCOPE, refusal, cured, "gpt-5.6-sol")
    again = decided(one, given, held)
    assert input_of(again.body) == [ASK, R1, bare(LAST), MORE]
    assert again.forms == {}


def test_another_cure_keeps_the_phases() -> None:
    """They are counted, as far as the client did not send them."""
    more: dict[str, Any] = {"given": [ASK, R2, FIRST, R1, bare(LAST), MORE]}
    refused = Diagnosis(RefusalKind.FIELD, index=1, member="status")
    sent = [ASK, R2 | {"status": "completed"}, FIRST, R1, LAST, MORE]
    found = cure_of(World(), sent, refused, **more)
    assert input_of(found.body) == [ASK, R2, FIRST, R1, LAST, MORE]
    assert found.phases == 1


def _json(text: str) -> bytes:
    return b'"' + text.replace('"', '\\"').encode() + b'"'


@pytest.mark.parametrize(
    ("old", "new", "added"),
    [
        pytest.param('"phase"', '"\\u0070hase"', 0, id="escaped"),
        pytest.param('"phase"', '"status": "completed", "\\u0070hase"', 0, id="a-key-twice"),
        pytest.param('"phase"', '"\\u0070hrase"', 1, id="another-member"),
    ],
)
def test_a_message_never_has_two_phases(old: str, new: str, added: int) -> None:
    """JSON allows escapes in keys."""
    raw = body([ASK, LAST, MORE], store=False).replace(old.encode(), new.encode())
    request = read_request(raw, {})
    plan = plan_injection(request, match_items(request, world_of(LAST).recall(request)), GENERIC)

    assert plan.forms.get(ItemForm.PHASE, 0) == added
