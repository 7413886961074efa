"""Comparisons: which requests name the response that they continue, and the cure of a refusal."""

import json
from typing import Any

import pytest
from reasoning_replay.core.dialects.anthropic.dialect import MessagesDialect
from reasoning_replay.core.dialects.anthropic.profiles import GENERIC as ANY_MESSAGES
from reasoning_replay.core.dialects.anthropic.request import read_request as read_messages
from reasoning_replay.core.dialects.base import Bodies
from reasoning_replay.core.dialects.cache_diagnoses import CACHE_DIAGNOSIS
from reasoning_replay.core.dialects.chat.dialect import ChatDialect
from reasoning_replay.core.dialects.chat.profiles import GENERIC as ANY_CHAT
from reasoning_replay.core.dialects.chat.request import read_request as read_chat
from reasoning_replay.core.dialects.engine import Engine
from reasoning_replay.core.dialects.responses.dialect import ResponsesDialect
from reasoning_replay.core.dialects.responses.profiles import GENERIC
from reasoning_replay.core.dialects.responses.request import read_request
from reasoning_replay.core.history.lookup_keys import LookupResult
from reasoning_replay.core.history.records import records_of, turns_of

from tests.core.dialects.responses.exchanges import ASK, C1, SCOPE, decided, found
from tests.core.engines import engine_of
from tests.core.world import body, input_of, output

NAME = "prompt_cache_options"
NEW = {"model": "gpt-5.6"}
LOST = body([ASK, C1, output(C1)], **NEW)
RESPONSES = ResponsesDialect(GENERIC, "never")


def engine(*, is_shadow: bool = False, adds_cache_keys: bool = False) -> Engine:
    """Return an engine that compares prompts."""
    return engine_of(
        RESPONSES, is_shadow=is_shadow, adds_cache_keys=adds_cache_keys, compares_prompts=True
    )


@pytest.mark.parametrize(
    ("more", "is_asked"),
    [
        ({}, True),
        ({"background": False}, True),
        ({"background": True}, False),
        ({"model": "gpt-5.4"}, False),
        ({"previous_response_id": "resp_1"}, False),
        ({NAME: {"ttl": "12h"}}, False),
    ],
)
def test_a_request_of_the_responses_api_names_a_response(
    more: dict[str, Any], *, is_asked: bool
) -> None:
    """Only one with its own history, for a model that tells why, and without the member."""
    request = read_request(body([ASK], **(NEW | more)), {})
    added = b',"prompt_cache_options":{"comparison_response_id":"resp_1"}'
    assert RESPONSES.comparison_in(request, "resp_1") == (added if is_asked else b"")
    assert RESPONSES.comparison_in(request, "") == b""


def test_messages_opt_in_with_null() -> None:
    """Unless the client sends the member; Chat Completions have none."""
    said: dict[str, Any] = {"messages": [{"role": "user", "content": "Hi"}]}
    dialect = MessagesDialect(ANY_MESSAGES)
    request = read_messages(json.dumps(said).encode(), {})
    named = b',"diagnostics":{"previous_message_id":"msg_1"}'
    assert dialect.comparison_in(request, "msg_1") == named
    assert dialect.comparison_in(request, "") == named.replace(b'"msg_1"', b"null")
    own = read_messages(json.dumps(said | {"diagnostics": None}).encode(), {})
    assert dialect.comparison_in(own, "msg_1") == b""
    assert ChatDialect(ANY_CHAT).comparison_in(read_chat(json.dumps(said).encode(), {}), "x") == b""


def test_a_turn_keeps_the_id_for_the_next_request() -> None:
    """In the store as well; in shadow mode, and without the setting, nothing is named."""
    one = engine()
    held = found(one)
    (turn,) = held.turns
    (read,) = turns_of(turn.conversation, records_of(turn))
    assert read.response_id == turn.response_id != ""
    made = decided(one, LOST, held)
    assert json.loads(made.body)[NAME] == {"comparison_response_id": turn.response_id}
    assert made.is_compared
    for other in (engine(is_shadow=True), engine_of(RESPONSES)):
        assert not decided(other, LOST, held).is_compared
        assert found(other).turns[0].response_id == ""


def test_a_refused_member_is_taken_out_for_every_tenant() -> None:
    """The cache key and all else stay."""
    one = engine(adds_cache_keys=True)
    held = found(one)
    made = decided(one, LOST, held)
    bodies = Bodies(LOST, made.body, added=made.added)
    words = {"error": {"message": f"Unknown parameter: '{NAME}'."}}
    refusal = one.readers.diagnose(400, json.dumps(words).encode())
    assert refusal.kind == CACHE_DIAGNOSIS
    cured = one.cure(SCOPE, bodies, one.ask_for_cure(bodies, refusal), refusal, held)
    assert cured is not None
    assert (cured.is_same_history, cured.is_clients_own) == (True, False)
    assert input_of(cured.body) == input_of(made.body)
    sent = json.loads(cured.body)
    assert NAME not in sent
    assert "prompt_cache_key" in sent
    one.learn(b"another scope", refusal, cured, "gpt-5.6")
    again = decided(one, LOST, held)
    assert (NAME in json.loads(again.body), again.is_compared) == (False, False)


def test_the_first_request_names_none() -> None:
    """No turn is known that it continues."""
    made = decided(engine(), body([ASK], **NEW), LookupResult())
    assert (made.added, made.is_compared) == ((), False)
