"""The dialect answers what the shell asks, as one pure object."""

import json
from contextlib import nullcontext

import pytest
from msgspec import structs
from reasoning_replay.core.dialects.base import AnyDialect, Caller, Cure, Decision, RefusedBodies
from reasoning_replay.core.dialects.responses.decision import ResponsesSettings
from reasoning_replay.core.dialects.responses.dialect import ResponsesDialect
from reasoning_replay.core.dialects.responses.heal.repair import Repair
from reasoning_replay.core.dialects.responses.profiles import GENERIC
from reasoning_replay.core.dialects.states import RequestState
from reasoning_replay.core.history.lookup_keys import LookupResult
from reasoning_replay.core.history.plan import Anchors, Outcome
from reasoning_replay.core.history.seen import Seen
from reasoning_replay.core.tenancy.scope import NO_ACCOUNT

from tests.core.world import answer, body, call, input_of, output, reasoning, user

R1, C1 = reasoning("1"), call("1")
SCOPE = b"scope"
CALLER = Caller(SCOPE, NO_ACCOUNT)
ASK = user("What is the weather?")


def dialect(*, is_shadow: bool = False) -> AnyDialect:
    """Return one that may do everything."""
    settings = ResponsesSettings(is_shadow, Anchors.ALL, GENERIC, "never", [*Repair], 1 << 20)
    return ResponsesDialect(settings, lambda: 0.0, nullcontext())


def found(one: AnyDialect) -> LookupResult:
    """Return what a store holds once one turn was captured."""
    question = one.ask(body([ASK]), {}, SCOPE)
    decision = one.decide(CALLER, body([ASK]), question, LookupResult(), is_created=True)
    capture = one.capture(decision.origin)
    capture.read(answer([R1, C1], "resp_1"))
    turn = capture.snapshot(1).turn
    assert turn is not None
    one.note_issued((b"account", b""), turn)
    return LookupResult([turn])


def decided(one: AnyDialect, sent: bytes, held: LookupResult | None) -> Decision:
    """Decide on one request."""
    return one.decide(CALLER, sent, one.ask(sent, {}, SCOPE), held, is_created=True)


def test_reasoning_that_was_captured_is_injected() -> None:
    """The whole way: ask, decide, capture, ask, decide."""
    one = dialect()
    decision = decided(one, body([ASK, C1, output(C1)]), found(one))

    assert input_of(decision.body) == [ASK, R1, C1, output(C1)]
    assert (decision.state, decision.outcomes) == (RequestState.PLANNED, {Outcome.INJECTED: 1})
    assert decision.injected_bytes > 0
    assert decision.summary is not None


@pytest.mark.parametrize("is_away", [True, False])
def test_what_is_not_sent_otherwise_is_the_clients_own_object(*, is_away: bool) -> None:
    """In shadow mode, and where the store did not answer."""
    one = dialect(is_shadow=not is_away)
    sent = body([ASK, C1, output(C1)])
    decision = decided(one, sent, None if is_away else found(one))

    assert decision.body is sent
    assert (decision.state is RequestState.STORE_FAILED) == is_away
    assert decision.injected_bytes == 0


def test_a_lone_surrogate_stands_in_the_way_of_no_injection() -> None:
    """Repairs are left out, as they would read what is not there."""
    one = dialect()
    odd = {"role": "user", "content": "?"}
    sent = body([ASK, C1, output(C1), odd]).replace(b'"?"', rb'"\ud83d"')
    decision = decided(one, sent, found(one))

    assert decision.outcomes == {Outcome.INJECTED: 1}
    assert rb'"\ud83d"' in decision.body


@pytest.mark.parametrize("is_edited", [True, False])
def test_a_refused_request_with_a_lone_surrogate_goes_out_as_it_came(*, is_edited: bool) -> None:
    """It cannot be edited once more; without edits of the proxy nothing can be done."""
    one = dialect()
    given = rb'{"input":"\ud83d"}'
    sent = rb'{"input":"\ud83d","n":1}' if is_edited else given
    bodies = RefusedBodies(given, sent)
    refusal = one.diagnose(400, json.dumps({"error": {"param": "input"}}).encode())
    question = one.ask_for_cure(bodies, refusal)

    cured = one.cure(SCOPE, bodies, question, refusal, LookupResult())
    assert cured == (Cure(given, is_clients_own=True) if is_edited else None)


def test_a_fetched_response_continues_what_its_request_began() -> None:
    """Unless it was captured when it was made: then it is not captured again."""
    one = dialect()
    held = found(one)

    assert one.retrieved("/v1/responses/resp_1") == "resp_1"
    assert one.origin_of("resp_1", held) is None
    assert one.origin_of("resp_2", held) is not None


def test_a_fetched_response_remembers_what_its_request_was() -> None:
    """What was kept when it was begun in the background stays as it was."""
    one = dialect()
    (turn,) = found(one).turns
    begun = structs.replace(turn, items=(), seen=Seen(b"basis", 3, ()))
    origin = one.origin_of("resp_1", LookupResult([begun]))

    assert origin is not None
    kept = ("context", "conversation", "parent", "created_ms", "seen")
    assert [getattr(origin, name) for name in kept] == [getattr(begun, name) for name in kept]
