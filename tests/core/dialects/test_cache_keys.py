"""Cache keys: decided with a request, taken out of a refused one, and put into its cure."""

import json

import pytest
from reasoning_replay.core.dialects.base import Bodies, Decision
from reasoning_replay.core.dialects.cache_keys import CACHE_KEY
from reasoning_replay.core.dialects.engine import Engine
from reasoning_replay.core.dialects.responses.dialect import ResponsesDialect
from reasoning_replay.core.dialects.responses.profiles import GENERIC
from reasoning_replay.core.history.lookup_keys import LookupResult
from reasoning_replay.core.history.records import records_of, turns_of

from tests.core.dialects.responses.exchanges import ASK, C1, CALLER, R1, SCOPE, decided, found
from tests.core.engines import answered, asked, engine_of
from tests.core.world import body, input_of, output

NAME = "prompt_cache_key"
LOST = body([ASK, C1, output(C1)])


def engine(*, is_shadow: bool = False) -> Engine:
    """Return an engine that adds cache keys."""
    dialect = ResponsesDialect(GENERIC, "never")
    return engine_of(dialect, is_shadow=is_shadow, adds_cache_keys=True)


def key_in(made: Decision) -> str | None:
    """Return the key in a request that is sent."""
    key: str | None = json.loads(made.body).get(NAME)
    return key


def refused(made: Decision, given: bytes = LOST) -> Bodies:
    """Return a request that was refused as it was decided."""
    return Bodies(given, made.body, added=made.added)


def error(message: str) -> bytes:
    """Return an error body."""
    return json.dumps({"error": {"message": message}}).encode()


def test_a_turn_keeps_the_key_of_its_conversation() -> None:
    """It comes from the turn that a request continues, also where the head is cut off."""
    one = engine()
    held = found(one)
    first = decided(one, body([ASK]), LookupResult())
    cut = decided(one, body([C1, output(C1)]), held)
    unknown = decided(one, body([C1, output(C1)]), LookupResult())
    assert key_in(first) == key_in(cut) == held.turns[0].cache_key.hex()
    assert key_in(unknown) != key_in(first)


def test_a_store_returns_the_key() -> None:
    """It is a part of the record of a turn."""
    (turn,) = found(engine()).turns
    (read,) = turns_of(turn.conversation, records_of(turn))
    assert read.cache_key == turn.cache_key != b""


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(body([ASK], prompt_cache_key="mine"), id="sent-by-the-client"),
        pytest.param(body([]), id="without-a-message"),
        pytest.param(body([ASK], previous_response_id="resp_unknown"), id="head-unknown"),
        pytest.param(b'{"input":[{"role":"user","content":"\\ud800"}]}', id="lone-surrogate"),
    ],
)
def test_a_request_is_not_changed_otherwise(given: bytes) -> None:
    """None is added to a request that has one, and none is made up."""
    made = decided(engine(), given, LookupResult())
    assert (made.body, made.added) == (given, ())


def test_shadow_mode_and_other_requests_get_none() -> None:
    """Only a request that creates a response, and is changed at all, gets a key."""
    given = body([ASK])
    assert decided(engine(is_shadow=True), given, LookupResult()).body == given
    one = engine()
    question = asked(one, given, SCOPE)
    assert answered(one, CALLER, given, question, LookupResult(), is_created=False).body == given


def test_a_refused_key_is_taken_out_for_every_tenant() -> None:
    """All else that was injected stays, and what was decided about it holds."""
    one = engine()
    held = found(one)
    made = decided(one, LOST, held)
    bodies = refused(made)
    refusal = one.readers.diagnose(400, error(f"Unknown parameter: '{NAME}'."))
    assert refusal.kind == CACHE_KEY
    cured = one.cure(SCOPE, bodies, one.ask_for_cure(bodies, refusal), refusal, held)
    assert cured is not None
    assert cured.is_same_history
    assert not cured.is_clients_own
    assert input_of(cured.body) == [ASK, R1, C1, output(C1)]
    assert NAME not in json.loads(cured.body)
    one.learn(b"another scope", refusal, cured, "gpt-5.4")
    assert key_in(decided(one, LOST, held)) is None


def test_without_other_edits_that_is_the_clients_own_request() -> None:
    """So it is not sent once more if it is refused as well."""
    one, given = engine(), body([ASK])
    bodies = refused(decided(one, given, LookupResult()), given)
    refusal = one.readers.diagnose(400, error(f"Unknown parameter: '{NAME}'."))
    cured = one.cure(SCOPE, bodies, one.ask_for_cure(bodies, refusal), refusal, LookupResult())
    assert cured is not None
    assert (cured.body, cured.is_clients_own) == (given, True)


@pytest.mark.parametrize(
    ("message", "has_key"),
    [
        pytest.param("Duplicate item found with id rs_1", True, id="cured"),
        pytest.param("Invalid value: 'input[1]'.", False, id="as-the-client-sent-it"),
    ],
)
def test_a_cure_of_something_else_keeps_the_key(message: str, *, has_key: bool) -> None:
    """Unless it is the client's own request."""
    one = engine()
    held = found(one)
    twice = [R1 | {"id": "rs_1"}, R1 | {"id": "rs_1"}] if has_key else []
    given = body([ASK, *twice, C1, output(C1)])
    made = decided(one, given, held)
    bodies = refused(made, given)
    refusal = one.readers.diagnose(400, error(message))
    cured = one.cure(SCOPE, bodies, one.ask_for_cure(bodies, refusal), refusal, held)
    assert cured is not None
    assert (NAME in json.loads(cured.body)) == has_key
    assert cured.is_clients_own == (not has_key)
